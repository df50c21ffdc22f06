"""Values from memory and contracts: each refused line says which code it draws."""

from exogpu import *


@proc
def gather(
    N: size,
    perm: i32[N] @ CudaGmemLinear,
    x: f32[N] @ CudaGmemLinear,
    y: f32[N] @ CudaGmemLinear,
):
    assert injective(perm)
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, N):
            j = load_index(perm[i], 0, N)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[i] = x[j]


@proc
def on_cpu(N: size, rows: i32[N] @ CudaGmemLinear, z: f32[N] @ DRAM):
    r = load_index(rows[0], 0, N)  # expect: T251
    z[r] = 0.0


@proc
def misused(N: size, rows: i32[N] @ CudaGmemLinear, x: f32[N] @ CudaGmemLinear, h: i32[N] @ DRAM):
    assert monotone(x)  # expect: T252
    assert monotone(N)  # expect: T252
    assert injective(h)  # expect: T252
    assert injective(rows, rows)  # expect: T252
    assert injective(rows, where <= 0)  # expect: T252
    assert injective(rows, where >= N)  # expect: T252
    assert monotone(rows)
    assert injective(rows, where >= 0)  # expect: T252
    assert injective(rows)
    assert monotone(rows)  # expect: T252
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, N):
            a = load_index(rows[i])  # expect: T251
            b = load_index(x[i], 0, N)  # expect: T251
            c = load_index(rows[:], 0, N)  # expect: T251
            i = load_index(rows[i], 0, N)  # expect: T251
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x[load_index(rows[i], 0, N)] = 0.0  # expect: T251
                x[rows[i]] = 0.0  # expect: T201
                if N > 1:
                    d = load_index(rows[i], 0, N)
                    x[d] = 0.0
                x[d] = 0.0  # expect: P102
