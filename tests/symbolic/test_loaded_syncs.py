"""Syncs that are executed by what memory holds: they order nothing that they may leave out."""

from __future__ import annotations

from typing import Literal

import pytest

from exogpu import proc
from exogpu.api import Procedure

Between = Literal["none", "after", "instead", "else"]


def branch(fence: Between) -> Procedure:
    """A tile that is written, and read after steps of which there may be none."""

    @proc
    def made(k: i32[2] @ CudaGmemLinear, y: f32[64] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for b in cuda_tasks(0, 1):
                tile: f32[64] @ CudaSmemLinear
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    tile[t] = 1.0
                n = load_index(k[0], 0, 3)
                if n > 0:
                    Fence(cuda_in_order, cuda_in_order)
                    if fence != "instead":
                        for t in cuda_threads(0, 1, unit=cuda_thread):
                            tile[0] += 1.0
                        Fence(cuda_in_order, cuda_in_order)
                else:
                    if fence == "else":
                        Fence(cuda_in_order, cuda_in_order)
                if fence == "after":
                    Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    y[t] = tile[63 - t]
                Fence(cuda_in_order, cuda_in_order)

    return made


def steps(fenced: bool) -> Procedure:
    """The same with a loop of as many steps as memory says."""

    @proc
    def made(k: i32[2] @ CudaGmemLinear, x: f32[8] @ CudaGmemLinear, y: f32[64] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for b in cuda_tasks(0, 1):
                tile: f32[64] @ CudaSmemLinear
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    tile[t] = 1.0
                n = load_index(k[0], 0, 8)
                for i in seq(0, n):
                    Fence(cuda_in_order, cuda_in_order)
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        tile[0] += x[i]
                    Fence(cuda_in_order, cuda_in_order)
                if fenced:
                    Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    y[t] = tile[63 - t]
                Fence(cuda_in_order, cuda_in_order)

    return made


@proc
def skipped(k: i32[2] @ CudaGmemLinear, y: f32[64] @ CudaGmemLinear):
    """All that is done with a tile, if anything; its end comes after the last Fence anyway."""
    with CudaDeviceFunction(blockDim=64):
        for b in cuda_tasks(0, 1):
            tile: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = 1.0
            n = load_index(k[0], 0, 3)
            if n > 0:
                Fence(cuda_in_order, cuda_in_order)
            m = load_index(k[0], 0, 4)
            if m > 0:
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    y[t] = tile[63 - t]
            Fence(cuda_in_order, cuda_in_order)


def chosen(first: bool, last: bool) -> Procedure:
    """A tile that some iterations write and read, with a fence before the write, or at the end: it
    is executed in the iteration of the later access, or of the earlier one."""

    @proc
    def made(n: size, k: i32[n, 1] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for b in cuda_tasks(0, 1):
                tile: f32[64] @ CudaSmemLinear
                own: f32[64] @ CudaRmem
                for i in seq(0, n):
                    h = load_index(k[i, 0], 0, 2)
                    if h == 1:
                        if first:
                            Fence(cuda_in_order, cuda_in_order)
                        for t in cuda_threads(0, 64, unit=cuda_thread):
                            tile[t] = 1.0
                        Fence(cuda_in_order, cuda_in_order)
                        for t in cuda_threads(0, 64, unit=cuda_thread):
                            own[t] = tile[63 - t]
                        if last:
                            Fence(cuda_in_order, cuda_in_order)
                Fence(cuda_in_order, cuda_in_order)

    return made


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (branch("after"), "proved"),
        (branch("else"), "proved"),
        (branch("none"), "refuted"),
        (branch("instead"), "refuted"),
        (steps(fenced=True), "proved"),
        (steps(fenced=False), "refuted"),
        (skipped, "proved"),
        (chosen(first=True, last=False), "proved"),
        (chosen(first=False, last=True), "proved"),
        (chosen(first=False, last=False), "refuted"),
    ],
)
def test_a_sync_that_may_be_left_out_has_one_beside_it(made: Procedure, word: str) -> None:
    verdict = made.check()
    assert verdict.word == word, verdict.reason
