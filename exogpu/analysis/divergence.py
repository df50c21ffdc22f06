"""DIVERGENCE (decision `divergence`): a mechanism whose unit exceeds the scope that it stands in.

The hardware waits for every thread of the mechanism's unit, and some of them never come: they
took another branch, or a loop gave them other work.  A guard on control variables never
diverges inside its own scope, because all its threads agree on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from exogpu.analysis.common_dimensions import TilingError, evaluate_unit
from exogpu.analysis.derive_tiling import ScopeFit, is_unit_scope, scope_fit
from exogpu.analysis.ownership import Declared, Use, position_of
from exogpu.analysis.roles import Roles, roles_of
from exogpu.analysis.thread_names import CollectiveFacts, GroupKind, executors, group_kind
from exogpu.analysis.threadmap import Digit, threads_of
from exogpu.analysis.tiling import Tiling, cluster_axes, iterations
from exogpu.diagnostics.errors import Diagnostic, Note
from exogpu.diagnostics.verdict import Policy
from exogpu.hw.units import cuda_cluster, cuda_warp, cuda_warpgroup
from exogpu.ir import nodes as ir
from exogpu.ir.render import identifier
from exogpu.ir.types import BarrierMechanism, CollUnit, QualSet, QualTL, Sym
from exogpu.ir.walk import blocks, declarations, walk
from exogpu.solvers import isl

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
    """The roles of mbarriers whose phases several roles share."""


def mechanisms_of(proc: ir.Proc) -> Mechanisms:
    """The mechanisms of a procedure's barrier variables."""
    barriers = {
        name: declaration.mechanism
        for name, declaration in declarations(proc).items()
        if isinstance(declaration, ir.BarrierAlloc)
    }
    kinds: dict[Sym, GroupKind] = {}
    before = dict.fromkeys(barriers, frozenset[QualTL]())
    for stmt in walk(proc.body):
        if isinstance(stmt, ir.Arrive):
            name, kind = stmt.targets[0].name, group_kind(stmt.timeline)
            if barriers.get(name) is BarrierMechanism.COMMIT_GROUP and kind is not None:
                kinds.setdefault(name, kind)
            before[name] = before.get(name, frozenset()) | stmt.timeline.sets_under(Policy.PTX).full
    return Mechanisms(barriers, kinds, before, roles_of(proc))


def divergences(
    proc: ir.Proc, facts: CollectiveFacts, mechanisms: Mechanisms
) -> tuple[Diagnostic, ...]:
    """Every statement that some threads of its mechanism's unit do not execute."""
    return tuple(_block(proc.body, (), facts, mechanisms))


def divergent(stmt: ir.Stmt, facts: CollectiveFacts, mechanisms: Mechanisms) -> Need | None:
    """Returns the statement's need of threads if it is not met; None if it is."""
    tiling = facts.scope.get(stmt)
    if tiling is None:
        return None
    need = need_of(stmt, tiling, mechanisms)
    return need if need is not None and not _has_all(stmt, tiling, need.unit) else None


def _has_all(stmt: ir.Stmt, tiling: Tiling, unit: CollUnit) -> bool:
    if unit is cuda_warpgroup and not isinstance(stmt, ir.CallInstr):
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
    block: ir.Block,
    narrowing: tuple[tuple[ir.For | ir.Warps, Tiling], ...],
    facts: CollectiveFacts,
    mechanisms: Mechanisms,
) -> Iterator[Diagnostic]:
    for stmt in block:
        tiling = facts.scope.get(stmt)
        need = divergent(stmt, facts, mechanisms)
        if need is not None and tiling is not None:
            yield _divergence(stmt, tiling, need, narrowing)
        inner = narrowing
        if isinstance(stmt, ir.For | ir.Warps) and stmt in facts.inner:
            inner = (*narrowing, (stmt, facts.inner[stmt]))
        for inside in blocks(stmt):
            yield from _block(inside, inner, facts, mechanisms)


def need_of(stmt: ir.Stmt, tiling: Tiling, mechanisms: Mechanisms) -> Need | None:
    """Returns the threads that the statement's mechanism waits for; None if any set of threads will
    do."""
    match stmt:
        case ir.CallInstr():
            return Need(stmt.instr.unit, stmt.instr.name)
        case ir.Fence(launches=True):
            return None
        case ir.Fence():
            if _spans_ctas(tiling):
                return Need(cuda_cluster, "a Fence across CTAs (barrier.cluster)")
            first, second = (
                stmt.pre.sets_under(Policy.PTX).full,
                stmt.post.sets_under(Policy.PTX).full,
            )
            if first & _WGMMA or second & _WGMMA_REGISTERS:
                return Need(cuda_warpgroup, "a wgmma fence")
            return None
        case ir.Arrive():
            name = stmt.targets[0].name
            need = _barrier_need("Arrive", name, mechanisms)
            if need is None and stmt.timeline.sets_under(Policy.PTX).full & _WGMMA:
                return Need(cuda_warpgroup, f"an Arrive that waits for wgmma on {name}")
            return need
        case ir.Await():
            name = stmt.barrier.name
            need = _barrier_need("Await", name, mechanisms)
            after = stmt.timeline.sets_under(Policy.PTX).full & _WGMMA_REGISTERS
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
    stmt: ir.Stmt,
    tiling: Tiling,
    need: Need,
    narrowing: tuple[tuple[ir.For | ir.Warps, Tiling], ...],
) -> Diagnostic:
    notes: tuple[Note, ...] = ()
    for enclosing, inside in narrowing:
        if not _has_all(stmt, inside, need.unit):
            what = "CudaWarps" if isinstance(enclosing, ir.Warps) else "cuda_threads"
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


# Groups of threads that execute a statement together or not at all, as digits of a thread's
# index.
#
# The prover asks a solver whether some thread of a group executes an instance and another does
# not; `exogpu.analysis.divergence` finds out, before, which statement leaves whom behind.


def convergent_groups(
    stmt: ir.Stmt, tiling: Tiling | None, mechanisms: Mechanisms
) -> tuple[Digit, ...]:
    """The groups of which all threads execute the statement, or none; no digits where each thread
    is a group of its own.

    Threads are of one group if each of their digits lies in one block of its size.  Positions that
    fill no block are in no group.
    """
    if tiling is None:
        return ()
    need = need_of(stmt, tiling, mechanisms)
    if need is None:
        # Inside a CTA the hardware synchronises whole warps, or threads of one warp.
        alone = not isinstance(stmt, ir.Fence) or stmt.launches or tiling.threads <= 32
        return () if alone else groups(tiling, cuda_warp)
    unit = need.unit
    if unit is cuda_warpgroup and not isinstance(stmt, ir.CallInstr):
        return _digits(tiling, (tiling.block_dim,), (128,))
    return groups(tiling, unit)


def groups(tiling: Tiling, unit: CollUnit) -> tuple[Digit, ...]:
    """Returns the digits of a unit: as many of its threads as the hardware asks to begin at a
    multiple of their number."""
    evaluated = evaluate_unit(tiling, unit)
    if isinstance(evaluated, TilingError):
        return ()
    domain, box = evaluated
    pitches = [math.prod(domain[at + 1 :]) for at in range(len(domain))]
    triples = zip(pitches, domain, box, strict=True)
    return _digits(tiling, domain, tuple(_aligned(*triple) for triple in triples))


def _digits(tiling: Tiling, domain: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Digit, ...]:
    total = tiling.cluster_dim * tiling.block_dim
    if math.prod(domain) < total:
        domain, sizes = (total // math.prod(domain), *domain), (1, *sizes)
    if math.prod(sizes) == 1:
        return ()
    return tuple(
        Digit(math.prod(domain[at + 1 :]), extent, size)
        for at, (extent, size) in enumerate(zip(domain, sizes, strict=True))
    )


def _aligned(pitch: int, extent: int, box: int | None) -> int:
    """So many positions of a unit begin at a multiple of their number: of a whole dimension all;
    else a warpgroup's, a warp's, or a power of two of threads in a warp."""
    if box is None or box >= extent:
        return 1 if box is None else extent
    span = box * pitch
    step = next((n for n in (128, 32) if span % n == 0), span if 32 % span == 0 else 1)
    size = min(max(1, step // pitch), box)
    return size if box % size == 0 else 1


# Solitary mechanisms (decision `solitary-mechanisms`): a thread has one group counter of each
# kind.


def check_solitary(variables: Sequence[Declared], mechanisms: Mechanisms) -> Iterator[Diagnostic]:
    """No thread uses two commit groups of one kind, or two cluster syncs, in turns.

    The hardware counts groups of a kind together, so waiting for one would count the other's.
    Two variables are fine one after the other, in disjoint scopes, or by different threads.
    """
    by_kind: dict[str, list[Declared]] = {}
    for declared in variables:
        kind = _kind(declared, mechanisms)
        if kind is not None and declared.uses:
            by_kind.setdefault(kind, []).append(declared)
    for kind, same in by_kind.items():
        for at, second in enumerate(same):
            for first in same[:at]:
                if _interleaved(first, second) and _common_threads(first, second):
                    yield Diagnostic(
                        "D510",
                        f"{first.declaration.name} and {second.declaration.name} are both "
                        f"{kind}, and the same threads use them in turns",
                        second.declaration.span,
                        "use one variable for both, or let the last Await of one come before "
                        "the first Arrive of the other",
                        (Note("the other one", first.declaration.span),),
                    )


def _kind(declared: Declared, mechanisms: Mechanisms) -> str | None:
    alloc = declared.declaration
    if isinstance(alloc, ir.Alloc):
        return None
    match alloc.mechanism:
        case BarrierMechanism.CLUSTER_SYNC:
            return "cluster syncs"
        case BarrierMechanism.COMMIT_GROUP if alloc.name in mechanisms.kinds:
            return f"{mechanisms.kinds[alloc.name].value} commit groups"
        case _:
            return None


def _interleaved(first: Declared, second: Declared) -> bool:
    """Tests whether the statements of the outer variable's block that use the two overlap in order.

    `second` is allocated after `first`; outside of its scope nothing of `first` is left.
    """
    if not any(second.declaration is s for stmt in first.block for s in walk((stmt,))):
        return False
    a = set(position_of(first.block, first.uses).values())
    b = set(position_of(first.block, second.uses).values())
    return not (max(a) < min(b) or max(b) < min(a))


def _common_threads(first: Declared, second: Declared) -> bool:
    return not isl.is_empty(isl.intersect(_threads(first.uses), _threads(second.uses)))


def _threads(uses: Sequence[Use]) -> isl.Set:
    """Threads that make any of the uses, for some iteration."""
    total = isl.set_of((), ("t",), "0 = 1")
    for use in uses:
        tiling = use.where.tiling
        names = [identifier(r.iterator) for r in tiling.ranges]
        text = f"{tiling.domain_text()} and {tiling.threads_text('t')}"
        bound = f"(exists {', '.join(names)} : {text})" if names else text
        total = isl.union(total, isl.set_of((), ("t",), bound))
    return total
