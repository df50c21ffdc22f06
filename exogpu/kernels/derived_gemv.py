"""The kernel `gemv`, derived from two loops: a warp a row, vectors, sums by shuffles."""

from __future__ import annotations

from exogpu import schedule as s
from exogpu.api import Procedure, proc
from exogpu.hw.memories import CudaGmemLinear, CudaRmem
from exogpu.hw.units import cuda_thread, cuda_warp
from exogpu.isa.cuda import cuda_load, cuda_shfl_xor


def textbook() -> Procedure:
    """y = A * x in two loops."""

    @proc
    def gemv(M: size, K: size, A: f32[M, K] @ DRAM, x: f32[K] @ DRAM, y: f32[M] @ DRAM):
        assert K % 4 == 0
        for m in seq(0, M):
            y[m] = 0
            for k in seq(0, K):
                y[m] += A[m, k] * x[k]

    return gemv


@s.derives()
def derived(WARPS: int = 8, LOADS: int = 4) -> Procedure:
    """The kernel with WARPS warps a CTA, and LOADS vectors of a row in flight a thread."""
    p = rows(textbook(), WARPS, LOADS)
    p = vectors(p, WARPS, LOADS)
    p = exchanges(p, WARPS)
    return launch(p, WARPS)


def rows(p: Procedure, WARPS: int, LOADS: int) -> Procedure:
    """A row a warp; each of its threads adds up every 32nd vector of four."""
    p = s.divide_loop(p, "m", WARPS, ["task", "w"])
    p = s.divide_loop(p, "k", 128 * LOADS, ["k", "kk"])
    p = s.divide_loop(p, "kk", 128, ["i", "kk"], tail="perfect")
    p = s.divide_loop(p, "kk", 4, ["t", "j"], tail="perfect")
    p = s.outwards(p, "t", over="k")
    return s.accumulate(p, "k", "part", over="t")


def vectors(p: Procedure, WARPS: int, LOADS: int) -> Procedure:
    """Vectors of four are loaded, all of a step before any is used."""
    start = f"{128 * LOADS} * k + 128 * i + 4 * t"
    p = s.add_if(p, "j", start, "<", "K")
    p = s.remove_if(p, s.find(p, "j").body()[0])
    p = s.stage_mem(p, "j", f"A[{WARPS} * task + w, {start} : {start} + 4]", "a")
    p = s.stage_mem(p, "j", f"x[{start} : {start} + 4]", "b")
    for name in ("a", "b"):
        p = s.expand_dim(p, name, LOADS, "i")
        p = s.lift_alloc(p, name, 2)
    p = s.fission(p, s.find(p, "j").before(), 2)
    return s.lift_alloc(s.expand_dim(p, "part", WARPS, "w"), "part", 2)


def exchanges(p: Procedure, WARPS: int) -> Procedure:
    """The threads of a warp add up their sums, those of no row, too; the first writes."""
    for _ in range(2):
        p = s.reorder_stmts(p, "y[_] = 0")
    p = s.fuse(p, "t")
    p = s.lift_scope(s.fission(p, s.find(p, "t").after()), "t")
    p = s.remove_if(s.fission(p, s.find(p, "part[_] = 0").after()), "if _: _")
    p = s.sum_by_exchange(p, "t #1", "other")
    p = s.lift_alloc(s.expand_dim(p, "other", WARPS, "w"), "other", 2)
    for at, mask in enumerate((16, 8, 4, 2, 1), 1):
        p = s.replace(p, f"t #{at}", cuda_shfl_xor, mask=mask)
    written = s.find(p, "if t == 0: _").parent()
    p = s.fission(p, written.before())
    p = s.lift_scope(s.remove_if(p, s.find(p, "cuda_shfl_xor").parent()), written)
    return s.merge_ifs(p, s.followed(p, written).body()[0])


def launch(p: Procedure, WARPS: int) -> Procedure:
    """Memories, instructions, warps and threads."""
    for name in ("A", "x", "y"):
        p = s.set_memory(p, name, CudaGmemLinear)
    for name in ("part", "other", "a", "b"):
        p = s.set_memory(p, name, CudaRmem)
    for _ in range(2):
        p = s.replace(p, "i0", cuda_load)
    p = s.wrap_kernel(p, "task", 32 * WARPS)
    p = s.set_loop_mode(s.set_loop_mode(p, "task", "tasks"), "w", cuda_warp)
    for loop in s.find_all(p, "t"):
        p = s.set_loop_mode(p, loop, cuda_thread)
    return p
