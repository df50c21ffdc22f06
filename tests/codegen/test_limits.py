"""What the target lacks is refused before a compiler or a driver sees it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from exogpu import proc
from exogpu.cli.commands import app
from exogpu.codegen.host_steps import emit
from exogpu.codegen.runtime.arrays import ITEM_SIZE
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.hw.language import f16, f32, f64, i8
from exogpu.ir.types import DataType
from exogpu.isa import sm80, sm90
from exogpu.isa.sm90 import Sm90_tma_load
from exogpu.kernels.gemm_sm80 import gemm_sm80

ARCHS = ("sm_80", "sm_86", "sm_87", "sm_89", "sm_90a")


def drawn(procedure, arch="sm_90a"):
    """The diagnostics of emitting a procedure."""
    facts = procedure.facts
    try:
        emit(facts, arch)
    except ExoGpuError as error:
        return error.diagnostics
    return ()


# --- shared memory --------------------------------------------------------------------------


def make_tile(elements):
    @proc
    def tile(x: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                small: f32[32] @ CudaSmemLinear
                large: f32[elements] @ CudaSmemLinear
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    small[t] = 1
                    large[t] = 1
                    x[t] = small[t] + large[t]

    return tile


@pytest.mark.parametrize(
    ("arch", "limit"), [("sm_80", 166912), ("sm_86", 101376), ("sm_90a", 232448)]
)
def test_a_cta_has_so_much_shared_memory(arch, limit):
    """To the byte: `small` takes 128, and both are aligned to 128."""
    fits = limit // 4 - 32
    assert not drawn(make_tile(fits), arch)
    (found,) = drawn(make_tile(fits + 1), arch)
    assert found.code == "G809"
    assert f"{limit + 4} bytes" in found.message and f"{arch} has {limit}" in found.message
    assert f"large {limit - 128 + 4}, small 128" in found.message
    assert "large: f32" in found.span.text


def test_mbarriers_count():
    """Before the variable lies the ring, whose 8 bytes are aligned to the variable's 128."""

    @proc
    def signalled(x: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                large: f32[58112] @ CudaSmemLinear
                done: barrier @ CudaMbarrier
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    large[t] = 1
                Arrive(cuda_in_order) >> done
                Await(done, cuda_in_order, ~0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[t] = large[31 - t]

    (found,) = drawn(signalled)
    assert found.code == "G809" and "large 232448, done " in found.message


# --- boxes of tensor maps -------------------------------------------------------------------


def make_map(dtype, swizzle, box):
    @proc
    def mapped(x: dtype[4096, 4096] @ CudaGmemLinear):
        x_map = x[:, :] @ Sm90_tensorMap(swizzle, *box)

    return mapped


@pytest.mark.parametrize(
    ("dtype", "swizzle", "box"),
    [
        (f32, 128, (256, 32)),
        (f32, 0, (1, 256)),
        (f16, 128, (8, 64)),
        (f64, 32, (8, 4)),
        (i8, 0, (8, 16)),
        (f32, 128, (8, 4)),
    ],
)
def test_boxes_that_tma_copies(dtype, swizzle, box):
    assert make_map(dtype, swizzle, box).name == "mapped"


@pytest.mark.parametrize(
    ("dtype", "swizzle", "box", "message", "remedy"),
    [
        (f32, 128, (257, 32), "257 elements in dimension 0", "several instructions"),
        (f32, 0, (8, 260), "260 elements in dimension 1", "several instructions"),
        (f32, 128, (8, 36), "144 bytes, more than the swizzle's 128", "at most 32 elements"),
        (f16, 32, (8, 32), "64 bytes, more than the swizzle's 32", "at most 16 elements"),
        (f32, 0, (8, 3), "12 bytes, not a multiple of 16", "a multiple of 4 elements"),
        (f64, 0, (8, 1), "8 bytes, not a multiple of 16", "a multiple of 2 elements"),
    ],
)
def test_boxes_that_tma_refuses(dtype, swizzle, box, message, remedy):
    (found,) = make_map(dtype, swizzle, box).diagnostics
    assert found.code == "T244"
    assert message in found.message and remedy in found.help
    assert "x_map = " in found.span.text


def test_bytes_of_data_types():
    """As numpy's array interface has them."""
    assert {t.value: t.bytes for t in DataType} == ITEM_SIZE


def test_a_box_has_the_dimensions_of_its_variable():
    @proc
    def flat(x: f32[2, 8, 32] @ CudaGmemLinear):
        x_map = x[:, :, :] @ Sm90_tensorMap(128, 8, 32)
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                tile: f32[8, 32] @ Sm90_SmemSwizzled(128)
                full: barrier @ CudaMbarrier
                Sm90_tma_load(tile[:, :], x_map[0, :, :], rows=8, cols=32, box=(8, 32)) >> full
                Arrive(cuda_temporal) >> full
                Await(full, cuda_generic_and_async, ~0)

    (found,) = drawn(flat)
    assert found.code == "G801" and "a box of 2 dimensions" in found.message


# --- architectures --------------------------------------------------------------------------


def needs(procedure, arch="sm_80"):
    """What a procedure needs that an architecture lacks, with the source lines that use it."""
    found = drawn(procedure, arch)
    assert all(d.code == "G810" and f"the target is {arch}" in d.message for d in found)
    return {d.message.split(" needs sm_90a")[0]: d.span.text.strip() for d in found}


def test_instructions_of_sm_90a():
    @proc
    def load(x: f32[8, 32] @ CudaGmemLinear):
        x_map = x[:, :] @ Sm90_tensorMap(128, 8, 32)
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                tile: f32[8, 32] @ Sm90_SmemSwizzled(128)
                full: barrier @ CudaMbarrier
                Sm90_tma_load(tile[:, :], x_map[:, :], rows=8, cols=32, box=(8, 32)) >> full
                Arrive(cuda_temporal) >> full
                Await(full, cuda_generic_and_async, ~0)

    found = needs(load)
    assert found.keys() == {"Sm90_tma_load", "CudaMbarrier", "cuda_generic_and_async"}
    assert found["Sm90_tma_load"].startswith("Sm90_tma_load(tile")
    assert not drawn(load)


def test_launches_of_sm_90a():
    @proc
    def cluster(x: f32[2] @ CudaGmemLinear):
        with CudaDeviceFunction(clusterDim=2, blockDim=32):
            for task in cuda_tasks(0, 1):
                pass

    assert needs(cluster).keys() == {"a cluster of more than one CTA"}


@proc
def fence_in_order(x: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            Fence(cuda_in_order, cuda_in_order)


@proc
def fence_sm80(x: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            Fence(cuda_in_order, Sm80_generic)


@proc
def fence_async(x: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            Fence(cuda_in_order, cuda_generic_and_async)


def test_fences_of_sm_90a():
    """A fence of the async proxy is an instruction of sm_90."""
    assert not needs(fence_in_order) and not needs(fence_sm80)
    assert needs(fence_async).keys() == {"cuda_generic_and_async"}


def test_every_instruction_says_where_it_exists():
    of = {
        module: {t.arch for t in vars(module).values() if type(t) is type(Sm90_tma_load)}
        for module in (sm80, sm90)
    }
    assert of == {sm80: {""}, sm90: {"sm_90a"}}


@pytest.mark.parametrize("arch", ARCHS)
def test_a_kernel_of_sm_80_is_emitted_for_all(arch):
    assert not drawn(gemm_sm80, arch)


@pytest.mark.parametrize("arch", ["banana", "sm_90", ""])
def test_the_command_line_knows_the_architectures(arch, tmp_path):
    target = ["compile", "exogpu.kernels.gemm_sm80", "--unchecked", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*target, "--arch", arch])
    assert result.exit_code == 2, result.output
    assert "X963" in result.stderr and all(a in result.stderr for a in ARCHS)
    assert not (tmp_path / "out").exists()


def test_the_help_says_what_at_is_for():
    """`--at` does not make up for a refutation at other sizes (tested with the exit statuses)."""
    text = " ".join(CliRunner().invoke(app, ["compile", "--help"]).stdout.split())
    assert "undecided for all sizes; what is refuted at any size is refused" in text
