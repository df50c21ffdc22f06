"""Finds the executions of an operation on an element, from the program text.

Loops are walked from the last iteration to the first, and those that cannot touch the element are
left out: bounds and coordinates are evaluated over intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from exogpu.amir.nodes import Guard, Loop
from exogpu.amir.walk import Path
from exogpu.ir.affine import Affine, Range, Ranges, from_cexpr, interval
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, CExpr, Point
from exogpu.ir.walk import evaluate, holds

When: TypeAlias = tuple[int, ...]
"""Places in blocks, and values of iterators, from the outside in: ordered as the execution is."""

PATIENCE: Final = 100_000
"""Iterations that one search looks at."""


class TooLong(Exception):
    """A search has looked at too many iterations."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One execution of an operation."""

    when: When
    values: tuple[int, ...]
    """Of the iterators around it, outermost first."""


def at(path: Path, values: tuple[int, ...]) -> Instance:
    """The instance of the last operation of the path where the loops have these values."""
    left, when = list(values), []
    for place, op in path:
        when.append(place)
        if isinstance(op, Loop):
            when.append(left.pop(0))
    return Instance(tuple(when), values)


class Search:
    """The instances of one operation that touch an element, by one of some accesses."""

    def __init__(self, path: Path, accesses: tuple[Access, ...], element: tuple[int, ...]) -> None:
        self._path = path
        self._accesses = accesses
        self._element = element
        self._left = PATIENCE
        self._forms: dict[CExpr, Affine] = {}

    def before(self, end: When, sigma: Mapping[Sym, int]) -> Iterator[Instance]:
        """Yields the instances before an instant, the last one first. Raises TooLong."""
        return self._from(0, dict(sigma), end, (), ())

    def _from(
        self,
        depth: int,
        sigma: dict[Sym, int],
        end: When | None,
        when: When,
        values: tuple[int, ...],
    ) -> Iterator[Instance]:
        place, op = self._path[depth]
        if end is not None:
            if place > end[0]:
                return
            end = end[1:] if place == end[0] else None
        when = (*when, place)
        match op:
            case Loop():
                last = evaluate(op.hi, sigma) - 1
                if end is not None:
                    last = min(last, end[0])
                for y in range(last, evaluate(op.lo, sigma) - 1, -1):
                    self._left -= 1
                    if self._left < 0:
                        raise TooLong
                    sigma[op.iterator] = y
                    if self._may_touch(depth + 1, sigma):
                        inner = end[1:] if end is not None and y == end[0] else None
                        yield from self._from(depth + 1, sigma, inner, (*when, y), (*values, y))
            case Guard():
                if holds(op.condition, sigma):
                    yield from self._from(depth + 1, sigma, end, when, values)
            case _:
                # An instant that ends here is this instance itself.
                if end is None and self._may_touch(depth, sigma):
                    yield Instance(when, values)

    def _may_touch(self, depth: int, sigma: Mapping[Sym, int]) -> bool:
        ranges = {name: Range(value, value, 0) for name, value in sigma.items()}
        for _, op in self._path[depth:]:
            if isinstance(op, Loop):
                least = interval(self._form(op.lo), ranges)[0]
                most = interval(self._form(op.hi), ranges)[1] - 1
                if least > most:
                    return False
                ranges[op.iterator] = Range(least, most)
        return not self._accesses or any(self._touches(access, ranges) for access in self._accesses)

    def _touches(self, access: Access, ranges: Ranges) -> bool:
        for coord, index in zip(access.coords, self._element, strict=True):
            first, last = (coord.at, coord.at) if isinstance(coord, Point) else (coord.lo, coord.hi)
            end = 0 if isinstance(coord, Point) else 1
            if index < interval(self._form(first), ranges)[0]:
                return False
            if index > interval(self._form(last), ranges)[1] - end:
                return False
        return True

    def _form(self, expr: CExpr) -> Affine:
        found = self._forms.get(expr)
        if found is None:
            found = self._forms[expr] = from_cexpr(expr, {}, {})
        return found
