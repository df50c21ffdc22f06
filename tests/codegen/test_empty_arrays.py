"""Variables without elements, which families of kernels have at one end: C++ has none."""

from __future__ import annotations

import pytest

from exogpu.api import Procedure, proc
from exogpu.codegen.toolchain import compile_cubin, find_toolchain

needs_nvcc = pytest.mark.skipif(find_toolchain() is None, reason="no nvcc on this machine")


def make_carried(extra: int) -> Procedure:
    @proc
    def carried(M: size, x: f32[M, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, M):
                each: f32[32, extra]
                tiles: f32[extra, 16, 8] @ Sm80_RmemMatrixD(16, 8)
                shared: f32[extra, 32] @ CudaSmemLinear
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for i in seq(0, extra):
                        each[t, i] = x[m, t]
                        shared[i, t] = each[t, i]
                    x[m, t] += 1.0
                for i in seq(0, extra):
                    for w in cuda_threads(0, 1, unit=cuda_warp):
                        for r, c in fragment(tiles[i, :, :]):
                            tiles[i, r, c] = 0.0
                Fence(cuda_in_order, cuda_in_order)

    return carried


@needs_nvcc
@pytest.mark.parametrize("extra", [0, 1])
def test_what_has_no_elements_compiles(extra):
    kernel = make_carried(extra)
    assert kernel.check().word == "proved"
    emitted, _ = kernel.emit()
    compile_cubin(emitted.source, "sm_90a")


@proc
def no_weights(n: size, x: f32[n] @ CudaGmemLinear):
    weights: f32[0] @ CudaGridConstant
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, n):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                for k in seq(0, 0):
                    x[i] += weights[k]


def test_a_constant_without_elements_has_an_address_at_launch():
    emitted, _ = no_weights.emit()
    assert "GridConstant<float, 1> weights_value" in emitted.source
    assert "TRY(host_array(weights, 1));" in emitted.host.source
