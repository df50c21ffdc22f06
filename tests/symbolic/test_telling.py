"""Sizes at which more happens than at the smallest, and what the fast machine counts there."""

from __future__ import annotations

import pytest

from exogpu import proc
from exogpu.amir.nodes import Program
from exogpu.hw.language import f16
from exogpu.kernels.gemm_grouped_sm90 import make_grouped
from exogpu.machine import fast, literal
from exogpu.machine.index_contents import with_contents
from exogpu.symbolic.search.smallest_sizes import larger_sizes


@proc
def ring(
    M: size, K: size, L: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, K, 32] @ CudaGmemLinear
):
    assert L % 5 == 0
    with CudaDeviceFunction(blockDim=64):
        tile: f32[3, 32] @ CudaSmemLinear
        full: barrier @ CudaMbarrier
        empty: barrier(full) @ CudaMbarrier
        for m in cuda_tasks(0, M):
            for k in seq(0, K):
                with CudaWarps(0, 1):
                    Await(empty, cuda_in_order, ~3)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[slot(full), t] = x[m, k, t]
                    Arrive(cuda_in_order) >> full
                with CudaWarps(1, 2):
                    Await(full, cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[m, k, t] = tile[slot(empty), 31 - t]
                    Arrive(cuda_in_order) >> empty


@proc
def short(K: size, x: f32[K, 32] @ CudaGmemLinear):
    assert K < 3
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, 1):
            for k in seq(0, K):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[k, t] = 0.0
                Fence(cuda_in_order, cuda_in_order)


def test_rings_go_round_and_tasks_are_several() -> None:
    assert list(larger_sizes(ring.amir())) == [{"M": 1, "K": 5, "L": 5}, {"M": 3, "K": 1, "L": 5}]


def test_of_what_the_preconditions_do_not_admit_there_are_none() -> None:
    assert list(larger_sizes(short.amir())) == []


def left_out() -> Program:
    """At sizes, with contents that leave out the second of four tasks."""
    program = make_grouped(TN=64, RING=3, dtype=f16).amir()
    contents = {"group": (0, 0), "cuts": (0, 0, 1)}
    return with_contents(program, SIZES, contents)


SIZES = {"G": 1, "T": 2, "M": 1, "N": 65, "cluster_K": 136}


def test_the_fast_machine_counts_slots_past_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(*args: object, **named: object) -> None:
        raise AssertionError("the literal machine was asked")

    monkeypatch.setattr(literal, "run", none)
    found = fast.run(left_out(), SIZES)
    assert not found.violations and found.operations > 100
