"""When an operation is executed on an element, found from the program text.

Loops are walked from the last iteration to the first, and those that cannot touch the element are
left out: bounds and coordinates are evaluated over intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from exogpu.amir.nodes import Guard, Loop
from exogpu.amir.walk import Path
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, Add, CExpr, CVar, FloorDiv, Int, Mod, Mul, Point, Sub
from exogpu.ir.walk import evaluate, holds

When: TypeAlias = tuple[int, ...]
"""Places in blocks, and values of iterators, from the outside in: ordered as the execution is."""

Span: TypeAlias = tuple[int, int]
"""The least and the greatest value."""

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

    def before(self, end: When, sigma: Mapping[Sym, int]) -> Iterator[Instance]:
        """Those before an instant, the last one first.  Raises TooLong."""
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
        spans = {name: (value, value) for name, value in sigma.items()}
        for _, op in self._path[depth:]:
            if isinstance(op, Loop):
                least, most = span_of(op.lo, spans)[0], span_of(op.hi, spans)[1] - 1
                if least > most:
                    return False
                spans[op.iterator] = (least, most)
        return not self._accesses or any(
            _touches(access, self._element, spans) for access in self._accesses
        )


def _touches(access: Access, element: tuple[int, ...], spans: Mapping[Sym, Span]) -> bool:
    for coord, index in zip(access.coords, element, strict=True):
        first, last = (coord.at, coord.at) if isinstance(coord, Point) else (coord.lo, coord.hi)
        end = 0 if isinstance(coord, Point) else 1
        if not span_of(first, spans)[0] <= index <= span_of(last, spans)[1] - end:
            return False
    return True


def span_of(expr: CExpr, spans: Mapping[Sym, Span]) -> Span:
    """Ends between which the value always is."""
    match expr:
        case Int():
            return (expr.value, expr.value)
        case CVar():
            return spans[expr.name]
        case Add():
            (a, b), (c, d) = span_of(expr.left, spans), span_of(expr.right, spans)
            return (a + c, b + d)
        case Sub():
            (a, b), (c, d) = span_of(expr.left, spans), span_of(expr.right, spans)
            return (a - d, b - c)
        case Mul():
            ends = [expr.factor * end for end in span_of(expr.term, spans)]
            return (min(ends), max(ends))
        case FloorDiv():
            a, b = span_of(expr.term, spans)
            return (a // expr.divisor, b // expr.divisor)
        case Mod():
            a, b = span_of(expr.term, spans)
            if a // expr.divisor == b // expr.divisor:
                return (a % expr.divisor, b % expr.divisor)
            return (0, expr.divisor - 1)
        case _:
            assert_never(expr)
