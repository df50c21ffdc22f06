"""Mutants of real kernels' TTGIR: none is proved whose change matters.

    python -m campaigns.ttgir_mutants [--mutants N] [--seed 0] [--jobs N] [--resume] [--write]

The kernels are those of `tests/importing/kernels`, as Triton compiled them.  In the text of TTGIR
one barrier, fence, wait, commit, arrival, count, phase, mask, slot, tile or trip count is changed
(`tests/importing/mutating.py`).  A mutant that is proved has to be one of
`tests/importing/redundant_mutants.py`, which gives the reason.  With --write its part of
docs/campaigns.md is made of it.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from functools import cache
from random import Random

from campaigns import cases
from exogpu.imported import UnimportedKernel, import_ttgir
from tests.importing.made import KERNELS
from tests.importing.mutating import Mutant, mutants
from tests.importing.redundant_mutants import REDUNDANT

SECONDS = 30.0
"""For a check."""
LIMIT = 180.0
"""For a mutant."""
WORDS = ("refuted", "refused", "undecided", "proved")


@cache
def by_case() -> dict[str, tuple[str, Mutant]]:
    """All mutants with their kernels, by `KERNEL:LINE what`."""
    return {
        f"{made.kernel}:{mutant.line} {mutant.what}": (made.kernel, mutant)
        for made in KERNELS
        for mutant in mutants(made.text)
    }


def outcome(case: str) -> cases.Result:
    """Judges one mutant."""
    try:
        kernel = import_ttgir(by_case()[case][1].text)
        verdict = kernel.check(timeout=SECONDS)
        refused = isinstance(kernel, UnimportedKernel) and verdict.word == "undecided"
        return {
            "verdict": "refused" if refused else verdict.word,
            "hazard": verdict.hazards[0].kind.value if verdict.hazards else "",
            "reason": verdict.reason,
        }
    except Exception:
        return {"crash": traceback.format_exc(limit=-3)}


def reason(case: str) -> str:
    """Returns why a mutant is right, where somebody read the kernel and said so; else empty."""
    kernel, mutant = by_case()[case]
    return REDUNDANT.get(kernel, {}).get((mutant.what, mutant.line), "")


def wrong(results: Mapping[str, cases.Result]) -> list[str]:
    """The mutants that are proved without a known reason, and those that were not judged."""
    found = []
    for case, result in results.items():
        if result.get("verdict") == "proved" and not reason(case):
            found.append(f"{case}: proved")
        found += [f"{case}: {k}: {result[k]}" for k in ("crash", "died", "hang") if k in result]
    return found


def table(results: Mapping[str, cases.Result], head: str, row: Callable[[str], str]) -> str:
    """A line a kind of case, with how many of them were judged in each word."""
    counts: dict[str, Counter[str]] = {}
    for case, result in results.items():
        for name in ("all", row(case)):
            counter = counts.setdefault(name, Counter())
            counter["mutants"] += 1
            counter[result.get("verdict", "undecided")] += 1
    names = ("mutants", *WORDS)
    lines = [f"| {head} | {' | '.join(names)} |", f"| --- |{' ---: |' * len(names)}"]
    for name, counter in sorted(counts.items(), key=lambda one: (one[0] != "all", one[0])):
        lines.append(f"| {name} | {' | '.join(str(counter[word]) for word in names)} |")
    return "\n".join(lines)


def page(results: Mapping[str, cases.Result], command: str) -> str:
    """Its part of docs/campaigns.md."""
    hazards = Counter(result["hazard"] for result in results.values() if result.get("hazard"))
    refuted = ", ".join(f"{count} {kind}" for kind, count in hazards.most_common())
    kernels = len({by_case()[case][0] for case in results})
    mistakes = wrong(results)
    said = "\n".join(f"- {one}" for one in mistakes)
    found = f"Wrong:\n\n{said}" if mistakes else "None is proved without a reason."
    survivors = "\n".join(
        f"- {case}: {reason(case)}"
        for case, result in sorted(results.items())
        if result.get("verdict") == "proved" and reason(case)
    )
    return f"""# Mutants of kernels in TTGIR

    {command}

Last run: {date.today()}.  {len(results)} mutants of {kernels} kernels that Triton compiled.
Each has one line of its TTGIR changed, and is checked for {SECONDS:.0f} s at most.  Refused are
those whose values or orders the importer does not know.

{found}

{table(results, "change", lambda case: by_case()[case][1].what)}

{table(results, "kernel", lambda case: f"`{by_case()[case][0]}`")}

Refuted as: {refuted}.

Proved, and why that is right, by the line of `tests/importing/ttgir`:

{survivors}
"""


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, metavar="N", help="how many; else all")
    parser.add_argument("--seed", type=int, default=0, help="which of them")
    parser.add_argument("--write", action="store_true", help="make its part of docs/campaigns.md")
    cases.add_arguments(parser)
    options = parser.parse_args()
    every, command = list(by_case()), "python -m campaigns.ttgir_mutants"
    if options.mutants is not None:
        if not 1 <= options.mutants <= len(every):
            parser.error(f"--mutants needs 1 to {len(every)}")
        every = Random(options.seed).sample(every, options.mutants)
        command += f" --mutants {options.mutants} --seed {options.seed}"
    how = replace(cases.options(options), seconds=LIMIT)
    results = cases.judge_all("ttgir-mutants", every, outcome, how)
    made = page(results, command)
    if options.write:
        cases.write_section("ttgir-mutants", made)
    print(made)
    return 1 if wrong(results) else 0


if __name__ == "__main__":
    sys.exit(main())
