"""Slots in registers: each thread that uses one counts the Arrives that it executes.

for s in slot(full) of 4:                 const int slot_full = full_slot;
    tile[s, t] = x[k, t]         ->       tile[32 * slot_full + t] = x[32 * k + t];
Arrive(cuda_in_order) >> full             ...
                                          full_slot = (full_slot + 1) & 3;

A ring of another extent starts again by comparison: no step divides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exogpu.analysis.thread_names import CollectiveFacts
from exogpu.analysis.threadmap import threads_of
from exogpu.analysis.tiling import iterations
from exogpu.codegen.access import Accesses
from exogpu.codegen.control_text import c_control, is_nonnegative
from exogpu.codegen.mbarriers import Ring
from exogpu.codegen.names import unsupported
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import walk


@dataclass(frozen=True, slots=True)
class SlotCounter:
    """The counter by which a thread counts the slots of a ring."""

    name: Sym
    barrier: Sym
    ring: int

    def declared(self, spelled: str) -> str:
        """Returns the declaration, for the place where the barrier is allocated."""
        return f"[[maybe_unused]] unsigned {spelled} = 0;"

    def advanced(self, spelled: str) -> str:
        """After an Arrive."""
        if self.ring & (self.ring - 1) == 0:
            return f"{spelled} = ({spelled} + 1) & {self.ring - 1};"
        return f"{spelled} = {spelled} == {self.ring - 1} ? 0 : {spelled} + 1;"

    def advanced_by(self, spelled: str, more: str) -> str:
        """After so many Arrives of others."""
        return f"{spelled} = ({spelled} + {more}) % {self.ring};"


Counters = Mapping[Sym, Mapping[int, SlotCounter]]
"""By barrier and ring."""


def slot_counters(
    launch: ir.DeviceFunction, facts: CollectiveFacts, rings: Mapping[Sym, Ring]
) -> Counters:
    """The counters of a kernel.

    Raises ExoGpuError (G814) for a slot of which some thread does not count every Arrive.
    """
    found: dict[Sym, dict[int, SlotCounter]] = {}
    counting = {s: _threads(s, facts) for s in walk(launch.body) if isinstance(s, ir.Arrive)}
    for name, loop in _slot_loops(launch):
        assert isinstance(loop.hi, ir.Int)
        missing = (
            arrive
            for arrive, threads in counting.items()
            if arrive.targets[0].name == name and not _threads(loop, facts) <= threads
        )
        # Where several roles arrive, all threads count.
        arrive = None if rings[name].arrivals_shared else next(missing, None)
        if arrive is not None:
            raise unsupported(
                f"slot({name}) of threads that do not count: some of these threads do not execute "
                f"the Arrive at line {arrive.span.line}",
                loop.span,
                f"use slots of a barrier on which all of these threads arrive, such as one that "
                f"is awaited where {name} is arrived on",
                "G814",
            )
        ring = loop.hi.value
        base = f"{name.name}_slot" if name not in found else f"{name.name}_slot{ring}"
        found.setdefault(name, {}).setdefault(ring, SlotCounter(Sym(base), name, ring))
    return found


def _slot_loops(launch: ir.DeviceFunction) -> Iterator[tuple[Sym, ir.For]]:
    for stmt in walk(launch.body):
        if isinstance(stmt, ir.For) and isinstance(stmt.mode, ir.Slot):
            yield stmt.mode.barrier, stmt


def _threads(stmt: ir.Stmt, facts: CollectiveFacts) -> frozenset[int]:
    """All threads of a cluster that execute a statement."""
    tiling = facts.scope[stmt]
    assert tiling is not None
    threads = tiling.thread_map()
    return frozenset(t for env in iterations(tiling) for t in threads_of(threads, env))


# Values from memory: each thread that executes a `load_index` loads the element, and looks
# whether it lies in its range.
#
# b = load_index(offsets[g], 0, M) -> const int b = checked_index(offsets[g], 0, M, 12);
#
# What lies outside ends the kernel: the rest of the block relies on the range, other threads wait
# for this one's arrivals, and no value in the range would keep what the proof has of this element
# and of the array's contract. `__trap` does so without a call: a function that is called, such as
# that of `assert`, makes ptxas wait for each wgmma by itself (C7510).


def load(access: Accesses, stmt: ir.For) -> str:
    """The declaration of the value, in the present scope of names."""
    assert isinstance(stmt.mode, ir.Loaded)
    control = access.control
    element = access.element(stmt.mode.source)
    lo, hi = c_control(stmt.lo, control), c_control(stmt.hi, control)
    control.iterate(stmt.iterator, stmt.lo, stmt.hi)
    if is_nonnegative(stmt.lo, control):
        control.nonnegative.add(stmt.iterator)
    name = access.names.declare(stmt.iterator)
    call = f"checked_index({element}, {lo}, {hi}, {stmt.span.line})"
    return f"[[maybe_unused]] const int {name} = {call};"


def loads_of(block: ir.Block) -> Iterator[ir.For]:
    """The loads of a block, in program order."""
    for stmt in walk(block):
        if isinstance(stmt, ir.For) and isinstance(stmt.mode, ir.Loaded):
            yield stmt
