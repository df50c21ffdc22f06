"""Shows the derivation of a procedure on pages: its steps, and the changes of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from exogpu.schedule import derivations
from exogpu.schedule.argument_types import Schedulable
from exogpu.schedule.derivations import Derivation, chain


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a difference: `+`, `-`, or a blank for one that stays."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step, and the lines that it changed, with those around them."""

    number: int
    primitive: str
    arguments: str
    seconds: float
    parts: tuple[str, ...]
    """The higher steps that begin with it, the outermost first."""
    depth: int
    """The number of higher steps that it is part of."""
    added: int
    removed: int
    hunks: tuple[tuple[Line, ...], ...]
    assumed: tuple[str, ...]
    """The assumptions under which it was accepted."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The steps from a procedure that was written to one that was derived."""

    start: str
    """The name of the procedure that was written."""
    before: str
    """Its text."""
    seconds: float
    steps: tuple[Step, ...]


AROUND = 3
"""Lines that are shown around those that a step changed."""


def derivation_steps(derived: Schedulable) -> Taken:
    """The steps to a procedure; none to one that was written."""
    pairs = [*chain(derived)][::-1]
    start = pairs[0][1].parent if pairs else derived
    steps: list[Step] = []
    within: tuple[str, ...] = ()
    for number, (made, step) in enumerate(pairs, 1):
        new = [n for n in range(len(step.within)) if within[: n + 1] != step.within[: n + 1]]
        within = step.within
        hunks = tuple(differences(step.parent, made))
        signs = [line.sign for hunk in hunks for line in hunk]
        steps.append(
            Step(
                number,
                step.primitive,
                ", ".join(step.arguments),
                step.seconds,
                tuple(within[n] for n in new),
                len(within),
                signs.count("+"),
                signs.count("-"),
                hunks,
                step.assumed,
            )
        )
    return Taken(
        start.name, derivations.text(start), sum(step.seconds for step in steps), tuple(steps)
    )


def changed_lines(made: Schedulable, step: Derivation) -> Iterator[str]:
    """The lines that a step changed, each after `+` or `-`."""
    for hunk in differences(step.parent, made):
        yield from (f"{line.sign}{line.text}" for line in hunk if line.sign != " ")


def differences(old: Schedulable, new: Schedulable) -> Iterator[tuple[Line, ...]]:
    """Yields the differences of two procedures, as lines."""
    return line_differences(derivations.text(old).splitlines(), derivations.text(new).splitlines())


def line_differences(before: list[str], after: list[str]) -> Iterator[tuple[Line, ...]]:
    """Yields the differences of two texts, with the lines around."""
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(AROUND):
        lines: list[Line] = []
        for kind, a, b, c, d in group:
            if kind == "equal":
                lines += [Line(" ", line) for line in before[a:b]]
            else:
                lines += [Line("-", line) for line in before[a:b]]
                lines += [Line("+", line) for line in after[c:d]]
        yield tuple(lines)
