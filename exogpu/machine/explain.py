"""Violations of the abstract machine as hazards that a person can act on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from exogpu.analysis.describe import thread_names
from exogpu.analysis.threadmap import threads_of
from exogpu.errors import Diagnostic
from exogpu.frontend import bounds
from exogpu.frontend.bounds_report import Outside
from exogpu.hw.timelines import SHORT_NAME
from exogpu.ir.types import Level, QualSet, QualTL
from exogpu.ir.walk import control_variables
from exogpu.machine.amir import Check, Op, Program, Record
from exogpu.machine.barrier_words import Words, barrier_words, element_of
from exogpu.machine.link import BrokenLink, broken_link
from exogpu.machine.repair import general_repair
from exogpu.machine.violation import Violation
from exogpu.verdict import Hazard, HazardKind, Site

CODES: Final[Mapping[HazardKind, str]] = {
    HazardKind.RAW: "H701",
    HazardKind.WAR: "H702",
    HazardKind.WAW: "H703",
    HazardKind.FREE: "H704",
    HazardKind.BARRIER: "H705",
    HazardKind.DEADLOCK: "H706",
    HazardKind.PHASE: "H707",
}
"""The code of each kind of hazard that the machine finds."""


def distinct(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """The first violation of each kind, variable and pair of statements."""
    first: dict[object, Violation] = {}
    for v in violations:
        record = v.record.origin.span if v.record is not None else None
        first.setdefault((v.kind, v.variable, record, v.check.origin.span), v)
    return tuple(first.values())


def hazards_of(
    violations: Iterable[Violation], sizes: Mapping[str, int], program: Program | None = None
) -> tuple[Hazard, ...]:
    """The hazards, in the order of the violations; with the program, their broken links too."""
    return tuple(hazard_of(v, sizes, program) for v in violations)


def hazard_of(
    violation: Violation, sizes: Mapping[str, int], program: Program | None = None
) -> Hazard:
    """One violation with both sites, what is missing between them, and a repair.

    With the program, the link of the chain that is broken, where it can be told.
    """
    broken = None if program is None else broken_link(program, sizes, violation)
    words = barrier_words(program, sizes, violation)
    if words is None:
        words = Words(_unordered(violation), _repair(violation, broken, program))
    first = None
    if violation.record is not None:
        first = _site(violation.record, violation.record_iteration, sizes, words.first)
    second = _site(violation.check, violation.iteration, sizes, words.second)
    return Hazard(
        code=CODES[violation.kind],
        kind=violation.kind,
        variable=violation.variable,
        index=violation.index,
        sizes=dict(sizes),
        task=violation.task,
        first=first,
        second=second,
        message=words.message,
        help=words.help,
        replayed=True,
        link="" if broken is None else str(broken),
    )


def hazard_of_divergence(diagnostic: Diagnostic, sizes: Mapping[str, int]) -> Hazard:
    """A divergence as a hazard: its first site is the scope that narrowed the threads."""
    note = diagnostic.notes[0] if diagnostic.notes else None
    return Hazard(
        code=diagnostic.code,
        kind=HazardKind.DIVERGENCE,
        variable="",
        index=(),
        sizes=dict(sizes),
        task=None,
        first=Site(note.span, note.span.text.strip()) if note else None,
        second=Site(diagnostic.span, diagnostic.span.text.strip()),
        message=diagnostic.message.removeprefix(f"{HazardKind.DIVERGENCE.value}: "),
        help=diagnostic.help,
        replayed=False,
    )


def hazard_of_bounds(violation: bounds.Violation) -> Hazard:
    """An access out of bounds as a hazard, at the smallest instance that has it."""
    found = violation.diagnostic
    assert isinstance(violation.finding, Outside)
    sizes = dict(violation.sizes)
    iteration = tuple((s.name, n) for s, n in violation.point.items() if s.name not in sizes)
    return Hazard(
        code=found.code,
        kind=HazardKind.BOUNDS,
        variable=violation.finding.access.name.name,
        index=(),
        sizes=sizes,
        task=None,
        first=Site(found.notes[0].span, found.notes[0].span.text.strip()) if found.notes else None,
        second=Site(found.span, found.span.text.strip(), iteration=iteration),
        message=found.message,
        help=found.help,
        replayed=False,
    )


def _site(
    op: Op, iteration: tuple[tuple[str, int], ...] | None, sizes: Mapping[str, int], role: str
) -> Site:
    threads = "" if iteration is None else _threads(op, dict(sizes) | dict(iteration))
    return Site(op.origin.span, op.origin.text, _timelines(op), threads, iteration or (), role)


def _threads(op: Op, values: Mapping[str, int]) -> str:
    mapping = op.origin.threads
    if mapping is None:
        return "CPU"
    env = {
        name: values[name.name]
        for axis in mapping.axes
        for name in control_variables(axis.offset)
        if name.name in values
    }
    try:
        found = threads_of(mapping, env)
    except KeyError:  # an iterator of this name is not known where the record was made
        return ""
    return thread_names(found, mapping.block_dim or max(found) + 1, mapping.cluster_dim)


def _timelines(op: Op) -> str:
    match op:
        case Record():
            return SHORT_NAME[op.timeline] if op.timeline is not None else ""
        case Check():
            return _names(op.timelines)
        case _:
            return ""


def _names(timelines: QualSet) -> str:
    return ", ".join(name for tl, name in SHORT_NAME.items() if tl in timelines)


def _repair(violation: Violation, broken: BrokenLink | None, program: Program | None) -> str:
    """What mends the broken link; else what would order the two accesses without any.

    A free after an ordinary access asks for a Fence of all threads: no longer chain is better.
    """
    check, record = violation.check, violation.record
    assert isinstance(check, Check) and isinstance(record, Record)
    fenced = check.free and record.timeline in (QualTL.CUDA1, QualTL.CUDA2)
    link = "" if broken is None or fenced else broken.repair
    return link or general_repair(violation, program)


def _unordered(violation: Violation) -> str:
    element, check, record = element_of(violation), violation.check, violation.record
    assert isinstance(check, Check) and isinstance(record, Record)
    if record.timeline is None:
        return f"the instruction that signals {element} may still be under way"
    what = "write" if record.mutate else "read"
    ordered = "ordered" if check.level is Level.TEMPORALLY_ORDERED else "ordered and visible"
    if check.level is Level.ATOMIC_ONLY:
        ordered = "atomic with it or ordered"
    verb = "read" if check.reads else "write"
    before = "before its memory is freed" if check.free else f"before the {verb}"
    return (
        f"the {what} of {element} on {SHORT_NAME[record.timeline]} is not {ordered} "
        f"{before} on {_names(check.timelines)}"
    )
