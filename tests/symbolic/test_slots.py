"""Slots of rings that run on: proved for any number of steps, and wrong ones refuted or refused.

What is proved or refuted is held against the literal machine, whatever the choice of tasks.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from exogpu import proc
from exogpu.api import Procedure, collecting
from exogpu.cli.loader import load
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Proof
from exogpu.frontend.macros import macro
from exogpu.interpreter import elementwise
from exogpu.ir.printer import print_proc
from exogpu.ir.wellformed import flaws
from exogpu.machine import fast, literal
from exogpu.machine.concrete_program import CHOICES, assign_tasks, dealt
from exogpu.pipeline.check import answer
from exogpu.schedule import simplify
from exogpu.solvers import isl, smt
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.certificate.recheck import recheck
from exogpu.symbolic.certificate.write import write_certificate
from exogpu.symbolic.encode import rank_table, slot_counts
from exogpu.symbolic.prove import prove
from exogpu.symbolic.search.analysis import analyse
from exogpu.symbolic.search.nested_counts import Nest
from exogpu.symbolic.search.rank_comparisons import SlotPairs
from exogpu.symbolic.sites import Site
from tests.marks import long_among
from tests.symbolic import agreement


def ring(
    *,
    resident: bool = True,
    skip: int = 2,
    extent: int = 2,
    write: str = "slot",
    read: str = "empty",
    late: bool = False,
    guarded: bool = False,
    again: bool = False,
) -> Procedure:
    """A ring between two warps that serves M tasks, or M iterations of one task, of K steps: as it
    should be, or with one change."""

    @macro
    def produce(tile, full, empty, x, m, k):
        Await(empty, cuda_in_order, ~skip)
        if late:
            Arrive(cuda_in_order) >> full
        for t in cuda_threads(0, 32, unit=cuda_thread):
            if write == "slot":
                tile[slot(full), t] = x[m, k, t]
            else:
                tile[k % 2, t] = x[m, k, t]
        if not late:
            Arrive(cuda_in_order) >> full
        if again:
            for t in cuda_threads(0, 32, unit=cuda_thread):
                tile[slot(full), t] = x[m, k, t]

    @macro
    def consume(tile, full, empty, y, m, k):
        Await(full, cuda_in_order, ~0)
        for t in cuda_threads(0, 32, unit=cuda_thread):
            if read == "empty":
                y[m, k, t] = tile[slot(empty), 31 - t]
            elif read == "full":
                y[m, k, t] = tile[slot(full), 31 - t]
            else:
                y[m, k, t] = tile[k % 2, 31 - t]
        Arrive(cuda_in_order) >> empty

    @macro
    def both(tile, full, empty, x, y, m, k):
        with CudaWarps(0, 1):
            produce(tile, full, empty, x, m, k)
        with CudaWarps(1, 2):
            consume(tile, full, empty, y, m, k)

    @macro
    def step(tile, full, empty, x, y, m, k):
        if guarded:
            if k > 0:
                both(tile, full, empty, x, y, m, k)
        else:
            both(tile, full, empty, x, y, m, k)

    @proc
    def resident_ring(
        M: size, K: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, K, 32] @ CudaGmemLinear
    ):
        with CudaDeviceFunction(blockDim=64):
            tile: f32[extent, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for m in cuda_tasks(0, M):
                for k in seq(0, K):
                    step(tile, full, empty, x, y, m, k)

    @proc
    def nested_ring(
        M: size, K: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, K, 32] @ CudaGmemLinear
    ):
        with CudaDeviceFunction(blockDim=64):
            for task in cuda_tasks(0, 1):
                tile: f32[extent, 32] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                for m in seq(0, M):
                    for k in seq(0, K):
                        step(tile, full, empty, x, y, m, k)
                Fence(cuda_in_order, cuda_in_order)

    return resident_ring if resident else nested_ring


RIGHT = {
    "from task to task": ring(),
    "in a nest": ring(resident=False),
    "an Await a step later": ring(skip=1),
    "a deeper ring": ring(extent=3),
    "steps that are left out": ring(guarded=True),
}

WRONG = {
    "a slot too early": (ring(skip=3), HazardKind.WAR, 1, 1),
    "a slot too early in a nest": (ring(resident=False, skip=3), HazardKind.WAR, 1, 1),
    "a ring of one slot": (ring(extent=1), HazardKind.WAR, 1, 1),
    "the reader counts what is filled": (ring(read="full"), HazardKind.UNINIT, 1, None),
    "after the Arrive it is the next slot": (ring(again=True), HazardKind.WAR, 1, 1),
    "the Arrive comes first": (ring(late=True), HazardKind.UNINIT, 1, None),
}
"""What is at fault, in which task, against an access of which task, if there is one."""

ANEW = {
    "the writer begins anew in each task": ring(write="k"),
    "the reader begins anew in each task": ring(read="k"),
}
"""Which element a slot is beside the others depends on the tasks before: it is no number."""


@pytest.mark.parametrize("name", ANEW)
def test_a_ring_is_indexed_by_slots_alone(name: str) -> None:
    assert [d.code for d in ANEW[name].diagnostics] == ["D529"]


def test_a_ring_of_one_task_is_indexed_as_one_likes() -> None:
    assert not ring(resident=False, write="k").diagnostics
    assert not ring(resident=False, read="k").diagnostics


SIZES = [{"M": m, "K": k} for m, k in ((1, 1), (1, 3), (2, 1), (3, 2), (3, 3))]


@pytest.mark.parametrize("name", RIGHT)
def test_proved_for_all_sizes_and_orders(name: str) -> None:
    found = answer(RIGHT[name].amir())
    assert found.proof is not None, found.reason


@pytest.mark.parametrize("name", WRONG)
def test_refuted_with_its_tasks(name: str) -> None:
    procedure, kind, task, before = WRONG[name]
    found = answer(procedure.amir()).refutation
    assert found is not None
    violation = found.violation
    assert (violation.kind, violation.task, violation.record_task) == (kind, task, before)
    assert literal.run(procedure.amir(), found.sizes)


@pytest.mark.slow
@pytest.mark.parametrize("name", long_among(RIGHT, ["in a nest", "a deeper ring"]))
def test_literal_machine_finds_nothing(name: str) -> None:
    program = RIGHT[name].amir()
    for sizes in SIZES[-2:]:
        for choice in CHOICES:
            assert literal.run(assign_tasks(program, sizes, choice), sizes) == ()


@pytest.mark.parametrize(
    "name", long_among([*RIGHT, *WRONG], ["an Await a step later", "in a nest"])
)
def test_machines_agree(name: str) -> None:
    procedure = RIGHT[name] if name in RIGHT else WRONG[name][0]
    for sizes in SIZES:
        for choice in CHOICES[:3]:
            program = assign_tasks(procedure.amir(), sizes, choice)
            violations = literal.run(program, sizes)
            assert fast.run(program, sizes).violations == violations
            looped = dealt(procedure.amir(), sizes, choice)
            alike = literal.run(looped, sizes)
            assert fast.run(looped, sizes).violations == alike
            assert agreement.of_task(alike) == agreement.of_task(violations)


# --- what it computes, and how it is written ------------------------------------------------------


def test_a_run_does_not_count_where_steps_differ() -> None:
    x = np.zeros((1, 2, 32), np.float32)
    with pytest.raises(ExoGpuError, match="X931"):
        ring(guarded=True).run(M=1, K=2, x=x, y=x.copy())


@pytest.mark.parametrize("name", RIGHT)
def test_it_computes_what_it_says(name: str) -> None:
    procedure = RIGHT[name]
    for M, K in ((3, 5), (1, 1), (4, 2)):
        x = np.random.default_rng(0).random((M, K, 32), np.float32)
        found, plain = np.zeros_like(x), np.zeros_like(x)
        assert procedure.ir is not None
        elementwise.run(procedure.ir, {"M": M, "K": K, "x": x, "y": plain})
        first = int(name == "steps that are left out")
        assert np.array_equal(plain[:, first:], x[:, first:, ::-1])
        if not first:
            procedure.run(M=M, K=K, x=x, y=found)
            assert np.array_equal(found, plain)


def test_it_is_printed_as_it_is_written() -> None:
    ir = ring().ir
    assert ir is not None and not [*flaws(ir)]
    text = print_proc(ir)
    assert "tile[slot(full), t] = x[m, k, t]" in text
    assert "y[m, k, t] = tile[slot(empty), 31 - t]" in text


# --- certificates ---------------------------------------------------------------------------------


def test_it_has_a_certificate(tmp_path: Path) -> None:
    procedure = ring()
    verdict = procedure.check()
    assert verdict.word == "proved"
    write_certificate(tmp_path / "ring", procedure, verdict)
    found = recheck(tmp_path / "ring", (smt.ask_z3,))
    assert found.word == "confirmed", found.flaws


def _proved(procedure: Procedure) -> bool:
    """Whether the solver confirms what is claimed, whatever ISL found to be wrong."""
    return isinstance(prove(analyse(procedure.amir())), Proof)


def _alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """All slots are alike: nothing meets."""
    monkeypatch.setattr(SlotPairs, "may_meet", lambda self, pairs, a, b: self.meet(pairs, a, b))


def test_a_careless_finder_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    _alike(monkeypatch)
    assert not _proved(ring(skip=3))


def test_whole_rings_are_counted_by_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finder that takes each iteration for whole rings finds nothing, and is not believed."""
    path = Path(__file__).parent.parent / "cases" / "slots" / "fixed.py"
    (wrong,) = (u.procedure for u in load(f"{path}::iterations"))
    assert wrong is not None
    assert analyse(wrong.amir()).violations
    monkeypatch.setattr(
        SlotPairs, "_carried_over", lambda self, nest, site, ring: _never(nest, site)
    )
    assert not analyse(wrong.amir()).violations
    assert not _proved(wrong)


def _never(nest: Nest, site: Site) -> isl.Set:
    return rel.nowhere(nest.instances_after_first(site))


def test_counts_of_two_barriers_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_table.RankTable, "is_like", lambda self, other: self is other)
    assert not _proved(ring())


def test_a_slot_is_its_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_counts.Slots, "facts_around", lambda self, *_: iter(()))
    assert not _proved(ring())


# --- where it may not stand -----------------------------------------------------------------------


def _with(line: str) -> str:
    return f"""
from __future__ import annotations
from exogpu import proc
@proc
def refused(K: size, x: f32[K, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 32] @ CudaSmemLinear
            odd: f32[K, 32] @ CudaSmemLinear
            mine: f32[2] @ CudaRmem
            full: barrier[2] @ CudaMbarrier
            one: barrier @ CudaMbarrier
            for k in seq(0, K):
                for w in cuda_threads(0, 2, unit=cuda_warp):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        {line}
                    Await(one, cuda_in_order, ~1)
                    Arrive(cuda_in_order) >> one
"""


ELSEWHERE = (
    "tile[slot(one) + 1, t] = 0.0",
    "tile[0, t] = slot(one)",
    "mine[slot(one)] = 0.0",
    "odd[slot(one), t] = 0.0",
    "tile[slot(one, 2), t] = 0.0",
    "tile[slot(tile), t] = 0.0",
    "tile[slot(full[0]), t] = 0.0",
    "Await(full[slot(one)], cuda_in_order, ~0)",
    "v = tile[slot(one), 0:32]",
)


def test_what_shares_a_slot_does_not_synchronise(tmp_path: Path) -> None:
    path = tmp_path / "refused.py"
    path.write_text(_with("for s in slot(one, 2): Fence(cuda_in_order, cuda_in_order)"))
    spec = importlib.util.spec_from_file_location("refused", path)
    assert spec is not None and spec.loader is not None
    with collecting() as found:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    (one,) = [d for procedure in found for d in procedure.diagnostics if d.code == "T250"]
    assert one.message == "the statements that share slot(one, 2) allocate or synchronise"


@pytest.mark.parametrize("line", ELSEWHERE)
def test_it_stands_in_accesses_alone(line: str, tmp_path: Path) -> None:
    path = tmp_path / "refused.py"
    path.write_text(_with(line))
    spec = importlib.util.spec_from_file_location("refused", path)
    assert spec is not None and spec.loader is not None
    with collecting() as found:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    codes = {d.code for procedure in found for d in procedure.diagnostics}
    assert codes & {"T250", "P109", "P104"}, codes


def _array(whole: bool) -> Procedure:
    """Two warps that fill a ring each, of which one arrives, or both."""

    @proc
    def array(K: size, x: f32[K, 2, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for task in cuda_tasks(0, 1):
                tile: f32[2, 2, 32] @ CudaSmemLinear
                full: barrier[2] @ CudaMbarrier
                for k in seq(0, K):
                    for w in cuda_threads(0, 2, unit=cuda_warp):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            tile[w, slot(full), t] = x[k, w, t]
                    for w in cuda_threads(0, 2 if whole else 1, unit=cuda_warp):
                        Arrive(cuda_in_order) >> full[w]
                        Await(full[w], cuda_in_order, ~0)
                Fence(cuda_in_order, cuda_in_order)

    return array


def test_elements_of_an_array_count_alike() -> None:
    assert answer(_array(True).amir()).proof is not None


def test_elements_that_differ_are_refused() -> None:
    with pytest.raises(ExoGpuError) as caught:
        raise ExoGpuError(_array(False).diagnostics)
    assert [d.code for d in caught.value.diagnostics] == ["D519"]


def test_no_primitive_rewrites_it() -> None:
    with pytest.raises(ExoGpuError) as caught:
        simplify(ring())
    assert [d.code for d in caught.value.diagnostics] == ["X994"]


# --- code -----------------------------------------------------------------------------------------


def test_no_step_divides() -> None:
    for extent, advanced in ((2, "full_slot = (full_slot + 1) & 1;"), (3, "full_slot == 2 ? 0 :")):
        emitted, _ = ring(extent=extent).emit(unchecked=True)
        assert advanced in emitted.source
        assert "const int slot_full = full_slot;" in emitted.source


def test_threads_that_do_not_count_are_refused() -> None:
    with pytest.raises(ExoGpuError) as caught:
        ring(read="full").emit(unchecked=True)
    assert [d.code for d in caught.value.diagnostics] == ["G814"]
