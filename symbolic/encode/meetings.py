"""Common beginnings of the scripts of two accesses that meet; pairs share one if both places, the
variable and the order in the text agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from exogpu.ir.names import Sym
from exogpu.ir.nodes import CVar
from exogpu.symbolic.encode.formulas import FALSE, Instance, before, in_shape, same_allocation
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.placed import Placed
from exogpu.symbolic.sites import Site, order_of


@dataclass(frozen=True, slots=True, eq=False)
class Meeting:
    """Instances of two accesses, the first earlier, of one allocation, and an element."""

    script: Script
    """That says so, and nothing else."""
    first: Instance
    second: Instance
    element: tuple[CVar, ...]


class Meetings:
    """The beginnings of the scripts of one program's pairs."""

    def __init__(self, placed: Placed, begun: Callable[[], Script]) -> None:
        self._placed = placed
        self._begun = begun
        """A script that knows the sizes."""
        self._places: dict[int, int] = {}
        self._numbers: dict[object, int] = {}
        self._firsts: dict[int, tuple[Script, Instance]] = {}
        self._known: dict[object, Meeting | None] = {}

    def of(self, first: Site, second: Site, name: Sym) -> Meeting | None:
        """Returns the meeting of two accesses of a variable, with a script of its own; None if the
        first never comes earlier."""
        places = self._place(first), self._place(second)
        key = (name, *places, *order_of(first, second))
        if key not in self._known:
            self._known[key] = self._made(first, second, name)
        made = self._known[key]
        if made is None:
            return None
        return replace(
            made,
            script=made.script.copy(),
            first=Instance(first, made.first.values),
            second=Instance(second, made.second.values),
        )

    def _place(self, site: Site) -> int:
        """Sites with the same number have the same instances."""
        if site.number not in self._places:
            key = (site.loops, site.guards, site.residence)
            self._places[site.number] = self._numbers.setdefault(key, len(self._numbers))
        return self._places[site.number]

    def _made(self, record: Site, check: Site, name: Sym) -> Meeting | None:
        known, first = self._first(record)
        script = known.copy()
        second = script.free(check, "second.")
        order = before(first, second)
        if order == FALSE:
            return None
        rank = len(self._placed.variables[name].shape)
        element = tuple(script.constant(Sym(f"element{at}")) for at in range(rank))
        script.assume_exists(first)
        script.assume_exists(second)
        script.assume(order)
        script.assume(same_allocation(self._placed, first, second, name))
        script.assume(in_shape(self._placed, name, element))
        return Meeting(script, first, second, element)

    def _first(self, record: Site) -> tuple[Script, Instance]:
        place = self._place(record)
        if place not in self._firsts:
            script = self._begun()
            self._firsts[place] = script, script.free(record, "first.")
        script, known = self._firsts[place]
        return script, Instance(record, known.values)
