"""Atomic adds and maxima on the emulator: right in every order of the threads."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated
from campaigns.emulator.orders import ORDERS
from exogpu.api import proc
from exogpu.hw.language import f32, i64
from exogpu.isa.cuda import cuda_atomic_add, cuda_atomic_max

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine"),
]


def make(T, operation):
    """Of all of x, first in shared memory, then among the CTAs."""

    @proc(name=f"{operation.name}_{T.value}")
    def kernel(M: size, x: T[M] @ CudaGmemLinear, y: T @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for b in cuda_tasks(0, (M + 31) / 32):
                part: T @ CudaSmemLinear
                r: T[32]
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    part = 0
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    if 32 * b + t < M:
                        r[t] = x[32 * b + t]
                        operation(part, r[t], dtype=T)
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    r[t] = part
                    operation(y, r[t], dtype=T)
                Fence(cuda_in_order, cuda_in_order)

    return kernel


@pytest.mark.parametrize("T", [f32, i64], ids=lambda T: T.value)
@pytest.mark.parametrize("operation", [cuda_atomic_add, cuda_atomic_max], ids=lambda o: o.name)
def test_right_in_every_order(operation, T, builds):
    kernel = make(T, operation)
    made, manifest = kernel.emit()
    emulated = Emulated(made.source, manifest, builds)
    x = np.random.default_rng(0).integers(-100, 100, 99)
    x = x.astype(np.float32 if T is f32 else np.int64)
    wanted = x.sum() + 5 if operation is cuda_atomic_add else max(x.max(), 5)
    y = np.full((), 5, x.dtype)
    kernel.run(x=x, y=y)
    assert y == wanted
    for order in ORDERS:
        y = np.full((), 5, x.dtype)
        emulated({"x": x, "y": y}, {"M": 99}, order)
        assert y == wanted
