"""The procedures of a file of `tests/cases/slots`, and parts of them for clusters of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from exogpu.api import Procedure, collecting
from exogpu.cli.loader import load
from exogpu.ir.nodes import Block, CudaTasks, For, Int, Proc, Stmt
from exogpu.ir.walk import map_blocks

CASES = Path(__file__).parent.parent / "cases" / "slots"


def procedures(path: Path) -> dict[str, Procedure]:
    with collecting():
        units = load(str(path))
    found = {u.procedure.name: u.procedure for u in units if u.procedure is not None}
    assert found, units
    return found


def with_tasks(proc: Proc, change: Callable[[For], For]) -> Proc:
    """The procedure with its loop over tasks changed."""

    def one(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.mode == CudaTasks():
            return change(stmt)
        return map_blocks(stmt, block)

    def block(some: Block) -> Block:
        return tuple(one(stmt) for stmt in some)

    return replace(proc, body=block(proc.body))


def alone(proc: Proc, tasks: int) -> Iterator[Proc]:
    """Each task on a cluster of its own."""
    for at in range(tasks):
        yield with_tasks(proc, lambda loop, at=at: replace(loop, lo=Int(at), hi=Int(at + 1)))
