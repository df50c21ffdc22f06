"""Emits the counting of threads for Arrives and Awaits that other roles execute on a shared
barrier.

The threads that execute a statement count by themselves; here are the loops and conditions around
such statements for the others, with nothing in them but the counting.  All of them pass the places
of all in the program's order, so all have the number of what comes next.

for k in seq(0, n):
    with CudaWarps(name="other"):        ->   full_awaited = (full_awaited + n) % 10;
        Await(full, cuda_temporal, ~0)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from exogpu.analysis.thread_names import CollectiveFacts
from exogpu.codegen.access import Accesses
from exogpu.codegen.control_text import c_atom, c_condition, c_control, is_nonnegative, simplify
from exogpu.codegen.index_registers import load
from exogpu.codegen.mbarriers import Ring
from exogpu.codegen.names import CTA, InternalError, Lines, braces
from exogpu.codegen.split_barriers import Barriers, count_arrivals, count_awaits
from exogpu.codegen.threads import inverse_of_loop
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, walk


@dataclass(frozen=True, slots=True)
class Shared:
    """The barrier variables that a path counts for others, too."""

    arrivals: frozenset[Sym]
    awaits: frozenset[Sym]


_Use: TypeAlias = tuple[Sym, bool]
"""A barrier variable, and whether its Arrives are counted, not its Awaits."""


@dataclass(frozen=True, slots=True)
class _Counting:
    access: Accesses
    facts: CollectiveFacts
    barriers: Barriers
    shared: Shared


def shared_by(
    launch: ir.DeviceFunction, facts: CollectiveFacts, rings: Mapping[Sym, Ring], group: str | None
) -> Shared:
    """Returns the statements that a warp group's path counts for others, on variables that several
    roles share: Arrives if it needs their number, Awaits if it awaits. All threads where `group` is
    None."""
    arrivals, awaits = set(), set()
    for stmt in walk(launch.body):
        tiling = facts.scope.get(stmt)
        if tiling is None or (group is not None and tiling.group != group):
            continue
        match stmt:
            case ir.Arrive():
                arrivals.add(stmt.targets[0].name)
            case ir.CallInstr() if stmt.trailing is not None:
                arrivals.add(stmt.trailing.name)
            case ir.For(mode=ir.Slot(barrier)):
                arrivals.add(barrier)
            case ir.Await():
                awaits.add(stmt.barrier.name)
            case _:
                pass
    return Shared(
        frozenset(n for n in arrivals if n in rings and rings[n].arrivals_shared),
        frozenset(n for n in awaits if n in rings and rings[n].awaits_shared),
    )


def count_block(
    access: Accesses, facts: CollectiveFacts, barriers: Barriers, shared: Shared, block: ir.Block
) -> Lines:
    """The counting of a block that this thread does not execute; nothing for variables that are
    allocated in the block."""
    inside = {stmt.name for stmt in walk(block) if isinstance(stmt, ir.BarrierAlloc)}
    outside = Shared(shared.arrivals - inside, shared.awaits - inside)
    if not outside.arrivals and not outside.awaits:
        return []
    return _block(_Counting(access, facts, barriers, outside), block)


def _block(counting: _Counting, block: ir.Block) -> Lines:
    with counting.barriers.names.scope():
        return [line for stmt in block for line in _statement(counting, stmt)]


def _statement(counting: _Counting, stmt: ir.Stmt) -> Lines:
    if (use := _use(counting, stmt)) is not None:
        return _count_use(counting, use, "1")
    match stmt:
        case ir.For(mode=ir.CudaThreads()):
            return _thread_loop(counting, stmt)
        case ir.For(mode=ir.Loaded()):
            return _count_loaded_loop(counting, stmt)
        case ir.For():
            return _loop(counting, stmt)
        case ir.If():
            return _conditional(counting, stmt)
        case ir.Warps():
            return _block(counting, stmt.body)
        case _:
            return []


def _use(counting: _Counting, stmt: ir.Stmt) -> _Use | None:
    """Returns the barrier and kind that a statement by itself counts as; None for others."""
    match stmt:
        case ir.Arrive() if (name := stmt.targets[0].name) in counting.shared.arrivals:
            return name, True
        case ir.Await() if (name := stmt.barrier.name) in counting.shared.awaits:
            return name, False
        case _:
            return None


def _count_use(counting: _Counting, use: _Use, more: str) -> Lines:
    name, arrives = use
    return (count_arrivals if arrives else count_awaits)(counting.barriers, name, more)


def _loop(counting: _Counting, stmt: ir.For) -> Lines:
    """A loop; where each iteration counts alike, all of them at once."""
    control, names = counting.barriers.control, counting.barriers.names
    first, end = c_control(stmt.lo, control), c_control(stmt.hi, control)
    alike = _uses_of_each(counting, stmt.body)
    if alike:
        count = simplify(ir.Sub(stmt.hi, stmt.lo), control.constants)
        trips = c_atom(count, control)
        if not is_nonnegative(count, control):
            trips = f"({first} < {end} ? {trips} : 0)"
        return [
            line
            for use, times in alike.items()
            for _ in range(times)  # one after the other: all together may not fit 32 bits
            for line in _count_use(counting, use, f"unsigned({trips})")
        ]
    with names.scope():
        name = names.declare(stmt.iterator)
        inside = _block(counting, stmt.body)
    return braces(f"for (int {name} = {first}; {name} < {end}; ++{name})", inside) if inside else []


def _count_loaded_loop(counting: _Counting, stmt: ir.For) -> Lines:
    """Emits counting that may depend on a loaded value, which these threads load, too."""
    with counting.barriers.names.scope():
        bound = load(counting.access, stmt)
        inside = _block(counting, stmt.body)
    return braces("", [bound, *inside]) if inside else []


def _uses_of_each(counting: _Counting, block: ir.Block) -> Counter[_Use] | None:
    """Counts the uses in each execution of a block; None if executions may differ."""
    found: Counter[_Use] = Counter()
    for stmt in block:
        if (use := _use(counting, stmt)) is not None:
            found[use] += 1
        elif isinstance(stmt, ir.Warps):
            inside = _uses_of_each(counting, stmt.body)
            if inside is None:
                return None
            found += inside
        elif any(_use(counting, inner) is not None for inner in walk((stmt,))):
            return None
    return found


def _thread_loop(counting: _Counting, stmt: ir.For) -> Lines:
    """A loop over CTAs is for those that it goes over; others, around what is shared, have one
    iteration, which everybody counts."""
    if all(_use(counting, inner) is None for inner in walk(stmt.body)):
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


def _conditional(counting: _Counting, stmt: ir.If) -> Lines:
    body, orelse = _block(counting, stmt.body), _block(counting, stmt.orelse)
    if not body and not orelse:
        return []
    lines = braces(f"if ({c_condition(stmt.condition, counting.barriers.control)})", body)
    if orelse:
        lines[-1:] = braces("} else", orelse)
    return lines
