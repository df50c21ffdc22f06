"""mma.sync on 16-bit types: which lane holds which elements, and the kernel around it."""

from __future__ import annotations

import re

import pytest

from exogpu import proc
from exogpu.codegen.instruction_text import helper_text
from exogpu.codegen.toolchain import compile_cubin, find_toolchain
from exogpu.hw.language import bf16, f16
from exogpu.isa.cuda import cuda_load, cuda_store
from exogpu.isa.sm80 import Sm80_load_A, Sm80_load_B, Sm80_mma_f16, Sm80_store_D, Sm80_zero_D

needs_compiler = pytest.mark.skipif(find_toolchain() is None, reason="no NVRTC or nvcc here")


def offsets(helper: str, count: int, ld: int) -> dict[tuple[int, int], int]:
    """By lane and number of the register element: the offset that the helper loads it from."""
    text = helper_text(helper).partition("16-bit type")[2]
    (index,) = re.findall(r"= src\[(.*)\];", text)
    index = index.replace("/", "//")
    found = {}
    for lane in range(32):
        for i in range(count):
            found[lane, i] = eval(index, {"lane": lane, "i": i, "ld": ld})
    return found


def test_fragments_of_a():
    """PTX ISA, fragments for mma.m16n8k16, A: rows groupID and groupID + 8, columns by pairs."""
    ld = 40
    for (lane, i), at in offsets("Sm80_load_A", 8, ld).items():
        group, inside = lane // 4, lane % 4
        row = group if i in (0, 1, 4, 5) else group + 8
        column = inside * 2 + i % 2 + (8 if i >= 4 else 0)
        assert at == row * ld + column


def test_fragments_of_b():
    """PTX ISA, fragments for mma.m16n8k16, B, whose column groupID is a row of the N x K tile."""
    ld = 24
    for (lane, i), at in offsets("Sm80_load_B", 4, ld).items():
        group, inside = lane // 4, lane % 4
        k = inside * 2 + i % 2 + (8 if i >= 2 else 0)
        assert at == group * ld + k


def test_each_element_is_held_once():
    assert len(set(offsets("Sm80_load_A", 8, 16).values())) == 16 * 16
    assert len(set(offsets("Sm80_load_B", 4, 16).values())) == 8 * 16


def product(dtype):
    @proc(name=f"product_{dtype.value}")
    def kernel(
        A: dtype[16, 16] @ CudaGmemLinear,
        B: dtype[8, 16] @ CudaGmemLinear,
        C: f32[16, 8] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                A_smem: dtype[16, 16] @ CudaSmemLinear
                B_smem: dtype[8, 16] @ CudaSmemLinear
                a: dtype[16, 16] @ Sm80_RmemMatrixA(16, 16)
                b: dtype[8, 16] @ Sm80_RmemMatrixB(8, 16)
                d: f32[2, 16, 8] @ Sm80_RmemMatrixD(16, 8)
                r: dtype[32, 8]
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    cuda_load(r[t, :], A[t / 2, 8 * (t % 2) : 8 * (t % 2) + 8], n=8, dtype=dtype)
                    cuda_store(
                        A_smem[t / 2, 8 * (t % 2) : 8 * (t % 2) + 8], r[t, :], n=8, dtype=dtype
                    )
                for t in cuda_threads(0, 16, unit=cuda_thread):
                    cuda_load(r[t, :], B[t / 2, 8 * (t % 2) : 8 * (t % 2) + 8], n=8, dtype=dtype)
                    cuda_store(
                        B_smem[t / 2, 8 * (t % 2) : 8 * (t % 2) + 8], r[t, :], n=8, dtype=dtype
                    )
                Fence(cuda_in_order, cuda_in_order)
                for w in cuda_threads(0, 1, unit=cuda_warp):
                    Sm80_load_A(a[:, :], A_smem[:, :], K=16, dtype=dtype)
                    Sm80_load_B(b[:, :], B_smem[:, :], K=16, dtype=dtype)
                    for k in seq(0, 2):
                        Sm80_zero_D(d[k, :, :])
                        Sm80_mma_f16(d[k, :, :], a[:, :], b[:, :], dtype=dtype)
                    Sm80_store_D(16, 8, C[:, :], d[1, :, :])
                Fence(cuda_in_order, cuda_in_order)

    return kernel


@needs_compiler
@pytest.mark.parametrize("dtype", [f16, bf16], ids=lambda t: t.value)
def test_products_compile(dtype):
    kernel = product(dtype)
    verdict = kernel.check()
    assert verdict.word == "proved" and not verdict.warnings
    emitted = kernel.emit()[0]
    assert f"Sm80_mma_{dtype.value}(d[k], a, b);" in emitted.source
    ptx = compile_cubin(emitted.source, "sm_90a").ptx
    assert f"mma.sync.aligned.m16n8k16.row.col.f32.{dtype.value}.{dtype.value}.f32" in ptx
