"""Finds variables that are written as a whole before anything reads them.

Whether such a variable has been written need not be followed, element by element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations
from exogpu.ir.nodes import Access, CExpr, CVar, Interval, Point
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, evaluate


def written_first(
    block: amir.Block, program: amir.Program, sizes: Mapping[Sym, int]
) -> frozenset[Sym]:
    """The variables of which, after each Alloc, the first statement writes all elements and reads
    none."""
    shapes = {v.name: v.shape for v in program.variables}
    whole: dict[Sym, bool] = {}
    for inside in _blocks(block):
        for at, op in enumerate(inside):
            if isinstance(op, amir.Alloc):
                later = (other for other in inside[at + 1 :] if _mentions(other, op.name))
                first = next(later, None)
                whole[op.name] = whole.get(op.name, True) and (
                    first is not None and _writes_all(first, op.name, shapes[op.name], sizes)
                )
    return frozenset(name for name, every in whole.items() if every)


def _blocks(block: amir.Block) -> Iterator[amir.Block]:
    """Yields a block and all blocks in it."""
    yield block
    for op in block:
        if isinstance(op, amir.Loop | amir.Guard):
            yield from _blocks(op.body)


def _mentions(op: amir.Op, name: Sym) -> bool:
    return any(
        isinstance(each, amir.Initialise | amir.CheckInitialised | amir.Alloc)
        and (each.name if isinstance(each, amir.Alloc) else each.access.name) == name
        for each in operations((op,))
    )


def _writes_all(op: amir.Op, name: Sym, shape: tuple[CExpr, ...], sizes: Mapping[Sym, int]) -> bool:
    """Tests whether an operation, of loops alone, writes every element of a variable."""
    for each in operations((op,)):
        if isinstance(each, amir.CheckInitialised) and each.access.name == name:
            return False
        if isinstance(each, amir.Alloc) and each.name == name:
            return False
    ranges: dict[Sym, tuple[CExpr, CExpr]] = {}
    inside: tuple[amir.Op, ...] = (op,)
    while True:
        for each in inside:
            if isinstance(each, amir.Initialise) and each.access.name == name:
                return _covers(each.access, shape, ranges, sizes)
        around = [each for each in inside if _mentions(each, name)]
        if len(around) != 1 or not isinstance(around[0], amir.Loop):
            return False
        loop = around[0]
        if loop.slot is not None or loop.source is not None:
            return False
        ranges[loop.iterator] = (loop.lo, loop.hi)
        inside = loop.body


def _covers(
    access: Access,
    shape: tuple[CExpr, ...],
    ranges: Mapping[Sym, tuple[CExpr, CExpr]],
    sizes: Mapping[Sym, int],
) -> bool:
    """Tests whether an access has every element, in all iterations of the loops around it."""
    left = dict(ranges)
    for coord, extent in zip(access.coords, shape, strict=True):
        match coord:
            case Interval(lo, hi):
                ends = (lo, hi)
            case Point(CVar(name)) if name in left:
                ends = left.pop(name)
            case Point(at):
                ends = (at, at)
        if _value(ends[0], sizes) != 0 or _value(ends[1], sizes) != _value(extent, sizes):
            return False
    # A loop that the access does not read has an iteration.
    for lo, hi in left.values():
        first, end = _value(lo, sizes), _value(hi, sizes)
        if first is None or end is None or first >= end:
            return False
    return True


def _value(expr: CExpr, sizes: Mapping[Sym, int]) -> int | None:
    """The value of an expression of sizes; None if it reads an iterator."""
    return evaluate(expr, sizes) if control_variables(expr) <= sizes.keys() else None
