"""Flags for all sizes: what is proved, by which counts, and what the rule of late Arrives does."""

from __future__ import annotations

import pytest

from exogpu import proc
from exogpu.amir.nodes import Variable
from exogpu.api import Procedure
from exogpu.codegen.host_steps import emit
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.pipeline.check import answer
from tests.codegen.flag_kernels import KERNELS, after_a_load, chain, total, twice
from tests.machine.case_files import load

CASES = load("flags")


@pytest.mark.parametrize("policy", list(Policy), ids=lambda p: p.value)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_proved(kernel: Procedure, policy: Policy) -> None:
    assert kernel.check(policy=policy).word == "proved"


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("right", "fenced", "in_time")])
def test_refuted_as_at_sizes(name: str) -> None:
    """At the sizes of `tests/cases/machine`, where the machine says which."""
    safe = name in ("two_arrivals", "by_a_thread", "after_the_await")
    found = answer(CASES[name].amir())
    assert (found.proof is not None) == safe
    assert (found.refutation is not None) == (not safe)


def test_what_an_await_waits_for_is_counted() -> None:
    """All tasks; one; two, and one more where there is a task after it."""

    def waits(kernel: Procedure) -> tuple[str, ...]:
        found = answer(kernel.amir())
        assert found.proof is not None
        return found.proof.waits

    assert waits(total) == ('[[true, "T"]]',)
    assert waits(chain) == ("[[true, 1]]",)
    first, second = waits(twice)
    assert first == "[[true, 3]]" and "2" in second and "3" in second


def test_a_value_from_memory_is_no_loop_of_a_count() -> None:
    """It is around the Await in the text, and the count does not read it."""
    made, _ = after_a_load.emit()
    assert "flag_await(&ready[k], k + 1);" in made.source


def test_nothing_is_emitted_without_a_count() -> None:
    with pytest.raises(ExoGpuError) as refused:
        emit(chain.facts)
    (found,) = refused.value.diagnostics
    assert found.code == "G803" and "how many arrivals" in found.message


def test_a_later_arrive_is_a_deadlock_of_flags_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rule, of the finder, the encoder and the machines, nothing else refutes it: an
    Await would wait for those before it, of which a counter tells none."""
    program = CASES["one_flag"].amir()
    found = answer(program)
    assert found.refutation is not None
    kinds = {finding.kind for finding in found.findings.violations}
    assert HazardKind.DEADLOCK in kinds
    monkeypatch.setattr(Variable, "counts_all", property(lambda self: False))
    without = {finding.kind for finding in answer(program).findings.violations}
    assert without == kinds - {HazardKind.DEADLOCK}


@proc
def in_turn(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    """One element after the other is overwritten by all tasks, each after the one before."""
    ready: barrier[M] @ CudaFlag
    last: f32[32] @ CudaGmemLinear
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            if m > 0:
                Await(ready[m - 1], cuda_temporal, 0)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                last[t] = x[m, t]
                y[m, t] = last[t]
            Arrive(cuda_in_order) >> ready[m]


def test_tasks_in_turn_are_ordered_with_the_next_alone() -> None:
    """Of two others, what the first wrote is gone; a chain of flags between them has no bound."""
    assert in_turn.check().word == "proved"


def with_ring(skip: int) -> Procedure:
    """Each task sums through a ring of its own, and adds what the task before has handed on."""

    @proc
    def made(M: size, K: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
        ready: barrier[M] @ CudaFlag
        with CudaDeviceFunction(blockDim=64):
            for m in cuda_tasks(0, M):
                tile: f32[2, 32] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                sum: f32[32]
                with CudaWarps(1, 2):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        sum[t] = 0.0
                for k in seq(0, K):
                    with CudaWarps(0, 1):
                        Await(empty, cuda_in_order, ~skip)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            tile[k % 2, t] = x[m, k, t]
                        Arrive(cuda_in_order) >> full
                    with CudaWarps(1, 2):
                        Await(full, cuda_in_order, ~0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            sum[t] += tile[k % 2, 31 - t]
                        Arrive(cuda_in_order) >> empty
                with CudaWarps(1, 2):
                    if m > 0:
                        Await(ready[m - 1], cuda_in_order, 0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            sum[t] += y[m - 1, 31 - t]
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[m, t] = sum[t]
                    Arrive(cuda_in_order) >> ready[m]
                Fence(cuda_in_order, cuda_in_order)

    return made


@pytest.mark.parametrize(("skip", "word"), [(2, "proved"), (3, "refuted")])
def test_a_ring_of_a_task_has_no_chain_through_other_tasks(skip: int, word: str) -> None:
    assert with_ring(skip).check().word == word
