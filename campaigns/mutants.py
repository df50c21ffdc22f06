"""Mutants of the shipped kernels: the prover, for all sizes, against the concrete machine.

    python -m campaigns.mutants [--only KERNEL] [--policy ptx]
                                [--jobs N] [--scheduler ADDRESS] [--resume] [--write]

Of each kernel, every synchronisation statement is deleted, every timeline weakened by an entry,
every skip count and index shifted by one, one at a time.  A refutation is replayed at its smallest
sizes; a mutant of which nothing is found is redundant, and must be safe on the concrete machine at
sizes that exercise it.  With --write its part of docs/campaigns.md is made of it.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from time import perf_counter

from rich.console import Console

from campaigns import cases
from examples import erroneous_synchronisation as paper
from exogpu.api import Procedure
from exogpu.diagnostics.verdict import Policy
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemm_sm90 import KERNELS as GEMM_SM90
from exogpu.kernels.gemm_splitk_sm90 import KERNELS as GEMM_SPLITK
from exogpu.kernels.gemv_f32 import gemv
from tests.symbolic.judging import GRIDS, judge
from tests.symbolic.kernel_mutants import OPERATORS, Mutant, mutants

KERNELS: list[Procedure] = [
    *(found for found in vars(paper).values() if isinstance(found, Procedure)),
    GEMM_SM90["gemm_sm90_2x1_128x256"],
    gemm_sm80,
    gemv,
    GEMM_SPLITK["gemm_splitk_sm90_2x1_128x256"],
]
NAMED = {kernel.name: kernel for kernel in KERNELS}


@dataclass
class Tally:
    """The mutants of one kernel."""

    words: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By operator, how many were judged in which word."""
    redundant: list[Mutant] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)
    sizes: Counter[str] = field(default_factory=Counter)
    """Smallest failing sizes, in words."""
    seconds: float = 0

    @property
    def total(self) -> Counter[str]:
        return sum(self.words.values(), Counter())


@cache
def made(kernel: str, policy: str) -> tuple[Mutant, ...]:
    """The mutants of a kernel."""
    return tuple(mutants(NAMED[kernel].amir(Policy(policy))))


def case_of(kernel: str, policy: Policy, number: int) -> str:
    """`KERNEL/POLICY/NUMBER`"""
    return f"{kernel}/{policy.value}/{number}"


def outcome(case: str) -> cases.Result:
    """Judges one mutant."""
    start = perf_counter()
    kernel, policy, number = case.split("/")
    judged = judge(made(kernel, policy)[int(number)].program, GRIDS.get(kernel, [{}]))
    return {
        "word": judged.word,
        "reason": judged.reason,
        "disagreements": list(judged.disagreements),
        "sizes": ", ".join(f"{n} = {v}" for n, v in (judged.sizes or {}).items()),
        "seconds": perf_counter() - start,
    }


def tally_of(mutants: Sequence[Mutant], results: Sequence[cases.Result]) -> Tally:
    """Counts the results for the mutants of a kernel."""
    tally = Tally()
    for mutant, judged in zip(mutants, results, strict=True):
        word = judged.get("word", "undecided")
        tally.words[mutant.operator][word] += 1
        tally.disagreements += [f"{mutant.label}: {w}" for w in judged.get("disagreements", ())]
        if word == "safe":
            tally.redundant.append(mutant)
        if word == "undecided":
            tally.undecided.append(f"{mutant.label}: {judged.get('reason') or judged['died']}")
        if judged.get("sizes"):
            tally.sizes[judged["sizes"]] += 1
        tally.seconds += judged.get("seconds", 0)
    return tally


# --- the page ---------------------------------------------------------------------------------


def summary(tallies: dict[str, Tally]) -> str:
    """One line a kernel."""
    kinds = sorted({w for t in tallies.values() for w in t.total} - {"safe", "undecided"})
    head = ["kernel", "mutants", *kinds, "redundant", "undecided", "disagreeing", "seconds"]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    for name, tally in tallies.items():
        total = tally.total
        counts = [total[kind] for kind in (*kinds, "safe", "undecided")]
        cells = [sum(total.values()), *counts, len(tally.disagreements), round(tally.seconds)]
        lines.append(f"| {name} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def by_operator(tallies: dict[str, Tally]) -> str:
    """One line a kind of mistake: how many mutants, and how many are redundant."""
    lines = ["| mistake | mutants | refuted | redundant |", "| --- | ---: | ---: | ---: |"]
    for operator, function in OPERATORS.items():
        found = sum((t.words[operator] for t in tallies.values()), Counter[str]())
        every, safe = sum(found.values()), found["safe"]
        meaning = (function.__doc__ or "").split("\n")[0].rstrip(".").lower()
        refuted = every - safe - found["undecided"]
        lines.append(f"| {operator}: {meaning} | {every} | {refuted} | {safe} |")
    return "\n".join(lines)


def redundant(tally: Tally) -> str:
    """The redundant mutants, one line a statement."""
    statements: dict[tuple[int, str], dict[str, list[str]]] = {}
    for mutant in tally.redundant:
        text = mutant.text if len(mutant.text) <= 60 else mutant.text[:57] + "..."
        where = statements.setdefault((mutant.span.line, text), {})
        where.setdefault(mutant.operator, []).append(mutant.what)
    lines = []
    for (line, text), operators in sorted(statements.items()):
        words = "; ".join(
            f"{operator} {', '.join(dict.fromkeys(whats))}".rstrip()
            for operator, whats in operators.items()
        )
        lines.append(f"- line {line}, `{text}`: {words}")
    return "\n".join(lines) or "None."


def page(tallies: dict[str, Tally], policy: Policy) -> str:
    """Its part of docs/campaigns.md."""
    wrong = [f"- {name}, {w}" for name, t in tallies.items() for w in t.disagreements]
    open_ = [f"- {name}, {w}" for name, t in tallies.items() for w in t.undecided]
    parts = [
        f"""# Mutants of the shipped kernels

    python -m campaigns.mutants

Last run: {date.today()}, policy {policy.value}.  Each mutant has one mistake in one statement.
The prover judges it for all sizes; the concrete machine runs it at the sizes of a grid (every trip
count around a ring's turns with one tile, a few of them with several tiles), of a refuted mutant at
every size that is nowhere larger than its smallest failing one, at those of the grid of a smaller
sum, and at some beyond.  The two have to agree at each, and at the smallest failing sizes on every
pair of statements at fault.  A redundant mutant is proved for all sizes, each obligation confirmed
by Z3, and safe on the machine at the whole grid.

{summary(tallies)}

{by_operator(tallies)}
""",
        "Disagreements:\n\n" + "\n".join(wrong) + "\n" if wrong else "No disagreement.\n",
        "Undecided:\n\n" + "\n".join(open_) + "\n" if open_ else "No mutant is undecided.\n",
    ]
    for name, tally in tallies.items():
        parts.append(f"## {name}: what is redundant\n\n{redundant(tally)}\n")
        if tally.sizes:
            sizes = "; ".join(f"{n} at {at}" for at, n in tally.sizes.most_common())
            parts.append(f"Smallest failing sizes: {sizes}.\n")
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(NAMED), metavar="KERNEL", help="one kernel")
    parser.add_argument("--policy", choices=[p.value for p in Policy], default="ptx")
    parser.add_argument("--write", action="store_true", help="make its part of docs/campaigns.md")
    cases.add_arguments(parser)
    options = parser.parse_args()
    policy = Policy(options.policy)
    if options.write and (options.only or policy is not Policy.PTX):
        parser.error("--write wants all kernels and policy ptx")
    kernels = [options.only] if options.only else list(NAMED)
    wanted = {
        k: [case_of(k, policy, n) for n in range(len(made(k, policy.value)))] for k in kernels
    }
    name = "-".join(["mutants", policy.value, *kernels[: bool(options.only)]])
    every = [case for some in wanted.values() for case in some]
    results = cases.judge_all(name, every, outcome, cases.options(options))
    tallies = {
        kernel: tally_of(made(kernel, policy.value), [results[case] for case in some])
        for kernel, some in wanted.items()
    }
    text = page(tallies, policy)
    if options.write:
        cases.write_section("mutants", text)
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
    return 1 if any(tally.disagreements for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
