"""Conditions, in the language itself, that must hold whenever a statement is executed.

They stand in the abstract machine's program (`Require`), so that a proof asks a solver of them:
what ISL finds of bounds and operands finds violations, and proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from exogpu.analysis.bounds_views import compose, control_values, extent, intervals
from exogpu.analysis.extremes import (
    Each,
    Side,
    compared,
    every,
    folded,
    for_each,
    parts,
    some,
    within,
)
from exogpu.analysis.instances import controls, least
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    BarrierAlloc,
    BExpr,
    Block,
    CallInstr,
    CExpr,
    CVar,
    DataParam,
    For,
    If,
    Instr,
    Int,
    Not,
    Pass,
    Point,
    Stmt,
    Truth,
    Uninit,
)
from exogpu.ir.walk import accesses, control_variables, substitute, substitute_bool
from exogpu.result.hazards import HazardKind

Variable: TypeAlias = DataParam | Alloc | BarrierAlloc


@dataclass(frozen=True, slots=True)
class Required:
    """For all values of `each`, all conditions hold; else it is a hazard of this kind."""

    kind: HazardKind
    variable: Sym | None
    """None of what an instruction asks of all of its arguments."""
    each: tuple[Each, ...]
    conditions: tuple[BExpr, ...]


# --- what a statement requires --------------------------------------------------------------


def required(stmt: Stmt, declared: Mapping[Sym, Variable]) -> Iterator[Required]:
    """Yields the bounds conditions of a statement of an inlined procedure, beside those of its
    records: windows lie inside their variables."""
    match stmt:
        case Alloc() | BarrierAlloc():
            conditions = every(compared("<=", Int(0), size) for size in stmt.shape)
            yield from _bounds(stmt.name, (), conditions)
        case CallInstr():
            yield from _call(stmt, declared)
        case Uninit():
            yield from _whole(stmt.access, declared[stmt.access.name], recorded=False)
        case Pass():
            for access in stmt.given:
                yield from _whole(access, declared[access.name], recorded=False)
        case If():
            return
        case _:
            for access in accesses(stmt):
                yield from _whole(access, declared[access.name])


def _bounds(variable: Sym | None, each: tuple[Each, ...], condition: BExpr) -> Iterator[Required]:
    if found := parts(condition):
        yield Required(HazardKind.BOUNDS, variable, each, found)


def _whole(access: Access, variable: Variable, *, recorded: bool = True) -> Iterator[Required]:
    """Every element of a window lies in the windows between, and in the allocation at hand."""
    arrays = [(t.coords, t.extents) for t in access.through]
    if not (recorded and _known_by_record(variable)):
        arrays.append((access.coords, variable.shape))
    yield from _bounds(access.name, (), every(within(*array) for array in arrays))


def _known_by_record(variable: Variable) -> bool:
    """Tests whether a record's window is the only bound to check: the variable has records, and its
    extents are the same wherever it is allocated."""
    if isinstance(variable, BarrierAlloc):
        return not any(map(control_variables, variable.shape))
    if variable.memory.sync_exempt:
        return False
    return isinstance(variable, DataParam) or not any(map(control_variables, variable.shape))


def _call(call: CallInstr, declared: Mapping[Sym, Variable]) -> Iterator[Required]:
    """The elements that the instruction's body touches under its guards (decision `bounds`), and
    what the instruction asks of its arguments."""
    instr = call.instr
    values = control_values(instr.params, call.arguments)
    for param, argument in zip(instr.params, call.arguments, strict=True):
        if not isinstance(param, DataParam) or not isinstance(argument, Access):
            continue
        if param.operand is not None and param.operand.clipped:
            continue
        if touches_all(instr, param.name):
            yield from _whole(argument, declared[argument.name])
            continue
        for each, guards, access in touched(instr.body, param.name, (), ()):
            indices = tuple(substitute(i, values) for i in indices_of(access))
            sides = tuple(_inside(argument, declared[argument.name], indices))
            guarded = [substitute_bool(guard, values) for guard in guards]
            bound = tuple(
                Each(e.name, substitute(e.lo, values), substitute(e.hi, values)) for e in each
            )
            simple = for_each(bound, guarded, sides)
            if simple is not None:
                # Said even where it always holds: the operand's records say nothing of bounds.
                conditions = parts(simple) or (simple,)
                yield Required(HazardKind.BOUNDS, argument.name, (), conditions)
            else:
                condition = every(within([Point(s.index)], [s.extent]) for s in sides)
                implied = condition if not guarded else some([Not(every(guarded)), condition])
                yield from _bounds(argument.name, bound, implied)
    if call.trailing is not None:
        yield from _whole(call.trailing, declared[call.trailing.name])
    yield from _bounds(None, (), every(_contract(call, values)))


def _contract(call: CallInstr, values: Mapping[Sym, CExpr]) -> Iterator[BExpr]:
    """The instruction's preconditions hold, and the windows have the extents of its operands."""
    instr = call.instr
    for control in controls(instr):
        if control.kind == "size" and control.name in values:
            yield compared("<=", Int(least(instr, control.name)), values[control.name])
    for precondition in instr.preconditions:
        yield folded(substitute_bool(precondition, values))
    for param, argument in zip(instr.params, call.arguments, strict=True):
        if isinstance(param, DataParam) and isinstance(argument, Access):
            given = (extent(c) for c in intervals(argument))
            for one, asked in zip(given, param.shape, strict=False):
                yield compared("==", one, substitute(asked, values))


def _inside(argument: Access, variable: Variable, indices: tuple[CExpr, ...]) -> Iterator[Side]:
    """The element with these indices in a window lies in its variable and the windows between."""
    arrays = [(argument.coords, variable.shape)]
    arrays += ((t.coords, t.extents) for t in argument.through)
    for coords, extents in arrays:
        yield from map(Side, compose(coords, indices), extents)


# --- what an instruction's body touches -----------------------------------------------------


@lru_cache(maxsize=1024)
def touches_all(instr: Instr, param: Sym) -> bool:
    """Tests whether the body of an instruction surely touches all of an operand: some access, under
    no guard, runs over its extents."""
    (shape,) = (p.shape for p in instr.params if isinstance(p, DataParam) and p.name == param)
    return any(
        not guards and covers(each, indices_of(access), shape)
        for each, guards, access in touched(instr.body, param, (), ())
    )


def covers(each: tuple[Each, ...], indices: tuple[CExpr, ...], shape: tuple[CExpr, ...]) -> bool:
    """Tests whether indices run over all extents, each with a loop of its own."""
    loops = {one.name: one for one in each}
    for index, size in zip(indices, shape, strict=True):
        if not isinstance(index, CVar) or index.name not in loops:
            return False
        one = loops.pop(index.name)
        if one.lo != Int(0) or one.hi != size:
            return False
    # A loop that the indices do not read has an iteration.
    return all(compared("<", one.lo, one.hi) == Truth(True) for one in loops.values())


_Touched: TypeAlias = tuple[tuple[Each, ...], tuple[BExpr, ...], Access]


def touched(
    block: Block, param: Sym, each: tuple[Each, ...], guards: tuple[BExpr, ...]
) -> Iterator[_Touched]:
    """The accesses of a parameter in the body, with the loops and guards around them."""
    for stmt in block:
        match stmt:
            case For():
                inner = (*each, Each(stmt.iterator, stmt.lo, stmt.hi))
                yield from touched(stmt.body, param, inner, guards)
            case If():
                one = [*touched(stmt.body, param, each, ())]
                other = [*touched(stmt.orelse, param, each, ())]
                yield from ((e, (*guards, *g), a) for e, g, a in one if (e, g, a) in other)
                for found, beside, condition in (
                    (one, other, stmt.condition),
                    (other, one, Not(stmt.condition)),
                ):
                    alone = (t for t in found if t not in beside)
                    yield from ((e, (*guards, condition, *g), a) for e, g, a in alone)
            case _:
                yield from ((each, guards, a) for a in accesses(stmt) if a.name == param)


def indices_of(access: Access) -> tuple[CExpr, ...]:
    """Returns the indices of an access of an instruction's body, which touches one element."""
    return tuple(c.at for c in access.coords if isinstance(c, Point))
