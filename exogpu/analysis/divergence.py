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


@dataclass(frozen=True, slots=True)
class Mechanisms:
    """The mechanism of each barrier variable, and the kind of each commit group."""

    barriers: Mapping[Sym, BarrierMechanism]
    kinds: Mapping[Sym, GroupKind]
    """Told by the timeline of the variable's first Arrive (decision 16)."""


def mechanisms_of(proc: Proc) -> Mechanisms:
    """The mechanisms of a procedure's barrier variables."""
    barriers = {
        name: declaration.mechanism
        for name, declaration in declarations(proc).items()
        if isinstance(declaration, BarrierAlloc)
    }
    kinds: dict[Sym, GroupKind] = {}
    for stmt in walk(proc.body):
        if isinstance(stmt, Arrive):
            name, kind = stmt.targets[0].name, group_kind(stmt.timeline)
            if barriers.get(name) is BarrierMechanism.COMMIT_GROUP and kind is not None:
                kinds.setdefault(name, kind)
    return Mechanisms(barriers, kinds)


def divergences(proc: Proc, facts: CollectiveFacts) -> tuple[Diagnostic, ...]:
    """Every statement that some threads of its mechanism's unit do not execute."""
    return tuple(_block(proc.body, (), facts, mechanisms_of(proc)))


def divergent(stmt: Stmt, facts: CollectiveFacts, mechanisms: Mechanisms) -> Need | None:
    """What the statement's mechanism needs and does not have; None where it has all of it."""
    tiling = facts.scope.get(stmt)
    if tiling is None:
        return None
    need = _need(stmt, tiling, mechanisms)
    return need if need is not None and _exceeds(tiling, need.unit) else None


def _block(
    block: Block,
    narrowing: tuple[tuple[For | Warps, Tiling], ...],
    facts: CollectiveFacts,
    mechanisms: Mechanisms,
) -> Iterator[Diagnostic]:
    for stmt in block:
        tiling = facts.scope.get(stmt)
        need = divergent(stmt, facts, mechanisms)
        if need is not None and tiling is not None:
            yield _divergence(stmt, tiling, need, narrowing)
        inner = narrowing
        if isinstance(stmt, For | Warps) and stmt in facts.inner:
            inner = (*narrowing, (stmt, facts.inner[stmt]))
        for inside in blocks(stmt):
            yield from _block(inside, inner, facts, mechanisms)


def _need(stmt: Stmt, tiling: Tiling, mechanisms: Mechanisms) -> Need | None:
    """What the statement's mechanism waits for; None where any set of threads will do."""
    match stmt:
        case CallInstr():
            return Need(stmt.instr.unit, stmt.instr.name)
        case Fence():
            if _spans_ctas(tiling):
                return Need(cuda_cluster, "a Fence across CTAs (barrier.cluster)")
            full = stmt.pre.under(Policy.PAPER).full | stmt.post.under(Policy.PAPER).full
            if full & _WGMMA_REGISTERS or group_kind(stmt.pre) is GroupKind.WGMMA:
                return Need(cuda_warpgroup, "a wgmma fence")
            return None
        case Arrive():
            return _barrier_need("Arrive", stmt.targets[0].name, mechanisms)
        case Await():
            return _barrier_need("Await", stmt.barrier.name, mechanisms)
        case _:
            return None


def _barrier_need(what: str, name: Sym, mechanisms: Mechanisms) -> Need | None:
    match mechanisms.barriers.get(name):
        case BarrierMechanism.CLUSTER_SYNC:
            return Need(cuda_cluster, f"{what} on the cluster sync {name}")
        case BarrierMechanism.COMMIT_GROUP if mechanisms.kinds.get(name) is GroupKind.WGMMA:
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
