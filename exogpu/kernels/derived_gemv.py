"""The kernels `gemv` and `gemv_rows`, derived from two loops: vectors, and sums by shuffles."""

from __future__ import annotations

from exogpu import schedule
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


@schedule.derives()
def derived(WARPS: int = 8, LOADS: int = 4) -> Procedure:
    """The kernel with WARPS warps a CTA, and LOADS vectors of a row in flight a thread."""
    p = rows(textbook(), WARPS, LOADS)
    start = f"{128 * LOADS} * k + 128 * i + 4 * t"
    p = vectors(p, LOADS, f"{WARPS} * task + w", start)
    p = schedule.lift_alloc(schedule.expand_dim(p, "part", WARPS, "w"), "part", 2)
    p = exchanges(p, WARPS)
    p = launch(p, WARPS, "task")
    return schedule.set_loop_mode(p, "w", cuda_warp)


@schedule.derives()
def derived_rows(WARPS: int = 16, LOADS: int = 4) -> Procedure:
    """The kernel for few and long rows: a CTA of WARPS warps a row."""
    p = one_row(textbook(), WARPS, LOADS)
    start = f"{128 * WARPS * LOADS} * k + {128 * WARPS} * i + 128 * w + 4 * t"
    p = vectors(p, LOADS, "m", start)
    p = schedule.fuse(p, "t")
    p = of_warps(p, WARPS)
    p = launch(p, WARPS, "m")
    p = schedule.set_memory(schedule.set_memory(p, "sums", CudaSmemLinear), "total", CudaRmem)
    p = schedule.set_loop_mode(p, "w", cuda_warp)
    p = schedule.insert_fence(p, schedule.find(p, "w").after(), cuda_in_order, cuda_in_order)
    end = schedule.find(p, "total: _").parent().after()
    return schedule.rename(schedule.insert_fence(p, end, cuda_in_order, cuda_in_order), "gemv_rows")


def rows(p: Procedure, WARPS: int, LOADS: int) -> Procedure:
    """A row a warp; each of its threads adds up every 32nd vector of four."""
    p = schedule.divide_loop(p, "m", WARPS, ["task", "w"])
    p = schedule.divide_loop(p, "k", 128 * LOADS, ["k", "kk"])
    p = schedule.divide_loop(p, "kk", 128, ["i", "kk"], tail="perfect")
    p = schedule.divide_loop(p, "kk", 4, ["t", "j"], tail="perfect")
    p = schedule.outwards(p, "t", over="k")
    return schedule.accumulate(p, "k", "part", over="t")


def one_row(p: Procedure, WARPS: int, LOADS: int) -> Procedure:
    """A row a CTA; each of its threads adds up some of its vectors of four."""
    p = schedule.divide_loop(p, "k", 128 * WARPS * LOADS, ["k", "kk"])
    p = schedule.divide_loop(p, "kk", 128 * WARPS, ["i", "kk"], tail="perfect")
    p = schedule.divide_loop(p, "kk", 128, ["w", "kk"], tail="perfect")
    p = schedule.divide_loop(p, "kk", 4, ["t", "j"], tail="perfect")
    p = schedule.outwards(schedule.outwards(p, "w", over="k"), "t", over="k")
    return schedule.accumulate(p, "k", "part", over="t")


def vectors(p: Procedure, LOADS: int, row: str, start: str) -> Procedure:
    """Vectors of four are loaded, all of a step before any is used."""
    p = schedule.add_if(p, "j", start, "<", "K")
    p = schedule.remove_if(p, schedule.find(p, "j").body()[0])
    p = schedule.stage_mem(p, "j", f"A[{row}, {start} : {start} + 4]", "a")
    p = schedule.stage_mem(p, "j", f"x[{start} : {start} + 4]", "b")
    for name in ("a", "b"):
        p = schedule.expand_dim(p, name, LOADS, "i")
        p = schedule.lift_alloc(p, name, 2)
    return schedule.fission(p, schedule.find(p, "j").before(), 2)


def exchanges(p: Procedure, WARPS: int) -> Procedure:
    """The threads of a warp add up their sums, those of no row, too; the first writes."""
    for _ in range(2):
        p = schedule.reorder_stmts(p, "y[_] = 0")
    p = schedule.fuse(p, "t")
    p = schedule.lift_scope(schedule.fission(p, schedule.find(p, "t").after()), "t")
    p = schedule.remove_if(schedule.fission(p, schedule.find(p, "part[_] = 0").after()), "if _: _")
    p = schedule.sum_by_exchange(p, "t #1", "other")
    p = schedule.lift_alloc(schedule.expand_dim(p, "other", WARPS, "w"), "other", 2)
    p = shuffles(p)
    written = schedule.find(p, "if t == 0: _").parent()
    p = schedule.fission(p, written.before())
    p = schedule.lift_scope(
        schedule.remove_if(p, schedule.find(p, "cuda_shfl_xor").parent()), written
    )
    return schedule.merge_ifs(p, schedule.followed(p, written).body()[0])


def shuffles(p: Procedure) -> Procedure:
    """The exchanges that follow the first loop over threads."""
    for at, mask in enumerate((16, 8, 4, 2, 1), 1):
        p = schedule.replace(p, f"t #{at}", cuda_shfl_xor, mask=mask)
    return p


def of_warps(p: Procedure, WARPS: int) -> Procedure:
    """The threads of each warp add up their sums; then one thread adds up those of the warps."""
    p = schedule.stage_sum(p, "t #1", "y[m]", "sums")
    for name in ("part", "sums"):
        p = schedule.lift_alloc(schedule.expand_dim(p, name, WARPS, "w"), name)
    p = schedule.sum_by_exchange(p, "t #1", "other")
    p = schedule.lift_alloc(schedule.expand_dim(p, "other", WARPS, "w"), "other")
    p = schedule.reorder_stmts(p, "sums: _")
    p = schedule.fission(p, schedule.find(p, "y[_] += _").before())
    for _ in range(4):
        p = schedule.reorder_stmts(p, "y[_] = 0")
    p = schedule.stage_mem(p, "y[_] = 0", "y[m]", "total", count=2)
    p = shuffles(p)
    p = schedule.cut_loop(p, schedule.find(p, "sums[_] = _").parent().parent(), 1)
    first, rest = schedule.find(p, "if t == 0: _"), schedule.find(p, "if t == 0: _ #1").parent()
    p = schedule.remove_if(schedule.eliminate_dead_code(p, rest), first)
    return schedule.add_loop(p, "total: _", "t", 1, count=4)


def launch(p: Procedure, WARPS: int, tasks: str) -> Procedure:
    """Memories, instructions, warps and threads."""
    for name in ("A", "x", "y"):
        p = schedule.set_memory(p, name, CudaGmemLinear)
    for name in ("part", "other", "a", "b"):
        p = schedule.set_memory(p, name, CudaRmem)
    for _ in range(2):
        p = schedule.replace(p, "i0", cuda_load)
    p = schedule.wrap_kernel(p, tasks, 32 * WARPS)
    p = schedule.set_loop_mode(p, tasks, "tasks")
    for loop in schedule.find_all(p, "t"):
        p = schedule.set_loop_mode(p, loop, cuda_thread)
    return p
