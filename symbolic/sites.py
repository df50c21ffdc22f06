"""The operations of an AMIR program with what encloses them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from exogpu.amir.nodes import (
    Alloc,
    Arrive,
    Await,
    Block,
    CheckBarrier,
    Guard,
    IncTaskID,
    Loop,
    Op,
    Program,
    Record,
    Release,
)
from exogpu.amir.walk import accesses_of
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, BExpr, CExpr, Point
from exogpu.ir.walk import control_variables
from exogpu.result.errors import Span


class UndecidedError(Exception):
    """A statement lies outside what the prover can express; it carries reason and place."""

    def __init__(self, reason: str, span: Span) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """An operation and what encloses it."""

    number: int
    """Place in the program text; its instances are tuples `S<number>`."""
    op: Op
    loops: tuple[Loop, ...]
    guards: tuple[tuple[int, BExpr], ...]
    """Enclosing conditions, each with the number of loops around it."""
    path: tuple[int, ...]
    """Position within the program, within each enclosing loop's body: one more than loops."""
    task: int | None
    """How many of the loops identify the task; None outside every task."""

    @property
    def tuple_name(self) -> str:
        return f"S{self.number}"

    @property
    def iterators(self) -> tuple[Sym, ...]:
        return tuple(loop.iterator for loop in self.loops)


def sites(program: Program) -> tuple[Site, ...]:
    """Every operation of the program but loops and guards, in program order.

    Raises UndecidedError where tasks begin elsewhere than at the start of a loop's body, or one
    loop stands in two places.
    """
    found: list[Site] = []
    _flatten(program.body, (), (), (), None, [0], found)
    places: dict[Loop, tuple[int, ...]] = {}
    for site in found:
        for depth, loop in enumerate(site.loops):
            # Common loops are told by identity.
            if places.setdefault(loop, site.path[: depth + 1]) != site.path[: depth + 1]:
                raise UndecidedError("one loop stands in two places", loop.origin.span)
    return tuple(found)


def _flatten(
    block: Block,
    loops: tuple[Loop, ...],
    guards: tuple[tuple[int, BExpr], ...],
    prefix: tuple[int, ...],
    task: int | None,
    counter: list[int],
    found: list[Site],
) -> None:
    for op in block:
        counter[0] += 1
        match op:
            case Loop():
                begins = [i for i, inner in enumerate(op.body) if isinstance(inner, IncTaskID)]
                if begins and (begins != [0] or task is not None):
                    raise UndecidedError("a task begins inside another", op.origin.span)
                inner = len(loops) + 1 if begins else task
                around = (*prefix, counter[0])
                _flatten(op.body, (*loops, op), guards, around, inner, [0], found)
            case Guard():
                inside = (*guards, (len(loops), op.condition))
                _flatten(op.body, loops, inside, prefix, task, counter, found)
            case IncTaskID() if task != len(loops) or counter[0] > 1:
                raise UndecidedError("a task begins elsewhere than first in a loop", op.origin.span)
            case _:
                path = (*prefix, counter[0])
                found.append(Site(len(found), op, loops, guards, path, task))


def expressions_of(access: Access) -> Iterator[CExpr]:
    """The expressions of an access."""
    for coord in access.coords:
        yield from (coord.at,) if isinstance(coord, Point) else (coord.lo, coord.hi)


def read_by(access: Access) -> frozenset[Sym]:
    """The control variables of an access."""
    return frozenset[Sym]().union(*map(control_variables, expressions_of(access)))


def variables_of(op: Op) -> Iterator[Sym]:
    """The variables that an operation uses, the one it allocates or releases included."""
    match op:
        case Alloc() | Release() | CheckBarrier():
            yield op.name
        case _:
            for access in accesses_of(op):
                yield access.name


def home_of(site: Site) -> Access:
    """The home of an Arrive, or of a Record's trailing barrier."""
    op = site.op
    if isinstance(op, Arrive):
        return op.home
    assert isinstance(op, Record) and op.trailing is not None
    return op.trailing.home


def targets_of(site: Site) -> tuple[Access, ...]:
    """The targets of an Arrive, or of a Record's trailing barrier."""
    op = site.op
    if isinstance(op, Arrive):
        return op.targets
    assert isinstance(op, Record) and op.trailing is not None
    return op.trailing.targets


def counted_on(site: Site) -> Access:
    """The element on which an Arrive, Await or trailing barrier counts."""
    return site.op.barrier if isinstance(site.op, Await) else home_of(site)
