"""wgmma with B by columns: what its descriptor says, and what it asks of the window."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.tiles import make_columns
from campaigns.emulator.launch import Emulated, EmulatedError
from campaigns.emulator.orders import ORDERS
from exogpu.api import Procedure, proc
from exogpu.codegen.toolchain import compile_cubin, find_toolchain
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.gpu_trial.run_data import at_sizes, difference
from exogpu.hw.language import bf16, f16
from exogpu.isa.mn_major import Sm90_wgmma_mn_f16, Sm90_wgmma_rs_mn_f16
from exogpu.isa.sm90 import Sm90_zero_scale_d

KERNELS = [
    make_columns(bf16, 32, 64, 64),
    make_columns(f16, 64, 128, 128),
    make_columns(bf16, 64, 128, 128, registers=True),
    make_columns(f16, 32, 48, 32, registers=True),
]
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
TOOLCHAIN = find_toolchain()


def wrong(procedure: Procedure, source: str, manifest, folder) -> str:
    """What is wrong with one run on the emulator; empty: nothing."""
    there = at_sizes(procedure, {}, 1)
    arrays = {name: array.copy() for name, array in there.given.items()}
    try:
        Emulated(source, manifest, folder)(arrays, {}, ORDERS[0])
    except EmulatedError as error:
        return str(error)
    found = (difference(arrays[n], wanted, "f32", 0.0) for n, wanted in there.wanted.items())
    return "; ".join(filter(None, found))


@needs_compiler
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.ci
def test_right(kernel, builds) -> None:
    assert kernel.check().word == "proved"
    made, manifest = kernel.emit()
    assert not wrong(kernel, made.source, manifest, builds)


CARELESS = {
    "not transposed": ("accumulate, 1, 1, 0, 1;", "accumulate, 1, 1, 0, 0;"),
    "A transposed": ("accumulate, 1, 1, 0, 1;", "accumulate, 1, 1, 1, 1;"),
    "elements, not bytes": ("(B, 2 * apart)", "(B, apart)"),
    "as K-major": ("wgmma_mn_descriptor<swizzle>(B, 2 * apart)", "wgmma_descriptor<swizzle>(B)"),
    "bytes, not units of 16": ("(apart / 16) << 16", "(apart / 8) << 16"),
    "leading and stride exchanged": (
        "(apart / 16) << 16",
        "(8 * swizzle / 16) << 16 ^ (8ull * swizzle / 16 ^ apart / 16) << 32",
    ),
    "another swizzle": ("mode << 62", "(mode % 3 + 1) << 62"),
}


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("name", CARELESS)
def test_a_wrong_descriptor_is_seen(name, builds) -> None:
    kernel, (right, careless) = KERNELS[1], CARELESS[name]
    made, manifest = kernel.emit()
    assert right in made.source
    assert wrong(kernel, made.source.replace(right, careless), manifest, builds)


@pytest.mark.skipif(TOOLCHAIN is None, reason="no nvcc on this machine")
@pytest.mark.parametrize("kernel", KERNELS[1:3], ids=lambda k: k.name)
def test_nothing_is_serialised(kernel) -> None:
    assert "serialized" not in compile_cubin(kernel.emit()[0].source, "sm_90a", TOOLCHAIN).log


def make_window(blocks: int, rows: int, first: int, column: int = 0) -> Procedure:
    """A product with a window of B that begins in a row and at a column."""

    @proc
    def window(C: f32[64, 64] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, 1):
                A: bf16[64, 32] @ Sm90_SmemSwizzled(64)
                B: bf16[blocks, rows, 32] @ Sm90_SmemSwizzled(64)
                D: f32[64, 64] @ Sm90_RmemMatrixD(64, 64)
                for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                    Sm90_zero_scale_d(D[:, :], M=64, N=64)
                    Fence(wgmma_fence_1, wgmma_fence_2)
                    Sm90_wgmma_mn_f16(
                        D[:, :],
                        A[:, 0:16],
                        B[column : column + 2, first : first + 16, :],
                        N=64,
                        swizzle=64,
                        dtype=bf16,
                    )
                    Fence(wgmma_async, cuda_in_order)

    return window


@pytest.mark.parametrize(
    ("procedure", "said"),
    [
        (make_window(2, 32, 4), "at a multiple of 512 bytes"),
        (make_window(2, 20, 0), "strides that are multiples of 512 bytes"),
    ],
)
def test_what_begins_within_a_repeat_is_refused(procedure, said) -> None:
    found = procedure.check()
    assert found.word == "refuted"
    assert any(said in h.message for h in found.hazards)


def test_whole_repeats_are_not() -> None:
    found = make_window(3, 24, 8, 1).check()
    assert not any("multiple" in h.message for h in found.hazards)


@pytest.mark.parametrize(
    ("template", "constants"),
    [
        (Sm90_wgmma_mn_f16, {"N": 32}),
        (Sm90_wgmma_mn_f16, {"N": 320}),
        (Sm90_wgmma_mn_f16, {"M": 32}),
        (Sm90_wgmma_rs_mn_f16, {"N": 40, "swizzle": 32}),
    ],
)
def test_shapes_that_do_not_exist(template, constants) -> None:
    with pytest.raises(ExoGpuError):
        template.instantiate(constants)
