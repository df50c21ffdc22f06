"""counts[b] = how many elements of x are b: in shared memory first, then among the CTAs."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.hw.language import i32
from exogpu.isa.cuda import cuda_atomic_add, cuda_memset0_1d

THREADS = 512
EACH = 32
"""Elements of a thread."""


def make_histogram(MOST: int) -> Procedure:
    """The kernel for at most so many bins: elements of x are 0 to `bins - 1`."""
    CHUNK = THREADS * EACH

    @proc(name=f"histogram_{MOST}")
    def histogram(
        M: size,
        bins: size,
        x: i32[M] @ CudaGmemLinear,
        counts: i32[bins] @ CudaGmemLinear,
    ):
        assert bins <= MOST
        cuda_memset0_1d(bins, counts[:], dtype=i32)
        with CudaDeviceFunction(blockDim=THREADS):
            for c in cuda_tasks(0, (M + CHUNK - 1) / CHUNK):
                part: i32[MOST] @ CudaSmemLinear
                one: i32[THREADS]
                for t in cuda_threads(0, THREADS, unit=cuda_thread):
                    one[t] = 1
                    for i in seq(0, (MOST + THREADS - 1) / THREADS):
                        if THREADS * i + t < MOST:
                            part[THREADS * i + t] = 0
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, THREADS, unit=cuda_thread):
                    for i in seq(0, EACH):
                        if CHUNK * c + THREADS * i + t < M:
                            b = load_index(x[CHUNK * c + THREADS * i + t], 0, bins)
                            cuda_atomic_add(part[b], one[t], dtype=i32)
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, THREADS, unit=cuda_thread):
                    for i in seq(0, (bins + THREADS - 1) / THREADS):
                        if THREADS * i + t < bins:
                            one[t] = part[THREADS * i + t]
                            cuda_atomic_add(counts[THREADS * i + t], one[t], dtype=i32)
                Fence(cuda_in_order, cuda_in_order)

    return histogram


KERNELS: dict[str, Procedure] = {kernel.name: kernel for kernel in map(make_histogram, (256, 4096))}
"""By name."""
