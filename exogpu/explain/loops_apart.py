"""Roles that have a loop each, one after the other, as the branches of a CUDA kernel have."""

from __future__ import annotations

from collections.abc import Sequence

from exogpu.amir.nodes import Arrive, Await, Loop, Program
from exogpu.amir.walk import operations, path_to


def loops_apart(
    program: Program | None, wait: Await, arrives: Sequence[Arrive]
) -> tuple[Loop, Loop] | None:
    """The loop of an Await and that of the first Arrive which it waits for, if the one is over, in
    program order, before that of any of the Arrives begins."""
    if program is None:
        return None
    order = {op: at for at, op in enumerate(operations(program.body))}
    found = [
        _separate_loops(program, wait, op)
        for op in sorted(arrives, key=lambda op: order.get(op, -1))
    ]
    if not found or None in found or any(order.get(op, -1) < order[wait] for op in arrives):
        return None
    return found[0]


def advice_of(loops: tuple[Loop, Loop]) -> str:
    """Returns advice on what to write instead."""
    first, second = (loop.origin.span.line for loop in loops)
    return (
        f"a kernel is read in sequence, and the loop at line {first} is over before that at line "
        f"{second} begins: write one loop with the steps of both roles, each in its own `with "
        "CudaWarps(...)`"
    )


def _separate_loops(program: Program, wait: Await, arrive: Arrive) -> tuple[Loop, Loop] | None:
    mine, theirs = (list(path_to(program.body, op)) for op in (wait, arrive))
    while mine and theirs and mine[0][1] is theirs[0][1]:
        mine, theirs = mine[1:], theirs[1:]
    first, second = (
        next((o for _, o in rest if isinstance(o, Loop) and not o.threads), None)
        for rest in (mine, theirs)
    )
    return None if first is None or second is None else (first, second)
