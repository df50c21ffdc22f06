"""Finds the window of a variable that an operand is, from the elements that statements access."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, CExpr, Coord, Int, Interval, Point, Stmt
from exogpu.ir.walk import control_variables
from exogpu.schedule.control import minus, plus, tidy
from exogpu.schedule.mismatch import Mismatch


@dataclass(frozen=True, slots=True)
class Seen:
    """An access of the program and one of the body that are to be the same."""

    program: Access
    body: Access
    statements: tuple[Stmt, Stmt]


def window_of(
    seen: Sequence[Seen],
    shape: Sequence[CExpr],
    inner: Collection[Sym],
    known: Callable[[CExpr], CExpr],
) -> tuple[Coord, ...]:
    """The coordinates of the window, of which each element seen is the one of the body.

    `inner` are the iterators of the body, `known` puts in the arguments.  Raises Mismatch.
    """
    first = seen[0]
    name = first.body.name.name
    for other in seen:
        if other.program.name != first.program.name:
            both = f"{first.program.name.name} and {other.program.name.name}"
            raise Mismatch(*other.statements, f"{name} would be both {both}")
    rank = len(first.program.coords)
    for chosen in combinations(range(rank), len(shape)):
        found = _coordinates(first, chosen, shape, inner, known)
        if found is not None:
            wrong = [s for s in seen[1:] if _coordinates(s, chosen, shape, inner, known) != found]
            if not wrong:
                return found
            first = wrong[0]
    raise Mismatch(*first.statements, f"no window of {first.program.name.name} is {name}")


def _coordinates(
    seen: Seen,
    chosen: Sequence[int],
    shape: Sequence[CExpr],
    inner: Collection[Sym],
    known: Callable[[CExpr], CExpr],
) -> tuple[Coord, ...] | None:
    """The window, if its dimensions are the chosen ones of the variable."""
    left = iter(zip(seen.body.coords, shape, strict=True))
    found: list[Coord] = []
    for at, mine in enumerate(seen.program.coords):
        if at not in chosen:
            if isinstance(mine, Interval):
                return None
            found.append(Point(tidy(mine.at)))
            continue
        its, extent = next(left)
        match mine, its:
            case Point(), Point():
                low = minus(mine.at, known(its.at))
            case Interval(), Interval():
                low = minus(mine.lo, known(its.lo))
                counts = minus(mine.hi, mine.lo), known(minus(its.hi, its.lo))
                if minus(*counts) != Int(0):
                    return None
            case _:
                return None
        found.append(Interval(low, plus(low, known(extent))))
    return None if any(_names(c) & set(inner) for c in found) else tuple(found)


def _names(coord: Coord) -> frozenset[Sym]:
    return frozenset(name for expr in bounds(coord) for name in control_variables(expr))


def bounds(coord: Coord) -> Iterator[CExpr]:
    """The index, or both ends."""
    if isinstance(coord, Point):
        yield coord.at
    else:
        yield from (coord.lo, coord.hi)
