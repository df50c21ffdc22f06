"""Another CTA's shared memory in emitted code: whose part each access is of, and when CTAs meet."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated, EmulatedError
from campaigns.emulator.orders import ORDERS
from exogpu import proc
from exogpu.api import Procedure
from exogpu.frontend.instructions import InstructionTemplate
from exogpu.hw.memories import CudaSmemCluster
from exogpu.isa import cuda, f8, i8, ldmatrix, mn_major, rows, sm80, sm90
from exogpu.isa.cuda import cuda_atomic_add, cuda_load, cuda_store
from exogpu.isa.sm80 import Sm80_cp_async_copy

MEET = 'asm volatile("barrier.cluster.arrive.release.aligned;'


@proc
def every_way(M: size, x: f32[M, 4, 32] @ CudaGmemLinear, y: f32[M, 2, 4, 32] @ CudaGmemLinear):
    """Reads, writes, vectors and atomics of other CTAs' parts; another variable lies before."""
    with CudaDeviceFunction(clusterDim=4, blockDim=64):
        for m in cuda_tasks(0, M):
            before: f32[4, 5] @ CudaSmemLinear
            part: f32[4, 32] @ CudaSmemCluster
            sums: f32[4] @ CudaSmemCluster
            for c in cuda_threads(0, 4, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    part[(c + 1) % 4, t] = x[m, c, t]
                    if t < 5:
                        before[c, t] = 1.0
                    if t < 1:
                        sums[c] = 0.0
            Fence(cuda_in_order, cuda_in_order)
            for c in cuda_threads(0, 4, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 8, unit=cuda_thread):
                    v: f32[4]
                    r: f32
                    cuda_load(v[:], part[t / 2, 4 * (t % 2) : 4 * (t % 2) + 4])
                    r = v[0] + v[1] + v[2] + v[3]
                    cuda_atomic_add(sums[t / 2], r)
                    y[m, 0, c, t] = part[c, 31 - t] + before[c, t % 5]
            Fence(cuda_in_order, cuda_in_order)
            for c in cuda_threads(0, 4, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 8, unit=cuda_thread):
                    v: f32[4]
                    for i in seq(0, 4):
                        v[i] = sums[3 - c] + sums[c]
                    cuda_store(part[3 - c, 4 * t : 4 * t + 4], v[:])
            Fence(cuda_in_order, cuda_in_order)
            for c in cuda_threads(0, 4, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, 1, c, t] = part[c, t]
            Fence(cuda_in_order, cuda_in_order)


def text(procedure: Procedure) -> str:
    made, _ = procedure.emit()
    return made.source


def test_the_own_part_is_addressed_directly() -> None:
    emitted = text(every_way)
    assert emitted.count("of_cta(") == 1 + 5  # its definition, and one for each access but these:
    for own in ("= part[31 - t] + before", "sums[0] = 0.0f", "= part[t];"):
        assert own in emitted
    for other in ("of_cta(part, (c + 1) % 4)[t] =", "&of_cta(sums, t / 2)[0]"):
        assert other in emitted


def test_all_ctas_have_begun_before_the_first_access() -> None:
    emitted = text(every_way)
    start = emitted[emitted.index("__global__") : emitted.index("for (int task_number")]
    assert start.count(MEET) == 1
    assert emitted.count(MEET) == 1 + 4


def alone(ctas: int, barriers: bool) -> Procedure:
    @proc
    def of_ctas(x: f32[ctas, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(clusterDim=ctas, blockDim=32):
            for task in cuda_tasks(0, 1):
                part: f32[ctas, 32] @ CudaSmemCluster
                if barriers:
                    full: barrier[ctas] @ CudaMbarrier
                for c in cuda_threads(0, ctas, unit=cuda_cta_in_cluster):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        part[ctas - 1 - c, t] = x[c, t]
                    if barriers:
                        Arrive(cuda_in_order) >> full[c]
                        Await(full[c], cuda_in_order, ~0)
                Fence(cuda_in_order, cuda_in_order)

    return of_ctas


def test_they_meet_once_and_only_where_there_are_several() -> None:
    assert text(alone(2, True)).count(MEET) == 2
    assert text(alone(2, False)).count(MEET) == 2
    assert text(alone(1, False)).count(MEET) == 0
    assert "of_cta(" not in text(alone(1, False))


@proc
def guarded(x: f32[2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 1):
            first: f32[2, 32] @ CudaSmemCluster
            every: f32[2, 32] @ CudaSmemCluster
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    if c == 1:
                        first[1, t] = x[c, t]
                        every[1, t] = x[c, t]
            Fence(cuda_in_order, cuda_in_order)
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[c, t] = every[1, t]
                    if c == 1:
                        x[c, t] += every[1, t]
            Fence(cuda_in_order, cuda_in_order)


def test_an_access_is_of_the_own_part_where_all_of_its_instances_are() -> None:
    """Guards tell; of an access that stands twice, both do."""
    emitted = text(guarded)
    assert "first[t] = x[" in emitted and "of_cta(first" not in emitted
    assert "every[t] = x[" in emitted and emitted.count("of_cta(every, 1)[t]") == 2


def test_which_instructions_take_any_ctas_memory() -> None:
    """Those of which each thread uses a generic address; a table that is thought over by hand."""
    found = set()
    for module in (cuda, sm80, sm90, ldmatrix, mn_major, rows, f8, i8):
        for name, one in vars(module).items():
            if isinstance(one, InstructionTemplate):
                asked = re.findall(r"@ (\w+)", ast.unparse(one.source.function.args))
                if not {"CudaSmemCluster", *CudaSmemCluster.bases}.isdisjoint(asked):
                    found.add(name)
    stream = {"cuda_memcpy_to_device", "cuda_memcpy_to_host"}
    stream |= {"cuda_memset0_1d", "cuda_memset0_3d"}  # stand at CPU scope, where there is none
    wanted = {"cuda_load", "cuda_store", "cuda_atomic_add", "cuda_atomic_max", "Sm80_store_D"}
    assert found - stream == wanted | {"cuda_pick"}


emulated_only = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")


def run(emulated: Emulated, order: object) -> bool:
    """Whether the result is right."""
    x = np.random.default_rng(0).integers(-9, 9, (3, 4, 32)).astype(np.float32)
    wanted, found = (np.zeros((3, 2, 4, 32), np.float32) for _ in range(2))
    every_way.run(x=x, y=wanted)
    emulated({"x": x, "y": found}, {"M": 3}, order)  # type: ignore[arg-type]
    return bool(np.array_equal(found, wanted))


@pytest.mark.slow
@emulated_only
def test_right_in_every_order_and_wrong_of_another_cta(tmp_path: Path) -> None:
    made, manifest = every_way.emit()
    right = Emulated(made.source, manifest, tmp_path)
    assert all(run(right, order) for order in ORDERS)
    other = made.source.replace("of_cta(part, (c + 1) % 4)", "of_cta(part, c)")
    assert other != made.source
    assert not run(Emulated(other, manifest, tmp_path), ORDERS[1])


@pytest.mark.slow
@emulated_only
def test_without_the_start_a_cta_may_not_have_begun(tmp_path: Path) -> None:
    made, manifest = every_way.emit()
    at = made.source.index(MEET, made.source.index("__global__"))
    end = made.source.index("\n", made.source.index("barrier.cluster.wait", at))
    early = Emulated(made.source[:at] + made.source[end:], manifest, tmp_path)
    with pytest.raises(EmulatedError, match="has not begun"):
        for order in ORDERS:
            run(early, order)


def test_what_asks_for_its_own_ctas_memory_refuses_it() -> None:
    @proc
    def copied(x: f32[2, 4] @ CudaGmemLinear):
        with CudaDeviceFunction(clusterDim=2, blockDim=32):
            for task in cuda_tasks(0, 1):
                part: f32[2, 4] @ CudaSmemCluster
                for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        Sm80_cp_async_copy(part[1 - c, 0:4], x[c, 0:4])
                Fence(Sm80_cp_async, cuda_in_order)

    assert [found.code for found in copied.diagnostics] == ["T227"]
