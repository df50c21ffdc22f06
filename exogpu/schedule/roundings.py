"""Roundings as assignments of their own, for the comparison of results.

    y += tf32(a) * b   ->   near: f32
                            near = tf32(a)
                            y += near * b

A load may round what it copies, where the textbook rounds in the product: so both are one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.hw.memories import DRAM
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, Alloc, Apply, Assign, Block, DExpr, Proc, Read, Reduce, Stmt
from exogpu.ir.types import DataType
from exogpu.ir.walk import map_blocks
from exogpu.schedule.parts import children, with_children


def apart(proc: Proc) -> Proc:
    """The procedure with an assignment for each rounding that is only a part of a value; what it
    computes is the same."""
    body = _block(proc.body)
    return proc if body is proc.body else replace(proc, body=body)


def _block(block: Block) -> Block:
    found = tuple(new for stmt in block for new in _statements(stmt))
    same = len(found) == len(block) and all(a is b for a, b in zip(found, block, strict=True))
    return block if same else found


def _statements(stmt: Stmt) -> Iterator[Stmt]:
    if not isinstance(stmt, Assign | Reduce):
        yield map_blocks(stmt, _block)
        return
    before: list[Stmt] = []
    value = _named(stmt.value, before, whole=isinstance(stmt, Assign))
    yield from before
    yield replace(stmt, value=value) if before else stmt


def _named(expr: DExpr, before: list[Stmt], *, whole: bool = False) -> DExpr:
    """The expression with names for its roundings, but for itself if it is the `whole` value."""
    found = with_children(expr, [_named(child, before) for child in children(expr)])
    if whole or not isinstance(found, Apply) or found.function != "tf32":
        return found
    near = Access(Sym("near"), ())
    before.append(Alloc(near.name, DataType.F32, (), DRAM, span=found.span))
    before.append(Assign(near, found, span=found.span))
    return Read(near, found.span)
