"""Templates of the user's own: what stands in them is one number, or one pointer."""

from __future__ import annotations

import enum

import numpy as np
import pytest
from on_the_host import GXX, run_emitted

from exogpu.api import proc
from exogpu.codegen.instruction_text import constant_text
from exogpu.frontend.instructions import instr
from exogpu.hw import memories
from exogpu.hw.operands import CUDA_MEMORY, CUDA_REGISTER
from exogpu.hw.units import cuda_thread


@instr(unit=cuda_thread, dst=CUDA_REGISTER, template="{dst} = 100 - {n} * 2;")
def twice_less(n: index, dst: i32 @ CudaRmem):
    """100 - 2 * n, for small n."""
    assert n >= 0
    dst = 100
    for i in seq(0, n):
        dst = dst - 2


@instr(unit=cuda_thread, dst=CUDA_MEMORY, src=CUDA_REGISTER, template="{dst}[0] = {src}[1];")
def second(dst: i32[1] @ CudaDeviceVisibleLinear, src: i32[2] @ CudaRmem):
    """The second of two registers."""
    dst[0] = src[1]


@instr(
    unit=cuda_thread,
    dst=CUDA_REGISTER,
    src=CUDA_MEMORY,
    template="{dst} = {src}[31 % {src.strides[0]} - 31 % {src.strides[1]}];",
)
def of_distances(rows: size, dst: i32 @ CudaRmem, src: i32[2, rows, 5] @ CudaDeviceVisibleLinear):
    """Element 0 where there are three rows of 5: 31 % 15 is 31 % 5."""
    dst = src[0, 0, 0]


@proc
def written(M: size, k: index, y: i32[8] @ CudaGmemLinear, z: i32[2, M, 5] @ CudaGmemLinear):
    assert k >= 2 and k < 40
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                r: i32[3]
                twice_less(k - 2, r[1])
                twice_less(k, r[2])
                second(y[k % 8 : k % 8 + 1], r[1:3])
                of_distances(M, r[0], z[:, :, :])
                y[(k + 1) % 8] = r[1]
                y[(k + 2) % 8] = r[0]


@pytest.mark.skipif(GXX is None, reason="no g++ on this machine")
def test_a_sum_beside_a_product_and_an_element_of_a_pointer(tmp_path):
    there = {"y": np.zeros(8, np.int32), "z": np.arange(1, 31, dtype=np.int32).reshape(2, 3, 5)}
    mine = {name: array.copy() for name, array in there.items()}
    written.run(M=3, k=7, **there)
    run_emitted(written, {**mine, "M": 3, "k": 7}, tmp_path)
    np.testing.assert_array_equal(mine["y"], there["y"])


def test_arguments_of_functions_stay_as_they_are():
    emitted, _ = written.emit()
    assert "r[1] = 100 - (k - 2) * 2;" in emitted.source
    assert "r[2] = 100 - (k) * 2;" in emitted.source
    assert "[31 % ((long long)M * 5) - 31 % (5)];" in emitted.source


class Lane(int, enum.Enum):
    LAST = 31


@pytest.mark.parametrize(
    ("value", "text"),
    [(Lane.LAST, "31"), (True, "true"), (0.5, "0.5"), ("rn", "rn")],
)
def test_a_compile_time_parameter_is_spelled_as_its_value(value, text):
    """Python writes a member of an enumeration by its name."""
    assert constant_text(value) == text


class Bytes(int, enum.Enum):
    ROW = 32


@proc
def swizzled_tile(y: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            tile: f32[4, 8] @ Sm90_SmemSwizzled(Bytes.ROW)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                tile[t / 8, t % 8] = y[t]
                y[t] = tile[t / 8, t % 8] + 1.0
            Fence(cuda_in_order, cuda_in_order)


def test_so_is_the_swizzle_of_a_memory():
    emitted, _ = swizzled_tile.emit()
    assert "swizzled<32, 4>(8 * (t / 8) + t % 8)" in emitted.source
    assert memories.Sm90_SmemSwizzled(Bytes.ROW) == memories.Sm90_SmemSwizzled(32)
    assert memories.Sm90_tensorMap(Bytes.ROW, 4, 8) == memories.Sm90_tensorMap(32, 4, 8)
