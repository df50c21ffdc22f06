"""DIVERGENCE (decision `divergence`): a mechanism whose unit exceeds the scope that it stands in.

The hardware waits for every thread of the mechanism's unit, and some of them never come: they
took another branch, or a loop gave them other work.  A guard on control variables never
diverges inside its own scope, because all its threads agree on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exogpu.analysis.derive import ScopeFit, is_unit_scope, scope_fit
from exogpu.analysis.describe import executors
from exogpu.analysis.executors import CollectiveFacts
from exogpu.analysis.mechanisms import GroupKind, group_kind
from exogpu.analysis.roles import Roles, roles_of
from exogpu.analysis.threadmap import threads_of
from exogpu.analysis.tiling import Tiling, cluster_axes, iterations
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
from exogpu.ir.types import BarrierMechanism, CollUnit, Policy, QualSet, QualTL
from exogpu.ir.walk import blocks, declarations, walk
from exogpu.result.errors import Diagnostic, Note

_WGMMA_REGISTERS = frozenset({QualTL.WG_A, QualTL.WG_D, QualTL.WG_0})
_WGMMA = _WGMMA_REGISTERS | {QualTL.WG_S}


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
    """Told by the timeline of the variable's first Arrive (decision `solitary-mechanisms`)."""
    before: Mapping[Sym, QualSet]
    """The timelines that some Arrive on the variable is full in."""
    roles: Mapping[Sym, Roles]
    """Of mbarriers whose phases several roles share."""


def mechanisms_of(proc: Proc) -> Mechanisms:
    """The mechanisms of a procedure's barrier variables."""
    barriers = {
        name: declaration.mechanism
        for name, declaration in declarations(proc).items()
        if isinstance(declaration, BarrierAlloc)
    }
    kinds: dict[Sym, GroupKind] = {}
    before = dict.fromkeys(barriers, frozenset[QualTL]())
    for stmt in walk(proc.body):
        if isinstance(stmt, Arrive):
            name, kind = stmt.targets[0].name, group_kind(stmt.timeline)
            if barriers.get(name) is BarrierMechanism.COMMIT_GROUP and kind is not None:
                kinds.setdefault(name, kind)
            before[name] = before.get(name, frozenset()) | stmt.timeline.under(Policy.PTX).full
    return Mechanisms(barriers, kinds, before, roles_of(proc))


def divergences(
    proc: Proc, facts: CollectiveFacts, mechanisms: Mechanisms
) -> tuple[Diagnostic, ...]:
    """Every statement that some threads of its mechanism's unit do not execute."""
    return tuple(_block(proc.body, (), facts, mechanisms))


def divergent(stmt: Stmt, facts: CollectiveFacts, mechanisms: Mechanisms) -> Need | None:
    """Returns the statement's need of threads if it is not met; None if it is."""
    tiling = facts.scope.get(stmt)
    if tiling is None:
        return None
    need = need_of(stmt, tiling, mechanisms)
    return need if need is not None and not _has_all(stmt, tiling, need.unit) else None


def _has_all(stmt: Stmt, tiling: Tiling, unit: CollUnit) -> bool:
    if unit is cuda_warpgroup and not isinstance(stmt, CallInstr):
        return whole_warpgroups(tiling)
    return not _exceeds(tiling, unit)


def whole_warpgroups(tiling: Tiling) -> bool:
    """Tests whether a scope has all warps of a warpgroup or none: four adjacent ones, from a
    multiple of four on. Warps that are left over at a CTA's end are in no warpgroup."""
    if is_unit_scope(tiling, cuda_warpgroup):
        return True
    last = tiling.block_dim // 128 * 4
    for env in iterations(tiling):
        warps = {
            (thread // tiling.block_dim, thread % tiling.block_dim // 32)
            for thread in threads_of(tiling.thread_map(), env)
        }
        groups = {(cta, warp // 4) for cta, warp in warps if warp < last}
        if any((cta, 4 * group + i) not in warps for cta, group in groups for i in range(4)):
            return False
        if not groups:
            return False
    return True


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


def need_of(stmt: Stmt, tiling: Tiling, mechanisms: Mechanisms) -> Need | None:
    """Returns the threads that the statement's mechanism waits for; None if any set of threads will
    do."""
    match stmt:
        case CallInstr():
            return Need(stmt.instr.unit, stmt.instr.name)
        case Fence(launches=True):
            return None
        case Fence():
            if _spans_ctas(tiling):
                return Need(cuda_cluster, "a Fence across CTAs (barrier.cluster)")
            first, second = stmt.pre.under(Policy.PTX).full, stmt.post.under(Policy.PTX).full
            if first & _WGMMA or second & _WGMMA_REGISTERS:
                return Need(cuda_warpgroup, "a wgmma fence")
            return None
        case Arrive():
            name = stmt.targets[0].name
            need = _barrier_need("Arrive", name, mechanisms)
            if need is None and stmt.timeline.under(Policy.PTX).full & _WGMMA:
                return Need(cuda_warpgroup, f"an Arrive that waits for wgmma on {name}")
            return need
        case Await():
            name = stmt.barrier.name
            need = _barrier_need("Await", name, mechanisms)
            after = stmt.timeline.under(Policy.PTX).full & _WGMMA_REGISTERS
            if need is None and after and QualTL.CUDA1 in mechanisms.before[name]:
                return Need(cuda_warpgroup, f"an Await on {name} with a wgmma fence")
            return need
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
        if not _has_all(stmt, inside, need.unit):
            what = "CudaWarps" if isinstance(enclosing, Warps) else "cuda_threads"
            message = f"this {what} leaves {executors(inside)}"
            notes = (Note(message, enclosing.span),)
            break
    whole = f"a whole {need.unit.name}"
    if not _exceeds(tiling, need.unit):
        whole = "whole warpgroups, four warps from a multiple of four on"
    return Diagnostic(
        "H730",
        f"DIVERGENCE: {need.mechanism} needs {whole}, and is executed by {executors(tiling)} alone",
        stmt.span,
        f"move it to {need.unit.name} scope, out of the block that narrows the threads",
        notes,
    )
