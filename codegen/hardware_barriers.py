"""The named barriers of a CTA, 1 to 15: for Fences of some of its warps, and as split barriers.

Fences take them from 1 on, as they come; split barriers are known before, and have the last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, assert_never

from exogpu.analysis.divergence import Mechanisms
from exogpu.analysis.facts import Facts
from exogpu.analysis.named_barriers import threads_of_phases
from exogpu.analysis.ownership import Declared, distributed_dims
from exogpu.analysis.thread_names import CollectiveFacts
from exogpu.analysis.tiling import Tiling, block_axes
from exogpu.codegen.arrival_rows import Scope
from exogpu.codegen.control_text import plus
from exogpu.codegen.mbarriers import divides, whole_warps
from exogpu.codegen.names import InternalError, unsupported
from exogpu.codegen.sync import scope_of
from exogpu.codegen.threads import first_thread, parts_of
from exogpu.ir import nodes as ir
from exogpu.ir import walk as ir_walk
from exogpu.ir.affine import constant, difference
from exogpu.ir.types import BarrierMechanism, Sym

LAST: Final = 15
"""Barrier 0 is the CTA's own (PTX ISA, barrier.cta: 16 barriers a CTA)."""


@dataclass(frozen=True, slots=True)
class Named:
    """The number of a named barrier, as a function of thread iterators, and its threads."""

    number: ir.CExpr
    threads: int


@dataclass(slots=True)
class NamedBarriers:
    """Numbers of named barriers for a kernel's Fences: two Fences share one only if their threads
    are the same."""

    last: int = LAST
    _taken: dict[tuple[tuple[int, ...], ...], int] = field(default_factory=dict)

    def barrier_of(self, tiling: Tiling) -> Named | None:
        """The barrier of a scope of whole warps; None where it is none, or none is free."""
        if not whole_warps(tiling):
            return None
        parts = parts_of(tiling)
        base = self._taken.get(parts.sets)
        if base is None:
            base = 1 + sum(len(sets) for sets in self._taken)
            if base + len(parts.sets) - 1 > self.last:
                return None
            self._taken[parts.sets] = base
        return Named(plus(parts.index, ir.Int(base)), len(parts.sets[0]))


@dataclass(frozen=True, slots=True)
class Split:
    """A variable of named barriers: its first number in a CTA, and what a phase has."""

    first: int
    kept: tuple[int, ...]
    """The dimensions that a CTA indexes."""
    extents: tuple[int, ...]
    threads: Mapping[ir.Stmt, int]
    """By statement, those of a phase: all that arrive and all that wait."""

    def number(self, access: ir.Access) -> ir.CExpr:
        """The number of an element's barrier."""
        index: ir.CExpr = ir.Int(0)
        for d, extent in zip(self.kept, self.extents, strict=True):
            coord = access.coords[d]
            assert isinstance(coord, ir.Point), "refused by check_named"
            index = plus(ir.Mul(extent, index) if index != ir.Int(0) else index, coord.at)
        return plus(index, ir.Int(self.first))


def split_barriers(launch: ir.DeviceFunction, facts: Facts) -> Mapping[Sym, Split]:
    """The variables of a launch that are named barriers.

    Raises ExoGpuError (G815) where a CTA has no such number of them.
    """
    here = {s.name for s in ir_walk.walk(launch.body) if isinstance(s, ir.BarrierAlloc)}
    found: dict[Sym, Split] = {}
    free = LAST + 1
    for declared in facts.variables:
        alloc = declared.declaration
        if not isinstance(alloc, ir.BarrierAlloc) or alloc.name not in here or not declared.uses:
            continue
        if alloc.mechanism is not BarrierMechanism.NAMED_BARRIER:
            continue
        kept = _dimensions_in_cta(declared)
        extents = tuple(constant(alloc.shape[d]) or 0 for d in kept)
        free -= math.prod(extents)
        if free < 1:
            raise unsupported(
                f"{alloc.name} and the variables before it are more than the {LAST} named "
                "barriers that there are",
                alloc.span,
                "use mbarriers for some",
                "G815",
            )
        found[alloc.name] = Split(free, kept, extents, _threads(declared))
    return found


def _dimensions_in_cta(declared: Declared) -> tuple[int, ...]:
    tiling, dims = declared.where.tiling, range(len(declared.declaration.shape))
    if tiling.cluster_dim == 1:
        return tuple(dims)
    of_ctas = distributed_dims(declared, declared.uses, tiling.block_dim)
    return tuple(d for d in dims if d not in of_ctas)


def _threads(declared: Declared) -> Mapping[ir.Stmt, int]:
    found: dict[ir.Stmt, int] = {}
    for stmt, numbers in threads_of_phases(declared).items():
        if len(numbers) != 1:
            name = declared.declaration.name
            what = "no Arrive or no Await meets this"
            if numbers:
                what = f"the phases of elements of {name} differ in their threads here"
            raise unsupported(what, stmt.span, "let each element have its own statements", "G807")
        (found[stmt],) = numbers
    return found


def adjacent_lanes(tiling: Tiling) -> int | None:
    """Returns the number of lanes in a scope of adjacent ones that starts at a multiple of it."""
    axes = block_axes(tiling)
    if len(axes) != 1:
        return None
    (axis,) = axes
    aligned = axis.pitch == 1 and 32 % axis.extent == 0 and divides(axis.extent, axis.offset)
    return axis.extent if aligned else None


@dataclass(frozen=True, slots=True)
class Lanes:
    """Some lanes of one warp: `pattern`, a mask with lane 0, from lane `first` on."""

    pattern: int
    first: ir.CExpr


def lanes_of(tiling: Tiling) -> Lanes:
    """The lanes that execute a scope within one warp, wherever in it they are.

    Raises InternalError where they are in several warps, which collective analysis refuses.
    """
    parts = parts_of(tiling)
    pattern = sum(1 << t - parts.sets[0][0] for t in parts.sets[0])
    first = first_thread(tiling)
    if max(parts.firsts) >= 32:
        first = ir.Mod(first, 32)
    for at, threads in zip(parts.firsts, parts.sets, strict=True):
        mask = sum(1 << t % 32 for t in threads)
        if len({t // 32 for t in threads}) != 1 or mask != pattern << at % 32:
            raise InternalError(f"threads {threads} are not lanes {pattern:#x} of a warp from {at}")
    return Lanes(pattern, first)


# The cluster has one hardware barrier: Arrives, Awaits and Fences of it must take turns.
#
# A thread that arrives twice without waiting, or waits without having arrived, has undefined
# behaviour (PTX ISA, barrier.cluster). The language allows both, so they are refused here; a
# Fence between an Arrive and its Await does the waiting, and the Await has nothing left to wait
# for.


class _Turn(Enum):
    """The last action of a cluster's threads on its barrier."""

    NONE = auto()
    """No arrival is pending."""
    ARRIVED = auto()
    """They have arrived, and not waited."""
    FENCED = auto()
    """They have arrived, and waited at a Fence; their Await is still to come."""


States = frozenset[_Turn]
"""The states of some execution."""


@dataclass(frozen=True, slots=True)
class Turns:
    """The work that Fences of a cluster take over from Awaits."""

    waiting: frozenset[ir.Fence]
    """The Fences that first wait for a pending arrival."""
    over: frozenset[ir.Await]
    """The Awaits of what such a Fence has waited for."""


@dataclass(slots=True)
class _Walk:
    facts: CollectiveFacts
    known: Mechanisms
    seen: dict[ir.Fence | ir.Await, States] = field(default_factory=dict)
    """The states in which each is reached."""

    def block(self, block: ir.Block, states: States) -> States:
        for stmt in block:
            states = self.statement(stmt, states)
        return states

    def statement(self, stmt: ir.Stmt, states: States) -> States:
        match stmt:
            case ir.For():
                return self.loop(stmt, states)
            case ir.If():
                return self.block(stmt.body, states) | self.block(stmt.orelse, states)
            case ir.Warps():
                return self.block(stmt.body, states)
            case ir.Arrive() if self.is_sync(stmt.targets[0].name):
                if states != {_Turn.NONE}:
                    raise _refusal("an Arrive of the cluster may follow another one", stmt)
                return frozenset({_Turn.ARRIVED})
            case ir.Await() if self.is_sync(stmt.barrier.name):
                if _Turn.NONE in states or stmt.n != 0:
                    raise _refusal("an Await of the cluster may have no Arrive to wait for", stmt)
                self.check_states(stmt, states)
                return frozenset({_Turn.NONE})
            case ir.Fence() if self.is_of_cluster(stmt):
                self.check_states(stmt, states)
                return frozenset(map(_after_fence, states))
            case _:
                return states

    def loop(self, stmt: ir.For, states: States) -> States:
        """A loop of a known number of iterations, or of any; each cluster has some of the tasks,
        each thread one iteration of a thread loop; a value is bound once."""
        if isinstance(stmt.mode, ir.Slot | ir.Loaded):
            return self.block(stmt.body, states)
        count = difference(stmt.hi, stmt.lo)
        if count is None or isinstance(stmt.mode, ir.CudaTasks):
            once = states | self.block(stmt.body, states)
            return once | self.block(stmt.body, once)
        most = 1 if isinstance(stmt.mode, ir.CudaThreads) else 3  # more change nothing any more
        for _ in range(min(count, most)):
            states = self.block(stmt.body, states)
        return states

    def is_sync(self, name: Sym) -> bool:
        return self.known.barriers[name] is BarrierMechanism.CLUSTER_SYNC

    def is_of_cluster(self, stmt: ir.Fence) -> bool:
        tiling = self.facts.scope[stmt]
        joins = not stmt.launches and tiling is not None
        return joins and tiling is not None and scope_of(tiling) is Scope.CLUSTER

    def check_states(self, stmt: ir.Fence | ir.Await, states: States) -> None:
        """Checks that the emitted text does not depend on the execution. Raises ExoGpuError where
        it would."""
        self.seen[stmt] = self.seen.get(stmt, frozenset()) | states
        if _Turn.ARRIVED in self.seen[stmt] and len(self.seen[stmt]) > 1:
            raise _refusal(
                "whether a Fence of the cluster stands between Arrive and Await is not the same "
                "in all executions",
                stmt,
            )


def _after_fence(state: _Turn) -> _Turn:
    match state:
        case _Turn.NONE:
            return _Turn.NONE
        case _Turn.ARRIVED | _Turn.FENCED:
            return _Turn.FENCED
        case _:
            assert_never(state)


def turns(launch: ir.DeviceFunction, facts: CollectiveFacts, mechanisms: Mechanisms) -> Turns:
    """Assigns the cluster's barrier to the Fences and Awaits of a launch.

    Raises ExoGpuError (G803) where it may be used out of turn.
    """
    if BarrierMechanism.CLUSTER_SYNC not in mechanisms.barriers.values():
        return Turns(frozenset(), frozenset())
    walk = _Walk(facts, mechanisms)
    if walk.block(launch.body, frozenset({_Turn.NONE})) != {_Turn.NONE}:
        raise _refusal("this kernel may end between an Arrive and its Await", launch)
    waiting = {s for s, states in walk.seen.items() if states == {_Turn.ARRIVED}}
    over = {s for s, states in walk.seen.items() if states == {_Turn.FENCED}}
    return Turns(
        frozenset(s for s in waiting if isinstance(s, ir.Fence)),
        frozenset(s for s in over if isinstance(s, ir.Await)),
    )


def _refusal(what: str, stmt: ir.Stmt) -> Exception:
    return unsupported(
        what, stmt.span, "let each Arrive be followed by its Await before the next", "G803"
    )
