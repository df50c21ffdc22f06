"""The cluster has one hardware barrier: Arrives, Awaits and Fences of it must take turns.

A thread that arrives twice without waiting, or waits without having arrived, has undefined
behaviour (PTX ISA, barrier.cluster).  The language allows both, so they are refused here; a Fence
between an Arrive and its Await does the waiting, and the Await has nothing left to wait for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import assert_never

from exogpu.analysis.affine import difference
from exogpu.analysis.divergence import Mechanisms
from exogpu.analysis.executors import CollectiveFacts
from exogpu.codegen.errors import unsupported
from exogpu.codegen.row import Scope
from exogpu.codegen.sync import scope_of
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Arrive,
    Await,
    Block,
    CudaTasks,
    CudaThreads,
    DeviceFunction,
    Fence,
    For,
    If,
    Loaded,
    Slot,
    Stmt,
    Warps,
)
from exogpu.ir.types import BarrierMechanism


class _Turn(Enum):
    """The last action of a cluster's threads on its barrier."""

    NONE = auto()
    """No arrival is pending."""
    ARRIVED = auto()
    """They have arrived, and not waited."""
    FENCED = auto()
    """They have arrived, and waited at a Fence; their Await is still to come."""


States = frozenset[_Turn]
"""Those of some execution."""


@dataclass(frozen=True, slots=True)
class Turns:
    """The work that Fences of a cluster take over from Awaits."""

    waiting: frozenset[Fence]
    """The Fences that first wait for a pending arrival."""
    over: frozenset[Await]
    """The Awaits of what such a Fence has waited for."""


@dataclass(slots=True)
class _Walk:
    facts: CollectiveFacts
    known: Mechanisms
    seen: dict[Fence | Await, States] = field(default_factory=dict)
    """The states in which each is reached."""

    def block(self, block: Block, states: States) -> States:
        for stmt in block:
            states = self.statement(stmt, states)
        return states

    def statement(self, stmt: Stmt, states: States) -> States:
        match stmt:
            case For():
                return self.loop(stmt, states)
            case If():
                return self.block(stmt.body, states) | self.block(stmt.orelse, states)
            case Warps():
                return self.block(stmt.body, states)
            case Arrive() if self.is_sync(stmt.targets[0].name):
                if states != {_Turn.NONE}:
                    raise _refusal("an Arrive of the cluster may follow another one", stmt)
                return frozenset({_Turn.ARRIVED})
            case Await() if self.is_sync(stmt.barrier.name):
                if _Turn.NONE in states or stmt.n != 0:
                    raise _refusal("an Await of the cluster may have no Arrive to wait for", stmt)
                self.reached(stmt, states)
                return frozenset({_Turn.NONE})
            case Fence() if self.is_of_cluster(stmt):
                self.reached(stmt, states)
                return frozenset(map(_after_fence, states))
            case _:
                return states

    def loop(self, stmt: For, states: States) -> States:
        """A loop of a known number of iterations, or of any; each cluster has some of the tasks,
        each thread one iteration of a thread loop; a value is bound once."""
        if isinstance(stmt.mode, Slot | Loaded):
            return self.block(stmt.body, states)
        count = difference(stmt.hi, stmt.lo)
        if count is None or isinstance(stmt.mode, CudaTasks):
            once = states | self.block(stmt.body, states)
            return once | self.block(stmt.body, once)
        most = 1 if isinstance(stmt.mode, CudaThreads) else 3  # more change nothing any more
        for _ in range(min(count, most)):
            states = self.block(stmt.body, states)
        return states

    def is_sync(self, name: Sym) -> bool:
        return self.known.barriers[name] is BarrierMechanism.CLUSTER_SYNC

    def is_of_cluster(self, stmt: Fence) -> bool:
        tiling = self.facts.scope[stmt]
        joins = not stmt.launches and tiling is not None
        return joins and tiling is not None and scope_of(tiling) is Scope.CLUSTER

    def reached(self, stmt: Fence | Await, states: States) -> None:
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


def turns(launch: DeviceFunction, facts: CollectiveFacts, mechanisms: Mechanisms) -> Turns:
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
        frozenset(s for s in waiting if isinstance(s, Fence)),
        frozenset(s for s in over if isinstance(s, Await)),
    )


def _refusal(what: str, stmt: Stmt) -> Exception:
    return unsupported(
        what, stmt.span, "let each Arrive be followed by its Await before the next", "G803"
    )
