"""What ISL finds of bounds and operands proves nothing: where it finds nothing, a solver is asked.

Each procedure here is wrong in one way alone.  With the analyses blinded nothing else may prove it.
"""

from __future__ import annotations

import pytest

import exogpu
from exogpu import Procedure
from exogpu.analysis import bounds, distribution, operand_windows
from exogpu.analysis import facts as analysis_facts
from exogpu.diagnostics.hazards import HazardKind
from exogpu.isa.cuda import cuda_load, cuda_shfl_xor, cuda_store
from exogpu.solvers import smt
from exogpu.symbolic.prove import drafts, prove
from exogpu.symbolic.search.analysis import Undecided, analyse


@exogpu.proc
def first_of(to: f32[1] @ DRAM, of: f32[2] @ DRAM):
    to[0] = of[0]


@exogpu.proc
def one_past_the_end(K: size, x: f32[K] @ CudaGmemLinear, y: f32[K, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, K):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[task, t] = x[task + 1]


@exogpu.proc
def outside_of_a_window(K: size, x: f32[K + 32] @ CudaGmemLinear, y: f32[K] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, K):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                w = x[task : task + 16]
                y[task] = w[16]


@exogpu.proc
def through_a_call(K: size, x: f32[K + 32] @ DRAM, y: f32[K] @ DRAM):
    for i in seq(0, K):
        first_of(y[i : i + 1], x[i + 32 : i + 34])


@exogpu.proc
def a_vector_past_the_end(K: size, x: f32[K] @ CudaGmemLinear, y: f32[K, 4] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, K):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                r: f32[4]
                cuda_load(r[:], x[0:4])
                cuda_store(y[task, :], r[:])


@exogpu.proc
def on_no_multiple(K: size, x: f32[K, 6] @ CudaGmemLinear, y: f32[K, 4] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, K):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                r: f32[4]
                cuda_load(r[:], x[task, 0:4])
                cuda_store(y[task, :], r[:])


@exogpu.proc
def shuffled_onto_itself(K: size, y: f32[K, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, K):
            r: f32[32]
            for t in cuda_threads(0, 32, unit=cuda_thread):
                r[t] = 1.0
            cuda_shfl_xor(r[:], r[:], mask=1)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[task, t] = r[t]


@exogpu.proc
def a_warp_alone(K: size):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, K):
            for w in cuda_threads(0, 1, unit=cuda_warp):
                Fence(wgmma_fence_1, wgmma_fence_2)


@exogpu.proc
def two_of_four_ctas(K: size):
    with CudaDeviceFunction(clusterDim=4, blockDim=32):
        for task in cuda_tasks(0, K):
            for c in cuda_threads(0, 1, unit=2 * cuda_cta_in_cluster):
                Fence(cuda_in_order, cuda_in_order)


@exogpu.proc
def where_it_runs(K: size, n: size, x: f32[K - 4] @ DRAM, y: f32[n] @ DRAM, z: f32[8] @ DRAM):
    assert K >= 4
    for i in seq(0, K - 4):
        x[0] = 1.0
    for i in seq(0, n):
        if n > 5:
            y[5] = z[i % 8]
    for i in seq(0, 8):
        for j in seq(0, i):
            t: f32[i + 1] @ DRAM
            t[j + 1] = 1.0
            z[i - j] = t[j + 1]


WRONG = (
    (one_past_the_end, HazardKind.BOUNDS),
    (outside_of_a_window, HazardKind.BOUNDS),
    (through_a_call, HazardKind.BOUNDS),
    (a_vector_past_the_end, HazardKind.BOUNDS),
    (on_no_multiple, HazardKind.ALIGN),
    (shuffled_onto_itself, HazardKind.OVERLAP),
    (a_warp_alone, HazardKind.DIVERGENCE),
    (two_of_four_ctas, HazardKind.DIVERGENCE),
)

each = pytest.mark.parametrize(("wrong", "kind"), WRONG, ids=[p.name for p, _ in WRONG])


@each
def test_it_is_refuted(wrong: Procedure, kind: HazardKind) -> None:
    verdict = wrong.check()
    assert verdict.word == "refuted"
    assert {hazard.kind for hazard in verdict.hazards} == {kind}


@each
def test_no_solver_confirms_it(wrong: Procedure, kind: HazardKind) -> None:
    """One obligation fails, and it is the one of this kind."""
    found = analyse(wrong.amir())
    assert not found.violations and not found.undecided and found.evidence is not None
    answers = [(draft.kind, smt.ask_z3(draft.script)) for draft in drafts(found.evidence)]
    assert [(of, reply.word) for of, reply in answers if reply.word != "unsat"] == [(kind, "sat")]
    undecided = prove(found)
    assert isinstance(undecided, Undecided) and "does not confirm" in undecided.reason


@each
def test_it_is_not_proved_where_isl_finds_nothing(
    wrong: Procedure, kind: HazardKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "violations", lambda proc: ())
    monkeypatch.setattr(operand_windows, "violations", lambda proc, variables, sizes=None: ())
    monkeypatch.setattr(analysis_facts, "divergences", lambda proc, executors, mechanisms: ())
    blinded = Procedure(wrong.name, wrong.ir, ())
    verdict = blinded.check()
    # The abstract machine, run at the smallest sizes, meets what no solver confirmed.
    assert verdict.word == "refuted"
    assert {hazard.kind for hazard in verdict.hazards} == {kind}
    assert all(hazard.replayed for hazard in verdict.hazards)


@exogpu.proc
def of_another_thread(K: size, y: f32[K, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, K):
            r: f32[32]
            for t in cuda_threads(0, 32, unit=cuda_thread):
                r[t] = 1.0
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[task, t] = r[31 - t]
            Fence(cuda_in_order, cuda_in_order)


def test_an_element_of_registers_has_one_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_another_thread.check().word == "error"
    monkeypatch.setattr(distribution, "check", lambda facts: ())
    blinded = Procedure(of_another_thread.name, of_another_thread.ir, ())
    verdict = blinded.check()
    assert verdict.word == "undecided"
    assert "Of one allocation of r, each element is accessed by one thread alone" in verdict.reason
    found = analyse(blinded.amir())
    assert found.evidence is not None
    answers = [(draft.kind, smt.ask_z3(draft.script)) for draft in drafts(found.evidence)]
    failing = [of for of, reply in answers if reply.word != "unsat"]
    assert failing == [HazardKind.OWNERSHIP]


@exogpu.proc
def of_another_lane(K: size, y: f32[K, 16, 8] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, K):
            D: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)
            for w in cuda_threads(0, 1, unit=cuda_warp):
                for m, n in fragment(D):
                    D[m, n] = 1.0
                for m, n in fragment(D):
                    y[task, m, n] = D[m, (n + 2) % 8]


@exogpu.proc
def of_another_warp(K: size, y: f32[K, 16, 8] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, K):
            D: f32[2, 16, 8] @ Sm80_RmemMatrixD(16, 8)
            for w in cuda_threads(0, 2, unit=cuda_warp):
                for m, n in fragment(D[w, :, :]):
                    D[w, m, n] = 1.0
                for m, n in fragment(D[w, :, :]):
                    D[w, m, n] = 2.0
            Fence(cuda_in_order, cuda_in_order)
            for w in cuda_threads(0, 2, unit=cuda_warp):
                for m, n in fragment(D[w, :, :]):
                    if w == 0:
                        y[task, m, n] = D[w + 1, m, n]
            Fence(cuda_in_order, cuda_in_order)


@pytest.mark.parametrize("procedure", [of_another_lane, of_another_warp], ids=lambda p: p.name)
@pytest.mark.ci
def test_an_element_of_a_tile_is_its_holder_s(
    procedure: Procedure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The analysis blinded, the machine at sizes stops there, or a solver does not confirm it."""
    assert procedure.check().word == "error"
    monkeypatch.setattr(distribution, "check", lambda facts: ())
    blinded = Procedure(procedure.name, procedure.ir, ())
    assert blinded.check().word in ("refuted", "undecided")
    found = analyse(blinded.amir())
    assert found.evidence is not None
    answers = [(draft.kind, smt.ask_z3(draft.script)) for draft in drafts(found.evidence)]
    assert HazardKind.OWNERSHIP in {of for of, reply in answers if reply.word != "unsat"}
    if procedure is of_another_lane:  # of which the machine sees what the statement requires
        drawn = {(h.kind, h.code) for h in blinded.check_at(K=1).hazards}
        assert (HazardKind.OWNERSHIP, "D518") in drawn


def test_what_holds_only_where_it_is_executed_is_proved() -> None:
    assert where_it_runs.check().word == "proved"
