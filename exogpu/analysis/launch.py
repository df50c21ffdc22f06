"""Checks launches: numbers of threads and CTAs, and register changes of warp groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from exogpu.ir.nodes import DeviceFunction, WarpConfig
from exogpu.result.errors import Diagnostic

MAX_BLOCK_DIM: Final = 1024
"""Threads a CTA (CUDA C++ programming guide, table of compute capabilities)."""

MAX_CLUSTER_DIM: Final = 16
"""CTAs a cluster: 8 is portable, 16 is what sm_90 allows on request."""

_MIN_REGISTERS, _MAX_REGISTERS = 24, 256

_REGISTER_FILE: Final = 65536
"""Registers that one CTA can have (CUDA C++ programming guide, compute capability 9.0)."""


def check_launch(launch: DeviceFunction) -> Iterator[Diagnostic]:
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


def _registers(launch: DeviceFunction) -> Iterator[Diagnostic]:
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


def _warpgroups(launch: DeviceFunction) -> Iterator[Diagnostic]:
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


def _pool(launch: DeviceFunction) -> Iterator[Diagnostic]:
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


def _changes(group: WarpConfig) -> bool:
    return group.setmaxnreg_dec != 0 or group.setmaxnreg_inc != 0
