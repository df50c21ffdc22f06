"""Loops that memory bounds, with memory of their own in each iteration."""

from __future__ import annotations

import pytest

from exogpu import proc
from exogpu.api import Procedure
from exogpu.symbolic.partition import topics
from exogpu.symbolic.search.analysis import Analysis
from exogpu.symbolic.search.refute import smallest_sizes


def reversed_rows(*, fenced: bool, names_it: bool) -> Procedure:
    """Each group turns its rows around, in as many rounds as it has rows; what is done with the
    tile names the round, or not."""

    @proc
    def made(
        G: size,
        M: size,
        offsets: i32[G + 1] @ CudaGmemLinear,
        x: f32[M, 32] @ CudaGmemLinear,
        y: f32[M, 32] @ CudaGmemLinear,
    ):
        assert monotone(offsets)
        with CudaDeviceFunction(blockDim=32):
            for g in cuda_tasks(0, G):
                lo = load_index(offsets[g], 0, M + 1)
                hi = load_index(offsets[g + 1], 0, M + 1)
                for r in seq(0, (hi - lo + 1) / 2):
                    tile: f32[32] @ CudaSmemLinear
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        if names_it:
                            tile[t] = x[lo + r, t]
                        else:
                            tile[t] = x[lo, t]
                    if fenced:
                        Fence(cuda_in_order, cuda_in_order)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        if names_it:
                            y[lo + r, t] = tile[31 - t]
                        else:
                            y[lo, t] = tile[31 - t]
                    Fence(cuda_in_order, cuda_in_order)

    return made


@pytest.mark.parametrize("names_it", [True, False])
def test_what_is_in_them_need_not_name_the_iteration(names_it: bool) -> None:
    """The loop's iterator is known where its bounds are asked for."""
    assert reversed_rows(fenced=True, names_it=names_it).check().word == "proved"
    verdict = reversed_rows(fenced=False, names_it=names_it).check()
    assert verdict.word == "refuted", verdict.reason
    assert {hazard.variable for hazard in verdict.hazards} == {"tile"}


@proc
def beyond(
    G: size,
    M: size,
    N: size,
    offsets: i32[G + 1] @ CudaGmemLinear,
    y: f32[M, N] @ CudaGmemLinear,
):
    """Four rows are written at once, also where the next group begins with one of them."""
    assert monotone(offsets)
    with CudaDeviceFunction(blockDim=32):
        for g in cuda_tasks(0, G):
            for c in cuda_tasks(0, (N + 31) / 32):
                lo = load_index(offsets[g], 0, M + 1)
                hi = load_index(offsets[g + 1], 0, M + 1)
                for r in seq(0, (hi - lo + 3) / 4):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        if 32 * c + t < N:
                            for i in seq(0, 4):
                                if lo + 4 * r + i < M:
                                    y[lo + 4 * r + i, 32 * c + t] = 1.0


def test_after_the_first_sizes_the_next_ones_are_tried() -> None:
    """ISL does not know that offsets rise; N / 32 is no size."""
    program = beyond.amir()
    analysis = Analysis(program)
    analysis.run(topics(analysis.model))
    tried: list[dict[str, int]] = []
    for _ in range(3):
        sizes = smallest_sizes(program, analysis.findings(), tried)
        assert sizes is not None and sizes not in tried
        tried.append(sizes)
    assert [sum(one.values()) for one in tried] == [4, 5, 5]
    verdict = beyond.check()
    assert verdict.word == "refuted"
    assert verdict.hazards[0].sizes == {"G": 2, "M": 2, "N": 1}
