"""Dropout by Philox 4x32-10: each four elements have random numbers of their own, by their number.

No state is kept, so a backward pass makes the same mask again from the same seed and offset.

exogpu compile examples/dropout_philox.py -o build --cubin
"""

from __future__ import annotations

from exogpu import *
from exogpu.isa.cuda import cuda_load, cuda_number, cuda_store

FACTORS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85


@proc
def dropout_philox(
    N: size,
    x: bf16[N] @ CudaGmemLinear,
    y: bf16[N] @ CudaGmemLinear,
    seed: ui64 @ CudaGridConstant,
    offset: ui64 @ CudaGridConstant,
    threshold: ui32 @ CudaGridConstant,
    scale: f32 @ CudaGridConstant,
):
    """y = x * scale where the number of an element is at least the threshold, else 0."""
    assert N % 8 == 0
    with CudaDeviceFunction(blockDim=256):
        for b in cuda_tasks(0, (N + 2047) / 2048):
            for t in cuda_threads(0, 256, unit=cuda_thread):
                at = 2048 * b + 8 * t
                if at < N:
                    r: bf16[8]
                    number: i32
                    c: ui32[4]
                    k: ui32[2]
                    upper: ui32[2]
                    lower: ui32[2]
                    cuda_load(r[:], x[at : at + 8], n=8, dtype=bf16)
                    cuda_number(256 * b + t, number)
                    for half in seq(0, 2):
                        if half == 0:
                            c[0] = ui32(number) << 1
                        else:
                            c[0] = ui32(number) << 1 | 1
                        c[1] = 0
                        c[2] = ui32(offset)
                        c[3] = ui32(offset >> 32)
                        k[0] = ui32(seed)
                        k[1] = ui32(seed >> 32)
                        for turn in seq(0, 10):
                            upper[0] = mul_hi(c[0], FACTORS[0])
                            upper[1] = mul_hi(c[2], FACTORS[1])
                            lower[0] = c[0] * FACTORS[0]
                            lower[1] = c[2] * FACTORS[1]
                            c[0] = upper[1] ^ c[1] ^ k[0]
                            c[1] = lower[1]
                            c[2] = upper[0] ^ c[3] ^ k[1]
                            c[3] = lower[0]
                            k[0] += WEYL[0]
                            k[1] += WEYL[1]
                        for j in seq(0, 4):
                            r[4 * half + j] = select(c[j], threshold, 0.0, r[4 * half + j] * scale)
                    cuda_store(y[at : at + 8], r[:], n=8, dtype=bf16)
