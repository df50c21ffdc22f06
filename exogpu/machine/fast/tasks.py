"""Counts the tasks that a program begins."""

from __future__ import annotations

from collections.abc import Mapping

from exogpu.amir.nodes import Block, Guard, IncTaskID, Loop
from exogpu.amir.walk import Path, begins_tasks
from exogpu.ir.names import Sym
from exogpu.ir.walk import control_variables, evaluate, holds


def tasks_before(path: Path, values: tuple[int, ...], body: Block, sigma: Mapping[Sym, int]) -> int:
    """Counts the tasks begun before an instance of the last operation of the path."""
    total, env, left = 0, dict(sigma), list(values)
    for place, op in path:
        total += count_tasks(body[:place], env)
        match op:
            case Loop():
                y = left.pop(0)
                lo = evaluate(op.lo, env)
                for earlier in range(lo, y) if begins_tasks(op.body) else ():
                    total += count_tasks(op.body, {**env, op.iterator: earlier})
                env[op.iterator] = y
                body = op.body
            case Guard():
                body = op.body
            case _:
                pass
    return total


def count_tasks(block: Block, sigma: Mapping[Sym, int]) -> int:
    """Counts the tasks that a block begins."""
    total = 0
    for op in block:
        if isinstance(op, IncTaskID):
            total += 1
        elif isinstance(op, Guard):
            total += count_tasks(op.body, sigma) if holds(op.condition, sigma) else 0
        elif isinstance(op, Loop) and begins_tasks(op.body):
            lo, hi = evaluate(op.lo, sigma), evaluate(op.hi, sigma)
            if _depends(op.body, op.iterator):
                total += sum(count_tasks(op.body, {**sigma, op.iterator: y}) for y in range(lo, hi))
            elif hi > lo:
                total += (hi - lo) * count_tasks(op.body, {**sigma, op.iterator: lo})
    return total


def _depends(block: Block, name: Sym) -> bool:
    """Tests whether the number of tasks that a block begins depends on an iterator."""
    for op in block:
        if isinstance(op, Guard) and begins_tasks(op.body):
            if name in control_variables(op.condition) or _depends(op.body, name):
                return True
        elif isinstance(op, Loop) and begins_tasks(op.body):
            here = control_variables(op.lo) | control_variables(op.hi)
            if name in here or _depends(op.body, name):
                return True
    return False
