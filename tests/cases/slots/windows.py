"""A slot as a window of one element: as much as the slot itself.

`# expect NAME: ...` stands below each kernel.
"""

from __future__ import annotations

from exogpu import *
from exogpu.hw.operands import CUDA_MEMORY
from exogpu.hw.units import cuda_thread


@instr(unit=cuda_thread, dst=CUDA_MEMORY, src=CUDA_MEMORY, template="{dst} = {src};")
def copy(dst: f32[1] @ CudaSmemLinear, src: f32[1] @ CudaGmemLinear):
    for i in seq(0, 1):
        dst[i] = src[i]


def ring(name: str, how: str, *, own: bool = False, ahead: int = 3, wide: int = 1) -> Procedure:
    """A ring of three slots that is filled through a window, by an instruction, or an element after
    the slot, and of which the producer runs so many slots ahead."""

    @macro
    def fill(tile, s, x, m, k, t):
        if how == "window":
            w = tile[s : s + wide, t]
            w[0] = x[m, k, t]
        if how == "loop":
            w = tile[s : s + wide, t]
            for i in seq(0, 1):
                w[i] = x[m, k, t]
        if how == "operand":
            copy(tile[s : s + 1, t], x[m, k : k + 1, t])
        if how == "next":
            tile[(s + 1) % 3, t] = x[m, k, t]

    @macro
    def read(tile, s, y, m, k, t):
        w = tile[s : s + wide, 0:32]
        if how == "next":
            y[m, k, t] = tile[(s + 1) % 3, 31 - t]
        else:
            y[m, k, t] = w[0, 31 - t]

    @macro
    def steps(K, tile, full, empty, x, y, m):
        for k in seq(0, K):
            with CudaWarps(0, 1):
                Await(empty, cuda_in_order, ~ahead)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for s in slot(full, 3):
                        fill(tile, s, x, m, k, t)
                Arrive(cuda_in_order) >> full
            with CudaWarps(1, 2):
                Await(full, cuda_in_order, ~0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for s in slot(empty, 3):
                        read(tile, s, y, m, k, t)
                Arrive(cuda_in_order) >> empty

    if own:

        @proc(name=name)
        def kernel(
            M: size, K: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, K, 32] @ CudaGmemLinear
        ):
            with CudaDeviceFunction(blockDim=64):
                for m in cuda_tasks(0, M):
                    tile: f32[4, 32] @ CudaSmemLinear
                    full: barrier @ CudaMbarrier
                    empty: barrier(full) @ CudaMbarrier
                    steps(K, tile, full, empty, x, y, m)
                    Fence(cuda_in_order, cuda_in_order)

        return kernel

    @proc(name=name)
    def kernel(
        M: size, K: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, K, 32] @ CudaGmemLinear
    ):
        with CudaDeviceFunction(blockDim=64):
            tile: f32[4, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for m in cuda_tasks(0, M):
                steps(K, tile, full, empty, x, y, m)

    return kernel


window = ring("window", "window")
# expect window: proved
loop = ring("loop", "loop")
# expect loop: proved
operand = ring("operand", "operand")
# expect operand: proved
loop_of_a_task = ring("loop_of_a_task", "loop", own=True)
# expect loop_of_a_task: proved
operand_of_a_task = ring("operand_of_a_task", "operand", own=True)
# expect operand_of_a_task: proved
too_early = ring("too_early", "operand", ahead=4)
# expect too_early: refuted WAR tile
too_early_in_a_task = ring("too_early_in_a_task", "loop", own=True, ahead=4)
# expect too_early_in_a_task: refuted WAR tile
wider = ring("wider", "window", wide=2)
# expect wider: proved
next_one = ring("next_one", "next")
# expect next_one: error D528
next_one_of_a_task = ring("next_one_of_a_task", "next", own=True)
# expect next_one_of_a_task: undecided
