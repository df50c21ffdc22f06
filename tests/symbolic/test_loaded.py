"""Values from memory: what is proved for all contents, and what some contents refute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exogpu import proc
from exogpu.amir.nodes import Loop
from exogpu.amir.walk import operations, rewritten
from exogpu.analysis.inline import inline
from exogpu.api import Procedure
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.hazards import HazardKind
from exogpu.interpreter import elementwise
from exogpu.ir.nodes import BExpr, For, Loaded
from exogpu.ir.printer import print_proc
from exogpu.ir.walk import walk
from exogpu.ir.wellformed import flaws
from exogpu.machine import fast, literal
from exogpu.machine.index_contents import sample_contents, with_contents
from exogpu.pipeline.check import answer
from exogpu.schedule import simplify
from exogpu.symbolic.encode import script
from exogpu.symbolic.prove import drafts
from exogpu.symbolic.search.analysis import analyse
from exogpu.symbolic.sites import UndecidedError
from tests.marks import long_among

# --- gather, scatter ----------------------------------------------------------------------------


@proc
def gather(
    N: size,
    perm: i32[N] @ CudaGmemLinear,
    x: f32[N] @ CudaGmemLinear,
    y: f32[N] @ CudaGmemLinear,
):
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, N):
            j = load_index(perm[i], 0, N)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[i] = x[j]


@proc
def scatter(
    N: size,
    perm: i64[N] @ CudaGmemLinear,
    x: f32[N] @ CudaGmemLinear,
    y: f32[N] @ CudaGmemLinear,
):
    assert injective(perm)
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, N):
            j = load_index(perm[i], 0, N)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[j] = x[i]


@proc
def scatter_of_anything(
    N: size,
    perm: i64[N] @ CudaGmemLinear,
    x: f32[N] @ CudaGmemLinear,
    y: f32[N] @ CudaGmemLinear,
):
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, N):
            j = load_index(perm[i], 0, N)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[j] = x[i]


@proc
def scatter_in_order(
    N: size,
    perm: i64[N] @ CudaGmemLinear,
    x: f32[N] @ CudaGmemLinear,
    y: f32[N] @ CudaGmemLinear,
):
    assert monotone(perm)
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, N):
            j = load_index(perm[i], 0, N)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[j] = x[i]


@proc
def beside(
    N: size,
    perm: i32[N] @ CudaGmemLinear,
    y: f32[N + 1] @ CudaGmemLinear,
):
    assert injective(perm)
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, N):
            j = load_index(perm[i], 0, N)
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[j] = y[j + 1]


# --- rows by offsets ----------------------------------------------------------------------------


@proc
def rows(G: size, N: size, offsets: i32[G + 1] @ CudaGmemLinear, y: f32[N] @ CudaGmemLinear):
    assert monotone(offsets)
    with CudaDeviceFunction(blockDim=32):
        for g in cuda_tasks(0, G):
            begin = load_index(offsets[g], 0, N + 1)
            end = load_index(offsets[g + 1], 0, N + 1)
            for m in seq(begin, end):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    y[m] = 1.0


@proc
def rows_of_anything(
    G: size, N: size, offsets: i32[G + 1] @ CudaGmemLinear, y: f32[N] @ CudaGmemLinear
):
    with CudaDeviceFunction(blockDim=32):
        for g in cuda_tasks(0, G):
            begin = load_index(offsets[g], 0, N + 1)
            end = load_index(offsets[g + 1], 0, N + 1)
            for m in seq(begin, end):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    y[m] = 1.0


@proc
def one_row_more(
    G: size, N: size, offsets: i32[G + 1] @ CudaGmemLinear, y: f32[N + 1] @ CudaGmemLinear
):
    assert monotone(offsets)
    with CudaDeviceFunction(blockDim=32):
        for g in cuda_tasks(0, G):
            begin = load_index(offsets[g], 0, N + 1)
            end = load_index(offsets[g + 1], 0, N + 1)
            for m in seq(begin, end + 1):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    y[m] = 1.0


@proc
def stored_by_cuts(
    T: size, N: size, cuts: i32[T + 1] @ CudaGmemLinear, y: f32[N, 32] @ CudaGmemLinear
):
    assert monotone(cuts)
    with CudaDeviceFunction(blockDim=32):
        for t in cuda_tasks(0, T):
            begin = load_index(cuts[t], 0, N + 1)
            end = load_index(cuts[t + 1], 0, N + 1)
            for m in seq(0, 64):
                if begin + m < end:
                    for n in cuda_threads(0, 32, unit=cuda_thread):
                        y[begin + m, n] = 1.0


@proc
def stored_without_a_guard(
    T: size, N: size, cuts: i32[T + 1] @ CudaGmemLinear, y: f32[N + 3, 32] @ CudaGmemLinear
):
    assert monotone(cuts)
    with CudaDeviceFunction(blockDim=32):
        for t in cuda_tasks(0, T):
            begin = load_index(cuts[t], 0, N + 1)
            for m in seq(0, 3):
                for n in cuda_threads(0, 32, unit=cuda_thread):
                    y[begin + m, n] = 1.0


# --- in a task ----------------------------------------------------------------------------------


@proc
def each_warp_loads(G: size, rows: i32[G] @ CudaGmemLinear, y: f32[G, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for g in cuda_tasks(0, G):
            tile: f32[2, 32] @ CudaSmemLinear
            uninit(tile)  # that the two warps write all of it is not found
            with CudaWarps(0, 1):
                mine = load_index(rows[g], 0, 2)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    tile[mine, t] = 1.0
            with CudaWarps(1, 2):
                other = load_index(rows[g], 0, 2)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for m in seq(0, 2):
                        if m != other:
                            tile[m, t] = 0.0
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[g, t] = tile[0, t]
            Fence(cuda_in_order, cuda_in_order)


@proc
def each_warp_loads_another(
    G: size, rows: i32[G + 1] @ CudaGmemLinear, y: f32[G, 32] @ CudaGmemLinear
):
    with CudaDeviceFunction(blockDim=64):
        for g in cuda_tasks(0, G):
            tile: f32[2, 32] @ CudaSmemLinear
            with CudaWarps(0, 1):
                mine = load_index(rows[g], 0, 2)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    tile[mine, t] = 1.0
            with CudaWarps(1, 2):
                other = load_index(rows[g + 1], 0, 2)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for m in seq(0, 2):
                        if m != other:
                            tile[m, t] = 0.0
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[g, t] = tile[0, t]
            Fence(cuda_in_order, cuda_in_order)


@proc
def pages(
    G: size,
    P: size,
    table: i32[G, P] @ CudaGmemLinear,
    lengths: i32[G] @ CudaGmemLinear,
    x: f32[P, 32] @ CudaGmemLinear,
    y: f32[G, P, 32] @ CudaGmemLinear,
):
    with CudaDeviceFunction(blockDim=32):
        for g in cuda_tasks(0, G):
            n = load_index(lengths[g], 0, P + 1)
            buffer: f32[32] @ CudaSmemLinear
            for p in seq(0, n):
                page = load_index(table[g, p], 0, P)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    buffer[t] = x[page, t]
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[g, p, t] = buffer[31 - t]
                Fence(cuda_in_order, cuda_in_order)


@proc
def pages_without_a_fence(
    G: size,
    P: size,
    table: i32[G, P] @ CudaGmemLinear,
    x: f32[P, 32] @ CudaGmemLinear,
    y: f32[G, P, 32] @ CudaGmemLinear,
):
    with CudaDeviceFunction(blockDim=32):
        for g in cuda_tasks(0, G):
            buffer: f32[32] @ CudaSmemLinear
            for p in seq(0, P):
                page = load_index(table[g, p], 0, P)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    buffer[t] = x[page, t]
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[g, p, t] = buffer[31 - t]
                Fence(cuda_in_order, cuda_in_order)


# --- rings --------------------------------------------------------------------------------------


def ring(*, skip: int = 2, other: int = 0, resident: bool = False) -> Procedure:
    """A ring between two warps: of as many steps as the task loads, the barriers allocated before;
    or resident, with rows that the tasks load."""
    if resident:

        @proc
        def made(
            G: size,
            K: size,
            rows: i32[G] @ CudaGmemLinear,
            x: f32[G, K, 32] @ CudaGmemLinear,
            y: f32[G, K, 32] @ CudaGmemLinear,
        ):
            assert injective(rows)
            with CudaDeviceFunction(blockDim=64):
                tile: f32[2, 32] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                for g in cuda_tasks(0, G):
                    r = load_index(rows[g], 0, G)
                    for k in seq(0, K):
                        with CudaWarps(0, 1):
                            Await(empty, cuda_in_order, ~skip)
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                tile[slot(full), t] = x[r, k, t]
                            Arrive(cuda_in_order) >> full
                        with CudaWarps(1, 2):
                            Await(full, cuda_in_order, ~0)
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                y[r, k, t] = tile[slot(empty), 31 - t]
                            Arrive(cuda_in_order) >> empty

        return made

    @proc
    def made(
        G: size,
        K: size,
        counts: i32[G + 1] @ CudaGmemLinear,
        x: f32[K, 32] @ CudaGmemLinear,
        y: f32[G, K, 32] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=64):
            for g in cuda_tasks(0, G):
                tile: f32[2, 32] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                n = load_index(counts[g], 0, K + 1)
                m = load_index(counts[g + other], 0, K + 1)
                for k in seq(0, n):
                    with CudaWarps(0, 1):
                        Await(empty, cuda_in_order, ~skip)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            tile[k % 2, t] = x[k, t]
                        Arrive(cuda_in_order) >> full
                    with CudaWarps(1, 2):
                        if k < m:
                            Await(full, cuda_in_order, ~0)
                            for t in cuda_threads(0, 32, unit=cuda_thread):
                                y[g, k, t] = tile[k % 2, t]
                            Arrive(cuda_in_order) >> empty
                Fence(cuda_in_order, cuda_in_order)

    return made


@proc
def far_apart(N: size, R: size, k: i32[N] @ CudaGmemLinear, y: f32[R] @ CudaGmemLinear):
    """Each task writes a little more than the 16 elements that are its own, where these are."""
    assert injective(k)
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, N):
            n = load_index(k[m], 0, R)
            for t in cuda_threads(0, 18, unit=cuda_thread):
                if 16 * n + t < R:
                    y[16 * n + t] = 0.0


# --- the verdicts -------------------------------------------------------------------------------

PROVED: dict[str, tuple[Procedure, tuple[str, ...]]] = {
    "gather": (gather, ()),
    "scatter": (scatter, ("injective(perm)",)),
    "rows": (rows, ("monotone(offsets)",)),
    "cuts": (stored_by_cuts, ("monotone(cuts)",)),
    "each warp": (each_warp_loads, ("uninit(tile)",)),
    "pages": (pages, ()),
    "ring": (ring(), ()),
    "resident": (ring(resident=True), ("injective(rows)",)),
}

REFUTED: dict[str, tuple[Procedure, HazardKind]] = {
    "scatter of anything": (scatter_of_anything, HazardKind.WAW),
    "scatter in order": (scatter_in_order, HazardKind.WAW),
    "beside": (beside, HazardKind.WAR),
    "rows of anything": (rows_of_anything, HazardKind.WAW),
    "one row more": (one_row_more, HazardKind.WAW),
    "cuts without a guard": (stored_without_a_guard, HazardKind.WAW),
    "each warp another": (each_warp_loads_another, HazardKind.WAW),
    "pages without a fence": (pages_without_a_fence, HazardKind.RAW),
    "a ring too far ahead": (ring(skip=3), HazardKind.WAR),
    "at sizes that the solver tells": (far_apart, HazardKind.WAW),
    "another count": (ring(other=1), HazardKind.BARRIER),
}


@pytest.mark.parametrize("what", PROVED)
def test_proved_for_all_contents(what: str) -> None:
    procedure, assumed = PROVED[what]
    verdict = procedure.check()
    assert verdict.word == "proved", verdict.reason
    assert verdict.assumptions == assumed
    assert all(f"assuming {', '.join(assumed)} (" in str(verdict) for _ in assumed[:1])
    program = procedure.amir()
    sizes = {name: 2 for name in procedure.size_names}
    for contents in islice(sample_contents(program, sizes), 4):
        assert not fast.run(with_contents(program, sizes, contents), sizes).violations


@pytest.mark.parametrize("what", long_among(REFUTED, ["pages without a fence"]))
@pytest.mark.ci
def test_refuted_with_contents(what: str) -> None:
    procedure, kind = REFUTED[what]
    verdict = procedure.check()
    assert verdict.word == "refuted", verdict.reason
    hazard = verdict.hazards[0]
    assert kind in {one.kind for one in verdict.hazards}
    assert hazard.contents and ", where " in hazard.message
    program = procedure.amir()
    assert literal.run(program, hazard.sizes, contents=dict(hazard.contents))
    for name, elements in hazard.contents:
        kinds = {one.kind for one in program.contracts if one.array.name == name}
        assert "monotone" not in kinds or list(elements) == sorted(elements)
        assert "injective" not in kinds or len(set(elements)) == len(elements)


@pytest.mark.parametrize("dropped", ["equal", "contracts"])
def test_what_scripts_say_of_values_is_needed(
    monkeypatch: pytest.MonkeyPatch, dropped: str
) -> None:
    """Without what is said of two values, that they are equal or what a contract says, what rests
    on it is not proved."""
    plain = script.Loads._related

    def careless(*of_two: Any) -> Iterator[tuple[BExpr, BExpr]]:
        for premise, conclusion in plain(*of_two):
            by_equality = getattr(conclusion, "op", "") == getattr(premise, "op", "") == "=="
            if by_equality == (dropped == "contracts"):
                yield premise, conclusion

    monkeypatch.setattr(script.Loads, "_related", careless)
    procedure = each_warp_loads if dropped == "equal" else rows
    assert answer(procedure.amir()).proof is None  # no verdict of the cache


# --- contents -----------------------------------------------------------------------------------


def test_contents_satisfy_contracts_and_ranges() -> None:
    for procedure in (rows, scatter):
        program = procedure.amir()
        sizes = {name: 4 for name in procedure.size_names}
        several = [*sample_contents(program, sizes)]
        assert len(several) > 5
        for (elements,) in (one.values() for one in several):
            if procedure is rows:
                assert list(elements) == sorted(elements) and elements[0] >= 0
            else:
                assert sorted(elements) == [0, 1, 2, 3]


def pairs(apart: int) -> Procedure:
    """Each task writes at every other cut and right behind it."""

    @proc
    def made(N: size, M: size, cuts: i32[2 * N] @ CudaGmemLinear, y: f32[M + 2] @ CudaGmemLinear):
        assert monotone(cuts)
        assert injective(cuts)
        with CudaDeviceFunction(blockDim=32):
            for g in cuda_tasks(0, N):
                j = load_index(cuts[2 * g], 0, M)
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    y[j] = 1.0
                    y[j + apart] = 1.0

    return made


def test_what_is_monotone_and_injective_has_room_for_what_is_between() -> None:
    """The cut between two others is another number: those are two apart."""
    assert pairs(1).check().word == "proved"
    refuted = pairs(2).check()
    assert refuted.word == "refuted"
    for hazard in refuted.hazards:
        ((_, cuts),) = hazard.contents
        assert all(a < b for a, b in pairwise(cuts))
    for contents in sample_contents(pairs(1).amir(), {"N": 2, "M": 5}):
        ((_, cuts),) = contents.items()
        assert all(a < b for a, b in pairwise(cuts))


def test_contents_written_into_a_program_are_read() -> None:
    program, sizes = rows_of_anything.amir(), {"G": 3, "N": 2}
    told = []
    for contents in sample_contents(program, sizes):
        found = literal.run(program, sizes, contents=contents, collect=True)
        here = literal.run(with_contents(program, sizes, contents), sizes, collect=True)
        assert found == here
        told.append(len(found))
    assert 0 in told and max(told) > 0


# --- on arrays ----------------------------------------------------------------------------------


def _each(procedure: Procedure, **arrays: np.ndarray) -> Sequence[dict[str, np.ndarray]]:
    """What a run leaves, and what the meaning read off element by element does."""
    first, second = ({k: v.copy() for k, v in arrays.items()} for _ in range(2))
    procedure.run(**first)
    assert procedure.ir is not None
    elementwise.run(procedure.ir, second)
    return first, second


def test_runs_read_what_they_load() -> None:
    perm = np.array([2, 0, 3, 1], np.int64)
    x = np.arange(4, dtype=np.float32)
    for found in _each(scatter, perm=perm, x=x, y=np.zeros(4, np.float32)):
        assert found["y"][perm].tolist() == x.tolist()
    table = np.array([[1, 1, 0], [2, 0, 0]], np.int32)
    lengths = np.array([3, 1], np.int32)
    x = np.random.default_rng(0).random((3, 32), np.float32)
    y = np.zeros((2, 3, 32), np.float32)
    for found in _each(pages, table=table, lengths=lengths, x=x, y=y):
        expected = np.zeros_like(y)
        for g in range(2):
            for p in range(lengths[g]):
                expected[g, p] = x[table[g, p], ::-1]
        assert np.array_equal(found["y"], expected)


def test_runs_of_callers_read_what_is_loaded_in_calls() -> None:
    @proc
    def called(G: size, N: size, table: i32[G] @ CudaGmemLinear, y: f32[N] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for g in cuda_tasks(0, G):
                r = load_index(table[g], 0, N)
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    y[r] = 1.0

    @proc
    def half(N: size, table: i32[4] @ CudaGmemLinear, y: f32[N] @ CudaGmemLinear):
        assert injective(table)
        called(2, N, table[2:4], y[:])

    table = np.array([2, 0, 1, 3], np.int32)
    for found in _each(half, table=table, y=np.zeros(4, np.float32)):
        assert found["y"].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert half.check().assumptions == ("injective(table)",)
    with pytest.raises(ExoGpuError, match="X995"):
        simplify(half)


def test_runs_count_slots_in_loops_that_memory_bounds() -> None:
    @proc
    def reversed_rows(
        G: size,
        K: size,
        counts: i32[G] @ CudaGmemLinear,
        x: f32[K, 32] @ CudaGmemLinear,
        y: f32[G, K, 32] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=64):
            for g in cuda_tasks(0, G):
                tile: f32[2, 32] @ CudaSmemLinear
                full: barrier @ CudaMbarrier
                empty: barrier(full) @ CudaMbarrier
                n = load_index(counts[g], 0, K + 1)
                for k in seq(0, n):
                    with CudaWarps(0, 1):
                        Await(empty, cuda_in_order, ~2)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            tile[slot(full), t] = x[k, t]
                        Arrive(cuda_in_order) >> full
                    with CudaWarps(1, 2):
                        Await(full, cuda_in_order, ~0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            y[g, k, t] = tile[slot(empty), 31 - t]
                        Arrive(cuda_in_order) >> empty
                Fence(cuda_in_order, cuda_in_order)

    counts = np.array([3, 0, 4], np.int32)
    x = np.random.default_rng(1).random((4, 32), np.float32)
    y = np.zeros((3, 4, 32), np.float32)
    for found in _each(reversed_rows, counts=counts, x=x, y=y):
        for g, n in enumerate(counts):
            assert np.array_equal(found["y"][g, :n], x[:n, ::-1])
            assert not found["y"][g, n:].any()


def test_runs_load_through_windows() -> None:
    @proc
    def columns(N: size, table: i32[N, 3] @ CudaGmemLinear, y: f32[N] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, N):
                column = table[:, 1]
                rest = column[i:N]
                j = load_index(rest[0], 0, N)
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    if j == i:
                        y[i] = 1.0

    table = np.array([[0, 0, 2], [1, 2, 2], [0, 2, 1]], np.int32)
    for found in _each(columns, table=table, y=np.zeros(3, np.float32)):
        assert found["y"].tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("perm", "code"), [([0, 1, 1, 3], "X933"), ([0, 1, 2, 4], "X932"), ([0, 1, 2, -1], "X932")]
)
def test_runs_refuse_what_kernels_trap_at(perm: list[int], code: str) -> None:
    x = np.zeros(4, np.float32)
    with pytest.raises(ExoGpuError) as refused:
        scatter.run(perm=np.array(perm, np.int64), x=x, y=x.copy())
    assert refused.value.diagnostics[0].code == code


# --- the procedure ------------------------------------------------------------------------------


def test_what_is_printed_reads_back(tmp_path: Path) -> None:
    for procedure in (pages, rows):
        assert procedure.ir is not None
        assert not [*flaws(procedure.ir)]
        text = print_proc(procedure.ir)
        file = tmp_path / f"{procedure.name}.py"
        file.write_text("from __future__ import annotations\nfrom exogpu import *\n\n" + text)
        scope: dict[str, object] = {}
        exec(compile(file.read_text(), str(file), "exec"), scope)
        again = scope[procedure.name]
        assert isinstance(again, Procedure) and again.ir is not None
        assert print_proc(again.ir) == text


def test_windows_are_loaded_through() -> None:
    @proc
    def windowed(N: size, table: i32[2 * N] @ CudaGmemLinear, y: f32[N] @ CudaGmemLinear):
        assert injective(table)
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, N):
                half = table[N : 2 * N]
                j = load_index(half[i], 0, N)
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    y[j] = 1.0

    assert windowed.ir is not None
    loops = (s for s in walk(inline(windowed.ir).body) if isinstance(s, For))
    (load,) = (s for s in loops if isinstance(s.mode, Loaded))
    assert isinstance(load.mode, Loaded) and load.mode.source.name.name == "table"
    assert windowed.check().word == "proved"


def test_sizes_that_are_given_are_tried_with_some_contents() -> None:
    verdict = rows.check_at(G=2, N=2)
    assert verdict.word == "undecided" and "contents" in verdict.reason
    assert rows_of_anything.check_at(G=3, N=2).word == "refuted"


def test_arrays_that_change_are_refused() -> None:
    @proc
    def in_a_launch_before(N: size, rows: i32[N] @ CudaGmemLinear, y: f32[N] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, N):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    rows[i] = 0
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, N):
                j = load_index(rows[i], 0, N)
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    y[i] = y[j]

    @proc
    def allocated(N: size, y: f32[N] @ CudaGmemLinear):
        rows: i32[N] @ CudaGmemLinear
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, N):
                j = load_index(rows[i], 0, N)
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    y[i] = y[j]

    @proc
    def assumed(N: size, rows: i32[N] @ CudaGmemLinear):
        assert monotone(rows)
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, N):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    rows[i] = 0

    for procedure in (in_a_launch_before, allocated, assumed):
        assert [d.code for d in procedure.check().diagnostics] == ["S332"]


def test_the_encoder_refuses_them_by_itself() -> None:
    """A program that loads from what it writes, as no procedure makes it."""
    program = gather.amir()
    (load,) = (op for op in operations(program.body) if isinstance(op, Loop) and op.source)
    assert load.source is not None
    (written,) = (v.name for v in program.variables if v.name.name == "y")
    other = replace(load, source=replace(load.source, name=written))
    changed = replace(program, body=rewritten(program.body, {load: (other,)}))
    evidence = analyse(changed).evidence
    assert evidence is not None
    with pytest.raises(UndecidedError, match="y, from which values are loaded, changes"):
        list(drafts(evidence))
    assert [*drafts(analyse(program).evidence)]  # type: ignore[arg-type]
