"""`check()`: what it says of all sizes, and what it does not say."""

from __future__ import annotations

from exogpu import Policy, Procedure, proc
from exogpu.diagnostics.hazards import HazardKind
from exogpu.kernels.gemv_f32 import gemv
from exogpu.solvers.smt import Reply
from exogpu.symbolic.prove import prove


def make(name: str, fence: bool, rows: int) -> Procedure:
    @proc(name=name)
    def reverse(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
        assert M % rows == 0
        with CudaDeviceFunction(blockDim=64):
            for m in cuda_tasks(0, M):
                tile: f32[64] @ CudaSmemLinear
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    tile[t] = x[m, t]
                if fence:
                    Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    y[m, t] = tile[63 - t]
                Fence(cuda_in_order, cuda_in_order)

    return reverse


def test_a_refutation_is_at_the_smallest_sizes_and_replayed() -> None:
    # M must be a multiple of 3, so 3 is the smallest size with a task.
    verdict = make("racy", False, 3).check()
    assert (verdict.word, verdict.sizes) == ("refuted", None)
    (hazard,) = verdict.hazards
    assert (hazard.kind, hazard.variable, hazard.sizes) == (HazardKind.RAW, "tile", {"M": 3})
    assert hazard.replayed and hazard.first is not None


def test_what_is_proved_has_obligations_with_answers() -> None:
    for procedure in (make("fenced", True, 1), gemv):
        for policy in Policy:
            verdict = procedure.check(policy=policy)
            assert (verdict.word, verdict.hazards, verdict.sizes) == ("proved", (), None)
            assert verdict.proof is not None and verdict.proof.complete
            kinds = {answered.obligation.kind for answered in verdict.proof.answered}
            assert {HazardKind.RAW, HazardKind.WAR, HazardKind.WAW} <= kinds


def test_what_the_solver_does_not_confirm_is_not_called_proved(monkeypatch) -> None:
    for word in ("sat", "unknown"):
        monkeypatch.setattr(prove, "__kwdefaults__", {
            **(prove.__kwdefaults__ or {}), "ask": lambda script, word=word: Reply("z3", word, 0.0)
        })  # fmt: skip
        verdict = make("fenced", True, 1).check()
        assert (verdict.word, verdict.proof) == ("undecided", None)
        assert "z3" in verdict.reason


def test_a_procedure_without_sizes_has_but_one_run() -> None:
    @proc
    def one(x: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[t] += 1

    assert one.check().word == "proved"


def test_bounds_are_refuted_at_the_smallest_sizes() -> None:
    @proc
    def tail(M: size, x: f32[M]):
        for i in seq(0, (M + 3) / 4):
            for j in seq(0, 4):
                x[4 * i + j] = 0

    (hazard,) = tail.check().hazards
    assert (hazard.kind, hazard.sizes) == (HazardKind.BOUNDS, {"M": 1})
    # At a multiple of 4 it stays inside, and a check at those sizes says so.
    assert tail.check_at(M=8).word == "proved"
    assert tail.check_at(M=7).word == "refuted"
