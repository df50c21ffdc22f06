"""DIVERGENCE (decision 10): a mechanism whose unit exceeds the scope that it stands in.

The hardware waits for every thread of the mechanism's unit, and some of them never come: they
took another branch, or a loop gave them other work.  A guard on control variables never
diverges inside its own scope, because all its threads agree on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exogpu.analysis.derive import ScopeFit, scope_fit
from exogpu.analysis.describe import executors
from exogpu.analysis.facts import CollectiveFacts
from exogpu.analysis.mechanisms import GroupKind, group_kind
from exogpu.analysis.tiling import Tiling, cluster_axes
from exogpu.errors import Diagnostic, Note
from exogpu.hw.units import cuda_cluster, cuda_warpgroup
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Arrive,
    Await,
    BarrierAlloc,
    Block,
    CallInstr,
    DeviceFunction,
    Fence,
    For,
    Proc,
    Stmt,
    Warps,
)
from exogpu.ir.types import BarrierMechanism, CollUnit, Policy, QualTL
from exogpu.ir.walk import blocks, declarations, walk

_WGMMA_REGISTERS = frozenset({QualTL.WG_A, QualTL.WG_D, QualTL.WG_0})


@dataclass(frozen=True, slots=True)
class Need:
    """The unit that a statement's mechanism synchronises, and the mechanism in words."""

    unit: CollUnit
    mechanism: str


def divergences(proc: Proc, facts: CollectiveFacts) -> tuple[Diagnostic, ...]:
    """Every statement that some threads of its mechanism's unit do not execute."""
    kinds = group_kinds(proc)
    barriers = _mechanisms(proc)
    return tuple(_block(proc.body, (), facts, kinds, barriers))


def diverges(
    stmt: Stmt,
    facts: CollectiveFacts,
    kinds: Mapping[Sym, GroupKind],
    barriers: Mapping[Sym, BarrierMechanism],
) -> bool:
    """Whether the statement's mechanism needs more threads than execute it."""
    tiling = facts.scope.get(stmt)
    need = tiling and _need(stmt, tiling, kinds, barriers)
    return need is not None and tiling is not None and _exceeds(tiling, need.unit)


def group_kinds(proc: Proc) -> dict[Sym, GroupKind]:
    """The kind of each commit-group variable, told by the timeline of its Arrives (decision 16)."""
    mechanisms = _mechanisms(proc)
    found: dict[Sym, GroupKind] = {}
    for stmt in walk(proc.body):
        if isinstance(stmt, Arrive):
            name = stmt.targets[0].name
            kind = group_kind(stmt.timeline)
            if mechanisms.get(name) is BarrierMechanism.COMMIT_GROUP and kind is not None:
                found.setdefault(name, kind)
    return found


def _mechanisms(proc: Proc) -> dict[Sym, BarrierMechanism]:
    return {
        name: declaration.mechanism
        for name, declaration in declarations(proc).items()
        if isinstance(declaration, BarrierAlloc)
    }


def _block(
    block: Block,
    narrowing: tuple[tuple[For | Warps, Tiling], ...],
    facts: CollectiveFacts,
    kinds: Mapping[Sym, GroupKind],
    barriers: Mapping[Sym, BarrierMechanism],
) -> Iterator[Diagnostic]:
    for stmt in block:
        tiling = facts.scope.get(stmt)
        need = tiling and _need(stmt, tiling, kinds, barriers)
        if need is not None and tiling is not None and _exceeds(tiling, need.unit):
            yield _divergence(stmt, tiling, need, narrowing)
        inner = narrowing
        if isinstance(stmt, For | Warps) and stmt in facts.inner:
            inner = (*narrowing, (stmt, facts.inner[stmt]))
        if isinstance(stmt, DeviceFunction):
            inner = ()
        for inside in blocks(stmt):
            yield from _block(inside, inner, facts, kinds, barriers)


def _need(
    stmt: Stmt,
    tiling: Tiling,
    kinds: Mapping[Sym, GroupKind],
    barriers: Mapping[Sym, BarrierMechanism],
) -> Need | None:
    """What the statement's mechanism waits for; None where any set of threads will do."""
    match stmt:
        case CallInstr():
            return Need(stmt.instr.unit, stmt.instr.name)
        case Fence():
            if _spans_ctas(tiling):
                return Need(cuda_cluster, "a Fence across CTAs (barrier.cluster)")
            timelines = (
                stmt.pre.under(Policy.PAPER).full | stmt.post.under(Policy.PAPER).full
            ) & _WGMMA_REGISTERS
            return Need(cuda_warpgroup, "a wgmma fence") if timelines else None
        case Arrive():
            return _barrier_need("Arrive", stmt.targets[0].name, kinds, barriers)
        case Await():
            return _barrier_need("Await", stmt.barrier.name, kinds, barriers)
        case _:
            return None


def _barrier_need(
    what: str,
    name: Sym,
    kinds: Mapping[Sym, GroupKind],
    barriers: Mapping[Sym, BarrierMechanism],
) -> Need | None:
    match barriers.get(name):
        case BarrierMechanism.CLUSTER_SYNC:
            return Need(cuda_cluster, f"{what} on the cluster sync {name}")
        case BarrierMechanism.COMMIT_GROUP if kinds.get(name) is GroupKind.WGMMA:
            return Need(cuda_warpgroup, f"{what} on the wgmma commit group {name}")
        case _:
            return None


def _exceeds(tiling: Tiling, unit: CollUnit) -> bool:
    return scope_fit(tiling, unit) is ScopeFit.UNIT_LARGER


def _spans_ctas(tiling: Tiling) -> bool:
    return any(axis.extent > 1 for axis in cluster_axes(tiling))


def _divergence(
    stmt: Stmt, tiling: Tiling, need: Need, narrowing: tuple[tuple[For | Warps, Tiling], ...]
) -> Diagnostic:
    notes: tuple[Note, ...] = ()
    for enclosing, inside in narrowing:
        if _exceeds(inside, need.unit):
            what = "CudaWarps" if isinstance(enclosing, Warps) else "cuda_threads"
            message = f"this {what} leaves {executors(inside)}"
            notes = (Note(message, enclosing.span),)
            break
    return Diagnostic(
        "H730",
        f"DIVERGENCE: {need.mechanism} needs a whole {need.unit.name}, "
        f"and only {executors(tiling)} execute it",
        stmt.span,
        f"move it to {need.unit.name} scope, out of the block that narrows the threads",
        notes,
    )
