"""The Hopper GEMM, derived from its textbook loops: TMA multicast, a ring of tiles, wgmma."""

from __future__ import annotations

from functools import cache

from exogpu import schedule as s
from exogpu.api import Procedure, proc
from exogpu.hw.memories import (
    CudaCommitGroup,
    CudaGmemLinear,
    CudaMbarrier,
    Sm90_RmemMatrixD,
    Sm90_SmemSwizzled,
    Sm90_tensorMap,
)
from exogpu.hw.timelines import SYNC_TIMELINES as SYNC
from exogpu.hw.units import (
    cuda_cta_in_cluster,
    cuda_warp_in_cluster,
    cuda_warp_in_cluster_strided,
    cuda_warpgroup,
)
from exogpu.isa.sm90 import Sm90_store_D, Sm90_tma_multicast, Sm90_wgmma_tf32, Sm90_zero_scale_d
from exogpu.kernels.gemm_sm90 import WARPS


def textbook() -> Procedure:
    """C = A * B^T for each of L matrices."""

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
                        C[batch, i, j] += A[batch, i, k] * B[batch, j, k]

    return gemm_sm90


@cache
def derived(CM: int, CN: int, TM: int, TN: int, RING: int = 4) -> Procedure:
    """The kernel for a cluster of CM x CN CTAs with a tile of TM x TN a CTA."""
    p = tiles(textbook(), CM, CN, TM, TN)
    p = ring(p, CM, CN, TM, TN, RING)
    p = loads(p, CM, CN, TM, TN)
    p = products(p, TM // 2, TN)
    p = launch(p, CM, CN, TM, TN)
    return synchronisation(p, CM, CN, RING)


def tiles(p: Procedure, CM: int, CN: int, TM: int, TN: int) -> Procedure:
    """A tile a CTA, half of it a warpgroup; sums in a variable, 32 columns at a time."""
    MM = TM // 2
    p = s.stage_mem(p, "C[_] = _", "C[batch, i, j]", "D", count=2)
    p = s.divide_loop(p, "j", CN * TN, ["tn", "jj"])
    p = s.reorder_loops(p, "i")
    p = s.divide_loop(p, "i", CM * TM, ["tm", "ii"])
    p = s.reorder_loops(p, "tn")
    p = s.lift_scope(p, "jj")
    p = s.divide_loop(p, "ii", TM, ["m", "i"], tail="perfect")
    p = s.divide_loop(p, "i", MM, ["wg", "i"], tail="perfect")
    p = s.divide_loop(p, "jj", TN, ["n", "j"], tail="perfect")
    p = s.reorder_loops(s.reorder_loops(p, "i"), "wg")
    for extent, index in ((TN, "j"), (MM, "i"), (2, "wg"), (CN, "n"), (CM, "m")):
        p = s.expand_dim(p, "D", extent, index)
    p = s.lift_alloc(p, "D", 7)
    p = s.fission(p, s.find(p, "for k in _: _").before(), 7)
    p = s.fission(p, s.find(p, "for k in _: _").after(), 7)
    p = s.remove_if(s.remove_if(p, "if _: _"), "if _: _")
    p = s.divide_loop(p, "k", 32, ["k", "kk"])
    p = s.divide_loop(p, "kk", 8, ["kk", "c"], tail="perfect")
    p = s.lift_scope(s.lift_scope(p, "k"), "k")
    for loop in ("j", "i", "wg", "n", "m"):
        p = s.reorder_loops(p, f"{loop} #1")
    return p


def ring(p: Procedure, CM: int, CN: int, TM: int, TN: int, RING: int) -> Procedure:
    """Tiles of A and B in each CTA, in RING slots; they are loaded before they are used."""
    for x, rows, tile in (("A", TM, f"{CM} * tm + m"), ("B", TN, f"{CN} * tn + n")):
        start = f"{rows} * ({tile})"
        window = f"{x}[batch, {start} : {start} + {rows}, 32 * k : 32 * k + 32]"
        p = s.stage_mem(p, "wg #1", window, f"{x}_smem")
        p = s.expand_dim(p, f"{x}_smem", "(cluster_K + 31) / 32", "k")
        p = s.expand_dim(s.expand_dim(p, f"{x}_smem", CN, "n"), f"{x}_smem", CM, "m")
        p = s.lift_alloc(p, f"{x}_smem", 3)
        p = s.fission(p, s.find(p, "wg #1").before(), 2)
        p = s.resize_dim(p, f"{x}_smem", 2, RING, fold=True)
    return p


def loads(p: Procedure, CM: int, CN: int, TM: int, TN: int) -> Procedure:
    """A CTA's tile of A goes to its row of the cluster, that of B to its column."""
    for x, shape in (("A", "M"), ("B", "N")):
        rows = TM // CN if x == "A" else TN // CM
        box = Sm90_tensorMap(128, 1, rows, 32)
        p = s.bind_window(p, "batch", f"{x}[0:L, 0:{shape}, 0:cluster_K]", f"{x}_map", box)
    p = s.reorder_loops(s.reorder_loops(p, "n #1"), "n #1")
    p = s.replace(
        p, "i0", Sm90_tma_multicast, n=CN, stride=1, rows=TM, cols=32, box=(1, TM // CN, 32)
    )
    p = s.reorder_loops(p, "m #2")
    p = s.reorder_loops(s.reorder_loops(p, "m #2"), "m #2")
    return s.replace(
        p, "i0", Sm90_tma_multicast, n=CM, stride=CN, rows=TN, cols=32, box=(1, TN // CM, 32)
    )


def products(p: Procedure, MM: int, TN: int) -> Procedure:
    """Tiles end in zeros, so that products need no guard; a warpgroup's loops are instructions."""
    for guard in (" #2", "", ""):
        p = s.remove_if(p, f"if _: _{guard}")
    p = s.reorder_loops(s.reorder_loops(p, "j #1"), "i #1")
    p = s.replace(p, "i", Sm90_zero_scale_d, M=MM, N=TN)
    p = s.replace(p, "i", Sm90_wgmma_tf32, M=MM, N=TN)
    p = s.replace(p, "i", Sm90_store_D, M=MM, N=TN)
    return s.reorder_stmts(s.reorder_stmts(p, "m"), "m")


def launch(p: Procedure, CM: int, CN: int, TM: int, TN: int) -> Procedure:
    """Memories, tasks, CTAs of the cluster and warpgroups; one warp a CTA loads."""
    for name in "ABC":
        p = s.set_memory(p, name, CudaGmemLinear)
    for name in ("A_smem", "B_smem"):
        p = s.set_memory(p, name, Sm90_SmemSwizzled(128))
    p = s.set_memory(p, "D", Sm90_RmemMatrixD(TM // 2, TN))
    for loop in ("batch", "tm", "tn"):
        p = s.set_loop_mode(p, loop, "tasks")
    for part in ("", " #2", " #3"):
        p = s.set_loop_mode(p, f"m{part}", CN * cuda_cta_in_cluster)
        p = s.set_loop_mode(p, f"n{part}", cuda_cta_in_cluster)
    p = s.set_loop_mode(p, "m #1", CN * cuda_warp_in_cluster)
    p = s.set_loop_mode(p, "n #1", CM * cuda_warp_in_cluster_strided(CN))
    for part in ("", " #1", " #2"):
        p = s.set_loop_mode(p, f"wg{part}", cuda_warpgroup)
    zero, load, product, store = (s.find(p, f"m #{n}") for n in range(4))
    p = s.wrap_kernel(p, "batch", WARPS, cluster=CM * CN)
    p = s.wrap_with_context(p, [zero, product, store], s.CudaWarps(name="consumer"))
    return s.wrap_with_context(p, load, s.CudaWarps(0, 1, "producer"), count=2)


def synchronisation(p: Procedure, CM: int, CN: int, RING: int) -> Procedure:
    """A slot is full when its tiles have come, and empty when the products with it are made."""
    load, other = s.find(p, "m #1"), s.find(p, "n #1")
    row, column = f"[m, 0:{CN}]", f"[0:{CM}, n]"
    warps = [("m", CM, CN * cuda_warp_in_cluster), ("n", CN, cuda_warp_in_cluster)]
    before = s.find(p, "with CudaWarps(_) _: _").before()
    p = s.insert_barrier_alloc(p, before, "full", [CM, CN], CudaMbarrier)
    p = s.insert_barrier_alloc(p, before, "empty", [CM, CN], CudaMbarrier, guard="full")
    p = s.insert_barrier_alloc(p, before, "cg", [CM, CN, 2], CudaCommitGroup)
    start = s.find(p, "Sm90_zero_scale_d").after()
    p = s.insert_fence(p, start, SYNC["wgmma_fence_1"], SYNC["wgmma_fence_2"])
    p = s.insert_await(p, load.before(), "empty[m, n]", SYNC["cuda_temporal"], ~RING, over=warps)
    p = s.set_trailing_barrier_expr(p, "Sm90_tma_multicast", f"full{row}")
    p = s.set_trailing_barrier_expr(p, "Sm90_tma_multicast #1", f"full{column}")
    p = s.insert_arrive(p, other.after(), SYNC["cuda_temporal"], "full[m, n]", over=warps)
    groups, steps = s.find(p, "wg #1"), s.find(p, "kk")
    p = s.insert_await(p, groups.before(), "full[m, n]", SYNC["cuda_generic_and_async"])
    p = s.insert_arrive(p, steps.after(), SYNC["wgmma_async"], "cg[m, n, wg]")
    made = s.find(p, "Arrive(wgmma_async) >> _").after()
    p = s.insert_await(p, made, "cg[m, n, wg]", SYNC["cuda_in_order"], 0)
    p = s.insert_arrive(p, groups.after(), SYNC["cuda_in_order"], f"empty{row}", f"empty{column}")
    return s.insert_fence(p, s.find(p, "k").after(), SYNC["cuda_in_order"], SYNC["cuda_in_order"])
