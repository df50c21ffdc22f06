"""Decides whether a program needs its synchronisation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from exogpu.amir import nodes as amir
from exogpu.analysis.threadmap import threads_of
from exogpu.ir.types import Sym
from exogpu.machine import literal
from tests.symbolic.agreement import Sizes


def needs_syncs(program: amir.Program, sizes: Sizes) -> bool:
    """Tests whether, without its Fences, Arrives and Awaits, some access of a program violates
    against an access by other threads: then a chain orders the two."""
    bare = replace(program, body=tuple(without_syncs(program.body)))
    loops = dict(enclosing(bare.body, ()))
    return any(
        v.record is not None
        and not isinstance(v.check, amir.CheckBarrier)
        and threads(loops, v.check, v.iteration)
        != threads(loops, v.record, v.record_iteration or ())
        for v in literal.run(bare, sizes, collect=True)
    )


def without_syncs(block: amir.Block) -> Iterator[amir.Op]:
    for op in block:
        if isinstance(op, amir.Loop | amir.Guard):
            yield replace(op, body=tuple(without_syncs(op.body)))
        elif isinstance(op, amir.Record) and op.trailing is not None:
            yield replace(op, trailing=None)
        elif not isinstance(op, amir.Fence | amir.Arrive | amir.Await | amir.CheckBarrier):
            yield op


def enclosing(
    block: amir.Block, iterators: tuple[Sym, ...]
) -> Iterator[tuple[amir.Op, tuple[Sym, ...]]]:
    for op in block:
        yield op, iterators
        if isinstance(op, amir.Loop):
            yield from enclosing(op.body, (*iterators, op.iterator))
        elif isinstance(op, amir.Guard):
            yield from enclosing(op.body, iterators)


def threads(
    loops: dict[amir.Op, tuple[Sym, ...]], op: amir.Op, iteration: Iterable[tuple[str, int]]
) -> tuple[int, ...]:
    if op.origin.threads is None:
        return ()
    values = (value for _, value in iteration)
    return threads_of(op.origin.threads, dict(zip(loops[op], values, strict=True)))
