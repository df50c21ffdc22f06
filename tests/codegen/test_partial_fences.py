"""Fences of a part of a CTA: which lanes a mask names, which warps a named barrier joins."""

from __future__ import annotations

import re

import pytest

from exogpu import proc
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.hw import units


def fenced(block: int, count: int, unit) -> object:
    @proc
    def kernel(x: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=block):
            for task in cuda_tasks(0, 1):
                for q in cuda_threads(0, count, unit=unit):
                    Fence(cuda_in_order, cuda_in_order)

    return kernel


def body(procedure) -> str:
    verdict = procedure.check()
    assert verdict.word == "proved" and not verdict.warnings, verdict
    text = procedure.emit()[0].source
    return text[text.index("__global__") :]


def masks(procedure, values: int, first: int = 0) -> list[int]:
    """The masks that the emitted text gives, by the iterator's value; C++ and Python agree here."""
    (text,) = re.findall(r"__syncwarp\((.*)\);", body(procedure))
    text = text.replace("u <<", " <<").replace("/", "//")
    return [eval(text, {"q": q, "lane": first + q}) & 0xFFFFFFFF for q in range(values)]


def test_masks_of_strided_lanes():
    """Iteration q takes 2 lanes of every 8, from 2 q on."""
    kernel = fenced(32, 4, 4 * units.cuda_threads_strided(2, 8))
    expected = [sum(0b11 << 8 * i + 2 * q for i in range(4)) for q in range(4)]
    assert masks(kernel, 4) == expected


def test_masks_of_quadpairs():
    """Quadpair q has lanes 4 q to 4 q + 3, and those 16 above."""
    assert masks(fenced(32, 4, units.cuda_quadpair), 4) == [0xF000F << 4 * q for q in range(4)]


@proc
def quadpairs_of_warps(x: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=96):
        for task in cuda_tasks(0, 1):
            for w in cuda_threads(0, 3, unit=cuda_warp):
                for q in cuda_threads(0, 4, unit=cuda_quadpair):
                    Fence(cuda_in_order, cuda_in_order)


def test_masks_of_quadpairs_of_several_warps():
    (text,) = re.findall(r"__syncwarp\((.*)\);", body(quadpairs_of_warps))
    text = text.replace("u <<", " <<")
    found = [eval(text, {"w": w, "q": q}) for w in range(3) for q in range(4)]
    assert found == [0xF000F << 4 * q for q in range(4)] * 3


def test_masks_of_odd_groups_of_lanes():
    """Groups of 3 lanes do not start at multiples of a power of two."""
    kernel = fenced(96, 10, 3 * units.cuda_thread)
    assert masks(kernel, 10) == [0b111 << 3 * q for q in range(10)]


def numbers(procedure, values: int) -> tuple[list[int], int]:
    (found,) = re.findall(r'barrier.cta.sync.aligned %0, (\d+);" :: "r"\((.*)\) :', body(procedure))
    return [eval(found[1].replace("/", "//"), {"q": q}) for q in range(values)], int(found[0])


def test_named_barriers_of_strided_warps():
    """Iteration q takes every other warp, from q on: any whole warps can share a named barrier."""
    kernel = fenced(128, 2, 2 * units.cuda_threads_strided(32, 64))
    assert numbers(kernel, 2) == ([1, 2], 64)


def test_named_barriers_up_to_the_last():
    kernel = fenced(1024, 15, 2 * units.cuda_warp)
    assert numbers(kernel, 15) == (list(range(1, 16)), 64)


def test_more_named_barriers_than_there_are():
    kernel = fenced(1024, 16, 2 * units.cuda_warp)
    with pytest.raises(ExoGpuError) as refused:
        kernel.emit()
    (found,) = refused.value.diagnostics
    assert found.code == "G803" and "more than the 15 named barriers" in found.message
    assert kernel.check().warnings == (found,)


@proc
def same_warps_in_another_order(x: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=256):
        for task in cuda_tasks(0, 1):
            for q in cuda_threads(0, 4, unit=2 * cuda_warp):
                Fence(cuda_in_order, cuda_in_order)
            for h in cuda_threads(0, 2, unit=4 * cuda_warp):
                for q in cuda_threads(0, 2, unit=2 * cuda_warp):
                    Fence(cuda_in_order, cuda_in_order)


def test_the_same_warps_share_the_same_barriers():
    found = re.findall(r', 64;" :: "r"\((.*)\) :', body(same_warps_in_another_order))
    assert [eval(found[0], {"q": q}) for q in range(4)] == [1, 2, 3, 4]
    again = [eval(found[1], {"h": h, "q": q}) for h in range(2) for q in range(2)]
    assert again == [1, 2, 3, 4]
