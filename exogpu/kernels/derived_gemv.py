"""The kernels `gemv` and `gemv_rows`, derived from two loops: vectors, and sums by shuffles."""

from __future__ import annotations

from exogpu import schedule as s
from exogpu.api import Procedure, proc
from exogpu.hw.memories import CudaGmemLinear, CudaRmem, CudaSmemLinear
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.hw.units import cuda_thread, cuda_warp
from exogpu.isa.cuda import cuda_load, cuda_shfl_xor

cuda_in_order = SYNC_TIMELINES["cuda_in_order"]


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
    start = f"{128 * LOADS} * k + 128 * i + 4 * t"
    p = vectors(p, LOADS, f"{WARPS} * task + w", start)
    p = s.lift_alloc(s.expand_dim(p, "part", WARPS, "w"), "part", 2)
    p = exchanges(p, WARPS)
    p = launch(p, WARPS, "task")
    return s.set_loop_mode(p, "w", cuda_warp)


@s.derives()
def derived_rows(WARPS: int = 16, LOADS: int = 4) -> Procedure:
    """The kernel for few and long rows: a CTA of WARPS warps a row."""
    p = one_row(textbook(), WARPS, LOADS)
    start = f"{128 * WARPS * LOADS} * k + {128 * WARPS} * i + 128 * w + 4 * t"
    p = vectors(p, LOADS, "m", start)
    p = s.fuse(p, "t")
    p = of_warps(p, WARPS)
    p = launch(p, WARPS, "m")
    p = s.set_memory(s.set_memory(p, "sums", CudaSmemLinear), "total", CudaRmem)
    p = s.set_loop_mode(p, "w", cuda_warp)
    p = s.insert_fence(p, s.find(p, "w").after(), cuda_in_order, cuda_in_order)
    end = s.find(p, "total: _").parent().after()
    return s.rename(s.insert_fence(p, end, cuda_in_order, cuda_in_order), "gemv_rows")


def rows(p: Procedure, WARPS: int, LOADS: int) -> Procedure:
    """A row a warp; each of its threads adds up every 32nd vector of four."""
    p = s.divide_loop(p, "m", WARPS, ["task", "w"])
    p = s.divide_loop(p, "k", 128 * LOADS, ["k", "kk"])
    p = s.divide_loop(p, "kk", 128, ["i", "kk"], tail="perfect")
    p = s.divide_loop(p, "kk", 4, ["t", "j"], tail="perfect")
    p = s.outwards(p, "t", over="k")
    return s.accumulate(p, "k", "part", over="t")


def one_row(p: Procedure, WARPS: int, LOADS: int) -> Procedure:
    """A row a CTA; each of its threads adds up some of its vectors of four."""
    p = s.divide_loop(p, "k", 128 * WARPS * LOADS, ["k", "kk"])
    p = s.divide_loop(p, "kk", 128 * WARPS, ["i", "kk"], tail="perfect")
    p = s.divide_loop(p, "kk", 128, ["w", "kk"], tail="perfect")
    p = s.divide_loop(p, "kk", 4, ["t", "j"], tail="perfect")
    p = s.outwards(s.outwards(p, "w", over="k"), "t", over="k")
    return s.accumulate(p, "k", "part", over="t")


def vectors(p: Procedure, LOADS: int, row: str, start: str) -> Procedure:
    """Vectors of four are loaded, all of a step before any is used."""
    p = s.add_if(p, "j", start, "<", "K")
    p = s.remove_if(p, s.find(p, "j").body()[0])
    p = s.stage_mem(p, "j", f"A[{row}, {start} : {start} + 4]", "a")
    p = s.stage_mem(p, "j", f"x[{start} : {start} + 4]", "b")
    for name in ("a", "b"):
        p = s.expand_dim(p, name, LOADS, "i")
        p = s.lift_alloc(p, name, 2)
    return s.fission(p, s.find(p, "j").before(), 2)


def exchanges(p: Procedure, WARPS: int) -> Procedure:
    """The threads of a warp add up their sums, those of no row, too; the first writes."""
    for _ in range(2):
        p = s.reorder_stmts(p, "y[_] = 0")
    p = s.fuse(p, "t")
    p = s.lift_scope(s.fission(p, s.find(p, "t").after()), "t")
    p = s.remove_if(s.fission(p, s.find(p, "part[_] = 0").after()), "if _: _")
    p = s.sum_by_exchange(p, "t #1", "other")
    p = s.lift_alloc(s.expand_dim(p, "other", WARPS, "w"), "other", 2)
    p = shuffles(p)
    written = s.find(p, "if t == 0: _").parent()
    p = s.fission(p, written.before())
    p = s.lift_scope(s.remove_if(p, s.find(p, "cuda_shfl_xor").parent()), written)
    return s.merge_ifs(p, s.followed(p, written).body()[0])


def shuffles(p: Procedure) -> Procedure:
    """The exchanges that follow the first loop over threads."""
    for at, mask in enumerate((16, 8, 4, 2, 1), 1):
        p = s.replace(p, f"t #{at}", cuda_shfl_xor, mask=mask)
    return p


def of_warps(p: Procedure, WARPS: int) -> Procedure:
    """The threads of each warp add up their sums; then one thread adds up those of the warps."""
    p = s.stage_sum(p, "t #1", "y[m]", "sums")
    for name in ("part", "sums"):
        p = s.lift_alloc(s.expand_dim(p, name, WARPS, "w"), name)
    p = s.sum_by_exchange(p, "t #1", "other")
    p = s.lift_alloc(s.expand_dim(p, "other", WARPS, "w"), "other")
    p = s.reorder_stmts(p, "sums: _")
    p = s.fission(p, s.find(p, "y[_] += _").before())
    for _ in range(4):
        p = s.reorder_stmts(p, "y[_] = 0")
    p = s.stage_mem(p, "y[_] = 0", "y[m]", "total", count=2)
    p = shuffles(p)
    p = s.cut_loop(p, s.find(p, "sums[_] = _").parent().parent(), 1)
    first, rest = s.find(p, "if t == 0: _"), s.find(p, "if t == 0: _ #1").parent()
    p = s.remove_if(s.eliminate_dead_code(p, rest), first)
    return s.add_loop(p, "total: _", "t", 1, count=4)


def launch(p: Procedure, WARPS: int, tasks: str) -> Procedure:
    """Memories, instructions, warps and threads."""
    for name in ("A", "x", "y"):
        p = s.set_memory(p, name, CudaGmemLinear)
    for name in ("part", "other", "a", "b"):
        p = s.set_memory(p, name, CudaRmem)
    for _ in range(2):
        p = s.replace(p, "i0", cuda_load)
    p = s.wrap_kernel(p, tasks, 32 * WARPS)
    p = s.set_loop_mode(p, tasks, "tasks")
    for loop in s.find_all(p, "t"):
        p = s.set_loop_mode(p, loop, cuda_thread)
    return p
