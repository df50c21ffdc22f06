"""A failure while a verdict is explained is noted; the verdict stays what it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from exogpu import proc
from exogpu.api import Procedure
from exogpu.diagnostics.verdict import Verdict
from exogpu.pipeline import refutation
from exogpu.solvers import processes


@proc
def race(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = tile[63 - t]


@proc
def right(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = x[m, t]


@proc
def unrolled(x: f32[2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            turn: barrier @ CudaNamedBarrier
            for g in range(2):
                with CudaWarps(g, g + 1):
                    Arrive(cuda_in_order) >> turn
                with CudaWarps(2 + g, 3 + g):
                    Await(turn, cuda_in_order)
            Fence(cuda_in_order, cuda_in_order)


def fresh(of: Procedure) -> Procedure:
    """The procedure without the answers that it remembers."""
    return Procedure(of.name, of.ir, ())


def fail(*_: object, **__: object) -> None:
    raise IndexError("planted")


AFTER_REFUTING = [
    "exogpu.explain.trials.apply_edit",
    "exogpu.explain.hazard_text.broken_link",
    "exogpu.explain.hazard_text.advice",
    "exogpu.pipeline.refutation.Trials",
    "exogpu.pipeline.refutation.further",
    "exogpu.pipeline.refutation.with_shared_repairs",
    "exogpu.pipeline.check.smallest",
    "exogpu.pipeline.check.weakest_condition",
]
AFTER_PROVING = ["exogpu.codegen.compiled_kernel.limitations"]


def planted(
    monkeypatch: pytest.MonkeyPatch, where: str, check: Callable[[], Verdict], loud: bool = False
) -> Verdict:
    monkeypatch.setattr(where, fail)
    monkeypatch.setattr(refutation, "LOUD", loud)
    return check()


@pytest.mark.parametrize("where", AFTER_REFUTING)
def test_a_refutation_stays_one(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = processes.cuts()
    verdict = planted(monkeypatch, where, fresh(race).check)
    assert verdict.word == "refuted" and verdict.hazards[0].sizes == {"M": 1}
    assert "(IndexError: planted); this is a bug in exogpu" in verdict.note
    assert processes.cuts() > before  # so that it is not cached
    assert {h.kind.value for h in verdict.hazards} <= {"RAW", "FREE"}


@pytest.mark.parametrize("where", AFTER_REFUTING[:3])
def test_so_does_one_at_sizes(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = planted(monkeypatch, where, lambda: race.check_at(M=1))
    assert verdict.word == "refuted" and "planted" in verdict.note
    assert [h.kind.value for h in verdict.hazards] == ["RAW", "FREE", "FREE"]


@pytest.mark.parametrize("where", AFTER_PROVING)
def test_a_proof_stays_one(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = planted(monkeypatch, where, fresh(right).check)
    assert verdict.word == "proved" and "planted" in verdict.note and verdict.proof is not None


@pytest.mark.parametrize("where", AFTER_REFUTING)
def test_tests_hear_of_it(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(IndexError, match="planted"):
        planted(monkeypatch, where, fresh(race).check, loud=True)


def test_the_traceback_is_there_for_those_who_ask(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    where = "exogpu.explain.trials.apply_edit"
    assert planted(monkeypatch, where, fresh(race).check).word == "refuted"
    assert "Traceback" not in capfd.readouterr().err
    monkeypatch.setenv("EXOGPU_DEBUG", "1")
    assert planted(monkeypatch, where, fresh(race).check).word == "refuted"
    assert "IndexError: planted" in capfd.readouterr().err


def test_a_limit_that_is_reached_after_the_refutation_leaves_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Smaller sizes are then not decided."""

    def used_up(*_: object) -> None:
        raise MemoryError

    for where in ("exogpu.pipeline.check.smallest", "exogpu.explain.trials.apply_edit"):
        monkeypatch.setattr(where, used_up)
        verdict = fresh(race).check(memory=8)
        assert verdict.word == "refuted" and len(verdict.hazards) == 1
        monkeypatch.undo()


def test_two_readings_of_one_statement_are_refuted() -> None:
    """A repair between them has no place to be: the checker failed where it looked for one."""
    verdict = unrolled.check()
    assert verdict.word == "refuted" and not verdict.note
    assert {h.kind.value for h in verdict.hazards} == {"PHASE"}
