"""Finds the records that a check may meet: `record -> check` on a common element, not cleared in
between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from exogpu.amir.nodes import Check, Clear, Record
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.find.frames import Frame
from exogpu.symbolic.find.slots import SlotPairs
from exogpu.symbolic.placed import always_visible
from exogpu.symbolic.sites import Site, loads_around, read_by


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
        if not _tied(clear, op.access, (record, check)):
            continue  # What is cleared by values from memory is not known here.
        after = isl.restrict_domain(frame.before(record, clear), isl.domain(pairs))
        if not frame.model.variables[dependence.variable].resident:
            after = frame.within_task(after, record, clear)
        after = rel.coalesce(slots.may_meet(after, record, clear))
        until = rel.restrict_range(frame.before(clear, check), isl.image(pairs))
        until = rel.coalesce(slots.meet(until, clear, check))
        if isl.is_empty(after) or isl.is_empty(until):
            continue
        cleared = rel.met_through(after, until, recorded, _cells(frame, clear), checked)
        met = isl.intersect_map(found, cleared)
        if not isl.is_empty(met):
            clears.append(Cleared(clear, after, until, met))
            found = isl.subtract_map(found, cleared)
    return rel.coalesce(found), tuple(clears)


def _tied(clear: Site, access: Access, sites: tuple[Site, ...]) -> bool:
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
