"""Contracts of some elements alone, as of tables that -1 pads, and of tables of several rows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from exogpu import proc
from exogpu.api import Procedure
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.ir.printer import print_proc
from exogpu.machine import fast, literal
from exogpu.machine.index_contents import sample_contents, with_contents
from exogpu.pipeline.check import answer
from exogpu.solvers import smt
from exogpu.symbolic.certificate.recheck import recheck
from exogpu.symbolic.certificate.write import write_certificate
from exogpu.symbolic.encode import script
from tests.forging import change


def make_scatter(least: int, first: int, more: int = 0) -> Procedure:
    """Rows go to slots; those below `first` are left out, or go to one row in front."""

    @proc
    def scatter(
        M: size,
        N: size,
        slots: i32[M] @ CudaGmemLinear,
        x: f32[M, 4] @ CudaGmemLinear,
        y: f32[N + 1, 4] @ CudaGmemLinear,
    ):
        assert injective(slots, where >= least)
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, M):
                s = load_index(slots[m], -1, N)
                if s >= first:
                    for t in cuda_threads(0, 4, unit=cuda_thread):
                        y[s + more, t] = x[m, t]

    return scatter


@proc
def pages(
    B: size,
    P: size,
    N: size,
    table: i32[B, P] @ CudaGmemLinear,
    x: f32[B, P, 4] @ CudaGmemLinear,
    y: f32[N, 4] @ CudaGmemLinear,
):
    """A page belongs to one sequence, and stands in the table once; rows are padded."""
    assert injective(table, where > -1)
    with CudaDeviceFunction(blockDim=32):
        for b in cuda_tasks(0, B):
            for p in cuda_tasks(0, P):
                page = load_index(table[b, p], -1, N)
                if page >= 0:
                    for t in cuda_threads(0, 4, unit=cuda_thread):
                        y[page, t] = x[b, p, t]


def make_intervals(kind: str) -> Procedure:
    """Rows between a cut and the next, where both are none of the padding."""
    if kind == "both":

        @proc
        def both(
            G: size, N: size, cuts: i32[G + 1] @ CudaGmemLinear, y: f32[N, 4] @ CudaGmemLinear
        ):
            assert monotone(cuts, where >= 0)
            assert injective(cuts, where >= 0)
            with CudaDeviceFunction(blockDim=32):
                for g in cuda_tasks(0, G):
                    a = load_index(cuts[g], -1, N)
                    if a >= 0:
                        for t in cuda_threads(0, 4, unit=cuda_thread):
                            y[a, t] = 1.0

        return both

    @proc
    def spans(G: size, N: size, cuts: i32[G + 1] @ CudaGmemLinear, y: f32[N, 4] @ CudaGmemLinear):
        assert monotone(cuts, where >= 0)
        with CudaDeviceFunction(blockDim=32):
            for g in cuda_tasks(0, G):
                a = load_index(cuts[g], -1, N)
                b = load_index(cuts[g + 1], -1, N)
                if a >= 0:
                    for m in seq(a, b):
                        for t in cuda_threads(0, 4, unit=cuda_thread):
                            y[m, t] = 1.0

    return spans


@proc
def next_cut(
    G: size, N: size, cuts: i32[G + 1] @ CudaGmemLinear, y: f32[N + 1, 4] @ CudaGmemLinear
):
    """With padding between, the cut after the next may be one further, and no more."""
    assert monotone(cuts, where >= 0)
    assert injective(cuts, where >= 0)
    with CudaDeviceFunction(blockDim=32):
        for g in cuda_tasks(0, G / 2):
            a = load_index(cuts[2 * g], -1, N)
            if a >= 0:
                for t in cuda_threads(0, 4, unit=cuda_thread):
                    y[a, t] = 1.0
                    y[a + 1, t] = 1.0


PROVED = {
    "slots": make_scatter(0, 0),
    "fewer slots": make_scatter(0, 3),
    "pages": pages,
    "intervals": make_intervals("monotone"),
    "cuts": make_intervals("both"),
}

REFUTED = {
    "a slot that the contract is not about": make_scatter(1, 0),
    "padding goes somewhere, too": make_scatter(0, -1, more=1),
    "there may be padding between two cuts": next_cut,
}


@pytest.mark.parametrize("name", PROVED)
def test_proved(name: str, tmp_path: Path) -> None:
    procedure = PROVED[name]
    verdict = procedure.check()
    assert verdict.word == "proved", verdict.reason
    assert all(one.endswith(", where >= 0)") for one in verdict.assumptions)
    assert verdict.assumptions[-1] in print_proc(procedure.ir)
    program, sizes = procedure.amir(), {size: 3 for size in procedure.size_names}
    for contents in sample_contents(program, sizes):
        assert _holds(procedure, contents)
        assert not fast.run(with_contents(program, sizes, contents), sizes).violations


@pytest.mark.parametrize("name", REFUTED)
def test_refuted_with_contents_that_satisfy_the_contracts(name: str) -> None:
    procedure = REFUTED[name]
    verdict = procedure.check()
    assert verdict.word == "refuted", verdict.reason
    for hazard in verdict.hazards:
        assert _holds(procedure, dict(hazard.contents))
        assert literal.run(procedure.amir(), hazard.sizes, contents=dict(hazard.contents))


def _holds(procedure: Procedure, contents: dict[str, tuple[int, ...]]) -> bool:
    """Tests whether contents satisfy the contracts of a procedure."""
    for one in procedure.ir.contracts:
        meant = [v for v in contents[one.array.name] if v >= one.least]
        if one.kind == "injective" and len(set(meant)) < len(meant):
            return False
        if one.kind == "monotone" and any(a > b for a, b in pairwise(meant)):
            return False
    return True


def test_the_bound_is_needed_in_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken for a contract of all elements, two of the padding would be one."""
    wrong = REFUTED["padding goes somewhere, too"].amir()
    assert answer(wrong).proof is None
    monkeypatch.setattr(script, "_and_meant", lambda premise, bound, *values: premise)
    assert answer(make_scatter(0, -1, more=1).amir()).proof is not None


def test_a_certificate_states_the_bound(tmp_path: Path) -> None:
    procedure = PROVED["fewer slots"]
    write_certificate(tmp_path / "one", procedure, procedure.check())
    assert recheck(tmp_path / "one", [smt.ask_z3]).word == "confirmed"
    for altered in ({"least": 4}, {"least": None}, {"least": True}, {"kind": "monotone"}):
        folder = tmp_path / str(altered)
        write_certificate(folder, procedure, procedure.check())
        change(folder, "program.json", lambda p, a=altered: p["contracts"][0].update(a))
        assert recheck(folder, [smt.ask_z3]).word != "confirmed"


def test_arrays_that_break_them_are_refused() -> None:
    scatter = PROVED["slots"]
    x, y = np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)
    scatter.run(slots=np.array([-1, 2, -1, 0], np.int32), x=x, y=y, N=3)
    assert y.sum() == 8
    with pytest.raises(ExoGpuError, match=r"where >= 0\) does not hold: slots\[0\] = 2 and"):
        scatter.run(slots=np.array([2, -1, -1, 2], np.int32), x=x, y=y, N=3)
    table = np.array([[0, -1], [1, 0]], np.int32)
    with pytest.raises(ExoGpuError, match=r"table\[0, 0\] = 0 and table\[1, 1\] = 0"):
        pages.run(table=table, x=np.ones((2, 2, 4), np.float32), y=np.zeros((3, 4), np.float32))


def test_the_repair_is_the_contract_of_what_is_no_padding() -> None:
    @proc
    def anything(M: size, N: size, slots: i32[M] @ CudaGmemLinear, y: f32[N, 4] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, M):
                s = load_index(slots[m], -1, N)
                if s >= 0:
                    for t in cuda_threads(0, 4, unit=cuda_thread):
                        y[s, t] = 1.0

    assert "assert injective(slots, where >= 0)" in str(anything.check())
