"""Primitives that add up in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Assign,
    CExpr,
    Compare,
    Const,
    Coord,
    CVar,
    For,
    If,
    Int,
    Point,
    Proc,
    Read,
    Reduce,
    Seq,
    Stmt,
)
from exogpu.ir.types import DataMemory
from exogpu.ir.walk import control_variables
from exogpu.schedule.control import constant, read_control
from exogpu.schedule.loops import loop_at
from exogpu.schedule.primitive import Unfit, named, path_of, primitive
from exogpu.schedule.rewrite import Rewrite, begun, block_at, splice
from exogpu.schedule.storage import data_scope, default_memory


@primitive
def sum_by_exchange(
    proc: Proc, loop: object, name: str, memory: DataMemory | None = None
) -> Iterator[Rewrite]:
    """Add the elements of a vector up by exchanges: each takes that of a partner, ever nearer.

        y = 0                       u: f32[2]
        for t in seq(0, 2):         for t in seq(0, 2):
            y += x[t]                   u[t] = x[t + 1 - 2 * (t / 1 % 2)]
                              ->    for t in seq(0, 2):
                                        x[t] += u[t]
                                    for t in seq(0, 2):
                                        if t == 0:
                                            y = x[t]

    As many elements as a power of two.  Then all have the sum, and the first gives it.  What both
    procedures leave is compared, sums as sets of terms.
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    count = constant(old.hi)
    if constant(old.lo) != 0 or count is None or count < 2 or count & (count - 1):
        raise Unfit("the count of the loop is no power of two", old)
    match old.body:
        case (Reduce(value=Read(access=of)) as added,):
            pass
        case _:
            raise Unfit("the loop does more than adding elements of a vector", old)
    index = [n for n, c in enumerate(of.coords) if c == Point(CVar(old.iterator))]
    if len(index) != 1 or any(_uses(c, old.iterator) for c in added.target.coords):
        raise Unfit("the loop does not add the elements of a vector to one element", old)
    block, here = block_at(proc, path), path[-1][1]
    begins = here > 0 and _clears(block[here - 1], added.target)
    if memory is None:
        memory = default_memory(proc, path)
    other, dtype, span = named(name), data_scope(proc, path)[of.name].dtype, old.span

    def at(where: CExpr) -> Access:
        coords = (*of.coords[: index[0]], Point(where), *of.coords[index[0] + 1 :])
        return replace(of, coords=coords)

    def lanes(make: Callable[[Sym], Stmt]) -> Stmt:
        iterator = Sym(old.iterator.name)
        return For(iterator, Int(0), Int(count), Seq(), (make(iterator),), span=span)

    def taken(mask: int, t: Sym) -> Stmt:
        partner = read_control(f"t + {mask} - {2 * mask} * ((t / {mask}) % 2)", {"t": t})
        return Assign(Access(other, (Point(CVar(t)),)), Read(at(partner), span), span=span)

    def summed(t: Sym) -> Stmt:
        return Reduce(at(CVar(t)), Read(Access(other, (Point(CVar(t)),)), span), span=span)

    def given(t: Sym) -> Stmt:
        kind = Assign if begins else Reduce
        stmt = kind(added.target, Read(at(CVar(t)), span), span=span)
        return If(Compare("==", CVar(t), Int(0)), (stmt,), span=span)

    new: list[Stmt] = [Alloc(other, dtype, (Int(count),), memory, span=span)]
    mask = count // 2
    while mask:
        new += [lanes(partial(taken, mask)), lanes(summed)]
        mask //= 2
    new.append(lanes(given))
    edit = begun(proc)
    edit.by_results = True
    edit.followed[new[-1]] = old
    if begins:
        path = (*path[:-1], (path[-1][0], here - 1))
    splice(edit, path, 2 if begins else 1, tuple(new))
    yield edit


def _uses(coord: Coord, iterator: Sym) -> bool:
    return isinstance(coord, Point) and iterator in control_variables(coord.at)


def _clears(stmt: Stmt, target: Access) -> bool:
    match stmt:
        case Assign(value=Const(value=value)):
            return value == 0 and stmt.target == target
        case _:
            return False
