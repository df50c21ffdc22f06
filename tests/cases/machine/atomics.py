"""Atomic operations in any order among themselves (decision `atomic-operations`)."""

from __future__ import annotations

from exogpu import *
from exogpu.isa.cuda import cuda_atomic_add, cuda_atomic_max


def make(name: str, kind: str, operation=cuda_atomic_add) -> Procedure:
    @proc(name=name)
    def atomics(out: f32[1] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for task in cuda_tasks(0, 1):
                x: f32[1] @ CudaSmemLinear
                with CudaWarps(0, 1):
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        x[0] = 0
                if kind == "temporal":
                    Fence(cuda_in_order, cuda_temporal)
                elif kind != "not first":
                    Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    value: f32
                    value = 1
                    operation(x[0], value)
                if kind == "read":
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        out[0] = x[0]
                if kind == "overwrite":
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        x[0] = 0
                if kind == "plain add":
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        x[0] += 1
                if kind != "not last":
                    Fence(cuda_in_order, cuda_in_order)

    return atomics


among_themselves = make("among_themselves", "")  # safe
maxima = make("maxima", "", cuda_atomic_max)  # safe
not_first = make("not_first", "not first")  # refuted: RAW x 17 25
only_temporal = make("only_temporal", "temporal")  # refuted: RAW x 17 25
read = make("read", "read")  # refuted: RAW x 25 28
overwritten = make("overwritten", "overwrite")  # refuted: WAW x 25 31
plain_add = make("plain_add", "plain add")  # refuted: RAW x 25 34
not_last = make("not_last", "not last")  # refuted: FREE x 25 14
