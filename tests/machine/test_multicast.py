"""Decision `multicast-tags` from the source on: the copies of a multicast, each there once the
barrier of its own CTA has been awaited.  Literal and fast machine, prover and certificates give one
answer."""

from __future__ import annotations

import re

import pytest

from exogpu import proc
from exogpu.amir import lower_arguments
from exogpu.amir import nodes as amir
from exogpu.analysis import multicast_targets
from exogpu.api import Procedure
from exogpu.diagnostics.verdict import Policy, Proof
from exogpu.frontend.instructions import instr
from exogpu.hw.memories import CudaMbarrier
from exogpu.hw.operands import TMA_LOAD, TMA_STORE, clipped, over
from exogpu.hw.units import cuda_cta_in_cluster, cuda_cta_in_cluster_strided
from exogpu.isa.sm90 import Sm90_tma_multicast
from exogpu.machine import fast
from exogpu.symbolic.prove import prove
from tests.machine.build import FREE, RAW, WAR, WAW
from tests.symbolic.agreement import check as agrees

BOTH = tuple(Policy)
Hazards = set[tuple[object, ...]]


def hazards(procedure: Procedure, policy: Policy = Policy.PTX) -> Hazards:
    """What the fast machine finds, as (kind, variable, its indices but for a tile's); the literal
    one and the prover find the same, and what is safe is certified."""
    program = procedure.amir(policy)
    findings = agrees(program, [{}])
    found = fast.run(program, {}, collect=True).violations
    assert not findings.undecided
    assert isinstance(prove(findings), Proof) is not bool(found)
    return {(v.kind, v.variable, *v.index[:-2]) for v in found}


# --- CTAs in a line -------------------------------------------------------------------------------


def in_line(n: int, waiting: int, use: str, at: int = 0) -> Procedure:
    """One copy a CTA.  The first `waiting` CTAs wait before a fence of the cluster; then CTA `at`
    uses its copy, or the lifetime of all ends; the other CTAs wait at the end."""

    @proc(name=f"line_{n}_{waiting}_{use}_{at}")
    def multicast(x: f32[8, 32] @ CudaGmemLinear, out: f32[32] @ CudaGmemLinear):
        tiles = x[:, :] @ Sm90_tensorMap(128, 8 // n, 32)
        with CudaDeviceFunction(clusterDim=n, blockDim=32):
            for task in cuda_tasks(0, 1):
                full: barrier[n] @ CudaMbarrier
                copies: f32[n, 8, 32] @ Sm90_SmemSwizzled(128)
                (
                    Sm90_tma_multicast(
                        copies[:, :, :], tiles[:, :], n=n, rows=8, cols=32, box=(8 // n, 32)
                    )
                    >> full[:]
                )
                for cta in cuda_threads(0, n, unit=cuda_cta_in_cluster):
                    Arrive(cuda_temporal) >> full[cta]
                for cta in cuda_threads(0, n, unit=cuda_cta_in_cluster):
                    if cta < waiting:
                        Await(full[cta], cuda_in_order)
                Fence(cuda_in_order, cuda_in_order)
                for cta in cuda_threads(0, n, unit=cuda_cta_in_cluster):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        if cta == at:
                            if use == "read":
                                out[t] = copies[cta, 0, t]
                            if use == "write":
                                copies[cta, 0, t] = 1.0
                            if use == "source":
                                x[0, t] = 1.0
                if use == "free":
                    other: f32[n, 32] @ CudaSmemLinear
                    for cta in cuda_threads(0, n, unit=cuda_cta_in_cluster):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            other[cta, t] = 1.0
                for cta in cuda_threads(0, n, unit=cuda_cta_in_cluster):
                    if cta >= waiting:
                        Await(full[cta], cuda_in_order)
                Fence(cuda_in_order, cuda_in_order)

    return multicast


LINE = {
    ("read", 1): {(RAW, "copies", 1)},
    ("write", 1): {(WAW, "copies", 1)},
    ("free", 1): {(FREE, "copies", 1)},
    ("read", 0): set(),
    ("write", 0): set(),
    ("source", 0): set(),
    ("source", 1): set(),
}
"""By use and the CTA that does it, the hazards where of two CTAs only CTA 0 has waited."""


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("use", LINE)
def test_one_of_two_has_waited(use: tuple[str, int], policy: Policy) -> None:
    assert hazards(in_line(2, 1, *use), policy) == LINE[use]


@pytest.mark.parametrize("policy", BOTH)
@pytest.mark.parametrize("use", LINE)
def test_both_have_waited(use: tuple[str, int], policy: Policy) -> None:
    assert hazards(in_line(2, 2, *use), policy) == set()


def test_nobody_has_waited() -> None:
    assert hazards(in_line(2, 0, "read")) == {(RAW, "copies", 0)}
    assert hazards(in_line(2, 0, "source")) == {(WAR, "x")}


def test_four_in_a_line() -> None:
    assert hazards(in_line(4, 3, "read", 3)) == {(RAW, "copies", 3)}
    assert hazards(in_line(4, 1, "free")) == {(FREE, "copies", c) for c in (1, 2, 3)}
    assert hazards(in_line(4, 4, "read", 3)) == set()


def test_a_cluster_of_one() -> None:
    assert hazards(in_line(1, 1, "read")) == set()
    assert hazards(in_line(1, 0, "read")) == {(RAW, "copies", 0)}


def test_the_repair_is_the_await_of_the_copys_barrier() -> None:
    """It stands in loops and a guard of its own, which move with it."""
    for use, expected in LINE.items():
        found = in_line(2, 1, *use).check().hazards
        assert len(found) == len(expected)
        for hazard in found:
            assert re.fullmatch(
                r"move the Await of line \d+, with what it stands in alone, to before line \d+, .*",
                hazard.help,
            )


# --- two dimensions -------------------------------------------------------------------------------


def in_grid(along: str, waits: str) -> Procedure:
    """A 2 x 2 cluster: a copy is sent along its rows or columns, and used by each CTA after the
    first row, the first column, or all CTAs have waited."""

    @proc(name=f"grid_{along.replace(', ', '_')}_{waits}")
    def multicast(x: f32[8, 32] @ CudaGmemLinear, out: f32[2, 2, 32] @ CudaGmemLinear):
        tiles = x[:, :] @ Sm90_tensorMap(128, 4, 32)
        with CudaDeviceFunction(clusterDim=4, blockDim=32):
            for task in cuda_tasks(0, 1):
                full: barrier[2, 2] @ CudaMbarrier
                copies: f32[2, 2, 8, 32] @ Sm90_SmemSwizzled(128)
                if along != "columns":
                    for m in cuda_threads(0, 2, unit=2 * cuda_warp_in_cluster):
                        if along == "rows":
                            (
                                Sm90_tma_multicast(
                                    copies[m, :, :, :],
                                    tiles[:, :],
                                    n=2,
                                    rows=8,
                                    cols=32,
                                    box=(4, 32),
                                )
                                >> full[m, :]
                            )
                        if along == "rows, transposed":
                            (
                                Sm90_tma_multicast(
                                    copies[:, m, :, :],
                                    tiles[:, :],
                                    n=2,
                                    rows=8,
                                    cols=32,
                                    box=(4, 32),
                                )
                                >> full[m, :]
                            )
                        if along == "rows, mirrored":
                            (
                                Sm90_tma_multicast(
                                    copies[1 - m, :, :, :],
                                    tiles[:, :],
                                    n=2,
                                    rows=8,
                                    cols=32,
                                    box=(4, 32),
                                )
                                >> full[m, :]
                            )
                if along == "columns":
                    for n in cuda_threads(0, 2, unit=2 * cuda_warp_in_cluster_strided(2)):
                        (
                            Sm90_tma_multicast(
                                copies[:, n, :, :],
                                tiles[:, :],
                                n=2,
                                stride=2,
                                rows=8,
                                cols=32,
                                box=(4, 32),
                            )
                            >> full[:, n]
                        )
                for m in cuda_threads(0, 2, unit=2 * cuda_cta_in_cluster):
                    for n in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                        Arrive(cuda_temporal) >> full[m, n]
                        if (m == 0 or waits != "row") and (n == 0 or waits != "column"):
                            Await(full[m, n], cuda_in_order)
                Fence(cuda_in_order, cuda_in_order)
                for m in cuda_threads(0, 2, unit=2 * cuda_cta_in_cluster):
                    for n in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            if along == "rows" or along == "columns":
                                out[m, n, t] = copies[m, n, 0, t]
                            if along == "rows, transposed":
                                out[m, n, t] = copies[n, m, 0, t]
                            if along == "rows, mirrored":
                                out[m, n, t] = copies[1 - m, n, 0, t]
                for m in cuda_threads(0, 2, unit=2 * cuda_cta_in_cluster):
                    for n in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                        if (m > 0 and waits == "row") or (n > 0 and waits == "column"):
                            Await(full[m, n], cuda_in_order)
                Fence(cuda_in_order, cuda_in_order)

    return multicast


WHERE = {
    "rows": lambda m, n: (m, n),
    "columns": lambda m, n: (m, n),
    "rows, transposed": lambda m, n: (n, m),
    "rows, mirrored": lambda m, n: (1 - m, n),
}
"""By layout, the indices of the copy that lies in CTA (m, n)."""
LATE = {"row": [(1, 0), (1, 1)], "column": [(0, 1), (1, 1)], "all": []}
"""By who waits, the CTAs whose copies nobody has waited for."""


@pytest.mark.parametrize("waits", LATE)
@pytest.mark.parametrize("along", WHERE)
def test_a_grid_of_ctas(along: str, waits: str) -> None:
    late = {(RAW, "copies", *WHERE[along](m, n)) for m, n in LATE[waits]}
    assert hazards(in_grid(along, waits)) == late


# --- other instructions ---------------------------------------------------------------------------


@instr(
    unit=4 * cuda_cta_in_cluster,
    barrier=CudaMbarrier,
    barrier_units=(2 * cuda_cta_in_cluster, cuda_cta_in_cluster),
    dst=over(TMA_LOAD, 2 * cuda_cta_in_cluster_strided(2), cuda_cta_in_cluster_strided(2)),
    src=TMA_LOAD,
)
def to_the_grid(
    dst: f32[2, 2, 1, 32] @ CudaSmemLinear, src: f32[32] @ CudaGmemLinear
):  # dst by columns and rows, the barrier by rows and columns
    for i in seq(0, 32):
        for n in seq(0, 2):
            for m in seq(0, 2):
                dst[n, m, 0, i] = src[i]


@instr(
    unit=4 * cuda_cta_in_cluster,
    barrier=CudaMbarrier,
    barrier_units=(2 * cuda_cta_in_cluster, cuda_cta_in_cluster),
    dst=over(TMA_LOAD, cuda_cta_in_cluster),
    src=TMA_LOAD,
)
def to_the_line(dst: f32[4, 1, 32] @ CudaSmemLinear, src: f32[32] @ CudaGmemLinear):
    for i in seq(0, 32):
        for c in seq(0, 4):
            dst[c, 0, i] = src[i]


def in_other_order(instruction, grid: bool, waits: str) -> Procedure:
    @proc(name=f"{instruction.name}_{waits}")
    def multicast(x: f32[32] @ CudaGmemLinear, out: f32[2, 2, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(clusterDim=4, blockDim=32):
            for task in cuda_tasks(0, 1):
                full: barrier[2, 2] @ CudaMbarrier
                if grid:
                    copies: f32[2, 2, 1, 32] @ CudaSmemLinear
                    instruction(copies[:, :, :, :], x[:]) >> full[:, :]
                else:
                    copies: f32[4, 1, 32] @ CudaSmemLinear
                    instruction(copies[:, :, :], x[:]) >> full[:, :]
                for m in cuda_threads(0, 2, unit=2 * cuda_cta_in_cluster):
                    for n in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                        Arrive(cuda_temporal) >> full[m, n]
                        if (m == 0 or waits != "row") and (n == 0 or waits != "column"):
                            Await(full[m, n], cuda_in_order)
                Fence(cuda_in_order, cuda_in_order)
                for m in cuda_threads(0, 2, unit=2 * cuda_cta_in_cluster):
                    for n in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            if grid:
                                out[m, n, t] = copies[n, m, 0, t]
                            else:
                                out[m, n, t] = copies[2 * m + n, 0, t]
                for m in cuda_threads(0, 2, unit=2 * cuda_cta_in_cluster):
                    for n in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                        if (m > 0 and waits == "row") or (n > 0 and waits == "column"):
                            Await(full[m, n], cuda_in_order)
                Fence(cuda_in_order, cuda_in_order)

    return multicast


@pytest.mark.parametrize("waits", LATE)
def test_dimensions_in_another_order(waits: str) -> None:
    found = hazards(in_other_order(to_the_grid, True, waits))
    assert found == {(RAW, "copies", n, m) for m, n in LATE[waits]}


@pytest.mark.parametrize("waits", LATE)
def test_another_number_of_dimensions(waits: str) -> None:
    found = hazards(in_other_order(to_the_line, False, waits))
    assert found == {(RAW, "copies", 2 * m + n) for m, n in LATE[waits]}


@instr(
    unit=2 * cuda_cta_in_cluster,
    barrier=CudaMbarrier,
    barrier_units=(cuda_cta_in_cluster,),
    dst=over(TMA_LOAD, cuda_cta_in_cluster),
    src=over(TMA_LOAD, cuda_cta_in_cluster),
)
def exchange(dst: f32[2, 1, 32] @ CudaSmemLinear, src: f32[2, 1, 32] @ CudaSmemLinear):
    """Each CTA gets a copy of the other one's."""
    for c in seq(0, 2):
        for i in seq(0, 32):
            dst[c, 0, i] = src[1 - c, 0, i]


def exchanged(waiting: int) -> Procedure:
    @proc(name=f"exchanged_{waiting}")
    def both(out: f32[2, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(clusterDim=2, blockDim=32):
            for task in cuda_tasks(0, 1):
                full: barrier[2] @ CudaMbarrier
                mine: f32[2, 1, 32] @ CudaSmemLinear
                theirs: f32[2, 1, 32] @ CudaSmemLinear
                uninit(mine)
                exchange(theirs[:, :, :], mine[:, :, :]) >> full[:]
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    Arrive(cuda_temporal) >> full[cta]
                    if cta < waiting:
                        Await(full[cta], cuda_in_order)
                Fence(cuda_in_order, cuda_in_order)
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        mine[cta, 0, t] = 1.0
                        out[cta, t] = theirs[cta, 0, t]
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    if cta >= waiting:
                        Await(full[cta], cuda_in_order)
                Fence(cuda_in_order, cuda_in_order)

    return both


def test_a_source_that_the_ctas_share_out_takes_every_barrier() -> None:
    # Of what is CTA 0's, nothing need go to CTA 0: its own barrier says nothing of it.
    assert hazards(exchanged(1)) == {
        (WAR, "mine", 0),
        (WAR, "mine", 1),
        (RAW, "theirs", 1),
    }
    assert hazards(exchanged(2)) == set()


@instr(
    unit=2 * cuda_cta_in_cluster,
    barrier=CudaMbarrier,
    barrier_units=(cuda_cta_in_cluster,),
    dst=clipped(TMA_STORE),
)
def fill(dst: f32[1, 32] @ CudaGmemLinear):
    for i in seq(0, 32):
        dst[0, i] = 0.0


def filled(waiting: int) -> Procedure:
    @proc(name=f"filled_{waiting}")
    def out_of_both(out: f32[1, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(clusterDim=2, blockDim=32):
            for task in cuda_tasks(0, 1):
                full: barrier[2] @ CudaMbarrier
                fill(out[:, :]) >> full[:]
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    Arrive(cuda_temporal) >> full[cta]
                    if cta < waiting:
                        Await(full[cta], cuda_in_order)
                Fence(cuda_in_order, cuda_in_order)
                for cta in cuda_threads(0, 1, unit=cuda_cta_in_cluster):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        out[0, t] = 1.0
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    if cta >= waiting:
                        Await(full[cta], cuda_in_order)
                Fence(cuda_in_order, cuda_in_order)

    return out_of_both


def test_what_lies_in_no_cta_takes_every_barrier() -> None:
    assert hazards(filled(1)) == {(WAW, "out")}
    assert hazards(filled(2)) == set()


def test_a_barrier_that_is_not_the_ctas_own_is_refused() -> None:
    @proc
    def crossed(x: f32[8, 32] @ CudaGmemLinear):
        tiles = x[:, :] @ Sm90_tensorMap(128, 4, 32)
        with CudaDeviceFunction(clusterDim=2, blockDim=32):
            for task in cuda_tasks(0, 1):
                full: barrier[2] @ CudaMbarrier
                copies: f32[2, 8, 32] @ Sm90_SmemSwizzled(128)
                (
                    Sm90_tma_multicast(
                        copies[:, :, :], tiles[:, :], n=2, rows=8, cols=32, box=(4, 32)
                    )
                    >> full[:]
                )
                for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    Arrive(cuda_temporal) >> full[1 - cta]
                    Await(full[1 - cta], cuda_in_order)

    assert {d.code for d in crossed.diagnostics} == {"D501"}


# --- the old rule, and careless ways to find the CTA ----------------------------------------------


def tags_of_all(record: amir.Record, *_: object) -> amir.Block:
    return (record,)


def test_the_old_rule_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_arguments, "_landed", tags_of_all)
    for use, found in LINE.items():
        assert found == set() or hazards(in_line(2, 1, *use)) == set()


def test_indices_are_compared_by_their_ctas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_arguments, "same_order", lambda *_: True)
    found = hazards(in_other_order(to_the_grid, True, "row"))
    assert found == {(RAW, "copies", n, m) for m, n in LATE["column"]}


def test_ctas_that_nobody_knows_take_every_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multicast_targets, "cta_of", lambda _: None)
    assert hazards(in_line(2, 1, "read", 0)) == {(RAW, "copies", 0)}
    assert hazards(in_line(2, 2, "read", 1)) == set()


def test_a_reader_sees_the_names_of_the_source_alone() -> None:
    """The loops over the CTAs that an instruction signals are none of the source."""
    iterators = {"task", "cta", "t"}
    for use in (("read", 1), ("write", 1), ("free", 1)):
        verdict = in_line(2, 1, *use).check()
        for hazard in verdict.hazards:
            sites = [site for site in (hazard.first, hazard.second) if site is not None]
            assert all({name for name, _ in site.iteration} <= iterators for site in sites)
        assert "landing" not in str(verdict)
