"""Programs whose CTAs access each other's shared memory, in steps."""

from __future__ import annotations

from random import Random

from exogpu import proc
from exogpu.api import Procedure
from exogpu.isa.cuda import cuda_atomic_add

NOTHING, WARP, CTA, CLUSTER, SPLIT = range(5)
"""What follows a step."""

Step = tuple[str, int, int, int]
"""`write`, `read` or `add`; a and b: CTA c accesses the part of CTA a * c + b; what follows."""


def make(steps: list[Step], ctas: int = 4, resides: bool = False) -> Procedure:
    """The steps in order; at last all of it is read by its CTA, and a Fence of the cluster."""
    C = ctas

    @proc(name="steps")
    def in_task(x: f32[3, C, 32] @ CudaGmemLinear, y: f32[3, C, 9, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(clusterDim=C, blockDim=32):
            for task in cuda_tasks(0, 1):
                part: f32[C, 32] @ CudaSmemCluster
                meet: barrier @ CudaClusterSync
                for n, (what, a, b, then) in enumerate(steps):
                    for c in cuda_threads(0, C, unit=cuda_cta_in_cluster):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            if what == "write":
                                part[(a * c + b) % C, t] = x[task, c, t]
                            if what == "read":
                                y[task, c, n, t] = part[(a * c + b) % C, 31 - t]
                            if what == "add":
                                r: f32
                                r = x[task, c, t]
                                cuda_atomic_add(part[(a * c + b) % C, t % 4], r)
                        if then == WARP:
                            for w in cuda_threads(0, 1, unit=cuda_warp):
                                Fence(cuda_in_order, cuda_in_order)
                        if then == CTA:
                            Fence(cuda_in_order, cuda_in_order)
                    if then == CLUSTER:
                        Fence(cuda_in_order, cuda_in_order)
                    if then == SPLIT:
                        Arrive(cuda_in_order) >> meet
                        Await(meet, cuda_in_order, 0)

    @proc(name="steps")
    def resident(M: size, x: f32[M, C, 32] @ CudaGmemLinear, y: f32[M, C, 9, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(clusterDim=C, blockDim=32):
            part: f32[C, 32] @ CudaSmemCluster
            for task in cuda_tasks(0, M):
                for n, (what, a, b, then) in enumerate(steps):
                    for c in cuda_threads(0, C, unit=cuda_cta_in_cluster):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            if what == "write":
                                part[(a * c + b) % C, t] = x[task, c, t]
                            if what == "read":
                                y[task, c, n, t] = part[(a * c + b) % C, 31 - t]
                        if then == CTA:
                            Fence(cuda_in_order, cuda_in_order)
                    if then == CLUSTER:
                        Fence(cuda_in_order, cuda_in_order)

    return resident if resides else in_task


def at_random(random: Random) -> Procedure:
    """Up to four steps; often enough all is synchronised."""
    often = random.random() < 0.6
    steps: list[Step] = []
    for n in range(random.randint(2, 4)):
        what = "write" if n == 0 else random.choice(("write", "read", "read", "add"))
        a = random.choice((1, 1, 1, 3, 0) if what != "write" else (1, 1, 3, 3, 0))
        then = CLUSTER if often else random.choice((NOTHING, WARP, CTA, CTA, CLUSTER, SPLIT))
        steps.append((what, a, random.choice((0, 0, 1, 2)), then))
    return make(steps)
