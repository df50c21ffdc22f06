"""The walk of the AMIR: operations in the order of the program text, and where each stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from exogpu.amir.nodes import (
    Arrive,
    Await,
    Block,
    Check,
    CheckInitialised,
    Clear,
    Fence,
    Guard,
    IncTaskID,
    Initialise,
    Loop,
    Op,
    Record,
)
from exogpu.ir.nodes import Access

Path: TypeAlias = tuple[tuple[int, Op], ...]
"""From the outside in, what encloses an operation, and last the operation; each with its place in
its block."""


def operations(block: Block) -> Iterator[Op]:
    """Every operation of a block and of the blocks in it, in the order of the program text."""
    for op in block:
        yield op
        if isinstance(op, Loop | Guard):
            yield from operations(op.body)


def path_to(block: Block, wanted: Op) -> Path:
    """The path of an operation; empty where it is not in the block."""
    for place, op in enumerate(block):
        if op is wanted:
            return ((place, op),)
        if isinstance(op, Loop | Guard) and (inner := path_to(op.body, wanted)):
            return ((place, op), *inner)
    return ()


def loops_of(path: Path) -> tuple[Loop, ...]:
    """The loops of a path, outermost first."""
    return tuple(op for _, op in path if isinstance(op, Loop))


def begins_tasks(block: Block) -> bool:
    """Tests whether tasks begin in a block."""
    return any(isinstance(op, IncTaskID) for op in operations(block))


def is_task(loop: Loop) -> bool:
    """Tests whether each iteration of a loop begins with a task."""
    return bool(loop.body) and isinstance(loop.body[0], IncTaskID)


def is_launch(op: Op) -> bool:
    """Tests whether it is one of the Fences around a kernel, which no statement of the source
    writes, or the end of a launch that is waited for."""
    return isinstance(op, Fence | Arrive | Await) and op.launch


def rewritten(block: Block, changed: Mapping[Op, Block]) -> Block:
    """The block with other operations for some; loops and guards without any stay the same."""
    made: list[Op] = []
    for op in block:
        new = changed.get(op, (op,))
        if isinstance(op, Loop | Guard) and new == (op,):
            body = rewritten(op.body, changed)
            new = (op if body == op.body else replace(op, body=body),)
        made += new
    return tuple(made)


def only(block: Block, wanted: Callable[[Op], bool]) -> Block:
    """The block with the wanted operations alone, and what encloses them."""
    kept: list[Op] = []
    for op in block:
        if not isinstance(op, Loop | Guard):
            kept += (op,) if wanted(op) else ()
        elif body := only(op.body, wanted):
            kept.append(replace(op, body=body))
    return tuple(kept)


def accesses_of(op: Op) -> Iterator[Access]:
    """The accesses of an operation, barriers' among them; none of an allocation."""
    match op:
        case Loop(slot=Access() as slot):
            yield slot
        case Loop(source=Access() as source):
            yield source
        case Record():
            yield op.access
            if op.trailing is not None:
                yield op.trailing.home
                yield from op.trailing.targets
        case Check() | Clear() | Initialise() | CheckInitialised():
            yield op.access
        case Arrive():
            yield op.home
            yield from op.targets
        case Await():
            yield op.barrier
        case _:
            return
