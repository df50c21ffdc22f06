"""Mutants of abstract machine programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.amir.nodes import Arrive, Await, Fence, Program
from exogpu.amir.walk import operations, rewritten


def without_each_sync(program: Program) -> Iterator[Program]:
    """The program without one Fence, Arrive or Await, for each of them."""
    for op in operations(program.body):
        if isinstance(op, Fence | Arrive | Await):
            yield replace(program, body=rewritten(program.body, {op: ()}))
