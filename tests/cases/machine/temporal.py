"""Order that is only temporal: an overwrite may rely on it, a read may not."""

from __future__ import annotations

from exogpu import *


def make(name: str, kind: str) -> Procedure:
    @proc(name=name)
    def temporal(out: f32[1] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for task in cuda_tasks(0, 1):
                x: f32[1] @ CudaSmemLinear
                y: f32[1] @ CudaSmemLinear
                z: barrier @ CudaMbarrier
                with CudaWarps(0, 1):
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        x[0] = 1
                        y[0] = 1
                    Arrive(cuda_in_order) >> z
                with CudaWarps(1, 2):
                    Await(z, cuda_temporal)
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        if kind == "reduce":
                            x[0] += 2
                        if kind == "write":
                            x[0] = 2
                        if kind == "read":
                            x[0] = y[0] + 2
                Fence(cuda_in_order, cuda_in_order)

    return temporal


write = make("write", "write")  # safe
reduce = make("reduce", "reduce")  # refuted: RAW x 18 25
read = make("read", "read")  # refuted: RAW y 19 29
