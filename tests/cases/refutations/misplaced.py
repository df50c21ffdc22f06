"""A slot, a tail, an Arrive or an Await that is not where it belongs: the repair puts it there.

# proved placed_right
# refuted wrong_slot: UNINIT WAR
#     | index tile by k % 3 at line {other}, in the place of (k + 1) % 3 | proved
# refuted empty_tail: UNINIT
#     | add `else: tile[k % 3, t] = 0.0` after line {tail}, | proved
# refuted early: WAR | move the Arrive of line {early} to after line | proved
# refuted one_arrives: WAR PHASE
#     | move the Arrive of line {arrives} out of the `with CudaWarps(0, 1)` of line | proved
# refuted one_waits_alone: RAW PHASE
#     | move the Await of line {waits} out of the `with CudaWarps(0, 1)` of line | proved
# refuted off_by_one: BOUNDS
#     | let the bound of the `if` at line {bound} be strict | proved
"""

from __future__ import annotations

from exogpu import *

ROLES = [CudaWarpConfig("load", 2), CudaWarpConfig("use", 2)]


def ring(name: str, fault: str = "") -> Procedure:
    """Rows go through a ring of three slots; one thing is wrong."""

    @proc(name=name)
    def copy(K: size, n: size, x: f32[K, n] @ CudaGmemLinear, y: f32[K, 64] @ CudaGmemLinear):
        assert n <= 64
        with CudaDeviceFunction(warp_config=ROLES):
            for task in cuda_tasks(0, 1):
                tile: f32[3, 64] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                for k in seq(0, K):
                    with CudaWarps(name="load"):
                        Await(empty, cuda_in_order, ~3)
                        for t in cuda_threads(0, 64, unit=cuda_thread):
                            if fault == "tail":
                                if t < n:
                                    tile[k % 3, t] = x[k, t]  # [tail]
                            else:
                                tile[k % 3, t] = 0.0
                        Arrive(cuda_in_order) >> full
                    with CudaWarps(name="use"):
                        if fault == "wait":
                            with CudaWarps(0, 1):
                                Await(full, cuda_in_order, ~0)  # [waits]
                        else:
                            Await(full, cuda_in_order, ~0)
                        if fault == "early":
                            Arrive(cuda_in_order) >> empty  # [early]
                        for t in cuda_threads(0, 64, unit=cuda_thread):
                            if fault == "slot":
                                y[k, t] = tile[(k + 1) % 3, 63 - t]  # [other]
                            else:
                                y[k, t] = tile[k % 3, 63 - t]
                        if fault == "arrive":
                            with CudaWarps(0, 1):
                                Arrive(cuda_in_order) >> empty  # [arrives]
                        if fault != "arrive" and fault != "early":
                            Arrive(cuda_in_order) >> empty
                Fence(cuda_in_order, cuda_in_order)

    return copy


placed_right = ring("placed_right")
wrong_slot = ring("wrong_slot", "slot")
empty_tail = ring("empty_tail", "tail")
early = ring("early", "early")
one_arrives = ring("one_arrives", "arrive")
one_waits_alone = ring("one_waits_alone", "wait")


@proc
def off_by_one(n: size, x: f32[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for b in cuda_tasks(0, (n + 63) / 64):
            for t in cuda_threads(0, 64, unit=cuda_thread):
                if 64 * b + t <= n:  # [bound]
                    y[64 * b + t] = x[64 * b + t]
