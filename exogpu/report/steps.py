"""The derivation of a procedure as a page shows it: its steps, what each changed, and the proof."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from exogpu.pipeline.stages import Stages
from exogpu.report.build import build, shown_path
from exogpu.report.model import Report
from exogpu.result.verdict import Verdict
from exogpu.schedule.procedures import Derivation, Schedulable, chain, text


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
    """How many higher steps it is part of."""
    added: int
    removed: int
    hunks: tuple[tuple[Line, ...], ...]


@dataclass(frozen=True, slots=True)
class History:
    """A chain of derivations."""

    name: str
    file: str
    start: str
    """The name of the procedure that was written, and its text."""
    before: str
    after: str
    seconds: float
    steps: tuple[Step, ...]
    report: Report
    """Of the last: the proof of its synchronisation."""


AROUND = 3
"""Lines that are shown around those that a step changed."""


def history(procedure: Stages, derived: Schedulable, verdict: Verdict) -> History:
    """What a page shows of a derived procedure, which `verdict` is on."""
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
            )
        )
    assert start.ir is not None
    return History(
        name=derived.name,
        file=shown_path(start.ir.span.file),
        start=start.name,
        before=text(start),
        after=text(derived),
        seconds=sum(step.seconds for step in steps),
        steps=tuple(steps),
        report=build(procedure, verdict),
    )


def changed(made: Schedulable, step: Derivation) -> Iterator[str]:
    """The lines that a step changed, each after `+` or `-`."""
    for hunk in differences(step.parent, made):
        yield from (f"{line.sign}{line.text}" for line in hunk if line.sign != " ")


def differences(old: Schedulable, new: Schedulable) -> Iterator[tuple[Line, ...]]:
    """Where two procedures differ, as lines."""
    before, after = text(old).splitlines(), text(new).splitlines()
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(AROUND):
        lines: list[Line] = []
        for kind, a, b, c, d in group:
            if kind == "equal":
                lines += [Line(" ", line) for line in before[a:b]]
            else:
                lines += [Line("-", line) for line in before[a:b]]
                lines += [Line("+", line) for line in after[c:d]]
        yield tuple(lines)
