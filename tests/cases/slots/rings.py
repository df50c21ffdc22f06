"""Memory that outlives a task, by which slots it is indexed: `# expect NAME: ...` below a kernel.

The slots of one memory count alike, or are 0 as each task begins (decision `private-slot`).
"""

from __future__ import annotations

from exogpu import *


def ring(
    name: str,
    *,
    read: str = "empty",
    again: int = 0,
    last: str = "",
    multiple: int = 1,
    tasks: int = 1000,
) -> Procedure:
    """A ring of three slots, filled by one warp and read by another.

    It is read by the slot of `empty`, of `more`, or of `empty` in a ring of `two`, or by the
    `step`; on `more` all steps arrive, or the first so many.
    """

    @proc(name=name)
    def kernel(
        M: size, K: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, K, 32] @ CudaGmemLinear
    ):
        assert K % multiple == 0
        assert tasks >= M
        with CudaDeviceFunction(blockDim=64):
            tile: f32[3, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            more: barrier @ CudaMbarrier
            for m in cuda_tasks(0, M):
                for k in seq(0, K):
                    with CudaWarps(0, 1):
                        Await(empty, cuda_in_order, ~3)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            tile[slot(full), t] = x[m, k, t]
                        Arrive(cuda_in_order) >> full
                    with CudaWarps(1, 2):
                        Await(full, cuda_in_order, ~0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            if read == "empty":
                                y[m, k, t] = tile[slot(empty), 31 - t]
                            if read == "more":
                                y[m, k, t] = tile[slot(more), 31 - t]
                            if read == "two":
                                for s in slot(empty, 2):
                                    y[m, k, t] = tile[s, 31 - t]
                            if read == "step":
                                y[m, k, t] = tile[k % 3, 31 - t]
                        Arrive(cuda_in_order) >> empty
                        if again == 0:
                            Arrive(cuda_in_order) >> more
                            Await(more, cuda_in_order, ~0)
                        else:
                            if k < again:
                                Arrive(cuda_in_order) >> more
                                Await(more, cuda_in_order, ~0)

    return kernel


as_it_should_be = ring("as_it_should_be")
# expect as_it_should_be: proved
counted_by_a_third = ring("counted_by_a_third", read="more")
# expect counted_by_a_third: proved
once_in_a_task = ring("once_in_a_task", read="more", again=1)
# expect once_in_a_task: error D529
other_depth = ring("other_depth", read="two")
# expect other_depth: error D529
by_steps = ring("by_steps", read="step")
# expect by_steps: error D529
by_steps_of_whole_rings = ring("by_steps_of_whole_rings", read="step", multiple=3)
# expect by_steps_of_whole_rings: proved
by_steps_in_one_task = ring("by_steps_in_one_task", read="step", tasks=1)
# expect by_steps_in_one_task: proved
