"""Finds the records that a check may meet: `record -> check` on a common element, not cleared in
between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from exogpu.amir.nodes import Check, Clear, Op, Record
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.nodes import Access
from exogpu.ir.render import identifier
from exogpu.ir.types import Sym
from exogpu.ir.walk import evaluate, read_by
from exogpu.machine.observer import Violation
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.model import always_visible
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.search.rank_comparisons import SlotPairs
from exogpu.symbolic.search.ring_sizes import step_counts
from exogpu.symbolic.sites import Site, loads_around, of_tasks
from exogpu.symbolic.tasks_by_position import extents


@dataclass(frozen=True, slots=True, eq=False)
class Dependence:
    """A Record and a Check that meet on elements of a variable."""

    frame: Frame
    variable: Sym
    record: Site
    check: Site
    pairs: isl.Map
    """`record -> check`, earlier and on a common element: all that meet, and more, since the
    record may have been cleared in between."""


def dependences(slots: SlotPairs, variable: Sym) -> Iterator[Dependence]:
    """The dependences of a variable within a frame."""
    frame = slots.frame
    for record in frame.sites:
        if not isinstance(record.op, Record) or record.op.access.name != variable:
            continue
        for check in frame.sites:
            op = check.op
            if not isinstance(op, Check) or op.access.name != variable:
                continue
            if op.mutates != record.op.mutate:
                continue
            frame.model.passes_values(variable, record, check)
            if always_visible(record.op, op):
                continue
            pairs = _meeting(slots, record, check)
            if not isl.is_empty(pairs):
                yield Dependence(frame, variable, record, check, pairs)


def _meeting(slots: SlotPairs, record: Site, check: Site) -> isl.Map:
    """The pairs, the first earlier, on a common element: of two others at the same places with the
    same accesses they are the same."""
    first, second, frame = _access(record), _access(check), slots.frame

    def make() -> isl.Map:
        before = frame.earlier(record, check, first.name)
        if rel.is_plainly_empty(before):
            return before
        overlap = rel.pairs(frame.cells(record, first), frame.cells(check, second))
        pairs = slots.may_meet(isl.intersect_map(before, overlap), record, check)
        return rel.coalesce(pairs)

    return frame.of_places(("meet", first, second), record, check, make)


@dataclass(frozen=True, slots=True, eq=False)
class Cleared:
    """Records that an operation clears before a check meets them."""

    clear: Site
    after: isl.Map
    """`record -> clear`"""
    until: isl.Map
    """`clear -> check`"""
    met: isl.Map
    """`record -> [check -> element]`"""


def uncleared(
    slots: SlotPairs, dependence: Dependence, pairs: isl.Map
) -> tuple[isl.Map, tuple[Cleared, ...]]:
    """The elements on which pairs of a dependence meet and no Clear lies in between:
    `record -> [check -> element]`; and the Clears that keep others from meeting.

    Clears act element by element, and a record does not end an earlier one: atomics and reads
    pile up.  Alloc and Release clear nothing here: a frame's instances share one allocation, or
    are told apart by `same_allocation`.
    """
    frame, record, check = dependence.frame, dependence.record, dependence.check
    assert isinstance(check.op, Check)
    recorded, checked = _cells(frame, record), _cells(frame, check)
    found = rel.met_on(pairs, recorded, checked)
    clears: list[Cleared] = []
    for clear in frame.sites:
        op = clear.op
        if not isinstance(op, Clear) or op.access.name != dependence.variable:
            continue
        if op.mutates != check.op.mutates or isl.is_empty(found):
            continue
        if not _is_determined_by(clear, op.access, (record, check)):
            continue  # What is cleared by values from memory is not known here.
        after = isl.restrict_domain(frame.instances_before(record, clear), isl.domain(pairs))
        if not frame.model.variables[dependence.variable].resident:
            after = frame.within_task(after, record, clear)
        after = rel.coalesce(slots.may_meet(after, record, clear))
        until = rel.restrict_range(frame.instances_before(clear, check), isl.image(pairs))
        until = rel.coalesce(slots.meet(until, clear, check))
        if isl.is_empty(after) or isl.is_empty(until):
            continue
        cleared = rel.met_through(after, until, recorded, _cells(frame, clear), checked)
        met = isl.intersect_map(found, cleared)
        if not isl.is_empty(met):
            clears.append(Cleared(clear, after, until, met))
            found = isl.subtract_map(found, cleared)
    return rel.coalesce(found), tuple(clears)


def _is_determined_by(clear: Site, access: Access, sites: tuple[Site, ...]) -> bool:
    """Tests whether a Clear depends on memory only through values that one of the sites loads, and
    its elements on none."""
    loads = loads_around(clear)
    known = {load.source for site in sites for load in loads_around(site)}
    chosen = read_by(access) & {load.iterator for load in loads}
    return not chosen and all(load.source in known for load in loads)


def _cells(frame: Frame, site: Site) -> isl.Map:
    return frame.cells(site, _access(site))


def _access(site: Site) -> Access:
    assert isinstance(site.op, Record | Check | Clear)
    return site.op.access


# Findings of the prover: a kind of hazard, and its exact instances with sizes as parameters.


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """All violations of one kind between one check and one record."""

    kind: HazardKind
    frame: Frame
    variable: Sym
    check: Site
    """The operation that fails: a Check, Await, Arrive, trailing Record or CheckBarrier."""
    record: Site | None
    """The operation that is not ordered before it; None if there is none."""
    failing: isl.Map
    """`check -> element`, for all sizes and values of the frame's iterators."""
    pairs: isl.Map | None = None
    """`record -> check`, where there is a record."""

    def sizes(self) -> isl.Set:
        """The sizes for which there is a violation."""
        others = [name for name in self.frame.params if name not in self.size_names()]
        return rel.project_params(rel.params_where(self.failing), others)

    def size_names(self) -> tuple[str, ...]:
        return tuple(identifier(name) for name in self.frame.model.sizes)


@dataclass(frozen=True, slots=True)
class Instance:
    """One violation: comparable with `machine.observer.Violation`."""

    kind: HazardKind
    variable: str
    index: tuple[int, ...]
    check: Op
    iteration: tuple[tuple[str, int], ...]
    record: Op | None


def instances(finding: Finding, sizes: Mapping[str, int]) -> Iterator[Instance]:
    """The violations at concrete sizes, by name of the size; where memory resides (decision
    `resident-memory`), of one cluster that executes all tasks of their loop in order."""
    frame, check = finding.frame, finding.check
    known = {name: sizes[name.name] for name in frame.model.sizes if name.name in sizes}
    known |= step_counts(frame.model, sizes, finding.kind)
    for residence in frame.model.by_position.residences:
        if residence.ring is None:
            known[residence.count.name] = prod(evaluate(n, known) for n in extents(residence))
    named = {identifier(name): value for name, value in known.items()}
    names, points = rel.params_first(rel.fix_params(finding.failing, named))
    iterators = tuple(identifier(name) for name in check.iterators)
    for point in isl.points(points):
        values = dict(zip(names, point, strict=False))
        inner = point[len(names) : len(names) + len(iterators) - frame.depth]
        values |= dict(zip(iterators[frame.depth :], inner, strict=True))
        index = point[len(names) + len(inner) :]
        iteration = _executed(check, {n: values[identifier(n)] for n in check.iterators}, known)
        if iteration is None:
            continue
        yield Instance(
            finding.kind,
            finding.variable.name,
            index,
            check.op,
            iteration,
            None if finding.record is None else finding.record.op,
        )


def _executed(
    check: Site, values: dict[Sym, int], sizes: Mapping[Sym, int]
) -> tuple[tuple[str, int], ...] | None:
    """The iterators as the machine has them, those within a step of a ring alone; None where
    another task stands at the position than in their order, of one loop."""
    residence = check.residence
    if residence is None or check.task is None:
        return tuple((name.name, value) for name, value in values.items())
    if residence.ring is not None:
        del values[residence.loop.iterator]
        return tuple((name.name, value) for name, value in values.items())
    (task,) = residence.tasks
    position = values.pop(residence.loop.iterator) + evaluate(task.lo, {**sizes, **values})
    if values.pop(task.iterator, position) != position:
        return None
    found = [(name.name, value) for name, value in values.items()]
    found.insert(residence.depth, (task.iterator.name, position))
    return tuple(found)


def holds_at(finding: Finding, sizes: Mapping[str, int], violation: Violation) -> bool:
    """Tests whether a violation of the concrete machine at these sizes is one of the finding's.

    Of a late Arrive and of PHASE the machine names the last of several Awaits at fault, so that
    the record is not compared there.
    """
    several = finding.kind in (HazardKind.DEADLOCK, HazardKind.PHASE)
    record = None if finding.record is None else finding.record.op
    if (finding.kind, finding.variable.name) != (violation.kind, violation.variable):
        return False
    if finding.check.op is not violation.check or not (several or record is violation.record):
        return False
    model = finding.frame.model
    named = {identifier(name): sizes[name.name] for name in model.sizes if name.name in sizes}
    if finding.check.residence is not None:
        return _holds_at_position(finding, named, violation)
    values = dict(zip(finding.check.iterators, violation.iteration, strict=True))
    point = {identifier(name): value for name, (_, value) in values.items()}
    inside = rel.fix_params(finding.failing, named | point)
    inner = [point[name] for name in finding.frame.dimensions(finding.check)]
    return rel.has_pair(inside, inner, violation.index)


def _holds_at_position(finding: Finding, sizes: Mapping[str, int], violation: Violation) -> bool:
    """The same where memory resides: at some position, for some number of them."""
    values = [value for _, value in violation.iteration]
    check, residence = finding.check, finding.check.residence
    assert residence is not None
    if check.task is not None:
        at, count = residence.depth, len(residence.tasks)
        if residence.ring is not None:
            count = len(values) + 1 - len(check.iterators)
        tasks = values[at : at + count] if of_tasks(check) else []
        known = [*values[:at], None, *values[at + count :], *tasks]
    else:
        known = [*values]
    named = zip(check.iterators, known, strict=True)
    point = {identifier(name): value for name, value in named if value is not None}
    inside = rel.fix_params(finding.failing, {**sizes, **point})
    inner = [point.get(name) for name in finding.frame.dimensions(check)]
    return rel.has_pair(inside, inner, violation.index)
