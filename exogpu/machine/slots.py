"""A program at given sizes without slots: what their loops are once counting is done.

for k in loop(0, 7):                      for k in loop(0, 7):
    for s in slot(full) of 2:      ->         for s in loop(k mod 2, k mod 2 + 1):
        write tile[s]                             write tile[s]
    Arrive full                               Arrive full

The literal machine counts while it runs; the fast one skips iterations, and needs to know which
are alike.  Where tasks count differently, as those that values from memory leave out, each task is
written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from exogpu.amir.nodes import Alloc, Arrive, Block, Guard, Loop, Op, Program
from exogpu.amir.walk import operations
from exogpu.analysis import tally
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, Add, CExpr, Int, Mod, Point
from exogpu.ir.walk import control_variables, evaluate, substitute, substitute_bool
from exogpu.machine.assigned import in_order, written_out


def resolved(program: Program, sizes: Mapping[Sym, int]) -> Program:
    """The program at these sizes without slots; itself if it has none.

    Operations other than loops and guards are the same objects.  Raises UncountedError.
    """
    if not any(isinstance(op, Loop) and op.slot is not None for op in operations(program.body)):
        return program
    try:
        return _counted(program, sizes)
    except tally.UncountedError:
        return _counted(written_out(program, sizes, in_order), sizes)


def _counted(program: Program, sizes: Mapping[Sym, int]) -> Program:
    counts = tally.counts([*_parts(program.body, sizes, {})], sizes)
    return replace(program, body=tuple(_without(op, counts) for op in program.body))


def _parts(
    block: Block, sizes: Mapping[Sym, int], known: Mapping[Sym, CExpr]
) -> Iterator[tally.Part]:
    """Yields the parts of a block that count; an iterator with one value, as one from memory, is
    replaced by it."""
    for op in block:
        match op:
            case Loop(slot=Access() as slot):
                index = tuple(evaluate(at, {}) for at in _indices(slot))
                yield tally.Place((slot.name, index))
                yield from _parts(op.body, sizes, known)  # One statement may read two slots.
            case Loop():
                lo, hi = substitute(op.lo, known), substitute(op.hi, known)
                only = _only(lo, hi, sizes)
                if only is not None:
                    yield from _parts(op.body, sizes, {**known, op.iterator: only})
                else:
                    yield tally.Repeated(op.iterator, lo, hi, [*_parts(op.body, sizes, known)])
            case Guard():
                condition = substitute_bool(op.condition, known)
                yield tally.Guarded(condition, [*_parts(op.body, sizes, known)])
            case Alloc():
                yield tally.Fresh(op.name)
            case Arrive():
                at = (substitute(e, known) for e in _indices(op.home))
                yield tally.Arrival(op.home.name, tuple(at))
            case _:
                pass


def _only(lo: CExpr, hi: CExpr, sizes: Mapping[Sym, int]) -> Int | None:
    """The one value of an iterator, if it has but one whatever the others are."""
    if not (control_variables(lo) | control_variables(hi)) <= sizes.keys():
        return None
    first = evaluate(lo, sizes)
    return Int(first) if evaluate(hi, sizes) == first + 1 else None


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
