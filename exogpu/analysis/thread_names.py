"""Threads in words: who executes a scope, as diagnostics and listings say it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from exogpu.analysis.threadmap import ThreadAxis
from exogpu.analysis.tiling import Tiling, block_axes, cluster_axes
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.verdict import Policy
from exogpu.ir import nodes as ir
from exogpu.ir.render import factor, readable, show
from exogpu.ir.types import QualSet, QualTL, Sym, SyncTL
from exogpu.ir.walk import blocks
from exogpu.solvers import isl


def executors(tiling: Tiling) -> str:
    """Describes the threads that execute the scope: `CTA cta of the cluster, threads 128*wg ..
    128*wg + 127`."""
    inside = block_axes(tiling)
    whole = inside == (ThreadAxis(1, ir.Int(0), tiling.block_dim),)
    threads = f"all {tiling.block_dim} threads" if whole else _places("thread", inside)
    if tiling.cluster_dim == 1:
        return f"{threads} of the CTA"
    across = cluster_axes(tiling)
    if across == (ThreadAxis(1, ir.Int(0), tiling.cluster_dim),):
        return f"{threads} of each of the {tiling.cluster_dim} CTAs of the cluster"
    return f"{_places('CTA', across)} of the cluster, {threads}"


def numbers(values: Iterable[int], limit: int = 6) -> str:
    """Numbers with runs shortened: `0 to 31, 64`; beyond `limit` runs, `...`."""
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    shown = [f"{a}" if a == b else f"{a} to {b}" for a, b in runs[:limit]]
    return ", ".join(shown) + (", ..." if len(runs) > limit else "")


def thread_names(threads: Iterable[int], block_dim: int, cluster_dim: int) -> str:
    """A set of natural thread indices in words: `threads 0 to 31 of CTA 1`."""
    by_cta: dict[int, list[int]] = {}
    for thread in threads:
        by_cta.setdefault(thread // block_dim, []).append(thread % block_dim)
    if not by_cta:
        return "no thread"
    if len({tuple(sorted(t)) for t in by_cta.values()}) == 1 and len(by_cta) > 1:
        common = next(iter(by_cta.values()))
        return f"{_threads(common, block_dim)} of CTAs {numbers(by_cta)}"
    parts = []
    for cta, inside in sorted(by_cta.items()):
        of = f" of CTA {cta}" if cluster_dim > 1 else ""
        parts.append(_threads(inside, block_dim) + of)
    return " and ".join(parts)


def _threads(threads: list[int], block_dim: int) -> str:
    if len(threads) == block_dim:
        return f"all {block_dim} threads"
    return f"thread{'s' if len(threads) > 1 else ''} {numbers(threads)}"


def _places(noun: str, axes: tuple[ThreadAxis, ...]) -> str:
    match axes:
        case ():
            return f"{noun} 0"
        case (ThreadAxis(1, offset, 1),):
            return f"{noun} {show(offset)}"
        case (ThreadAxis(1, offset, extent),):
            return f"{noun}s {show(offset)} .. {show(_shift(offset, extent - 1))}"
        case _:
            return f"{noun}s {' + '.join(_axis(a) for a in axes)}"


def _axis(axis: ThreadAxis) -> str:
    last = _shift(axis.offset, axis.extent - 1)
    if axis.extent == 1:
        span = factor(axis.offset) if axis.pitch > 1 else show(axis.offset)
    else:
        span = f"({show(axis.offset)} .. {show(last)})"
    return f"{axis.pitch}*{span}" if axis.pitch > 1 else span


def _shift(expr: ir.CExpr, by: int) -> ir.CExpr:
    match expr:
        case ir.Int(value):
            return ir.Int(value + by)
        case ir.Add(left, ir.Int(value)):
            return ir.Add(left, ir.Int(value + by)) if value + by else left
        case _:
            return ir.Add(expr, ir.Int(by)) if by else expr


# Tables of the threads that execute each statement of a procedure, keyed by statement identity.


@dataclass(frozen=True, slots=True)
class Desugared:
    """The thread loops that an instruction call stands for, around one operand (section 4.1).

    `iterators[i]` runs over `0 .. extents[i] - 1` in place of the operand's i-th distributed
    dimension; `tiling` is that of the innermost loop's body.
    """

    iterators: tuple[Sym, ...]
    extents: tuple[int, ...]
    tiling: Tiling


@dataclass(frozen=True, slots=True)
class CollectiveFacts:
    """The threads that execute each statement."""

    scope: Mapping[ir.Stmt, Tiling | None]
    """Tiling of the scope in which each statement stands; None at CPU scope."""
    inner: Mapping[ir.For | ir.Warps | ir.DeviceFunction, Tiling]
    """Tiling of the body of each statement that derives one."""
    operands: Mapping[tuple[ir.CallInstr, int], Desugared]
    """By call and position of the argument; only operands with distributed units."""
    trailing: Mapping[ir.CallInstr, Desugared]
    """For trailing barriers with distributed units."""


# Lists the threads that execute each scope, as data for `exogpu threads`.


@dataclass(frozen=True, slots=True)
class ScopeLine:
    """One scope of a kernel: what opens it, who executes it in words, and the ISL relation."""

    depth: int
    span: Span
    opens: str
    """`for w in cuda_threads(0, 4, unit=cuda_warp)`"""
    executors: str
    relation: str
    """`{ [cta, w] -> [t] : ... }` from thread iterators to natural thread indices."""


def listing(proc: ir.Proc, facts: CollectiveFacts) -> tuple[ScopeLine, ...]:
    """The scopes of all kernels of a procedure that change who executes, in program order."""
    return tuple(_block(proc.body, facts, 0))


def relation_text(tiling: Tiling) -> str:
    """The tiling's exact ISL relation with the source's names."""
    return readable(isl.text(tiling.isl_map()), [r.iterator for r in tiling.ranges])


def _block(block: ir.Block, facts: CollectiveFacts, depth: int) -> Iterator[ScopeLine]:
    for stmt in block:
        deeper = depth
        if isinstance(stmt, ir.For | ir.Warps | ir.DeviceFunction) and stmt in facts.inner:
            tiling = facts.inner[stmt]
            who = executors(tiling)
            yield ScopeLine(depth, stmt.span, _opens(stmt), who, relation_text(tiling))
            deeper = depth + 1
        for inside in blocks(stmt):
            yield from _block(inside, facts, deeper)


def _opens(stmt: ir.For | ir.Warps | ir.DeviceFunction) -> str:
    match stmt:
        case ir.DeviceFunction():
            return f"CudaDeviceFunction(clusterDim={stmt.cluster_dim}, blockDim={stmt.block_dim})"
        case ir.Warps():
            name = f', name="{stmt.group}"' if stmt.group else ""
            return f"CudaWarps({stmt.lo}, {stmt.hi}{name})"
        case ir.For():
            bounds = f"{show(stmt.lo)}, {show(stmt.hi)}"
            match stmt.mode:
                case ir.CudaThreads(unit):
                    call = f"cuda_threads({bounds}, unit={unit.name})"
                case ir.CudaTasks():
                    call = f"cuda_tasks({bounds})"
                case _:
                    call = f"seq({bounds})"
            return f"for {stmt.iterator} in {call}"


# Kinds of commit groups, told by the timeline of an Arrive (decision `solitary-mechanisms`).


class GroupKind(Enum):
    """The three commit-group mechanisms of PTX; each counts its groups by itself."""

    WGMMA = "wgmma"
    BULK = "bulk"
    CP_ASYNC = "cp.async"


_TIMELINES: Final[dict[GroupKind, QualSet]] = {
    GroupKind.WGMMA: frozenset({QualTL.WG_A, QualTL.WG_D, QualTL.WG_S, QualTL.WG_0}),
    GroupKind.BULK: frozenset({QualTL.TMA_G, QualTL.TMA_R}),
    GroupKind.CP_ASYNC: frozenset({QualTL.SM80}),
}


def group_kind(timeline: SyncTL) -> GroupKind | None:
    """The kind of the commit group that an Arrive on the timeline ends; None if it is none."""
    full = timeline.sets_under(Policy.PAPER).full
    if full:
        for kind, timelines in _TIMELINES.items():
            if full <= timelines:
                return kind
    return None
