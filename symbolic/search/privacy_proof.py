"""Finds the tasks whose private slots are not as they require (decision `private-slot`).

A task requires it of their numbers as it begins, where these slots are bound.  Where counts are
expressions that is exact; in nests what is not known to hold may fail, and the machine says whether
it does.
"""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.amir.nodes import Loop, Require
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.nodes import And, BExpr, Compare, CVar, Int, Or
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.search.dependences import Finding
from exogpu.symbolic.search.sync_relations import Syncs
from exogpu.symbolic.sites import Site, slots_around


def slot_failures(syncs: Syncs, name: Sym) -> Iterator[Finding]:
    """Yields the instances at which the slots that index a variable are not as its tasks require.

    Raises UndecidedError where their counts are neither expressions nor those of nests.
    """
    for site in syncs.frame.sites:
        op = site.op
        if isinstance(op, Require) and op.kind is HazardKind.SLOT and op.variable == name:
            known = _Known(syncs, site)
            failing = syncs.frame.domain(site)
            for condition in op.conditions:
                failing = isl.subtract(failing, known.instances_where(condition))
            at = rel.restrict_parameters(
                syncs.frame.without_element(failing, site), syncs.frame.context()
            )
            if not isl.is_empty(at):
                yield Finding(op.kind, syncs.frame, name, site, None, rel.coalesce(at))


class _Known:
    """The known conditions on the slots that are bound around a site."""

    def __init__(self, syncs: Syncs, site: Site) -> None:
        self.frame, self.slots, self.site = syncs.frame, syncs.slots, site
        self.bound = {loop.iterator: loop for loop in slots_around(site)}

    def instances_where(self, condition: BExpr) -> isl.Set:
        """The instances at which a condition is known to hold."""
        every = self.frame.domain(self.site)
        match condition:
            case And(left, right):
                return isl.intersect(self.instances_where(left), self.instances_where(right))
            case Or(left, right):
                return isl.union(self.instances_where(left), self.instances_where(right))
            case Compare("==", CVar(one), CVar(other)) if {one, other} <= self.bound.keys():
                return self._equal(self.bound[one], self.bound[other])
            case Compare("==", CVar(one), Int(0)) if one in self.bound:
                return self._zero(self.bound[one])
            case _ if not control_variables(condition) & self.bound.keys():
                return self.frame.instances_where(self.site, condition)
            case _:
                return rel.nowhere(every)

    def _equal(self, one: Loop, other: Loop) -> isl.Set:
        same = self.slots.same_slot_pairs(self.slots.place(one), self.slots.place(other), one)
        return self._binding_pairs(same, one, other)

    def _binding_pairs(self, same: isl.Map, one: Loop, other: Loop) -> isl.Set:
        """The instances of which the places where two slots are bound are a pair."""
        first = self.frame.to_outer(self.site, self.slots.place(one))
        second = self.frame.to_outer(self.site, self.slots.place(other))
        return isl.domain(isl.intersect_map(isl.compose(first, same), second))

    def _zero(self, loop: Loop) -> isl.Set:
        place = self.slots.place(loop)
        zero = self.slots.begun_anew(place, loop)
        return isl.domain(rel.restrict_range(self.frame.to_outer(self.site, place), zero))
