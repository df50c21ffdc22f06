"""Rings that run on from task to task: proved for every choice of tasks, and wrong ones refuted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from exogpu import proc
from exogpu.amir.nodes import Block, Loop, Program
from exogpu.amir.walk import begins_tasks, operations
from exogpu.api import Procedure
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.types import Sym
from exogpu.ir.walk import evaluate
from exogpu.kernels.gemm_sm90 import make_resident
from exogpu.machine import literal
from exogpu.machine.concrete_program import (
    CHOICES,
    assign_tasks,
    at_random,
    backwards,
    dealt,
    one_task_each,
    round_robin,
)
from exogpu.pipeline.check import answer


def ring(
    *,
    whole: bool = True,
    skip: int = 2,
    table: str = "",
    awaits: bool = True,
    where: str = "task",
) -> Procedure:
    """A ring of two slots between two warps that serves M tasks of K steps: as it should be, or
    with one mistake."""

    @proc
    def ring(
        M: size, K: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, K, 32] @ CudaGmemLinear
    ):
        assert K % (2 if whole else 1) == 0
        with CudaDeviceFunction(blockDim=64):
            tile: f32[2, 32] @ CudaSmemLinear
            kept: f32[32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for task in cuda_tasks(0, M):
                if table == "written":
                    with CudaWarps(1, 2):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            kept[t] = 0.0
                for k in seq(0, K):
                    with CudaWarps(0, 1):
                        if awaits:
                            Await(empty, cuda_in_order, ~skip)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            tile[k % 2, t] = x[task, k, t]
                        Arrive(cuda_in_order) >> full
                    with CudaWarps(1, 2):
                        Await(full, cuda_in_order, ~0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            if table:
                                kept[t] += tile[k % 2, t]
                            if where == "task":
                                y[task, k, t] = tile[k % 2, 31 - t]
                            if where in ("one writes", "two write"):
                                r: f32
                                r = tile[k % 2, 31 - t]
                                if task < (1 if where == "one writes" else 2):
                                    r += 1.0
                                    y[0, k, t] = r
                            if where == "first":
                                y[0, k, t] = tile[k % 2, 31 - t]
                            if where == "some":
                                if task < M - 1:
                                    y[task, k, t] = tile[k % 2, 31 - t]
                                else:
                                    y[task, k, t] = x[task, k, t]
                        Arrive(cuda_in_order) >> empty

    return ring


RIGHT = {
    "as it should be": ring(),
    "a slot later": ring(skip=1),
    "what is kept is written first": ring(table="written"),
    "one task writes, as its condition says": ring(where="one writes"),
}

WRONG = {
    # What is at fault, in which task, against an access of which task.
    "tasks end within the ring": (ring(whole=False), (HazardKind.WAR, "tile", 2, 1)),
    "a slot too early": (ring(skip=3), (HazardKind.WAR, "tile", 2, 1)),
    "a value leaks": (ring(table="read"), (HazardKind.UNINIT, "kept", 1, None)),
    "tasks write one element": (ring(where="first"), (HazardKind.WAW, "y", 2, 1)),
    "two tasks that a condition admits": (ring(where="two write"), (HazardKind.WAW, "y", 2, 1)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_proved_for_all_sizes_and_orders(name: str) -> None:
    assert answer(RIGHT[name].amir()).proof is not None


@pytest.mark.parametrize("name", WRONG)
def test_refuted_with_its_tasks(name: str) -> None:
    procedure, expected = WRONG[name]
    found = answer(procedure.amir()).refutation
    assert found is not None
    violation = found.violation
    assert (
        violation.kind,
        violation.variable,
        violation.task,
        violation.record_task,
    ) == expected


def test_without_an_await_nothing_keeps_the_ring() -> None:
    found = answer(ring(awaits=False).amir()).refutation
    assert found is not None
    assert found.violation.kind in (HazardKind.PHASE, HazardKind.BARRIER)


def test_undecided_where_what_is_executed_depends_on_the_task() -> None:
    found = answer(ring(where="some").amir())
    assert found.proof is None and found.refutation is None
    assert "depends on the task" in found.reason


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_machines_agree_whatever_the_choice(name: str) -> None:
    program = RIGHT[name].amir()
    sizes = {"M": 3, "K": 2}
    for choice in (*CHOICES, at_random(1)):
        assert literal.run(assign_tasks(program, sizes, choice), sizes) == ()
        assert literal.run(dealt(program, sizes, choice), sizes) == ()


def test_clusters_and_tasks_of_a_rule_are_loops() -> None:
    """The text is as long for many tasks as for few, and each number has its turn."""
    program = ring().amir()
    for choice in (one_task_each, backwards, round_robin(2), round_robin(3)):
        lengths = {
            len([*operations(dealt(program, {"M": m, "K": 2}, choice).body)]) for m in (7, 40)
        }
        assert len(lengths) == 1
        for m in (0, 1, 2, 7):
            sizes = {"M": m, "K": 2}
            looped, written = dealt(program, sizes, choice), assign_tasks(program, sizes, choice)
            assert tasks(looped, sizes) == tasks(written, sizes)


def tasks(program: Program, sizes: Mapping[str, int]) -> list[int]:
    """The numbers of the tasks in the order in which they are executed."""

    def within(block: Block, values: Mapping[Sym, int]) -> Iterator[int]:
        for op in block:
            if isinstance(op, Loop) and begins_tasks(op.body):
                for value in range(evaluate(op.lo, values), evaluate(op.hi, values)):
                    if op.tasks:
                        yield value
                    else:
                        yield from within(op.body, {**values, op.iterator: value})

    return [*within(program.body, {p.name: sizes[p.name.name] for p in program.params})]


def test_safe_at_sizes_is_said_of_every_order() -> None:
    assert ring().check_at(M=3, K=4).word == "proved"
    # Some orders are tried: of the others nothing is known.
    assert ring(where="some").check_at(M=3, K=4).word == "undecided"


@pytest.mark.slow
def test_the_gemm_is_proved() -> None:
    assert answer(make_resident(1, 1, 128, 256).amir()).proof is not None


# --- fences, launches, and what tasks have in common ----------------------------------------------


@proc
def fenced(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        tile: f32[32] @ CudaSmemLinear
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                tile[t] = x[m, t]
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = tile[31 - t]
            Fence(cuda_in_order, cuda_in_order)


@proc
def unfenced(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        tile: f32[32] @ CudaSmemLinear
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                tile[t] = x[m, t]
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = tile[31 - t]


@proc
def launched_again(
    N: size, M: size, K: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, K, 32] @ CudaGmemLinear
):
    assert K % 2 == 0
    for i in seq(0, N):
        with CudaDeviceFunction(blockDim=64):
            tile: f32[2, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for task in cuda_tasks(0, M):
                for k in seq(0, K):
                    with CudaWarps(0, 1):
                        Await(empty, cuda_in_order, ~2)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            tile[k % 2, t] = x[task, k, t]
                        Arrive(cuda_in_order) >> full
                    with CudaWarps(1, 2):
                        Await(full, cuda_in_order, ~0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            y[task, k, t] = tile[k % 2, 31 - t]
                        Arrive(cuda_in_order) >> empty


@proc
def two_launches(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        tile: f32[32] @ CudaSmemLinear
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                tile[t] = x[m, t]
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = tile[31 - t]
            Fence(cuda_in_order, cuda_in_order)
    with CudaDeviceFunction(blockDim=32):
        tile2: f32[32] @ CudaSmemLinear
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                tile2[t] = y[M - 1 - m, t]
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                x[m, t] = tile2[31 - t]
            Fence(cuda_in_order, cuda_in_order)


@proc
def neighbour(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M + 1, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        tile: f32[32] @ CudaSmemLinear
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                tile[t] = x[m, t]
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m + 1, t] = tile[31 - t] + y[m, t]
            Fence(cuda_in_order, cuda_in_order)


OTHERS = [
    (fenced, None),
    (unfenced, (HazardKind.WAR, "tile", 2, 1)),
    (launched_again, None),
    (two_launches, None),
    # In order on one cluster a task would find what the one before wrote.
    (neighbour, (HazardKind.RAW, "y", 2, 1)),
]


@pytest.mark.parametrize(
    ("procedure", "expected"), OTHERS, ids=lambda one: getattr(one, "name", "")
)
def test_fences_launches_and_neighbours(
    procedure: Procedure, expected: tuple[HazardKind, str, int, int] | None
) -> None:
    found = answer(procedure.amir())
    if expected is None:
        assert found.proof is not None
        return
    assert found.refutation is not None
    violation = found.refutation.violation
    assert (
        violation.kind,
        violation.variable,
        violation.task,
        violation.record_task,
    ) == expected
