"""A packed program that adds one, for `fake_gpu`."""

from __future__ import annotations

from exogpu import proc
from exogpu.gpu_trial.run_data import Packed, at_sizes


@proc
def add_one(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = x[m, t] + 1.0


SIZES = ({"M": 1}, {"M": 5})


def packed() -> Packed:
    """The program at two sizes; its cubin is none."""
    manifest = add_one.emit(unchecked=True)[1]
    at = tuple(at_sizes(add_one, sizes, seed) for seed, sizes in enumerate(SIZES))
    return Packed("add_one", "source", manifest, b"cubin", None, 0.0, at)
