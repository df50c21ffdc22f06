"""What a thread does where others arrive on a barrier that takes turns, or await it: it counts.

The threads that execute a statement count by themselves; here are the loops and conditions around
such statements for the others, with nothing in them but the counting.
"""

from __future__ import annotations

from dataclasses import dataclass

from exogpu.analysis.executors import CollectiveFacts
from exogpu.codegen.barriers import Barriers, advanced
from exogpu.codegen.errors import InternalError
from exogpu.codegen.expressions import c_condition, c_control
from exogpu.codegen.lines import Lines, braces
from exogpu.codegen.names import CTA
from exogpu.codegen.threads import inverse_of_loop
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Arrive, Await, BarrierAlloc, Block, CudaThreads, For, If, Stmt, Warps
from exogpu.ir.walk import control_variables, walk


@dataclass(frozen=True, slots=True)
class _Counting:
    facts: CollectiveFacts
    barriers: Barriers
    counted: frozenset[Sym]
    """The barrier variables."""


def counted(facts: CollectiveFacts, barriers: Barriers, block: Block) -> Lines:
    """The counting of a block that this thread does not execute; nothing without variables that
    take turns, or for those that are allocated in the block."""
    taking = {name for name, ring in barriers.rings.items() if ring.in_turn}
    taking -= {stmt.name for stmt in walk(block) if isinstance(stmt, BarrierAlloc)}
    return _block(_Counting(facts, barriers, frozenset(taking)), block) if taking else []


def _counts(counting: _Counting, block: Block) -> bool:
    """Whether there is anything to count."""
    for stmt in walk(block):
        match stmt:
            case Arrive() if stmt.targets[0].name in counting.counted:
                return True
            case Await() if stmt.barrier.name in counting.counted:
                return True
            case _:
                pass
    return False


def _block(counting: _Counting, block: Block) -> Lines:
    with counting.barriers.names.scope():
        return [line for stmt in block for line in _statement(counting, stmt)]


def _statement(counting: _Counting, stmt: Stmt) -> Lines:
    barriers = counting.barriers
    match stmt:
        case Arrive() if stmt.targets[0].name in counting.counted:
            name = stmt.targets[0].name
            arrived = barriers.counters[name].arrived
            return [advanced(barriers.rings[name], barriers.names(arrived))]
        case Await() if stmt.barrier.name in counting.counted:
            name = stmt.barrier.name
            awaited = barriers.counters[name].awaited
            return [advanced(barriers.rings[name], barriers.names(awaited))]
        case For(mode=CudaThreads()):
            return _thread_loop(counting, stmt)
        case For():
            return _loop(counting, stmt)
        case If():
            return _conditional(counting, stmt)
        case Warps():
            return _block(counting, stmt.body)
        case _:
            return []


def _loop(counting: _Counting, stmt: For) -> Lines:
    control, names = counting.barriers.control, counting.barriers.names
    first, end = c_control(stmt.lo, control), c_control(stmt.hi, control)
    with names.scope():
        name = names.declare(stmt.iterator)
        inside = _block(counting, stmt.body)
    return braces(f"for (int {name} = {first}; {name} < {end}; ++{name})", inside) if inside else []


def _thread_loop(counting: _Counting, stmt: For) -> Lines:
    """A loop over CTAs is for those that it goes over; others, around what takes turns, have one
    iteration, which everybody counts."""
    if not _counts(counting, stmt.body):
        return []
    control, names = counting.barriers.control, counting.barriers.names
    parent, child = counting.facts.scope[stmt], counting.facts.inner[stmt]
    assert parent is not None
    inverse = inverse_of_loop(stmt, parent, child)
    read = control_variables(inverse.value) | control_variables(inverse.condition)
    with names.scope():
        name = names.declare(stmt.iterator)
        if CTA in read:
            value = c_control(inverse.value, control)
            inside = _block(counting, stmt.body)
            condition = c_condition(inverse.condition, control)
            head = f"if ([[maybe_unused]] const int {name} = {value}; {condition})"
            return braces(head, inside) if inside else []
        (only,) = [r for r in child.ranges if r.iterator == stmt.iterator]
        if only.count != 1:
            raise InternalError(f"{only.count} iterations over {stmt.iterator} count as one")
        control.constants[stmt.iterator] = only.lo
        return _block(counting, stmt.body)


def _conditional(counting: _Counting, stmt: If) -> Lines:
    body, orelse = _block(counting, stmt.body), _block(counting, stmt.orelse)
    if not body and not orelse:
        return []
    lines = braces(f"if ({c_condition(stmt.condition, counting.barriers.control)})", body)
    if orelse:
        lines[-1:] = braces("} else", orelse)
    return lines
