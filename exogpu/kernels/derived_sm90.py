"""The Hopper GEMM, derived from its textbook loops: TMA multicast, a ring of tiles, wgmma."""

from __future__ import annotations

from typing import NamedTuple

from exogpu import schedule
from exogpu.api import Procedure, proc
from exogpu.hw.memories import (
    CudaCommitGroup,
    CudaGmemLinear,
    Sm90_RmemMatrixD,
    Sm90_SmemSwizzled,
    Sm90_tensorMap_tf32,
)
from exogpu.hw.timelines import SYNC_TIMELINES as SYNC
from exogpu.hw.units import (
    cuda_cta_in_cluster,
    cuda_warp_in_cluster,
    cuda_warp_in_cluster_strided,
    cuda_warpgroup,
)
from exogpu.isa.sm90 import (
    Sm90_store_D,
    Sm90_tma_multicast_tf32,
    Sm90_wgmma_tf32,
    Sm90_zero_scale_d,
)
from exogpu.kernels import gemm_sm90 as kernels_gemm_sm90

cuda_in_order = SYNC["cuda_in_order"]


def textbook() -> Procedure:
    """C = A * B^T for each of L matrices, of numbers that are rounded to tf32."""

    @proc
    def gemm_sm90(
        L: size,
        M: size,
        N: size,
        cluster_K: size,
        A: f32[L, M, cluster_K] @ DRAM,
        B: f32[L, N, cluster_K] @ DRAM,
        C: f32[L, M, N] @ DRAM,
    ):
        assert cluster_K % 4 == 0
        for batch in seq(0, L):
            for i in seq(0, M):
                for j in seq(0, N):
                    C[batch, i, j] = 0
                    for k in seq(0, cluster_K):
                        C[batch, i, j] += tf32(A[batch, i, k]) * tf32(B[batch, j, k])

    return gemm_sm90


class Tiles(NamedTuple):
    """A configuration: the cluster, the tile of a CTA, the slots of the ring, the warpgroups that
    multiply."""

    CM: int
    CN: int
    TM: int
    TN: int
    RING: int = 4
    groups: int = 2

    @property
    def MM(self) -> int:
        """Rows of a warpgroup."""
        return self.TM // self.groups


@schedule.derives(2, 1, 128, 256)
def derived(CM: int, CN: int, TM: int, TN: int, RING: int = 4, groups: int = 2) -> Procedure:
    """The kernel for a cluster of CM x CN CTAs with a tile of TM x TN a CTA."""
    t = Tiles(CM, CN, TM, TN, RING, groups)
    p = tiles(textbook(), t)
    p = schedule.accumulate(p, "k", "D", over="m")
    p = products(p, t)
    p = schedule.replace(p, "i", Sm90_store_D, M=t.MM, N=t.TN)
    p = launch(p, t)
    p = synchronisation(p, t)
    p = schedule.insert_fence(p, schedule.find(p, "k").after(), cuda_in_order, cuda_in_order)
    return schedule.rename(p, f"gemm_sm90_{CM}x{CN}_{TM}x{TN}")


def tiles(p: Procedure, t: Tiles) -> Procedure:
    """A tile a CTA, its rows divided among warpgroups."""
    p = schedule.tile_for_cluster(
        p, "i", (t.CM, t.CN), (t.TM, t.TN), ["tm", "tn"], ["m", "n"], ["i", "j"]
    )
    return schedule.divide_loop(p, "i", t.MM, ["wg", "i"], tail="perfect")


def products(p: Procedure, t: Tiles, split: str = "") -> Procedure:
    """Steps of 32 columns, of which tiles of A and B are in each CTA, in a ring.

    A tile of A goes to its row of the cluster, that of B to its column, rounded on its way.  Tiles
    end in zeros, so that products need no guard.  With `split`, that slice of K is multiplied.
    """
    p = schedule.divide_loop(p, "k", 32, ["k", "kk"])
    p = schedule.divide_loop(p, "kk", 8, ["kk", "c"], tail="perfect")
    p = schedule.outwards(p, "k", over="m #1")
    of_slice = f"{split}, " if split else ""
    for x, rows, tile in (("A", t.TM, f"{t.CM} * tm + m"), ("B", t.TN, f"{t.CN} * tn + n")):
        start = f"{rows} * ({tile})"
        window = f"{x}[batch, {start} : {start} + {rows}, {of_slice}32 * k : 32 * k + 32]"
        p = schedule.stage_ring(p, "wg #1", window, f"{x}_smem", "k", slots=t.RING)
    for x in "AB":
        p = schedule.round_copies(p, f"{x}_smem")
    p = loads(p, t, split)
    for guard in (" #2", "", ""):
        p = schedule.remove_if(p, f"if _: _{guard}")
    p = schedule.outwards(p, "kk", over="i #1")
    p = schedule.replace(p, "i", Sm90_zero_scale_d, M=t.MM, N=t.TN)
    return schedule.replace(p, "i", Sm90_wgmma_tf32, M=t.MM, N=t.TN)


def loads(p: Procedure, t: Tiles, split: str) -> Procedure:
    """The copies of a tile are one instruction, a slice of it a CTA."""
    slices = "0:K_split, " if split else ""
    whole = (1,) if split else ()
    load = Sm90_tma_multicast_tf32
    for x, shape, rows in (("A", "M", t.TM // t.CN), ("B", "N", t.TN // t.CM)):
        box = Sm90_tensorMap_tf32(128, 1, rows, *whole, 32)
        window = f"{x}[0:L, 0:{shape}, {slices}0:cluster_K]"
        p = schedule.bind_window(p, schedule.find(p, "batch"), window, f"{x}_map", box)
    p = schedule.reorder_loops(schedule.reorder_loops(p, "n #1"), "n #1")
    box = (1, t.TM // t.CN, *whole, 32)
    p = schedule.replace(p, "i0", load, n=t.CN, stride=1, rows=t.TM, cols=32, box=box)
    p = schedule.reorder_loops(p, "m #2")
    p = schedule.reorder_loops(schedule.reorder_loops(p, "m #2"), "m #2")
    box = (1, t.TN // t.CM, *whole, 32)
    return schedule.replace(p, "i0", load, n=t.CM, stride=t.CN, rows=t.TN, cols=32, box=box)


def launch(p: Procedure, t: Tiles) -> Procedure:
    """Memories, tasks, CTAs of the cluster and warpgroups; one warp a CTA loads."""
    p = schedule.reorder_stmts(schedule.reorder_stmts(p, "m"), "m")
    for name in "ABC":
        p = schedule.set_memory(p, name, CudaGmemLinear)
    for name in ("A_smem", "B_smem"):
        p = schedule.set_memory(p, name, Sm90_SmemSwizzled(128))
    p = schedule.set_memory(p, "D", Sm90_RmemMatrixD(t.MM, t.TN))
    for loop in ("batch", "tm", "tn"):
        p = schedule.set_loop_mode(p, loop, "tasks")
    for part in ("", " #2", " #3"):
        p = schedule.set_loop_mode(p, f"m{part}", t.CN * cuda_cta_in_cluster)
        p = schedule.set_loop_mode(p, f"n{part}", cuda_cta_in_cluster)
    p = schedule.set_loop_mode(p, "m #1", t.CN * cuda_warp_in_cluster)
    p = schedule.set_loop_mode(p, "n #1", t.CM * cuda_warp_in_cluster_strided(t.CN))
    for part in ("", " #1", " #2"):
        p = schedule.set_loop_mode(p, f"wg{part}", cuda_warpgroup)
    zero, load, product, store = (schedule.find(p, f"m #{n}") for n in range(4))
    p = schedule.wrap_kernel(p, "batch", kernels_gemm_sm90.warps(t.groups), cluster=t.CM * t.CN)
    producer, consumer = schedule.CudaWarps(0, 1, "producer"), schedule.CudaWarps(name="consumer")
    return schedule.split_warps(p, load, [zero, product, store], producer, consumer, count=2)


def synchronisation(p: Procedure, t: Tiles) -> Procedure:
    """A slot is full when its tiles have come, and empty when the products with it are made."""
    warps = [("m", t.CM, t.CN * cuda_warp_in_cluster), ("n", t.CN, cuda_warp_in_cluster)]
    load = "Sm90_tma_multicast_tf32"
    calls = {load: f"[m, 0:{t.CN}]", f"{load} #1": f"[0:{t.CM}, n]"}
    groups, steps = schedule.find(p, "wg #1"), schedule.find(p, "kk")
    temporal, both = SYNC["cuda_temporal"], SYNC["cuda_generic_and_async"]
    timelines = (temporal, temporal, both, cuda_in_order)
    before = schedule.find(p, "with CudaWarps(_) _: _")
    p = schedule.guard_ring(p, calls, groups, t.RING, warps, timelines, before)
    p = schedule.insert_barrier_alloc(
        p, before.before(), "cg", [t.CM, t.CN, t.groups], CudaCommitGroup
    )
    start = schedule.find(p, "Sm90_zero_scale_d").after()
    p = schedule.insert_fence(p, start, SYNC["wgmma_fence_1"], SYNC["wgmma_fence_2"])
    p = schedule.insert_arrive(p, steps.after(), SYNC["wgmma_async"], "cg[m, n, wg]")
    made = schedule.find(p, "Arrive(wgmma_async) >> _").after()
    return schedule.insert_await(p, made, "cg[m, n, wg]", cuda_in_order, 0)
