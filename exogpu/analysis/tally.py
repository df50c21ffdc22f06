"""Counts the Arrives before a place, at given sizes, as an expression of iterators.

for k in loop(0, 7):
    place               # k Arrives come before it
    Arrive full

What a place counts is the Arrives before the loops around it, what each iteration of these has,
and those above it in its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from exogpu.ir.names import Sym
from exogpu.ir.nodes import Add, BExpr, CExpr, CVar, Int, Mul, Sub
from exogpu.ir.walk import evaluate, holds

Index: TypeAlias = tuple[int, ...]
Element: TypeAlias = tuple[Sym, Index]


class UncountedError(Exception):
    """The number of Arrives before a place is no expression of this kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    name: Sym
    home: tuple[CExpr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Fresh:
    """A barrier is allocated."""

    name: Sym


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A place at which the Arrives on an element are counted."""

    element: Element


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    iterator: Sym
    lo: CExpr
    hi: CExpr
    body: Sequence[Part]


@dataclass(frozen=True, slots=True, eq=False)
class Guarded:
    condition: BExpr
    body: Sequence[Part]


Part: TypeAlias = Arrival | Fresh | Place | Repeated | Guarded


def counts(parts: Sequence[Part], sizes: Mapping[Sym, int]) -> Iterator[CExpr]:
    """At each place, in the order of the text, how many Arrives come before.

    Raises UncountedError where the number in an iteration depends on the iteration.
    """
    places = {part.element for part in _all(parts) if isinstance(part, Place)}
    tally = _Tally(sizes, places)
    return iter([*tally.block(parts, {place: Int(0) for place in places})])


def _all(parts: Sequence[Part]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, Repeated | Guarded):
            yield from _all(part.body)


def _is_single(loop: Repeated) -> bool:
    """Returns whether a loop has one iteration, whatever its iterator is."""
    return loop.hi == Add(loop.lo, Int(1))


@dataclass(frozen=True, slots=True)
class _Tally:
    sizes: Mapping[Sym, int]
    elements: set[Element]
    totals: dict[tuple[Part, Element, tuple[tuple[Sym, int], ...]], int] = field(
        default_factory=dict
    )

    def block(self, parts: Sequence[Part], before: dict[Element, CExpr | None]) -> Iterator[CExpr]:
        """The counts of a block's places; `before` becomes what comes before its end, None where
        that is no expression."""
        for part in parts:
            match part:
                case Place():
                    count = before[part.element]
                    if count is None:
                        raise UncountedError
                    yield count
                case Fresh():
                    before |= {e: Int(0) for e in self.elements if e[0] == part.name}
                case Guarded():
                    yield from self.block(part.body, dict(before))
                case Repeated() if any(isinstance(inner, Place) for inner in _all(part.body)):
                    yield from self.block(part.body, dict(self.inside(part, before)))
                case Repeated() | Arrival():
                    pass
            for element in self.elements:
                before[element] = self.after(part, element, before[element])

    def after(self, part: Part, element: Element, count: CExpr | None) -> CExpr | None:
        """Returns the count before the end of a part; None where it is no expression."""
        try:
            total = self.total(part, element, {})
        except UncountedError:
            return None
        return Add(count, Int(total)) if count is not None and total else count

    def inside(
        self, loop: Repeated, before: Mapping[Element, CExpr | None]
    ) -> Iterator[tuple[Element, CExpr | None]]:
        """Yields the counts before an iteration of a loop."""
        for element, count in before.items():
            if count is None or _is_single(loop):
                yield element, count
                continue
            try:
                each = self.within(loop.body, element, {})
            except UncountedError:
                yield element, None
                continue
            done = Sub(CVar(loop.iterator), loop.lo)
            yield element, Add(count, Mul(each, done)) if each else count

    def within(self, body: Sequence[Part], element: Element, values: Mapping[Sym, int]) -> int:
        """Counts the Arrives in a block, when these iterators have these values and no other
        matters."""
        return sum(self.total(part, element, values) for part in body)

    def total(self, part: Part, element: Element, values: Mapping[Sym, int]) -> int:
        """The same of a part.  Raises UncountedError where another iterator matters."""
        key = (part, element, tuple(values.items()))
        if key not in self.totals:
            try:
                self.totals[key] = self._total(part, element, values)
            except KeyError:
                raise UncountedError from None
        return self.totals[key]

    def _total(self, part: Part, element: Element, values: Mapping[Sym, int]) -> int:
        known = {**self.sizes, **values}
        name, index = element
        match part:
            case Arrival():
                on = part.name == name
                return int(on and tuple(evaluate(at, known) for at in part.home) == index)
            case Repeated() | Guarded():
                if not any(isinstance(p, Arrival) and p.name == name for p in _all(part.body)):
                    return 0
            case _:
                return 0
        if isinstance(part, Guarded):
            each = self.within(part.body, element, values)
            return each if each == 0 or holds(part.condition, known) else 0
        if _is_single(part):
            try:
                return self.within(part.body, element, values)
            except UncountedError:
                pass  # Its iterator may matter.
        iterations = range(evaluate(part.lo, known), evaluate(part.hi, known))
        try:
            return self.within(part.body, element, values) * len(iterations)
        except UncountedError:
            at = ({**values, part.iterator: value} for value in iterations)
            return sum(self.within(part.body, element, one) for one in at)
