"""Random sequences of scheduling primitives on random small programs never change what is computed.

    python -m campaigns.schedules [--sequences 20000] [--seed 0] [--jobs N] [--resume] [--write]
    python -m campaigns.schedules --replay SEED

The program and what has become of it are run at small sizes, each element alone and as `p.run`
does, on whole numbers: all results are equal, bit by bit.  A refused step has words, and none has
a traceback.  Besides, each careless primitive of `tests/schedule/careless.py` is refused.  With
--write its part of docs/campaigns.md is made of it.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import date
from random import Random
from time import perf_counter

from rich.console import Console

from campaigns import cases
from exogpu.schedule import history, primitive, text
from exogpu.schedule.derivations import assumptions
from tests.schedule.careless import CARELESS
from tests.schedule.programs import program
from tests.schedule.sequences import STEPS, differences, sequence
from tests.schedule.small_programs import small_program

SIZES = range(6)
LIMIT = 120.0
"""Seconds for a sequence."""


def any_program(random: Random) -> str:
    """Makes a program of one of two kinds."""
    return small_program(random) if random.random() < 0.8 else program(random)


def outcome(case: str) -> cases.Result:
    """One sequence, by its seed: what was taken and refused, and what is wrong."""
    start = perf_counter()
    try:
        found = sequence(int(case), any_program)
        if found is None:
            return {"unfit": True, "seconds": perf_counter() - start}
        assert found.first.ir is not None
        wrong = differences(found.first.ir, found.last, SIZES, int(case))
        return {
            "taken": dict(found.taken),
            "refused": dict(found.refused),
            "undecided": dict(found.undecided),
            "speechless": found.speechless,
            "assuming": bool(assumptions(found.last)),
            "wrong": wrong,
            "seconds": perf_counter() - start,
        }
    except Exception:
        return {"crash": traceback.format_exc(limit=-3), "seconds": perf_counter() - start}


@dataclass
class Tally:
    """Counts of the results of all sequences."""

    sequences: int = 0
    """With a step at least."""
    slow: list[str] = field(default_factory=list)
    """Stopped after LIMIT seconds."""
    still: int = 0
    unfit: int = 0
    steps: int = 0
    longest: int = 0
    assuming: int = 0
    taken: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    undecided: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0

    def add(self, case: str, found: cases.Result) -> None:
        self.seconds += found.get("seconds", 0)
        if "hang" in found:
            self.slow.append(case)
            return
        for kind in ("crash", "died"):
            if kind in found:
                self.wrong.append(f"{case}: {kind}: {str(found[kind]).splitlines()[-1]}")
                return
        if found.get("unfit"):
            self.unfit += 1
            return
        count = sum(found["taken"].values())
        self.sequences += count > 0
        self.still += count == 0
        self.steps += count
        self.longest = max(self.longest, count)
        self.assuming += found["assuming"]
        self.taken.update(found["taken"])
        self.refused.update(found["refused"])
        self.undecided.update(found["undecided"])
        self.wrong += [f"{case}: {what}" for what in (*found["wrong"], *found["speechless"])]


def table(tally: Tally) -> str:
    """A line a step."""
    lines = ["| step | taken | refused | undecided |", "| --- | ---: | ---: | ---: |"]
    for name in sorted(STEPS):
        cells = (tally.taken[name], tally.refused[name], tally.undecided[name])
        lines.append(f"| {name} | " + " | ".join(f"{n:,}" for n in cells) + " |")
    total = [sum(c.values()) for c in (tally.taken, tally.refused, tally.undecided)]
    lines.append("| **all** | " + " | ".join(f"{n:,}" for n in total) + " |")
    return "\n".join(lines)


def careless() -> tuple[str, list[str]]:
    """A line a careless primitive, and those that are not refused."""
    lines = ["| careless primitive | why it is refused |", "| --- | --- |"]
    accepted = []
    for make in CARELESS:
        name = make.__name__.replace("_", " ")
        found = primitive.refusal_of("", make())
        if found is None:
            accepted.append(f"{name} is accepted")
            continue
        lines.append(f"| {name} | {found.message.removeprefix(': ')} |")
    return "\n".join(lines), accepted


def page(tally: Tally, first: int) -> str:
    """Its part of docs/campaigns.md."""
    refusals, accepted = careless()
    wrong = "\n".join(f"- {one}" for one in (*tally.wrong, *accepted))
    total = tally.sequences + tally.still + tally.unfit + len(tally.slow)
    slow = f"Stopped after {LIMIT:.0f} s, undecided: {', '.join(tally.slow)}." if tally.slow else ""
    count, steps = f"{tally.sequences:,}", f"{tally.steps:,}"
    sizes = f"{SIZES.start} to {SIZES.stop - 1}"
    return f"""# Random schedules

    python -m campaigns.schedules --sequences {total} --seed {first} --write

Last run: {date.today()}.  {count} sequences of {steps} accepted steps, {tally.longest} at most in
one, on random small programs; on {tally.still} more no step was accepted, and {tally.unfit} had an
error.  Each program is run one element at a time (`exogpu/interpreter/elementwise.py`); what became
of it is run so and as `p.run` does, at every size from {sizes} that the program admits, on whole
numbers.  All results are compared bit by bit, but for floating point beyond 2^24, where the order
of sums is seen.  {tally.assuming:,} sequences have steps that take floating point for real numbers,
and say so; on whole numbers these are exact.

{"Wrong:" if wrong else "No sequence changed a result, and each refusal has words."}
{slow}
{chr(10) + wrong + chr(10) if wrong else ""}
The programs have one or two nests of up to two loops over two arrays, of floating point or of
integers that wrap around, with scalars and rows of their own, windows, guards, empty loops,
negative bounds, divisions and remainders in indices, sums whose target is read, `select`, `min`
and `max`.  A step is random in its place and arguments: many do not apply, and are refused.

{table(tally)}

## Careless primitives

Each is a primitive with one mistake in the procedure that it makes or in what it says of it.

{refusals}
"""


def replay(seed: int, console: Console) -> int:
    """Shows one sequence."""
    found = sequence(seed, any_program)
    if found is None:
        console.print("the program has an error")
        return 0
    assert found.first.ir is not None
    wrong = differences(found.first.ir, found.last, SIZES, seed)
    for part in (text(found.first), history(found.last), text(found.last), *wrong):
        console.print(part, markup=False, highlight=False, soft_wrap=True)
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=20_000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--write", action="store_true", help="make its part of docs/campaigns.md")
    parser.add_argument("--replay", type=int, metavar="SEED", help="one sequence, and show it")
    cases.add_arguments(parser)
    options = parser.parse_args()
    console = Console()
    if options.replay is not None:
        return replay(options.replay, console)
    if options.sequences < 1:
        parser.error("--sequences needs at least 1")
    seeds = [str(n) for n in range(options.seed, options.seed + options.sequences)]
    tally = Tally()
    how = replace(cases.options(options), seconds=LIMIT)
    for case, found in cases.judge_all("schedules", seeds, outcome, how).items():
        tally.add(case, found)
    made = page(tally, options.seed)
    if options.write:
        cases.write_section("schedules", made)
    console.print(made, markup=False, highlight=False, soft_wrap=True)
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
