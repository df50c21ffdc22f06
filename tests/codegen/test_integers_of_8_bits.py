"""Products of 8-bit integers on a warpgroup: their sums are exact, and wrap."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated
from campaigns.emulator.orders import ORDERS
from exogpu import proc
from exogpu.api import Procedure
from exogpu.codegen.toolchain import compile_cubin, find_toolchain
from exogpu.codegen.toolchain.compilers import usage
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.hw.language import i8, ui8
from exogpu.ir.types import DataType
from exogpu.isa.i8 import Sm80_mma_i8, Sm90_wgmma_i8, Sm90_zero_scale_i32
from exogpu.isa.sm90 import Sm90_tma_load


def make_tile(dtype: DataType, N: int = 32, fresh: bool = True) -> Procedure:
    """C = A * B^T of one tile by TMA, or C + A * B^T, of K 128 each."""

    @proc(name=f"tile_{dtype.value}_{N}")
    def tile(
        A: dtype[64, 128] @ CudaGmemLinear,
        B: dtype[N, 128] @ CudaGmemLinear,
        C: i32[64, N] @ CudaGmemLinear,
    ):
        A_map = A[:, :] @ Sm90_tensorMap(128, 64, 128)
        B_map = B[:, :] @ Sm90_tensorMap(128, N, 128)
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, 1):
                a: dtype[64, 128] @ Sm90_SmemSwizzled(128)
                b: dtype[N, 128] @ Sm90_SmemSwizzled(128)
                D: i32[64, N] @ Sm90_RmemMatrixD(64, N)
                full: barrier @ CudaMbarrier
                with CudaWarps(0, 1):
                    (
                        Sm90_tma_load(
                            a[:, :], A_map[:, :], rows=64, cols=128, box=(64, 128), dtype=dtype
                        )
                        >> full
                    )
                    (
                        Sm90_tma_load(
                            b[:, :], B_map[:, :], rows=N, cols=128, box=(N, 128), dtype=dtype
                        )
                        >> full
                    )
                    Arrive(cuda_temporal) >> full
                Await(full, cuda_generic_and_async, ~0)
                for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                    if fresh:
                        Sm90_zero_scale_i32(D[:, :], N=N)
                    else:
                        for m, n in fragment(D):
                            D[m, n] = C[m, n]
                    Fence(wgmma_fence_1, wgmma_fence_2)
                    for k in seq(0, 4):
                        Sm90_wgmma_i8(
                            D[:, :],
                            a[:, 32 * k : 32 * k + 32],
                            b[:, 32 * k : 32 * k + 32],
                            N=N,
                            dtype=dtype,
                        )
                    Fence(wgmma_async, cuda_in_order)
                    for m, n in fragment(D):
                        C[m, n] = D[m, n]
                Fence(cuda_in_order, cuda_in_order)

    return tile


TILES = [make_tile(i8), make_tile(ui8, 24), make_tile(i8, 8, fresh=False)]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
@pytest.mark.parametrize("kernel", TILES, ids=lambda k: k.name)
def test_a_tile(kernel: Procedure, builds) -> None:
    assert kernel.check().word == "proved"
    emitted, manifest = kernel.emit()
    of = np.int8 if "tile_i8" in kernel.name else np.uint8
    rng, N = np.random.default_rng(1), int(kernel.name.rpartition("_")[2])
    least, most = np.iinfo(of).min, np.iinfo(of).max + 1
    A, B = (rng.integers(least, most, (rows, 128)).astype(of) for rows in (64, N))
    C = np.full((64, N), 2**31 - 1, np.int32)
    meant, found = ({"A": A, "B": B, "C": C.copy()} for _ in range(2))
    kernel.run(**meant)
    wanted = A.astype(np.int64) @ B.astype(np.int64).T + (0 if N > 8 else 2**31 - 1)
    assert np.array_equal(meant["C"], wanted.astype(np.int32))
    for order in ORDERS[:2]:
        found["C"][...] = C
        Emulated(emitted.source, manifest, builds)(found, {}, order)
        assert np.array_equal(found["C"], meant["C"])


@pytest.mark.skipif(find_toolchain() is None, reason="there is no CUDA compiler")
@pytest.mark.parametrize("kernel", [TILES[0], TILES[2], make_tile(ui8, 256)], ids=lambda k: k.name)
def test_they_compile(kernel: Procedure) -> None:
    compiled = compile_cubin(kernel.emit()[0].source, "sm_90a")
    (used,) = usage(compiled.log).values()
    assert (used.stack, used.spill_stores) == (0, 0) and "serialized" not in compiled.log


def make_warps(dtype: DataType, K: int) -> Procedure:
    """C += A * B^T of one tile of mma.sync."""

    @proc(name=f"warps_{dtype.value}_{K}")
    def warps(
        A: dtype[16, K] @ CudaGmemLinear,
        B: dtype[8, K] @ CudaGmemLinear,
        C: i32[16, 8] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                a: dtype[16, K] @ Sm80_RmemMatrixA(16, K)
                b: dtype[8, K] @ Sm80_RmemMatrixB(8, K)
                d: i32[16, 8] @ Sm80_RmemMatrixD(16, 8)
                for w in cuda_threads(0, 1, unit=cuda_warp):
                    for m, k in fragment(a):
                        a[m, k] = A[m, k]
                    for n, k in fragment(b):
                        b[n, k] = B[n, k]
                    for m, n in fragment(d):
                        d[m, n] = C[m, n]
                    Sm80_mma_i8(d[:, :], a[:, :], b[:, :], K=K, dtype=dtype)
                    for m, n in fragment(d):
                        C[m, n] = d[m, n]

    return warps


WARPS = [make_warps(dtype, K) for dtype in (i8, ui8) for K in (16, 32)]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
@pytest.mark.parametrize("kernel", WARPS, ids=lambda k: k.name)
def test_a_tile_of_a_warp(kernel: Procedure, builds) -> None:
    assert kernel.check().word == "proved"
    emitted, manifest = kernel.emit()
    of = np.int8 if "_i8" in kernel.name else np.uint8
    rng, K = np.random.default_rng(2), int(kernel.name.rpartition("_")[2])
    A, B = (rng.integers(-128, 128, (rows, K)).astype(of) for rows in (16, 8))
    C = rng.integers(-(2**31), 2**31, (16, 8)).astype(np.int32)
    wanted = (C + A.astype(np.int64) @ B.astype(np.int64).T).astype(np.int32)
    meant, found = ({"A": A, "B": B, "C": C.copy()} for _ in range(2))
    kernel.run(**meant)
    Emulated(emitted.source, manifest, builds)(found, {}, ORDERS[0])
    assert np.array_equal(meant["C"], wanted) and np.array_equal(found["C"], wanted)


@pytest.mark.skipif(find_toolchain() is None, reason="there is no CUDA compiler")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kernel", [WARPS[0], WARPS[3]], ids=lambda k: k.name)
def test_those_of_warps_compile(kernel: Procedure, arch: str) -> None:
    compiled = compile_cubin(kernel.emit(arch)[0].source, arch)
    (used,) = usage(compiled.log).values()
    assert (used.stack, used.spill_stores) == (0, 0)
    assert "mma.sync.aligned.m16n8k" in compiled.ptx


@pytest.mark.parametrize("N", [40, 0, 272])
def test_shapes_that_the_hardware_has_not_are_refused(N: int) -> None:
    with pytest.raises(ExoGpuError, match="does not exist with these compile-time parameters"):
        Sm90_wgmma_i8.instantiate({"N": N})
