"""The prover against the literal machine, on thousands of generated programs.

    python -m campaigns.agreement [--programs N] [--seed S] [--only SHAPE|running|reach|further]
                                  [--replay SHAPE:SEED] [--jobs N] [--scheduler ADDRESS]
                                  [--resume] [--write]

Every program has a symbolic size.  The prover analyses it once, for all sizes; the literal machine
runs it at every size from 0 to 7 (0 to 3 where the size counts kernels, 0 to 5 of two sizes and of
windows).  Of programs in source form, bounds are compared with a run too.  At each size the sets of
violations, as (kind, variable, element, check, iteration, record), must be the same, and the fast
machine's.  Where memory resides from task to task, the machines run further choices of clusters
too: they find the same, and nothing where the prover found nothing.  Of slots the prover predicts
more pairs than there are: there it must find what the machine does, and perhaps more, what it
refutes must happen, and what is proved must not.  So of values from memory, whatever the contents.
Of roles and named barriers, what the machine accepts must run right on what the hardware counts, in
any order of the warps.  Of memory of the host, what is safe has to compute the same at any pace of
the stream.  With --write a part of docs/campaigns.md is made of all shapes, and one each of
`running`: the rings that run on; `reach`: programs of `campaigns/reach` and others; `further`:
values from memory, roles, clusters and the host.

A run that was stopped goes on with --resume, as often as need be.  `--programs N --seed S` takes of
every shape its share of N from seed S on; each S has its own journal in build/campaigns.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from time import perf_counter

from rich.console import Console

from campaigns import cases
from campaigns.needed import needs_syncs
from campaigns.shapes import EVERY, GROUPS, MEANING, RUNNING, SHARES, TITLES
from exogpu.amir import nodes as amir
from exogpu.diagnostics.verdict import Proof
from exogpu.machine.index_contents import loads
from exogpu.solvers import isl, smt
from exogpu.symbolic.prove import prove
from exogpu.symbolic.search.analysis import BUDGET, Findings, analyse
from tests.machine.shapes import counted
from tests.symbolic import agreement
from tests.symbolic.shrink import listing, smaller

isl.LOUD = smt.LOUD = True


@dataclass
class Tally:
    """The results for the programs of one shape and policy."""

    programs: int = 0
    sizes: int = 0
    violating: int = 0
    safe: int = 0
    proved: int = 0
    """Safe, and a solver confirmed every obligation."""
    ordered: int = 0
    """Safe, and with violations between threads if the syncs are taken away."""
    undecided: int = 0
    tuples: int = 0
    """Violations that both found."""
    disagreeing: int = 0
    seconds: float = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def as_data(self) -> dict[str, object]:
        """In a form that JSON can hold."""
        return {name: getattr(self, name) for name in ROW} | {"reasons": dict(self.reasons)}

    def add(self, other: Tally) -> None:
        for name in ROW:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reasons += other.reasons


ROW = (
    *("programs", "sizes", "violating", "safe", "proved", "ordered", "undecided"),
    *("tuples", "disagreeing", "seconds"),
)


BUDGETS = {"nests": BUDGET // 8}
"""ISL's budget of shapes where half of all time went into programs that spend it in vain."""

LITTLE = BUDGET // 10
"""ISL's budget for the obligations of a program that violates, where one that fails is enough."""


PREDICTED = {
    False: "of the slots that ISL predicts to meet, none does at these sizes",
    True: "of what ISL predicts of values from memory nothing happens with the contents that were "
    "tried, and Z3 does not confirm that nothing can",
}
"""Why a program is undecided that was predicted to violate; by whether values are loaded."""


def outcome(case: str) -> cases.Result:
    """Generates, analyses and compares one program, `SHAPE:SEED`: its policy and tally, and the
    sizes at which the two disagree."""
    start = perf_counter()
    shape, _, seed = case.partition(":")
    program = agreement.admitting_zero(agreement.generated(shape, int(seed)))
    budget = BUDGETS.get(shape, BUDGET)
    findings = analyse(program, budget=budget)
    sizes = agreement.small_sizes(shape, program)
    found = [(at, agreement.compared(program, findings, at)) for at in sizes]
    tally = Tally(programs=1, sizes=len(sizes))
    tally.tuples = sum(len(c.mine & c.theirs) for _, c in found)
    if findings.undecided:
        tally.undecided = 1
        tally.reasons.update({reason(program, u.reason) for u in findings.undecided})
    violating = any(c.theirs for _, c in found)
    budget = LITTLE if violating else budget
    certified = not findings.undecided and isinstance(prove(findings, budget=budget), Proof)
    # Of values from memory obligations are asked first: what they confirm does not happen.
    unconfirmed = bool(findings.violations) and not (certified and loads(program))
    predicted = unconfirmed and not violating and agreement.by_half(program)
    if not findings.undecided and violating:
        tally.violating = 1
    elif predicted and not findings.undecided:
        tally.undecided = 1
        tally.reasons[PREDICTED[loads(program)]] = 1
    elif not findings.undecided:
        tally.safe = 1
        tally.proved = int(certified)
        tally.ordered = int(needs_syncs(program, sizes[-1]))
    # Obligations are made without regard to what was found: of a violation, one has to fail.
    wrong = [dict(at) for at, c in found if not c.agree or (certified and c.theirs)]
    for at, compared in found:
        if agreement.machines_differ(program, at, compared.theirs):
            wrong.append(dict(at))
        if shape in counted.COUNTED and counted.accepted(compared.kinds):
            wrong += [dict(at)] * bool(counted.went_wrong(shape, int(seed), at["K"]))
    if shape == "windows":
        wrong += [dict(at) for at in agreement.sources_wrong(int(seed), sizes)]
    if shape == "host":
        wrong += [dict(at) for at, c in found if agreement.depends_on_the_stream(int(seed), at, c)]
    if any(v.resident for v in program.variables):
        safe, chance = not findings.violations and not findings.undecided, int(seed)
        # Of one task there is one order.
        several = [at for at in sizes if any(at.get(n, 0) > 1 for n in agreement.TASKS)]
        choices = 5 if shape in RUNNING else 1
        wrong += [
            dict(at)
            for at in several
            if agreement.choices_wrong(program, at, chance, safe, choices)
        ]
    if agreement.by_half(program) and agreement.refuted_wrongly(program, findings):
        wrong.append({})
    tally.disagreeing = int(bool(wrong))
    tally.seconds = perf_counter() - start
    return {"policy": program.policy.value, "tally": tally.as_data(), "wrong": wrong}


def reason(program: amir.Program, text: str) -> str:
    """A reason without the program's own names."""
    names = "|".join(re.escape(v.name.name) for v in program.variables)
    return re.sub(rf"\b({names})\b", "a variable", text)


# --- one program again ------------------------------------------------------------------------


def replay(shape: str, seed: int, console: Console) -> int:
    """Shows the disagreements of one program and the smallest program that still has one."""
    program = agreement.admitting_zero(agreement.generated(shape, seed))
    sizes = agreement.small_sizes(shape, program)

    def wrong(
        candidate: amir.Program, sizes: Iterable[agreement.Sizes]
    ) -> tuple[Findings, list[tuple[agreement.Sizes, agreement.Comparison]]]:
        findings = analyse(candidate)
        compared = ((at, agreement.compared(candidate, findings, at)) for at in sizes)
        return findings, [(at, c) for at, c in compared if not c.agree]

    def disagrees(candidate: amir.Program) -> bool:
        try:
            return bool(wrong(candidate, [at for at, _ in found])[1])
        except (AssertionError, KeyError, IndexError):  # no longer a program of the machine
            return False

    findings, found = wrong(program, sizes)
    console.print(f"{shape}:{seed}: {len(findings.violations)} findings")
    for undecided in findings.undecided:
        console.print(f"undecided at line {undecided.span.line}: {undecided.reason}")
    if found:
        program = smaller(program, disagrees)
        _, found = wrong(program, sizes)
    if shape == "windows":
        console.print(agreement.source(seed).windows, markup=False, highlight=False, soft_wrap=True)
        for at in (wrong_source := agreement.sources_wrong(seed, sizes)):
            console.print(f"{dict(at)} bounds, or the program without windows")
        if wrong_source and not found:
            return 1
    console.print(listing(program), markup=False, highlight=False, soft_wrap=True)
    for at, comparison in found:
        for who, keys in (("prover", comparison.invented), ("machine", comparison.missed)):
            for text in agreement.shown(keys):
                console.print(f"{dict(at)} only the {who}: {text}", markup=False, soft_wrap=True)
    return 1 if found else 0


# --- the whole campaign -----------------------------------------------------------------------


def programs(total: int, first: int, only: str | None) -> list[str]:
    """Shapes and seeds, shape by shape."""
    shares = SHARES if only is None else GROUPS.get(only, {only: 100})
    return [
        f"{shape}:{seed}"
        for shape, share in shares.items()
        for seed in range(first, first + -(-total * share // 100))
    ]


def table(tallies: dict[tuple[str, str], Tally]) -> str:
    """A Markdown table, one line a shape and policy."""
    lines = [
        "| shape | policy | programs | sizes | violating | safe | proved | ordered by syncs |"
        " undecided | tuples | disagreeing | seconds |",
        "| --- | --- |" + " ---: |" * len(ROW),
    ]
    every = Tally()
    for (shape, policy), tally in sorted(tallies.items(), key=lambda t: EVERY.index(t[0][0])):
        every.add(tally)
        lines.append(row(f"{shape} | {policy}", tally))
    lines.append(row("**all** |", every))
    return "\n".join(lines)


def row(name: str, tally: Tally) -> str:
    values = [getattr(tally, column) for column in ROW[:-1]]
    cells = " | ".join(f"{value:,}" for value in values)
    return f"| {name} | {cells} | {tally.seconds:.0f} |"


def text(
    tallies: dict[tuple[str, str], Tally], first: int, only: str | None, wrong: list[str]
) -> str:
    """Its part of docs/campaigns.md: `agreement`, or of `--only running` `agreement-running`."""
    every = Tally()
    for tally in tallies.values():
        every.add(tally)

    counts = (every.violating, every.safe, every.proved, every.ordered, every.undecided)
    violating, safe, proved, ordered, undecided = (
        f"{100 * n / every.programs:.1f} %" for n in counts
    )
    reasons = "\n".join(f"- {count}: {why}." for why, count in every.reasons.most_common())
    answer = "\n".join(f"- `{name}`" for name in wrong) or "No disagreement."
    shapes = {shape for shape, _ in tallies}
    notes = "\n".join(f"- `{shape}`: {MEANING[shape]}." for shape in MEANING if shape in shapes)
    title, chosen = "The prover against the literal machine", ""
    if only is not None:
        chosen = f" --only {only}"
        title += f": {TITLES.get(only, only)}"
    return f"""# {title}

    python -m campaigns.agreement{chosen} --programs {every.programs} --seed {first}

Last run: {date.today()}.  {every.programs:,} generated programs.

{answer}

Violating at some of these sizes: {violating}.  Safe: {safe}.  Proved, every obligation confirmed by
Z3: {proved}.  Safe because syncs order accesses of different threads: {ordered}.  Undecided, in
part at least: {undecided}.

{table(tallies)}

Why programs were undecided:

{reasons or "None was."}

The shapes:

{notes}
"""


def crashed(why: str) -> cases.Result:
    """Makes the result for a program over which the worker died: undecided, as `exogpu check` would
    say."""
    tally = Tally(programs=1, undecided=1, reasons=Counter({f"a process died ({why})": 1}))
    # Exceptions are ours, signals those of the solvers.
    wrong = [] if why.startswith("exit status -") else [{}]
    tally.disagreeing = len(wrong)
    return {"policy": "any", "tally": tally.as_data(), "wrong": wrong}


def campaign(total: int, first: int, only: str | None, given: cases.Options, *, write: bool) -> int:
    """Runs and prints everything; 1 if some program disagrees."""
    tallies: dict[tuple[str, str], Tally] = {}
    wrong: list[str] = []
    name = "agreement" if only is None else f"agreement-{only}"
    journal = f"{name}-{first}" if first else name
    chosen = programs(total, first, only)
    for case, found in cases.judge_all(journal, chosen, outcome, given).items():
        if "died" in found:
            found = crashed(found["died"])
        tally = Tally(**{**found["tally"], "reasons": Counter(found["tally"]["reasons"])})
        tallies.setdefault((case.partition(":")[0], found["policy"]), Tally()).add(tally)
        if found["wrong"]:
            wrong.append(case)
    made = text(tallies, first, only, wrong)
    Console().print(made, markup=False, highlight=False, soft_wrap=True)
    if write:
        cases.write_section(name, made)
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=5000, help="how many, in all")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of each shape")
    parser.add_argument(
        "--only",
        choices=[*EVERY, *GROUPS],
        metavar="SHAPE",
        help="one shape; or `running`: rings that run on; `reach`: what came after them; "
        "`further`: values from memory, roles, clusters",
    )
    parser.add_argument("--write", action="store_true", help="make its part of docs/campaigns.md")
    cases.add_arguments(parser)
    parser.add_argument("--replay", metavar="SHAPE:SEED", help="one program, made smaller")
    options = parser.parse_args()
    console = Console()
    if options.replay:
        shape, _, seed = options.replay.partition(":")
        if shape not in EVERY or not seed.isdecimal():
            parser.error(f"--replay needs SHAPE:SEED, with a shape of {', '.join(EVERY)}")
        return replay(shape, int(seed), console)
    if options.programs < 1:
        parser.error("--programs needs at least 1")
    if options.write and options.only not in (None, *GROUPS):
        parser.error(f"--write wants all shapes, or one of {', '.join(GROUPS)}")
    given = cases.options(options)
    return campaign(options.programs, options.seed, options.only, given, write=options.write)


if __name__ == "__main__":
    sys.exit(main())
