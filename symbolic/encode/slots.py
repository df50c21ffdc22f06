"""Slots in formulas: the iterator of a binding is a count modulo the ring (decision 28).

A slot counts where it is bound, as an Arrive there would: its count has a lemma like every other.
In nests the unknown parts of all counts of a script are compared, also of two barriers whose
iterations count alike: a full and an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

from exogpu.amir.nodes import Loop
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, BExpr, Int, Mod
from exogpu.symbolic.encode.formulas import Instance, equal
from exogpu.symbolic.encode.ranks import RankTable
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.placed import Placed
from exogpu.symbolic.sites import read_by, slot_of, slots_around


class Slots:
    """The slots of one script's instances."""

    def __init__(self, script: Script, placed: Placed, ranks: Callable[[Sym], RankTable]) -> None:
        self.script = script
        self.placed = placed
        self.ranks = ranks
        self._used = False

    def known(self, instance: Instance, access: Access) -> list[BExpr]:
        """What is known of the slots that an access of an instance reads."""
        read = read_by(access)
        return self._equal(
            instance, (loop for loop in slots_around(instance.site) if loop.iterator in read)
        )

    def bound(self, instance: Instance) -> list[BExpr]:
        """All slots around an instance are those of its iteration: else it is not executed."""
        return self._equal(instance, slots_around(instance.site))

    def _equal(self, instance: Instance, loops: Iterable[Loop]) -> list[BExpr]:
        found: list[BExpr] = []
        for loop in loops:
            assert isinstance(loop.hi, Int)
            site = self.placed.slots[loop]
            here = Instance(site, {name: instance.values[name] for name in site.iterators})
            table = self.ranks(slot_of(site).name)
            label, here = self.script.named(here)
            count = table.arrivals(self.script, here, label)
            found.append(equal(instance.values[loop.iterator], Mod(count, loop.hi.value)))
            self._used = True
        return found

    def compare(self) -> None:
        """Says how all counts of the script are related, where it has slots."""
        if not self._used:
            return
        tables = map(self.ranks, self.placed.barriers)
        counted = [(table, one) for table in tables for one in table.based(self.script)]
        for (table, one), (other, another) in combinations(counted, 2):
            if table.is_like(other):
                table.compare(self.script, one, another)
