"""A procedure at given sizes without slots: their iterators are expressions of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from exogpu.analysis import tally
from exogpu.analysis.barriers import first_home
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Add,
    Arrive,
    BarrierAlloc,
    Block,
    CExpr,
    DeviceFunction,
    For,
    If,
    Int,
    Mod,
    Not,
    Point,
    Proc,
    Seq,
    Slot,
    Stmt,
    Warps,
)
from exogpu.ir.walk import map_blocks, substitute, substitute_bool, walk
from exogpu.result.errors import Diagnostic, ExoGpuError


def resolved(proc: Proc, sizes: Mapping[Sym, int]) -> Proc:
    """The procedure at these sizes without slots; itself if it has none.

    Raises ExoGpuError (X931) where a slot is no expression of the iterators.
    """
    slots = [s for s in walk(proc.body) if isinstance(s, For) and isinstance(s.mode, Slot)]
    if not slots:
        return proc
    barriers = {s.name: len(s.shape) for s in walk(proc.body) if isinstance(s, BarrierAlloc)}
    try:
        counts = tally.counts([*_parts(proc.body, barriers, {})], sizes)
    except tally.UncountedError:
        message = "how many Arrives come before this slot depends on the iteration"
        remedy = "p.check_at(...) runs it; p.run does not"
        raise ExoGpuError([Diagnostic("X931", message, slots[0].span, remedy)]) from None
    return replace(proc, body=_without(proc.body, counts))


def _parts(
    block: Block, barriers: Mapping[Sym, int], known: Mapping[Sym, CExpr]
) -> Iterator[tally.Part]:
    """Yields the parts of a block that count; an iterator with one value, as one from memory, is
    replaced by it."""
    for stmt in block:
        match stmt:
            case For(mode=Slot(barrier)):
                yield tally.Place((barrier, (0,) * barriers[barrier]))
                # One statement may read two slots.
                yield from _parts(stmt.body, barriers, known)
            case For(lo=Int(only), hi=Int(end)) if end == only + 1:
                yield from _parts(stmt.body, barriers, {**known, stmt.iterator: Int(only)})
            case For():
                lo, hi = substitute(stmt.lo, known), substitute(stmt.hi, known)
                body = [*_parts(stmt.body, barriers, known)]
                yield tally.Repeated(stmt.iterator, lo, hi, body)
            case If():
                condition = substitute_bool(stmt.condition, known)
                yield tally.Guarded(condition, [*_parts(stmt.body, barriers, known)])
                yield tally.Guarded(Not(condition), [*_parts(stmt.orelse, barriers, known)])
            case DeviceFunction() | Warps():
                yield from _parts(stmt.body, barriers, known)
            case BarrierAlloc():
                yield tally.Fresh(stmt.name)
            case Arrive():
                home = first_home(stmt.targets)
                at = (c.at if isinstance(c, Point) else c.lo for c in home.coords)
                yield tally.Arrival(home.name, tuple(substitute(e, known) for e in at))
            case _:
                pass


def _without(block: Block, counts: Iterator[CExpr]) -> Block:
    def one(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and isinstance(stmt.mode, Slot) and isinstance(stmt.hi, Int):
            at = Mod(next(counts), stmt.hi.value)
            body = _without(stmt.body, counts)
            return replace(stmt, lo=at, hi=Add(at, Int(1)), body=body, mode=Seq())
        return map_blocks(stmt, lambda inner: _without(inner, counts))

    return tuple(one(stmt) for stmt in block)
