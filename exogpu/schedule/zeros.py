"""Sums of zero: `x += a * b` changes nothing where a and b are zero, as where tiles are padded.

0 and -0 are the same number here.  A product is zero where both of its sides are: 0 times an
infinity is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from exogpu.ir.isltext import identifier
from exogpu.ir.nodes import Apply, Assign, BinOp, Const, DExpr, Negate, Read, Reduce
from exogpu.ir.walk import reads as reads_of
from exogpu.schedule.accessed import Accessed
from exogpu.schedule.events import Event, Place, happens, tuple_of
from exogpu.solvers import isl_unions as un

ROUNDS: Final = 4
"""Copies of copies of zero that are followed."""


def adding_zero(of: Accessed, live: un.Points) -> un.Points | None:
    """The events of sums that stand for nothing and add zero; None if there are none."""

    def is_sum(place: Place, _: Event) -> bool:
        return isinstance(place.plain, Reduce)

    spare = un.without(of.points_of(is_sum), live)
    if un.is_empty(spare):
        return None
    zeros = Zeros(Accessed(of.program))  # zero may come from any variable
    found = zeros.none
    for place in of.program.places:
        if isinstance(place.plain, Reduce):
            found = un.union(found, zeros.events(place, place.events))
    return un.intersect(found, spare)


class Zeros:
    """The reads of a program that find zero."""

    def __init__(self, of: Accessed) -> None:
        self.of = of
        self.none = un.points(of.params, [])
        writes = un.union(un.of_inputs(of.cells, of.written), of.initials)
        reads = un.of_inputs(of.cells, of.read)
        seen = of.before(reads, writes)
        last = self.last = un.subtract(seen, un.compose(seen, of.before(writes, writes)))
        self.reads = self.none
        for _ in range(ROUNDS):
            written = self.none
            for place in of.program.places:
                if isinstance(place.plain, Assign):
                    written = un.union(written, self.events(place, place.events[-1:]))
            others = un.without(un.outputs(last), written)
            found = un.inputs(un.of_outputs(last, written))
            found = un.without(found, un.inputs(un.of_outputs(last, others)))
            if un.is_empty(un.without(found, self.reads)):
                break
            self.reads = found

    def events(self, place: Place, events: Iterable[Event]) -> un.Points:
        """Events of a statement at the instances at which its value is zero."""
        pieces = [
            f"{_instance(place)} -> {tuple_of(place, e)} : {happens(place, e)}" for e in events
        ]
        found, _ = self.zero(place, place.plain.value, 0)
        return un.image(found, un.relation(self.of.params, pieces))

    def zero(self, place: Place, expr: DExpr, reads: int) -> tuple[un.Points, int]:
        """The instances at which an expression is zero, and how many reads stand before its end."""
        everywhere = un.points(self.of.params, [f"{_instance(place)} : {place.where}"])
        match expr:
            case Const():
                return (everywhere if expr.value == 0 else self.none), reads
            case Read() if (known := place.constants.get(expr.access.name)) is not None:
                return (everywhere if known.value == 0 else self.none), reads
            case Read():
                return self.read(place, place.events[reads], everywhere), reads + 1
            case Negate():
                return self.zero(place, expr.term, reads)
            case Apply(function="tf32"):
                return self.zero(place, expr.arguments[0], reads)
            case BinOp(op="*" | "+" | "-"):
                left, reads = self.zero(place, expr.left, reads)
                right, reads = self.zero(place, expr.right, reads)
                return un.intersect(left, right), reads
            case _:
                given = [a for a in reads_of(expr) if a.name not in place.constants]
                return self.none, reads + len(given)

    def read(self, place: Place, event: Event, everywhere: un.Points) -> un.Points:
        text = tuple_of(place, event)
        pieces = [f"{text} -> {_instance(place)}"]
        found = un.image(self.reads, un.relation(self.of.params, pieces))
        if event.within:
            inside = f"{_instance(place)} : {happens(place, event)}"
            outside = un.without(everywhere, un.points(self.of.params, [inside]))
            found = un.union(found, outside)
        return found


def _instance(place: Place) -> str:
    return f"{place.name}[{', '.join(map(identifier, place.iterators))}]"
