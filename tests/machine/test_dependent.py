"""Dependent launches (decision `dependent-launch`): the machines, the prover and what CUDA
documents agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from exogpu import Policy, Procedure, proc
from exogpu.amir.nodes import Arrive, Await, Block, Fence, Op, Program
from exogpu.amir.walk import operations, rewritten
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.kernels.gemm_epilogue import make_epilogue
from exogpu.kernels.gemm_sm90 import make_product, warps
from exogpu.machine import fast, literal
from tests.machine.launch_procs import NOTHING, READ, WRITE, make, race

HOW = (NOTHING, READ, WRITE)
FAMILY = [
    ((False, *dependent), early, late)
    for dependent in product((False, True), repeat=2)
    for early in product(HOW, repeat=3)
    for late in product(HOW, repeat=3)
]


def sampled(count: int, seed: int) -> list[tuple]:
    """Some of the family, half of them racing."""
    found: dict[bool, list[tuple]] = {True: [], False: []}
    order = list(FAMILY)
    Random(seed).shuffle(order)
    for one in order:
        kind = found[race(*one)]
        if len(kind) < count // 2:
            kind.append(one)
    return found[True] + found[False]


def safe(program: Program, n: int) -> bool:
    every = literal.run(program, {"n": n}, collect=True)
    assert set(fast.run(program, {"n": n}, collect=True).violations) == set(every)
    return not every


@pytest.mark.slow
def test_the_machines_find_what_the_documentation_says() -> None:
    for dependent, early, late in sampled(50, 1):
        program = make(dependent, early, late).amir()
        assert safe(program, 1) != race(dependent, early, late), (dependent, early, late)


@pytest.mark.slow
def test_so_does_the_prover() -> None:
    for policy in Policy:
        for dependent, early, late in sampled(8, 2):
            verdict = make(dependent, early, late).check(policy=policy)
            word = "refuted" if race(dependent, early, late) else "proved"
            assert verdict.word == word, (dependent, early, late)


@pytest.mark.slow
def test_without_a_statement_it_waits_first() -> None:
    """Whatever its accesses are."""
    for dependent, early, late in sampled(6, 3):
        assert make(dependent, early, late, waits=False).check().word == "proved"


# --- careless readings of the rule ------------------------------------------------------------

STREAM = SYNC_TIMELINES["cuda_stream_sync"].sets_under(Policy.PTX)


def changed(program: Program, change: Callable[[Op], Block]) -> Program:
    found = {op: change(op) for op in operations(program.body)}
    kept = {op: new for op, new in found.items() if new != (op,)}
    return replace(program, body=rewritten(program.body, kept))


def begins_late(op: Op) -> Block:
    """As if a dependent launch began after the one before it."""
    if isinstance(op, Fence) and op.launch and not op.full:
        return (replace(op, pre=STREAM.full, full=STREAM.full, temporal=STREAM.temporal),)
    return (op,)


def waits_for_all(op: Op) -> Block:
    """As if one task's wait were one of all tasks."""
    if isinstance(op, Await) and op.launch:
        origin = replace(op.origin, threads=None)
        return (Fence(True, STREAM.full, op.full, op.temporal, origin, launch=True),)
    return (op,)


def never_ends(op: Op) -> Block:
    """As if a launch's end were nothing that could be waited for."""
    return (replace(op, pre=frozenset()),) if isinstance(op, Arrive) and op.launch else (op,)


@pytest.mark.parametrize(
    "mutant", [begins_late, waits_for_all, never_ends], ids=lambda one: one.__name__
)
def test_a_careless_reading_is_told_from_the_rule(mutant) -> None:
    """Some program of the family, at two tasks, tells them apart."""
    for dependent, early, late in [*TELLING, *sampled(40, 4)]:
        program = make(dependent, early, late).amir()
        if safe(program, 2) != safe(changed(program, mutant), 2):
            return
    raise AssertionError("no program tells")


TELLING = [
    ((False, True, False), (NOTHING, WRITE, NOTHING), (WRITE, NOTHING, NOTHING)),
    ((False, True, True), (NOTHING, NOTHING, READ), (WRITE, NOTHING, NOTHING)),
    ((False, True, False), (NOTHING, NOTHING, NOTHING), (WRITE, READ, NOTHING)),
]


# --- programs that look alike -------------------------------------------------------------------


def two(kind: str) -> Procedure:
    """A launch writes y, the next one reads it; of how that one waits there are several."""

    @proc
    def launches(n: size, y: f32[n, 64] @ CudaGmemLinear, z: f32[n, 64] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for i in cuda_tasks(0, n):
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    y[i, t] = 1
        with CudaDeviceFunction(blockDim=64, dependent=True):
            for i in cuda_tasks(0, n):
                if kind == "a warp waits":
                    with CudaWarps(0, 1):
                        Fence(cuda_stream_sync, cuda_in_order)
                if kind == "a warp waits, and all meet":
                    with CudaWarps(0, 1):
                        Fence(cuda_stream_sync, cuda_in_order)
                    Fence(cuda_in_order, cuda_in_order)
                if kind == "each warp waits":
                    for w in cuda_threads(0, 2, unit=cuda_warp):
                        Fence(cuda_stream_sync, cuda_in_order)
                if kind == "the first task waits":
                    for _ in seq(0, 1):
                        if i == 0:
                            Fence(cuda_stream_sync, cuda_in_order)
                if kind == "perhaps none waits":
                    for k in seq(0, i):
                        Fence(cuda_stream_sync, cuda_in_order)
                if kind == "the first step waits":
                    for k in seq(0, 1 + i):
                        if k == 0:
                            Fence(cuda_stream_sync, cuda_in_order)
                if kind == "in time only":
                    Fence(cuda_stream_sync, cuda_temporal)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    z[i, t] = y[i, 63 - t]
                if kind == "too late":
                    Fence(cuda_stream_sync, cuda_in_order)

    return launches


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("a warp waits", "refuted"),
        ("a warp waits, and all meet", "proved"),
        ("each warp waits", "proved"),
        ("the first task waits", "refuted"),
        ("perhaps none waits", "refuted"),
        ("the first step waits", "proved"),
        ("in time only", "refuted"),
        ("too late", "refuted"),
        ("nobody says where", "proved"),
    ],
)
def test_each_thread_waits_before_it_reads(kind: str, word: str) -> None:
    verdict = two(kind).check()
    assert verdict.word == word
    lines = [(h.first.text, h.second.text) for h in verdict.hazards]
    assert lines == ([("y[i, t] = 1", "z[i, t] = y[i, 63 - t]")] if word == "refuted" else [])
    for hazard in verdict.hazards:
        if kind == "in time only":
            assert "orders ordinary memory accesses in time only" in hazard.link
        else:
            assert "is dependent: it may begin before that of line" in hazard.link
            assert hazard.help.startswith("wait first: move Fence(cuda_stream_sync")


@proc
def again(n: size, k: size, x: f32[n, 32] @ CudaGmemLinear, y: f32[n, 32] @ CudaGmemLinear):
    for r in seq(0, k):
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, n):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[i, t] = x[i, 31 - t]
        with CudaDeviceFunction(blockDim=32, dependent=True):
            for i in cuda_tasks(0, n):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[i, t] = y[i, 31 - t]


def test_in_a_loop_of_the_cpu_the_next_iteration_begins_after() -> None:
    assert again.check().word == "proved"


# --- with what resides --------------------------------------------------------------------------


def running_ring(where: str) -> Procedure:
    """A ring that runs on from task to task, in a dependent launch; some of its warps wait."""

    @proc
    def ring(
        M: size,
        K: size,
        w: f32[M, K, 32] @ CudaGmemLinear,
        x: f32[M, K, 32] @ CudaGmemLinear,
        y: f32[M, K, 32] @ CudaGmemLinear,
    ):
        assert K % 2 == 0
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, M):
                for k in seq(0, K):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        x[m, k, t] = w[m, k, 31 - t]
        with CudaDeviceFunction(blockDim=64, dependent=True):
            tile: f32[2, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for m in cuda_tasks(0, M):
                if where == "producer":
                    with CudaWarps(0, 1):
                        Fence(cuda_stream_sync, cuda_in_order)
                if where == "consumer":
                    with CudaWarps(1, 2):
                        Fence(cuda_stream_sync, cuda_in_order)
                for k in seq(0, K):
                    with CudaWarps(0, 1):
                        Await(empty, cuda_in_order, ~2)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            tile[k % 2, t] = x[m, k, t]
                        Arrive(cuda_in_order) >> full
                    with CudaWarps(1, 2):
                        Await(full, cuda_in_order, ~0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            y[m, k, t] = tile[k % 2, 31 - t]
                        Arrive(cuda_in_order) >> empty

    return ring


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "word"), [("producer", "proved"), ("consumer", "refuted"), ("nowhere", "proved")]
)
def test_what_resides_may_be_in_a_dependent_launch(where: str, word: str) -> None:
    verdict = running_ring(where).check()
    assert verdict.word == word
    assert {h.variable for h in verdict.hazards} == ({"x"} if word == "refuted" else set())


def two_products(CM: int, TM: int, TN: int) -> Procedure:
    """C = W (B A): the second product takes the first by TMA."""
    product = make_product(CM, 1, TM, TN, 2, split=False, rounded=False)
    epilogue = make_epilogue(CM, 1, TM, TN)
    MM = TM // 2

    @proc
    def products(
        M: size,
        N: size,
        K: size,
        P: size,
        A: f32[1, M, K] @ CudaGmemLinear,
        B: f32[1, N, K] @ CudaGmemLinear,
        W: f32[1, P, N] @ CudaGmemLinear,
        C: f32[1, M, P] @ CudaGmemLinear,
    ):
        assert K % 4 == 0
        assert N % 4 == 0
        H: f32[1, M, N] @ CudaGmemLinear
        A_map = A[:, :, :] @ Sm90_tensorMap(128, 1, TM, 32)
        B_map = B[:, :, :] @ Sm90_tensorMap(128, 1, TN // CM, 32)
        H_map = H[:, :, :] @ Sm90_tensorMap(128, 1, TM, 32)
        W_map = W[:, :, :] @ Sm90_tensorMap(128, 1, TN // CM, 32)
        with CudaDeviceFunction(clusterDim=CM, warp_config=warps(2)):
            for tm in cuda_tasks(0, (M + CM * TM - 1) / (CM * TM)):
                for tn in cuda_tasks(0, (N + TN - 1) / TN):
                    D: f32[CM, 1, 2, MM, TN] @ Sm90_RmemMatrixD(MM, TN)
                    product(D, A_map, B_map, K, 0, tm, tn, None)
                    Fence(cuda_in_order, cuda_in_order)
                    epilogue(H, D, M, N, 0, tm, tn)
        with CudaDeviceFunction(clusterDim=CM, warp_config=warps(2), dependent=True):
            for tm in cuda_tasks(0, (M + CM * TM - 1) / (CM * TM)):
                for tn in cuda_tasks(0, (P + TN - 1) / TN):
                    E: f32[CM, 1, 2, MM, TN] @ Sm90_RmemMatrixD(MM, TN)
                    product(E, H_map, W_map, N, 0, tm, tn, None)
                    Fence(cuda_in_order, cuda_in_order)
                    epilogue(C, E, M, P, 0, tm, tn)

    return products


@pytest.mark.slow
def test_products_in_a_row() -> None:
    """Clusters and TMA, whose loads of H are ordered after the stores of another proxy."""
    assert two_products(2, 128, 64).check().word == "proved"
