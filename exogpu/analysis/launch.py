"""Checks launches: numbers of threads and CTAs, and register changes of warp groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from exogpu.diagnostics.errors import Diagnostic
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir import nodes as ir
from exogpu.ir.walk import blocks, map_blocks, walk

MAX_BLOCK_DIM: Final = 1024
"""Threads a CTA (CUDA C++ programming guide, table of compute capabilities)."""

MAX_CLUSTER_DIM: Final = 16
"""CTAs a cluster: 8 is portable, 16 is what sm_90 allows on request."""

_MIN_REGISTERS, _MAX_REGISTERS = 24, 256

_REGISTER_FILE: Final = 65536
"""Registers that one CTA can have (CUDA C++ programming guide, compute capability 9.0)."""


def check_launch(launch: ir.DeviceFunction) -> Iterator[Diagnostic]:
    """All that is wrong with the numbers of a launch."""
    if not 0 < launch.block_dim <= MAX_BLOCK_DIM:
        yield Diagnostic(
            "C411",
            f"blockDim is {launch.block_dim}, a CTA has 32 to {MAX_BLOCK_DIM} threads",
            launch.span,
            "launch fewer warps a CTA",
        )
    if not 0 < launch.cluster_dim <= MAX_CLUSTER_DIM:
        yield Diagnostic(
            "C412",
            f"clusterDim is {launch.cluster_dim}, a cluster has 1 to {MAX_CLUSTER_DIM} CTAs",
            launch.span,
            "launch fewer CTAs a cluster",
        )
    yield from _registers(launch)


def _registers(launch: ir.DeviceFunction) -> Iterator[Diagnostic]:
    """PTX setmaxnreg: all four warps of an aligned warpgroup execute the same one.

    Groups without a register change count too, both for the alignment of those after them and
    as warps of their warpgroup that do not execute it.
    """
    if not any(_changes(group) for group in launch.warps):
        return
    wrong = tuple(_warpgroups(launch))
    yield from wrong
    if not wrong:
        yield from _pool(launch)


def _warpgroups(launch: ir.DeviceFunction) -> Iterator[Diagnostic]:
    """Values that exist, by whole warpgroups."""
    for group in launch.warps:
        values = [n for n in (group.setmaxnreg_dec, group.setmaxnreg_inc) if n]
        legal = all(_MIN_REGISTERS <= n <= _MAX_REGISTERS and n % 8 == 0 for n in values)
        if len(values) > 1 or not legal:
            yield Diagnostic(
                "C409",
                f'warp group "{group.name}" asks for setmaxnreg {values}',
                launch.span,
                f"give one register count, a multiple of 8 from {_MIN_REGISTERS} to "
                f"{_MAX_REGISTERS}, and 0 for the other",
            )
    warps = [group for group in launch.warps for _ in range(group.count)]
    for first in range(0, len(warps), 4):
        warpgroup = warps[first : first + 4]
        changes = {(g.setmaxnreg_dec, g.setmaxnreg_inc) for g in warpgroup}
        names = ", ".join(dict.fromkeys(f'"{g.name}"' for g in warpgroup))
        if len(changes) > 1:
            yield Diagnostic(
                "C409",
                f"warps {first} to {first + len(warpgroup) - 1} are one warpgroup and change "
                f"their registers differently: groups {names}",
                launch.span,
                "setmaxnreg acts on whole warpgroups: pad the groups to multiples of 4 warps "
                "with an unused group of the same register count",
            )
        elif len(warpgroup) < 4 and any(map(_changes, warpgroup)):
            yield Diagnostic(
                "C409",
                f"the last {len(warpgroup)} warp(s), of group {names}, change their registers "
                "and are no whole warpgroup",
                launch.span,
                "make the number of warps a multiple of 4",
            )


def _pool(launch: ir.DeviceFunction) -> Iterator[Diagnostic]:
    """PTX setmaxnreg: an increase waits until the CTA's pool has the registers, for ever if the
    decreases of all others do not fill it.

    The pool is what the CTA is launched with.  A kernel of one CTA a multiprocessor is compiled
    for as many registers a thread as its largest setmaxnreg asks for, if so many are there for all
    its threads, else for as many as there are.
    """
    values = [n for g in launch.warps for n in (g.setmaxnreg_dec, g.setmaxnreg_inc) if n]
    if not values or not 0 < launch.block_dim <= MAX_BLOCK_DIM:
        return
    at_launch = min(max(values), _REGISTER_FILE // launch.block_dim // 8 * 8)
    for group in launch.warps:
        dec, inc = group.setmaxnreg_dec, group.setmaxnreg_inc
        if dec > at_launch or 0 < inc < at_launch:
            word, value = ("decreases", dec) if dec else ("increases", inc)
            yield Diagnostic(
                "C417",
                f'warp group "{group.name}" {word} its registers to {value}, and a thread of this '
                f"kernel starts with {at_launch}",
                launch.span,
                f"decrease to fewer than {at_launch} registers, and increase to more",
            )
            return
    kept = [(g.setmaxnreg_dec or g.setmaxnreg_inc or at_launch, 32 * g.count) for g in launch.warps]
    wanted, pool = sum(n * threads for n, threads in kept), at_launch * launch.block_dim
    if wanted > pool:
        terms = " + ".join(f"{threads} * {n}" for n, threads in kept)
        yield Diagnostic(
            "C417",
            f"the warp groups keep {terms} = {wanted} registers, and the CTA has {pool}, "
            f"{at_launch} for each of its {launch.block_dim} threads: an increase never returns",
            launch.span,
            "let the groups that increase ask for fewer registers, or those that decrease keep "
            "fewer",
        )


def _changes(group: ir.WarpConfig) -> bool:
    return group.setmaxnreg_dec != 0 or group.setmaxnreg_inc != 0


# Launches that begin before the one before them has ended (programmatic dependent launch).
#
# `with CudaDeviceFunction(..., dependent=True)` stands right after another launch. Its threads
# may run while that one still does, and wait for it at a `Fence(cuda_stream_sync, ...)`; without
# one they wait first in every task (decision `dependent-launch`).


def with_waits(proc: ir.Proc) -> ir.Proc:
    """The procedure with a wait first in each task of a dependent launch that has none."""
    body = _with_waits(proc.body)
    return proc if body is proc.body else replace(proc, body=body)


def _with_waits(block: ir.Block) -> ir.Block:
    found = tuple(_waiting(stmt) for stmt in block)
    return found if any(a is not b for a, b in zip(found, block, strict=True)) else block


def _waiting(stmt: ir.Stmt) -> ir.Stmt:
    if not isinstance(stmt, ir.DeviceFunction):
        return map_blocks(stmt, _with_waits)
    if not stmt.dependent or any(True for _ in waits(stmt)):
        return stmt
    stream = SYNC_TIMELINES["cuda_stream_sync"]

    def in_tasks(block: ir.Block) -> ir.Block:
        if any(_is_tasks(inner) for inner in block):
            return tuple(map_blocks(s, in_tasks) if _is_tasks(s) else s for s in block)
        return (ir.Fence(stream, stream, launches=True, span=stmt.span), *block)

    return replace(stmt, body=in_tasks(stmt.body))


def _is_tasks(stmt: ir.Stmt) -> bool:
    return isinstance(stmt, ir.For) and stmt.mode == ir.CudaTasks()


def waits(launch: ir.DeviceFunction) -> Iterator[ir.Fence]:
    """The statements of a launch that wait for those before it."""
    return (s for s in walk(launch.body) if isinstance(s, ir.Fence) and s.launches)


def preceding(proc: ir.Proc) -> Mapping[ir.DeviceFunction, ir.DeviceFunction]:
    """By dependent launch, the one right before it."""
    found: dict[ir.DeviceFunction, ir.DeviceFunction] = {}

    def look(block: ir.Block) -> None:
        before: ir.DeviceFunction | None = None
        for stmt in block:
            match stmt:
                case ir.DeviceFunction():
                    if stmt.dependent and before is not None:
                        found[stmt] = before
                    before = stmt
                case ir.Pass() | ir.Uninit() | ir.Free():
                    pass
                case _:
                    before = None
                    for inner in blocks(stmt):
                        look(inner)

    look(proc.body)
    return found


def check(proc: ir.Proc) -> Iterator[Diagnostic]:
    """A dependent launch stands right after a launch."""
    known = preceding(proc)
    for stmt in walk(proc.body):
        if isinstance(stmt, ir.DeviceFunction) and stmt.dependent and stmt not in known:
            yield Diagnostic(
                "C418",
                "a dependent launch does not stand right after another launch",
                stmt.span,
                "move what stands between them before both, or leave out dependent=True",
            )
