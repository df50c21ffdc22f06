"""Primitives that put statements into a context: a kernel launch, or some of its warps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from exogpu.ir.nodes import Block, DeviceFunction, Proc, WarpConfig, Warps
from exogpu.ir.walk import walk
from exogpu.schedule.primitive import Unfit, annotation, path_of, primitive
from exogpu.schedule.rewrite import (
    Path,
    Rewrite,
    block_at,
    enclosing_statements,
    splice,
    unchanged_rewrite,
)


@dataclass(frozen=True, slots=True)
class CudaWarps:
    """The context `with CudaWarps(lo, hi, name="consumer")`; without lo and hi, the whole group."""

    lo: int | None = None
    hi: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class CudaDeviceFunction:
    """The context `with CudaDeviceFunction(clusterDim=2, blockDim=128)`, or with a list of
    `CudaWarpConfig` as `warp_config`."""

    clusterDim: int = 1
    blockDim: int = 0
    warp_config: Sequence[WarpConfig] = ()


@annotation
def wrap_with_context(
    proc: Proc, stmt: object, context: CudaWarps | CudaDeviceFunction, count: int = 1
) -> Iterator[Rewrite]:
    """Let some warps execute statements, or launch them as a kernel.

    for t in cuda_threads(...):          with CudaWarps(0, 4, name="consumer"):
        ...                       ->         for t in cuda_threads(...):
                                                 ...

    `count` statements, from the one given on; of a list of statements, so many from each on.
    """
    path, body = _statements_from(proc, stmt[0] if isinstance(stmt, list) and stmt else stmt, count)
    match context:
        case CudaWarps():
            places = stmt if isinstance(stmt, list) else [stmt]
            edit = unchanged_rewrite(proc)
            for place in sorted((path_of(proc, one) for one in places), reverse=True):
                path, body = _statements_from(edit.new, place, count)
                splice(edit, path, count, (_warps(edit.new, path, context, body),))
            yield edit
        case CudaDeviceFunction():
            groups = tuple(context.warp_config)
            if bool(groups) == bool(context.blockDim):
                raise Unfit("a launch is described by blockDim, or by warp_config", body[0])
            yield _launch(
                proc, path, body, context.clusterDim, groups or _plain(context.blockDim, body)
            )
        case _:
            raise Unfit("a context is CudaWarps(...) or CudaDeviceFunction(...)", body[0])


@primitive
def wrap_kernel(
    proc: Proc,
    stmt: object,
    threads: int | Sequence[WarpConfig],
    count: int = 1,
    cluster: int = 1,
) -> Iterator[Rewrite]:
    """Launch statements as one kernel.

    for m in cuda_tasks(0, M):          with CudaDeviceFunction(clusterDim=1, blockDim=64):
        ...                       ->        for m in cuda_tasks(0, M):
                                                ...

    `threads` is a number, or a list of `CudaWarpConfig`.  Rules of the language may be broken
    then, which later steps keep again.
    """
    path, body = _statements_from(proc, stmt, count)
    warps = _plain(threads, body) if isinstance(threads, int) else tuple(threads)
    yield _launch(proc, path, body, cluster, warps)


def _statements_from(proc: Proc, stmt: object, count: int) -> tuple[Path, Block]:
    path = path_of(proc, stmt)
    at = path[-1][1]
    body = block_at(proc, path)[at : at + count] if isinstance(count, int) else ()
    if not body or not 1 <= count <= len(body):
        raise Unfit(f"there are no {count!r} statements")
    return path, body


def _plain(threads: int, body: Block) -> tuple[WarpConfig, ...]:
    if threads < 32 or threads % 32:
        raise Unfit(
            f"{threads} threads are no whole warps", body[0], "give a positive multiple of 32"
        )
    return (WarpConfig("", threads // 32),)


def _launch(
    proc: Proc, path: Path, body: Block, cluster: int, warps: tuple[WarpConfig, ...]
) -> Rewrite:
    if any(isinstance(s, DeviceFunction) for s in (*enclosing_statements(proc, path), *walk(body))):
        raise Unfit("it is part of a kernel already, or launches one", body[0])
    launch = DeviceFunction(cluster, warps, body, span=body[0].span)
    return _wrapped(proc, path, body, launch)


def _warps(proc: Proc, path: Path, context: CudaWarps, body: Block) -> Warps:
    """The warps that are meant: by default of the group around, or of the only one."""
    outside = enclosing_statements(proc, path)
    launch = next((s for s in outside if isinstance(s, DeviceFunction)), None)
    if launch is None:
        raise Unfit("nothing is launched here", body[0], "launch the statements first")
    counts = {group.name: group.count for group in launch.warps}
    chosen = [s.group for s in outside if isinstance(s, Warps)] or list(counts)
    if context.name and context.name not in counts:
        raise Unfit(f"no warp group is named {context.name!r}", body[0])
    if not context.name and len(set(chosen)) > 1 and not any(isinstance(s, Warps) for s in outside):
        raise Unfit("CudaWarps does not say which warp group", body[0], "give its name")
    group = context.name or chosen[-1]
    lo = 0 if context.lo is None else context.lo
    hi = counts[group] if context.hi is None else context.hi
    return Warps(lo, hi, group, body, span=body[0].span)


def _wrapped(proc: Proc, path: Path, body: Block, new: Warps | DeviceFunction) -> Rewrite:
    edit = unchanged_rewrite(proc)
    splice(edit, path, len(body), (new,))
    return edit
