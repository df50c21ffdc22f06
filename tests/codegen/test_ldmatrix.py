"""ldmatrix: which lane gets which elements, as the emulator's model of it sees the addresses."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated, EmulatedError
from campaigns.emulator.orders import ORDERS
from exogpu.api import Procedure, proc
from exogpu.codegen.toolchain import compile_cubin, find_toolchain
from exogpu.gpu_trial.run_data import at_sizes, difference
from exogpu.hw.language import bf16, f16
from exogpu.ir.types import DataType
from exogpu.isa.ldmatrix import Sm80_ldmatrix_A, Sm80_ldmatrix_B, Sm80_ldmatrix_trans_B
from exogpu.isa.sm80 import Sm80_mma_f16, Sm80_store_D, Sm80_zero_D
from exogpu.kernels.gemm_half_sm80 import KERNELS

TOOLCHAIN = find_toolchain()
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")


def make_tiles(dtype: DataType, transposed: bool, wide: int = 24) -> Procedure:
    """C = A * B^T, 16 x 16, and the tiles of B by their fragments; B is K x N if `transposed`."""

    @proc(name=f"tiles_{dtype.value}{'_transposed' * transposed}_{wide}")
    def tiles(
        A: dtype[16, 16] @ CudaGmemLinear,
        B: dtype[16, 16] @ CudaGmemLinear,
        C: f32[16, 16] @ CudaGmemLinear,
        E: dtype[16, 16] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                a_smem: dtype[20, wide] @ CudaSmemLinear
                b_smem: dtype[16, wide] @ CudaSmemLinear
                a: dtype[16, 16] @ Sm80_RmemMatrixA(16, 16)
                b: dtype[2, 8, 16] @ Sm80_RmemMatrixB(8, 16)
                D: f32[2, 16, 8] @ Sm80_RmemMatrixD(16, 8)
                for t in cuda_threads(0, 16, unit=cuda_thread):
                    for k in seq(0, 16):
                        a_smem[t + 4, k + 8] = A[t, k]
                        b_smem[t, k] = B[t, k]
                Fence(cuda_in_order, cuda_in_order)
                for w in cuda_threads(0, 1, unit=cuda_warp):
                    Sm80_ldmatrix_A(a[:, :], a_smem[4:20, 8:24], dtype=dtype)
                    if transposed:
                        Sm80_ldmatrix_trans_B(b[:, :, :], b_smem[:, 0:16], dtype=dtype)
                    else:
                        Sm80_ldmatrix_B(b[:, :, :], b_smem[:, 0:16], dtype=dtype)
                    for j in seq(0, 2):
                        Sm80_zero_D(D[j, :, :])
                        Sm80_mma_f16(D[j, :, :], a[:, :], b[j, :, :], dtype=dtype)
                        Sm80_store_D(16, 8, C[:, 8 * j : 8 * j + 8], D[j, :, :])
                        for n, k in fragment(b[j, :, :]):
                            E[8 * j + n, k] = b[j, n, k]
                Fence(cuda_in_order, cuda_in_order)

    return tiles


TILES = [make_tiles(bf16, False), make_tiles(f16, True)]


def wrong(kernel: Procedure, source: str, manifest, folder, order=ORDERS[0]) -> str:
    """What is wrong with a run; empty: nothing."""
    there = at_sizes(kernel, {}, 1)
    arrays = {name: array.copy() for name, array in there.given.items()}
    types = {p["name"]: p["dtype"] for p in manifest["parameters"]}
    try:
        Emulated(source, manifest, folder)(arrays, {}, order)
    except EmulatedError as error:
        return str(error)
    found = (difference(arrays[n], want, types[n], 0.0) for n, want in there.wanted.items())
    return "; ".join(filter(None, found))


@needs_compiler
@pytest.mark.parametrize("kernel", TILES, ids=lambda k: k.name)
@pytest.mark.ci
def test_right(kernel: Procedure, builds) -> None:
    assert kernel.check().word == "proved"
    made, manifest = kernel.emit()
    assert [wrong(kernel, made.source, manifest, builds, order) for order in ORDERS[:3]] == [""] * 3


CARELESS = [
    (0, "lane % 16 * ld + lane / 16 * 8", "lane / 16 * 8 * ld + lane % 16"),
    (0, "(lane % 8 + lane / 16 * 8) * ld", "lane % 16 * ld"),
    (0, "lane / 8 % 2 * 8", "lane / 16 * 8"),
    (0, "B[i / 2][i % 2 * 2]", "B[i % 2][i / 2 * 2]"),
    (1, ".x4.trans", ".x4"),
    (1, "lane % 16 * ld + lane / 16 * 8);\n    unsigned r", "lane % 8 * ld);\n    unsigned r"),
    (0, "A[2 * i + 1] = static_cast<unsigned short>(r[i] >> 16)", "A[2 * i + 1] = r[i]"),
]


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(("which", "right", "careless"), CARELESS)
def test_a_wrong_address_is_seen(which, right, careless, builds) -> None:
    kernel = TILES[which]
    made, manifest = kernel.emit()
    assert right in made.source
    assert wrong(kernel, made.source.replace(right, careless), manifest, builds)


@pytest.mark.parametrize("wide", [25, 28])
def test_rows_of_16_bytes(wide: int) -> None:
    found = make_tiles(bf16, False, wide).check()
    assert found.word == "refuted" and any("16 bytes" in h.message for h in found.hazards)


@pytest.mark.skipif(TOOLCHAIN is None, reason="no nvcc on this machine")
@pytest.mark.parametrize("kernel", [*TILES, KERNELS["gemm_bf16_sm80"]], ids=lambda k: k.name)
def test_it_compiles_for_sm_80(kernel: Procedure) -> None:
    assert compile_cubin(kernel.emit()[0].source, "sm_80", TOOLCHAIN).cubin


@pytest.mark.parametrize("sizes", [(1, 1, 8), (130, 70, 72), (64, 200, 40)])
def test_the_gemm_is_a_product(sizes) -> None:
    M, N, K = sizes
    rng = np.random.default_rng(0)
    A, B = (rng.integers(-3, 4, (rows, K)).astype(np.float32) for rows in (M, N))
    C = np.zeros((M, N), np.float32)
    KERNELS["gemm_bf16_sm80"].run(A=A, B=B, C=C)
    assert np.array_equal(C, A @ B.T)


def test_the_gemm_is_proved() -> None:
    assert KERNELS["gemm_f16_sm80"].check().word == "proved"
