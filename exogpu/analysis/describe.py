"""Threads in words: who executes a scope, as diagnostics and listings say it."""

from __future__ import annotations

from collections.abc import Iterable

from exogpu.analysis.threadmap import ThreadAxis
from exogpu.analysis.tiling import Tiling, block_axes, cluster_axes
from exogpu.ir.nodes import Add, CExpr, Int
from exogpu.ir.show import factor, show


def executors(tiling: Tiling) -> str:
    """Describes the threads that execute the scope: `CTA cta of the cluster, threads 128*wg ..
    128*wg + 127`."""
    inside = block_axes(tiling)
    whole = inside == (ThreadAxis(1, Int(0), tiling.block_dim),)
    threads = f"all {tiling.block_dim} threads" if whole else _places("thread", inside)
    if tiling.cluster_dim == 1:
        return f"{threads} of the CTA"
    across = cluster_axes(tiling)
    if across == (ThreadAxis(1, Int(0), tiling.cluster_dim),):
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


def _shift(expr: CExpr, by: int) -> CExpr:
    match expr:
        case Int(value):
            return Int(value + by)
        case Add(left, Int(value)):
            return Add(left, Int(value + by)) if value + by else left
        case _:
            return Add(expr, Int(by)) if by else expr
