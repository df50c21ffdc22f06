"""Unrolls sequential loops as they ask for it, or where that makes registers' indices constant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exogpu.codegen.names import Lines
from exogpu.codegen.storage import Storage
from exogpu.ir import nodes as ir
from exogpu.ir.types import Space, Sym
from exogpu.ir.walk import accesses, control_variables, walk

UNROLL_LIMIT = 16
"""Loops of at most this many iterations are unrolled; those that index registers always are."""
UNROLLED_STATEMENTS = 256
"""The iterations of a loop that is unrolled have at most this many statements together."""


def unrolling(stmt: ir.For, lo: ir.CExpr, hi: ir.CExpr, storage: Mapping[Sym, Storage]) -> Lines:
    """Returns the pragma of a loop: as it was asked for, or all iterations if these are few."""
    assert isinstance(stmt.mode, ir.Seq)
    match stmt.mode.unroll:
        case None:
            return ["#pragma unroll"] if _is_unrolled(stmt, lo, hi, storage) else []
        case 0:
            return ["#pragma unroll"]
        case count:
            return [f"#pragma unroll {count}"]


def _is_unrolled(stmt: ir.For, lo: ir.CExpr, hi: ir.CExpr, storage: Mapping[Sym, Storage]) -> bool:
    if not (isinstance(lo, ir.Int) and isinstance(hi, ir.Int)):
        return False
    count, inside = hi.value - lo.value, tuple(walk(stmt.body))
    short = count <= UNROLL_LIMIT and count * len(inside) <= UNROLLED_STATEMENTS
    if short and not any(isinstance(one, ir.Fence | ir.Arrive | ir.Await) for one in inside):
        return True
    return any(
        stmt.iterator in control_variables(index)
        for inner in walk(stmt.body)
        for index in _register_indices(inner, storage)
    )


def _register_indices(stmt: ir.Stmt, storage: Mapping[Sym, Storage]) -> Iterator[ir.CExpr]:
    """Yields the expressions that choose the registers of a statement: indices, and, beside a tile,
    the operands that choose an instruction's part."""
    used = [a for a in accesses(stmt) if a.name in storage]
    held = [a for a in used if storage[a.name].space is Space.REGISTER]
    for access in held:
        for coord in access.coords:
            yield coord.at if isinstance(coord, ir.Point) else coord.lo
    if isinstance(stmt, ir.CallInstr) and any(storage[a.name].tile_rank for a in held):
        for argument in stmt.arguments:
            if not isinstance(argument, ir.Access | ir.Const):
                yield argument
