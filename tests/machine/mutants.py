"""Mutants of abstract machine programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.amir.nodes import Arrive, Await, Block, Fence, Guard, Loop, Op, Program


def without_each_sync(program: Program) -> Iterator[Program]:
    """The program without one Fence, Arrive or Await, for each of them."""
    for op in syncs(program.body):
        yield replace(program, body=without(program.body, op))


def syncs(block: Block) -> Iterator[Op]:
    """Every Fence, Arrive and Await, in program order."""
    for op in block:
        match op:
            case Loop() | Guard():
                yield from syncs(op.body)
            case Fence() | Arrive() | Await():
                yield op
            case _:
                pass


def without(block: Block, gone: Op) -> Block:
    """The block without one operation."""
    kept: list[Op] = []
    for op in block:
        if isinstance(op, Loop | Guard):
            kept.append(replace(op, body=without(op.body, gone)))
        elif op is not gone:
            kept.append(op)
    return tuple(kept)
