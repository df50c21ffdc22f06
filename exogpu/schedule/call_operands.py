"""Finds the window of a variable that an operand is, from the elements that statements access."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from exogpu.ir import nodes as ir
from exogpu.ir.printer import print_stmt
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, substitute
from exogpu.schedule.index_text import minus, plus, tidy

# Explains why statements are not the body of an instruction: the first mismatch, side by side.


class Mismatch(Exception):
    """A statement of the program and one of the body that do not fit; None for one that lacks."""

    def __init__(self, program: ir.Stmt | None, body: ir.Stmt | None, why: str) -> None:
        super().__init__(why)
        self.program, self.body, self.why = program, body, why

    def side_by_side(self, callee: str) -> str:
        """Both statements and the reason."""
        return f"{_quoted(self.program)} | {_quoted(self.body)} of {callee}: {self.why}"


def _quoted(stmt: ir.Stmt | None) -> str:
    if stmt is None:
        return "nothing"
    line = f" (line {stmt.span.line})" if stmt.span.line else ""
    return f"`{print_stmt(stmt).splitlines()[0].strip()}`{line}"


@dataclass(frozen=True, slots=True)
class Seen:
    """An access of the program and one of the body that are to be the same."""

    program: ir.Access
    body: ir.Access
    statements: tuple[ir.Stmt, ir.Stmt]


def window_of(
    seen: Sequence[Seen],
    shape: Sequence[ir.CExpr],
    inner: Collection[Sym],
    known: Callable[[ir.CExpr], ir.CExpr],
) -> tuple[ir.Coord, ...]:
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
    shape: Sequence[ir.CExpr],
    inner: Collection[Sym],
    known: Callable[[ir.CExpr], ir.CExpr],
) -> tuple[ir.Coord, ...] | None:
    """The window, if its dimensions are the chosen ones of the variable."""
    left = iter(zip(seen.body.coords, shape, strict=True))
    found: list[ir.Coord] = []
    for at, mine in enumerate(seen.program.coords):
        if at not in chosen:
            if isinstance(mine, ir.Interval):
                return None
            found.append(ir.Point(tidy(mine.at)))
            continue
        its, extent = next(left)
        match mine, its:
            case ir.Point(), ir.Point():
                low = minus(mine.at, known(its.at))
            case ir.Interval(), ir.Interval():
                low = minus(mine.lo, known(its.lo))
                counts = minus(mine.hi, mine.lo), known(minus(its.hi, its.lo))
                if minus(*counts) != ir.Int(0):
                    return None
            case _:
                return None
        found.append(ir.Interval(low, plus(low, known(extent))))
    return None if any(_names(c) & set(inner) for c in found) else tuple(found)


def _names(coord: ir.Coord) -> frozenset[Sym]:
    return frozenset(name for expr in bounds(coord) for name in control_variables(expr))


def bounds(coord: ir.Coord) -> Iterator[ir.CExpr]:
    """The index, or both ends."""
    if isinstance(coord, ir.Point):
        yield coord.at
    else:
        yield from (coord.lo, coord.hi)


# Guards in one form, `value >= 0`, and nests of loops and guards.


@dataclass(frozen=True, slots=True)
class Guard:
    """`value >= 0`, `value == 0` or `value != 0`."""

    value: ir.CExpr
    op: Literal[">=", "==", "!="]


def guards_of(condition: ir.BExpr, values: Mapping[Sym, ir.CExpr]) -> list[Guard] | None:
    """The guards that a condition joins by `and`, iterators replaced; None for other forms."""
    match condition:
        case ir.And():
            left = guards_of(condition.left, values)
            right = guards_of(condition.right, values)
            return None if left is None or right is None else [*left, *right]
        case ir.Compare():
            one, other = (substitute(e, values) for e in (condition.left, condition.right))
            above, below = minus(one, other), minus(other, one)
            match condition.op:
                case "<":
                    return [Guard(minus(below, ir.Int(1)), ">=")]
                case "<=":
                    return [Guard(below, ">=")]
                case ">":
                    return [Guard(minus(above, ir.Int(1)), ">=")]
                case ">=":
                    return [Guard(above, ">=")]
                case "==" | "!=" as op:
                    return [Guard(above, op)]
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops and guards around one another, and the statements that they are around."""

    loops: tuple[ir.For, ...]
    guards: tuple[ir.If, ...]
    inner: ir.Block


def nest_of(stmt: ir.Stmt) -> Nest:
    """A statement as a nest; guards with an `else` are statements of their own."""
    loops: list[ir.For] = []
    guards: list[ir.If] = []
    inner: ir.Block = (stmt,)
    while len(inner) == 1:
        match inner[0]:
            case ir.For() as loop:
                loops.append(loop)
            case ir.If(orelse=()) as guard:
                guards.append(guard)
            case _:
                break
        inner = real(inner[0].body)
    return Nest(tuple(loops), tuple(guards), inner)


def real(block: ir.Block) -> ir.Block:
    """The statements that are no `pass`."""
    return tuple(stmt for stmt in block if not isinstance(stmt, ir.Pass))
