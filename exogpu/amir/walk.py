"""The walk of the AMIR: operations in the order of the program text, and where each stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from exogpu.amir import nodes as amir
from exogpu.hw.access_names import CALLED, access_words
from exogpu.hw.timelines import SHORT_NAME
from exogpu.ir.nodes import Access
from exogpu.ir.types import QualSet

Path: TypeAlias = tuple[tuple[int, amir.Op], ...]
"""From the outside in, what encloses an operation, and last the operation; each with its place in
its block."""


def operations(block: amir.Block) -> Iterator[amir.Op]:
    """Every operation of a block and of the blocks in it, in the order of the program text."""
    for op in block:
        yield op
        if isinstance(op, amir.Loop | amir.Guard):
            yield from operations(op.body)


def paths(block: amir.Block, around: Path = ()) -> Iterator[Path]:
    """The path of every operation, in the order of the program text."""
    for place, op in enumerate(block):
        path = (*around, (place, op))
        yield path
        if isinstance(op, amir.Loop | amir.Guard):
            yield from paths(op.body, path)


def path_to(block: amir.Block, wanted: amir.Op) -> Path:
    """The path of an operation; empty where it is not in the block."""
    for place, op in enumerate(block):
        if op is wanted:
            return ((place, op),)
        if isinstance(op, amir.Loop | amir.Guard) and (inner := path_to(op.body, wanted)):
            return ((place, op), *inner)
    return ()


def loops_of(path: Path) -> tuple[amir.Loop, ...]:
    """The loops of a path, outermost first."""
    return tuple(op for _, op in path if isinstance(op, amir.Loop))


def begins_tasks(block: amir.Block) -> bool:
    """Tests whether tasks begin in a block."""
    return any(isinstance(op, amir.IncTaskID) for op in operations(block))


def is_task(loop: amir.Loop) -> bool:
    """Tests whether each iteration of a loop begins with a task."""
    return bool(loop.body) and isinstance(loop.body[0], amir.IncTaskID)


def is_launch(op: amir.Op) -> bool:
    """Tests whether it is one of the Fences around a kernel, which no statement of the source
    writes, or the end of a launch that is waited for."""
    return isinstance(op, amir.Fence | amir.Arrive | amir.Await) and op.launch


def rewritten(block: amir.Block, changed: Mapping[amir.Op, amir.Block]) -> amir.Block:
    """The block with other operations for some; loops and guards without any stay the same."""
    made: list[amir.Op] = []
    for op in block:
        new = changed.get(op, (op,))
        if isinstance(op, amir.Loop | amir.Guard) and new == (op,):
            body = rewritten(op.body, changed)
            new = (op if body == op.body else replace(op, body=body),)
        made += new
    return tuple(made)


def select_operations(block: amir.Block, wanted: Callable[[amir.Op], bool]) -> amir.Block:
    """The block with the wanted operations alone, and what encloses them."""
    kept: list[amir.Op] = []
    for op in block:
        if not isinstance(op, amir.Loop | amir.Guard):
            kept += (op,) if wanted(op) else ()
        elif body := select_operations(op.body, wanted):
            kept.append(replace(op, body=body))
    return tuple(kept)


def accesses_of(op: amir.Op) -> Iterator[Access]:
    """The accesses of an operation, barriers' among them; none of an allocation."""
    match op:
        case amir.Loop(slot=Access() as slot):
            yield slot
        case amir.Loop(source=Access() as source):
            yield source
        case amir.Record():
            yield op.access
            if op.trailing is not None:
                yield op.trailing.home
                yield from op.trailing.targets
        case amir.Check() | amir.Clear() | amir.Initialise() | amir.CheckInitialised():
            yield op.access
        case amir.Arrive():
            yield op.home
            yield from op.targets
        case amir.Await():
            yield op.barrier
        case _:
            return


# Names an access that an operation records or checks, for a reader.


def timelines_of(op: amir.Op) -> QualSet:
    """The timelines that a record is made on, or a check asks for."""
    match op:
        case amir.Record() if op.timeline is not None:
            return frozenset({op.timeline})
        case amir.Check():
            return op.timelines
        case _:
            return frozenset()


def short_names(op: amir.Op) -> str:
    """`cuda2`; empty of what is no access."""
    return ", ".join(name for tl, name in SHORT_NAME.items() if tl in timelines_of(op))


def access_name(op: amir.Op, variables: Iterable[amir.Variable]) -> str:
    """`TMA load into shared memory`; empty where memory is freed, and of an access
    of a barrier."""
    if not isinstance(op, amir.Record | amir.Check) or (isinstance(op, amir.Check) and op.free):
        return ""
    variable = next((v for v in variables if v.name is op.access.name), None)
    if variable is not None and variable.mechanism is not None:
        return ""
    shared = None if variable is None else variable.shared
    first = next((tl for tl in CALLED if tl in timelines_of(op)), None)
    return "" if first is None else access_words(first, shared)


def synchronises(op: amir.Op, variables: Iterable[amir.Variable]) -> str:
    """`Arrive` or `Await` where the record is that of the statement's barrier; empty of others."""
    if not isinstance(op, amir.Record) or op.timeline is None:
        return ""
    variable = next((v for v in variables if v.name is op.access.name), None)
    if variable is None or variable.mechanism is None:
        return ""
    word = op.origin.text.partition("(")[0]
    return word if word in ("Arrive", "Await") else ""
