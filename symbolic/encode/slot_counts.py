"""Slots in formulas: the iterator of a binding is a count modulo the ring (decision `slots`).

A slot counts where it is bound, as an Arrive there would: its count has a lemma like every other.
In nests the unknown parts of all counts of a script are compared, also of two barriers whose
iterations count alike: a full and an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from exogpu.amir.nodes import Loop
from exogpu.ir.nodes import Access, BExpr, CExpr, Int, Mod
from exogpu.ir.types import Sym
from exogpu.ir.walk import read_by
from exogpu.symbolic.encode.formulas import Instance, equal
from exogpu.symbolic.encode.rank_table import RankTable
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.encode.witness import Chain, Gone
from exogpu.symbolic.model import Placed
from exogpu.symbolic.sites import slot_of, slots_around


class Slots:
    """The slots of one script's instances."""

    def __init__(self, script: Script, placed: Placed, ranks: Callable[[Sym], RankTable]) -> None:
        self.script = script
        self.placed = placed
        self.ranks = ranks
        self._used = False

    def facts_around(
        self, instance: Instance, access: Access, found: Sequence[Chain]
    ) -> Iterator[BExpr]:
        """Yields facts about slots around an instance: those that its access reads, and those
        around a Clear that may lie in one iteration with it.

        Counts of two tasks are compared for memory that resides alone (decision `private-slot`): of
        other memory two tasks may be of two clusters.
        """
        matters = {
            loop
            for one in found
            if isinstance(one, Gone) and 0 <= one.clear.site < len(self.placed.sites)
            for loop in slots_around(self.placed.sites[one.clear.site])
        }
        read = read_by(access)
        variables = self.placed.variables
        for loop in slots_around(instance.site):
            assert loop.slot is not None
            if variables[loop.slot.name].resident and not variables[access.name].resident:
                continue
            if loop.iterator in read or loop in matters:
                yield equal(instance.values[loop.iterator], self._count(instance, loop))

    def slot_equations(self, instance: Instance, read: frozenset[Sym]) -> Iterator[BExpr]:
        """Yields the known equations of the slots around an instance that are read."""
        for loop in slots_around(instance.site):
            if loop.iterator in read:
                yield equal(instance.values[loop.iterator], self._count(instance, loop))

    def executed(self, instance: Instance) -> Instance:
        """The instance with the slots that it has: those of a witness do not matter."""
        values = dict(instance.values)
        for loop in slots_around(instance.site):
            values[loop.iterator] = self._count(instance, loop)
        return Instance(instance.site, values)

    def _count(self, instance: Instance, loop: Loop) -> CExpr:
        assert isinstance(loop.hi, Int)
        site = self.placed.slots[loop]
        here = Instance(site, {name: instance.values[name] for name in site.iterators})
        label, here = self.script.name_instance(here)
        count = self.ranks(slot_of(site).name).arrivals(self.script, here, label)
        self._used = True
        return self.script.define(f"{label}.slot", Mod(count, loop.hi.value))

    def compare(self) -> None:
        """Says how all counts of the script are related, where it has slots."""
        if not self._used:
            return
        tables = map(self.ranks, self.placed.barriers)
        counted = [(table, one) for table in tables for one in table.based(self.script)]
        for (table, one), (other, another) in combinations(counted, 2):
            if table.is_like(other):
                table.compare(self.script, one, another)
