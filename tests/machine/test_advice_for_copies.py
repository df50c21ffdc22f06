"""Repairs of copies that each thread waits for itself, and others read; and at which sizes they are
tried where the larger ones take too long."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import pytest

from exogpu import proc
from exogpu.amir.nodes import Program
from exogpu.explain import trials
from exogpu.explain.hazard_text import first_of_each_pair, hazards_of
from exogpu.isa.sm80 import Sm80_cp_async_copy
from exogpu.machine import fast
from exogpu.machine.observer import Violation


@proc
def two_buffers(K: size, x: f32[K, 256] @ CudaGmemLinear, y: f32[K, 256] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 256] @ CudaSmemLinear
            cg: barrier[64] @ CudaCommitGroup
            for t in cuda_threads(0, 64, unit=cuda_thread):
                Sm80_cp_async_copy(tile[0, 4 * t : 4 * t + 4], x[0, 4 * t : 4 * t + 4])
                Arrive(Sm80_cp_async) >> cg[t]
            for k in seq(0, K):
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    if k + 1 < K:
                        Sm80_cp_async_copy(
                            tile[(k + 1) % 2, 4 * t : 4 * t + 4], x[k + 1, 4 * t : 4 * t + 4]
                        )
                    Arrive(Sm80_cp_async) >> cg[t]
                    Await(cg[t], cuda_in_order, 1)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    for i in seq(0, 4):
                        y[k, 64 * i + t] = tile[k % 2, 64 * i + t]
                Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 64, unit=cuda_thread):
                Await(cg[t], cuda_in_order, 0)
            Fence(cuda_in_order, cuda_in_order)


def test_the_fence_stands_behind_the_loop_in_which_each_waits() -> None:
    """Before the steps, between the first copy and the reads, it would come before the Await."""
    hazards = two_buffers.check().hazards
    (hazard,) = [h for h in hazards if h.first is not None and h.sizes == {"K": 1}]
    line = hazard.second.span.line - 9
    assert hazard.help == (
        f"add `Fence(cuda_in_order, cuda_in_order)` after line {line + 6}, indented like line "
        f"{line} (16 spaces), in the loop of line {line - 1}"
    )


def test_where_the_larger_sizes_take_too_long_others_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[int] = []

    class Impatient(trials.Budget):
        def run(
            self, program: Program, sizes: Mapping[str, int], most: float = inf
        ) -> tuple[Violation, ...] | None:
            tried.append(sizes["K"])
            return super().run(program, sizes, most) if sizes["K"] < 20 else None

    monkeypatch.setattr(trials, "Budget", Impatient)
    program = two_buffers.amir()
    violations = first_of_each_pair(fast.run(program, {"K": 1}, keep=fast.Keep.PAIRS).violations)
    (hazard,) = hazards_of(violations, {"K": 1}, program)
    assert hazard.help.startswith("after the loop")
    assert set(tried) == {1, 40, 9}
