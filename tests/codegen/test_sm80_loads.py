"""Tiles of f32 for mma.sync: loads copy, and the product rounds to tf32."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated
from campaigns.emulator.orders import ORDERS
from exogpu import proc
from exogpu.codegen.instruction_text import helper_text
from exogpu.isa.sm80 import Sm80_load_A, Sm80_load_B, Sm80_mma_tf32, Sm80_store_D, Sm80_zero_D

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")


def make_product(depth: int):
    """C = A * B^T, and A and B again out of registers."""

    @proc(name=f"product_{depth}")
    def product(
        A: f32[16, depth] @ CudaGmemLinear,
        B: f32[8, depth] @ CudaGmemLinear,
        C: f32[16, 8] @ CudaGmemLinear,
        again_A: f32[16, depth] @ CudaGmemLinear,
        again_B: f32[8, depth] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                a_smem: f32[16, depth] @ CudaSmemLinear
                b_smem: f32[8, depth] @ CudaSmemLinear
                a: f32[16, depth] @ Sm80_RmemMatrixA(16, depth)
                b: f32[8, depth] @ Sm80_RmemMatrixB(8, depth)
                D: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)
                for t in cuda_threads(0, 16, unit=cuda_thread):
                    for k in seq(0, depth):
                        a_smem[t, k] = A[t, k]
                        if t < 8:
                            b_smem[t, k] = B[t, k]
                Fence(cuda_in_order, cuda_in_order)
                for w in cuda_threads(0, 1, unit=cuda_warp):
                    Sm80_load_A(a[:, :], a_smem[:, :], K=depth)
                    Sm80_load_B(b[:, :], b_smem[:, :], K=depth)
                    Sm80_zero_D(D[:, :])
                    Sm80_mma_tf32(D[:, :], a[:, :], b[:, :], K=depth)
                    Sm80_store_D(16, 8, C[:, :], D[:, :])
                    for m, k in fragment(a):
                        again_A[m, k] = a[m, k]
                    for n, k in fragment(b):
                        again_B[n, k] = b[n, k]
                Fence(cuda_in_order, cuda_in_order)

    return product


def near(values: np.ndarray) -> np.ndarray:
    """Rounded to tf32, ties away from 0 (PTX ISA, cvt.rna)."""
    return (values.view(np.uint32) + np.uint32(0x1000) & np.uint32(0xFFFFE000)).view(np.float32)


@needs_compiler
@pytest.mark.parametrize("depth", [4, 8])
@pytest.mark.ci
def test_what_is_read_back_is_what_was_loaded(depth: int, builds) -> None:
    procedure = make_product(depth)
    assert procedure.check().word == "proved"
    emitted, manifest = procedure.emit()
    random = np.random.default_rng(depth)
    given = {
        "A": random.standard_normal((16, depth), np.float32),
        "B": random.standard_normal((8, depth), np.float32),
        "C": np.zeros((16, 8), np.float32),
        "again_A": np.zeros((16, depth), np.float32),
        "again_B": np.zeros((8, depth), np.float32),
    }
    given["A"][0, 0] = 1 + 2.0**-11  # half way
    meant = {name: array.copy() for name, array in given.items()}
    procedure.run(**meant)
    Emulated(emitted.source, manifest, builds)(given, {}, ORDERS[0])
    for name in ("again_A", "again_B"):
        assert np.array_equal(given[name].view(np.uint32), meant[name].view(np.uint32))
    exact = near(given["A"]).astype(float) @ near(given["B"]).astype(float).T
    assert np.allclose(given["C"], exact, rtol=0, atol=1e-6)
    assert not np.allclose(given["C"], meant["C"], rtol=0, atol=1e-6)


def test_no_load_converts() -> None:
    """The instructions whose body copies: what rounds is the product."""
    for name in ("Sm80_load_A", "Sm80_load_B", "Sm90_load_A", "Sm80_ldmatrix_A", "cuda_load"):
        assert "tf32(" not in helper_text(name) and "cvt" not in helper_text(name)
    assert helper_text("Sm80_mma_tf32").count("to_tf32(") == 6 + 3
