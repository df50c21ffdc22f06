"""The cluster has one hardware barrier: Arrives, Awaits and Fences of it must take turns.

A thread that arrives twice without waiting, or waits without having arrived, has undefined
behaviour (PTX ISA, barrier.cluster); the language allows both, so they are refused here.
"""

from __future__ import annotations

from exogpu.analysis.divergence import Mechanisms
from exogpu.analysis.facts import CollectiveFacts
from exogpu.codegen.errors import unsupported
from exogpu.codegen.rows import Scope
from exogpu.codegen.sync import scope_of
from exogpu.ir.nodes import Arrive, Await, Block, DeviceFunction, Fence, For, If, Stmt, Warps
from exogpu.ir.types import BarrierMechanism

States = frozenset[bool]
"""Whether an arrival is pending, in some execution."""


def check_turns(launch: DeviceFunction, facts: CollectiveFacts, mechanisms: Mechanisms) -> None:
    """Raises ExoGpuError (G803) where the cluster's barrier may be used out of turn."""
    if BarrierMechanism.CLUSTER_SYNC not in mechanisms.barriers.values():
        return
    after = _block(launch.body, frozenset({False}), facts, mechanisms)
    if True in after:
        raise _refusal("this kernel may end between an Arrive and its Await", launch)


def _block(block: Block, states: States, facts: CollectiveFacts, known: Mechanisms) -> States:
    for stmt in block:
        states = _statement(stmt, states, facts, known)
    return states


def _statement(stmt: Stmt, states: States, facts: CollectiveFacts, known: Mechanisms) -> States:
    match stmt:
        case For():
            once = states | _block(stmt.body, states, facts, known)
            return once | _block(stmt.body, once, facts, known)
        case If():
            return _block(stmt.body, states, facts, known) | _block(
                stmt.orelse, states, facts, known
            )
        case Warps():
            return _block(stmt.body, states, facts, known)
        case Arrive() if known.barriers[stmt.targets[0].name] is BarrierMechanism.CLUSTER_SYNC:
            if True in states:
                raise _refusal("an Arrive of the cluster may follow another one", stmt)
            return frozenset({True})
        case Await() if known.barriers[stmt.barrier.name] is BarrierMechanism.CLUSTER_SYNC:
            if False in states or stmt.n != 0:
                raise _refusal("an Await of the cluster may have no Arrive to wait for", stmt)
            return frozenset({False})
        case Fence():
            tiling = facts.scope[stmt]
            if True in states and tiling is not None and scope_of(tiling) is Scope.CLUSTER:
                raise _refusal("a Fence of the cluster may stand between Arrive and Await", stmt)
            return states
        case _:
            return states


def _refusal(what: str, stmt: Stmt) -> Exception:
    return unsupported(
        what, stmt.span, "let each Arrive be followed by its Await before the next", "G803"
    )
