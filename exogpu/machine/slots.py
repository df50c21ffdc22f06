"""A program at given sizes without slots: what their loops are once counting is done.

for k in loop(0, 7):                      for k in loop(0, 7):
    for s in slot(full) of 2:      ->         for s in loop(k mod 2, k mod 2 + 1):
        write tile[s]                             write tile[s]
    Arrive full                               Arrive full

The literal machine counts while it runs; the fast one skips iterations, and needs to know which
are alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from exogpu.amir.nodes import Alloc, Arrive, Block, Guard, Loop, Op, Program
from exogpu.amir.walk import operations
from exogpu.analysis import tally
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, Add, CExpr, Int, Mod, Point
from exogpu.ir.walk import evaluate


def resolved(program: Program, sizes: Mapping[Sym, int]) -> Program:
    """The program at these sizes without slots; itself if it has none.

    Operations other than loops and guards are the same objects.  Raises UncountedError.
    """
    if not any(isinstance(op, Loop) and op.slot is not None for op in operations(program.body)):
        return program
    counts = tally.counts([*_parts(program.body)], sizes)
    return replace(program, body=tuple(_without(op, counts) for op in program.body))


def _parts(block: Block) -> Iterator[tally.Part]:
    for op in block:
        match op:
            case Loop(slot=Access() as slot):
                index = tuple(evaluate(at, {}) for at in _indices(slot))
                yield tally.Place((slot.name, index))
                yield from _parts(op.body)  # One statement may read two slots.
            case Loop():
                yield tally.Repeated(op.iterator, op.lo, op.hi, [*_parts(op.body)])
            case Guard():
                yield tally.Guarded(op.condition, [*_parts(op.body)])
            case Alloc():
                yield tally.Fresh(op.name)
            case Arrive():
                yield tally.Arrival(op.home.name, tuple(_indices(op.home)))
            case _:
                pass


def _indices(access: Access) -> Iterator[CExpr]:
    for coord in access.coords:
        yield coord.at if isinstance(coord, Point) else coord.lo


def _without(op: Op, counts: Iterator[CExpr]) -> Op:
    match op:
        case Loop(slot=Access(), hi=Int(ring)):
            at = Mod(next(counts), ring)
            body = tuple(_without(inner, counts) for inner in op.body)
            return replace(op, lo=at, hi=Add(at, Int(1)), body=body, slot=None)
        case Loop() | Guard():
            return replace(op, body=tuple(_without(inner, counts) for inner in op.body))
        case _:
            return op
