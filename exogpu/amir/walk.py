"""The walk of the AMIR: operations in the order of the program text, and where each stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from exogpu.amir.nodes import Block, Guard, IncTaskID, Loop, Op

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
    """Whether tasks begin in a block."""
    return any(isinstance(op, IncTaskID) for op in operations(block))


def is_task(loop: Loop) -> bool:
    """Whether each iteration of a loop begins with a task."""
    return bool(loop.body) and isinstance(loop.body[0], IncTaskID)


def rewritten(block: Block, change: Callable[[Op], Block]) -> Block:
    """The block with what `change` makes of each operation in its place, from the inside out.

    A loop or a guard is asked with its new body; it is the same object where nothing in it is new.
    """
    made: list[Op] = []
    for op in block:
        if isinstance(op, Loop | Guard):
            body = rewritten(op.body, change)
            if len(body) != len(op.body) or any(map(_differs, body, op.body)):
                op = replace(op, body=body)
        made += change(op)
    return tuple(made)


def _differs(new: Op, old: Op) -> bool:
    return new is not old
