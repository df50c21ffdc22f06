"""Violations of the abstract machine as hazards that a person can act on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from exogpu.analysis.describe import thread_names
from exogpu.analysis.threadmap import threads_of
from exogpu.errors import Diagnostic
from exogpu.frontend import bounds
from exogpu.frontend.bounds_report import Outside
from exogpu.hw.timelines import ASYNC_PROXY, SHORT_NAME
from exogpu.ir.types import Level, QualSet, QualTL
from exogpu.ir.walk import control_variables
from exogpu.machine.amir import Check, Op, Program, Record
from exogpu.machine.link import broken_link
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

_PRE: Final[Mapping[QualTL, str]] = {
    QualTL.CPU: "cpu_in_order",
    QualTL.STRM: "cuda_stream_sync",
    QualTL.CUDA1: "cuda_in_order",
    QualTL.CUDA2: "cuda_in_order",
    QualTL.SM80: "Sm80_cp_async",
    QualTL.TMA_S: "tma_to_smem_async",
    QualTL.TMA_G: "tma_to_gmem_async",
    QualTL.WG_A: "wgmma_async",
    QualTL.WG_D: "wgmma_async",
    QualTL.WG_S: "wgmma_async",
    QualTL.WG_0: "wgmma_fence_1",
}
"""A sync timeline whose full set has the timeline of the first access."""

_POST: Final[Mapping[QualTL, str]] = {
    QualTL.CPU: "cpu_in_order",
    QualTL.STRM: "cuda_stream_sync",
    QualTL.CUDA1: "cuda_in_order",
    QualTL.CUDA2: "cuda_in_order",
    QualTL.SM80: "Sm80_generic",
    QualTL.TMA_S: "cuda_generic_and_async",
    QualTL.TMA_G: "cuda_generic_and_async",
    QualTL.WG_A: "wgmma_fence_2",
    QualTL.WG_D: "wgmma_fence_2",
    QualTL.WG_S: "cuda_generic_and_async",
    QualTL.WG_0: "cuda_in_order",
}
"""A sync timeline that orders the timeline of the second access."""


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
    first = None
    if violation.record is not None:
        first = _site(violation.record, violation.record_iteration, sizes)
    second = _site(violation.check, violation.iteration, sizes)
    return Hazard(
        code=CODES[violation.kind],
        kind=violation.kind,
        variable=violation.variable,
        index=violation.index,
        sizes=dict(sizes),
        task=violation.task,
        first=first,
        second=second,
        message=_message(violation),
        help=_help(violation),
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
        message=diagnostic.message,
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


def _site(op: Op, iteration: tuple[tuple[str, int], ...] | None, sizes: Mapping[str, int]) -> Site:
    threads = "" if iteration is None else _threads(op, dict(sizes) | dict(iteration))
    return Site(
        op.origin.span, op.origin.text, _timelines(op), threads, iteration if iteration else ()
    )


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


def _element(violation: Violation) -> str:
    index = f"[{', '.join(map(str, violation.index))}]" if violation.index else ""
    return violation.variable + index


def _message(violation: Violation) -> str:
    element, check, record = _element(violation), violation.check, violation.record
    match violation.kind:
        case HazardKind.RAW | HazardKind.WAR | HazardKind.WAW | HazardKind.FREE:
            assert isinstance(check, Check)
            return _unordered(element, check, record)
        case HazardKind.BARRIER:
            return f"at the end of {element} its arrives and awaits do not balance"
        case HazardKind.DEADLOCK:
            if isinstance(record, Record):
                return f"no Arrive completes the phase of {element} that this instruction signals"
            if record is not None:
                return f"the Await on {element} needs this Arrive, which comes after it"
            return f"nothing before this Await arrives on {element} as often as it waits for"
        case HazardKind.PHASE:
            return f"{element} can be a whole ring ahead of a thread that still waits on it"
        case HazardKind.DIVERGENCE | HazardKind.BOUNDS:
            raise AssertionError(violation.kind)
        case _:
            assert_never(violation.kind)


def _unordered(element: str, check: Check, record: Op | None) -> str:
    assert isinstance(record, Record)
    what = "write" if record.mutate else "read"
    if record.timeline is None:
        return f"the instruction that signals {element} may still be under way"
    ordered = "ordered" if check.level is Level.TEMPORALLY_ORDERED else "ordered and visible"
    if check.level is Level.ATOMIC_ONLY:
        ordered = "atomic with it or ordered"
    before = "before its memory is freed" if check.free else f"before the {_verb(check)}"
    return (
        f"the {what} of {element} on {SHORT_NAME[record.timeline]} is not {ordered} "
        f"{before} on {_names(check.timelines)}"
    )


def _verb(check: Check) -> str:
    return "read" if check.reads else "write"


def _help(violation: Violation) -> str:
    match violation.kind:
        case HazardKind.RAW | HazardKind.WAR | HazardKind.WAW | HazardKind.FREE:
            return _repair(violation)
        case HazardKind.BARRIER:
            return "let every arrive be awaited once, and every await have its arrive"
        case HazardKind.DEADLOCK:
            return "move the Arrive before the Await, or wait for an earlier one with a larger ~m"
        case HazardKind.PHASE:
            return "let the arrival that reuses the barrier wait until its readers are past it"
        case HazardKind.DIVERGENCE | HazardKind.BOUNDS:
            raise AssertionError(violation.kind)
        case _:
            assert_never(violation.kind)


def _repair(violation: Violation) -> str:
    check, record = violation.check, violation.record
    assert isinstance(check, Check) and isinstance(record, Record)
    if record.timeline is None:
        return f"await {violation.variable} before it ends"
    if (
        violation.task is not None
        and violation.record_task is not None
        and violation.record_task != violation.task
    ):
        return "tasks of one kernel are never ordered: write different elements, or reduce"
    second = next(tl for tl in SHORT_NAME if tl in check.timelines)
    pre, post = _PRE[record.timeline], _POST[second]
    if record.timeline in ASYNC_PROXY and check.level is Level.TEMPORALLY_ORDERED:
        post = "cuda_in_order"
    if pre in ("wgmma_async", "Sm80_cp_async", "tma_to_gmem_async"):
        return f"between them, Arrive({pre}) >> group, and Await(group, {post}, 0)"
    if pre == "tma_to_smem_async":
        return f"between them, Await({post}) the barrier that the copy signals"
    return f"between them, Fence({pre}, {post}) where the threads of both take part"
