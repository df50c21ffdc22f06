"""Repairs are edits that are tried: what does not help is not said."""

from __future__ import annotations

import pytest

from exogpu import proc
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.explain.apply_edits import apply_edit
from exogpu.explain.edits import First, Moved, NewFence, Repair, Second, Skip
from exogpu.explain.hazard_text import hazards_of
from exogpu.explain.trials import Trials
from exogpu.machine import fast
from tests.machine.build import COMMIT, Q1, Q2, UNORDERED, Builder, t


@proc
def produce(N: size, x: f32[N, 32] @ CudaGmemLinear, y: f32[N, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            tile: f32[32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for k in seq(0, N):
                with CudaWarps(0, 1):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[t] = x[k, t]
                    Arrive(cuda_in_order) >> full
                with CudaWarps(1, 2):
                    Await(full, cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[k, t] = tile[31 - t]
                    Arrive(cuda_in_order) >> empty
            Fence(cuda_in_order, cuda_in_order)


def test_a_loop_with_one_await_left_out() -> None:
    """One trip fails for the balance alone, two for the overwrite that matters; one repair."""
    hazards = produce.check().hazards
    assert [(h.kind.value, h.sizes["N"]) for h in hazards][:2] == [("BARRIER", 1), ("WAR", 2)]
    assert {h.kind for h in hazards} == {HazardKind.BARRIER, HazardKind.WAR, HazardKind.PHASE}
    line = next(h.second.span.line for h in hazards if h.kind is HazardKind.WAR) - 1
    repair = (
        f"add `Await(empty, cuda_in_order, ~1)` before line {line}, indented like it (20 spaces), "
        f"in the `with CudaWarps(0, 1)` of line {line - 1}"
    )
    assert {h.help for h in hazards} == {repair}


def test_what_is_heard_grows() -> None:
    heard = []
    verdict = type(produce)(produce.name, produce.ir, ()).check(heard=heard.append)
    # The first is told before smaller sizes and before its repairs are tried, and all at last with
    # what mends several.
    assert [len(v.hazards) for v in heard[2:-1]] == list(range(1, len(verdict.hazards) + 1))
    assert all(len(v.hazards) == 1 and not v.hazards[0].help for v in heard[:2])
    assert all(v.word == "refuted" for v in heard)


def race() -> Builder:
    b = Builder()
    x = b.data("x", 4)
    b.write(x[0], t(0), Q1)
    b.fence(t(0, 2), Q2, Q1, transitive=True)
    b.read(x[0], t(1), Q1)
    return b


def test_what_does_not_help_is_not_said() -> None:
    program = race().program(Policy.PTX)
    (violation,) = fast.run(program, {}).violations
    fence = program.body[next(i for i, op in enumerate(program.body) if hasattr(op, "full"))]
    good = Repair("take it", First(fence, "cuda_in_order"))
    useless = Repair("more of the same", Second(fence, "cuda_generic_and_async"))
    found = list(Trials(program, {}).helpful(violation, [useless, good]))
    assert [repair.text for repair in found] == ["take it"]


def test_a_repair_that_makes_something_else_wrong_is_not_said() -> None:
    # A skip more lets the wait be for an earlier arrival: no DEADLOCK, and a race instead.
    b = Builder()
    x, z = b.data("x", 1), b.barrier("z", depth=2)
    b.alloc(z)
    b.await_(z[()], t(1), Q1)
    b.read(x[0], t(1), Q1)
    b.arrive(t(0), Q1, z[()])
    b.free_barrier(z)
    program = b.program(Policy.PTX)
    found = fast.run(program, {}, keep=fast.Keep.PAIRS).violations
    hazard, *_ = hazards_of(found, {}, program)
    assert hazard.kind is HazardKind.DEADLOCK and hazard.help.startswith("move the Arrive at line")


def test_no_lowering_keeps_the_first_wgmma_fence_before_another_than_the_second() -> None:
    program = race().program(Policy.PTX)
    fence = program.body[next(i for i, op in enumerate(program.body) if hasattr(op, "full"))]
    assert apply_edit(program, NewFence(fence, "wgmma_fence_1", "cuda_in_order")) is None
    assert apply_edit(program, First(fence, "wgmma_fence_1")) is None
    both = apply_edit(program, NewFence(fence, "wgmma_fence_1", "wgmma_fence_2"))
    assert both is not None and len(both.body) == len(program.body) + 1


def test_an_await_of_a_barrier_that_has_ended_cannot_be_written() -> None:
    b = Builder()
    x, cg = b.data("x", 1), b.barrier("cg", mechanism=COMMIT)
    b.write(x[0], t(0), Q2, level=UNORDERED)
    with b.loop("k", 0, 2):
        b.alloc(cg)
        b.arrive(t(0), Q2, cg[()])
        b.await_(cg[()], t(0), Q1, n=0)
    program = b.program(Policy.PTX)
    loop = program.body[-1]
    wait = loop.body[-1]
    assert apply_edit(program, Moved(wait, program.body[0])) is None


def test_the_arrive_of_a_commit_group_keeps_its_timeline() -> None:
    b = Builder()
    cg = b.barrier("cg", mechanism=COMMIT)
    b.alloc(cg)
    b.arrive(t(0), Q2, cg[()])
    program = b.program(Policy.PTX)
    assert apply_edit(program, First(program.body[-1], "cuda_in_order")) is None


@pytest.mark.parametrize(("n", "depth"), [(-2, 3), (-4, 5)])
def test_a_skip_takes_the_depth_of_its_ring_along(n: int, depth: int) -> None:
    b = Builder()
    z = b.barrier("z", depth=2)
    b.alloc(z)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(1), Q1)
    program = b.program(Policy.PTX)
    changed = apply_edit(program, Skip(program.body[-1], n))
    assert changed is not None and changed.variables[0].depth == depth


@proc
def one_cta_after_the_other(y: f32[2, 2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 1):
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for k in seq(0, 2):
                    tile: f32[32] @ CudaSmemLinear
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[t] = 1
                    Fence(cuda_in_order, cuda_in_order)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[c, k, t] = tile[31 - t]
                    Fence(cuda_in_order, cuda_in_order)


def test_a_fence_of_the_cluster_is_not_proposed_inside_a_cta() -> None:
    """All of the cluster frees the tile, and a Fence in the loop would have one CTA's threads."""
    hazards = one_cta_after_the_other.check().hazards
    assert {h.kind for h in hazards} == {HazardKind.FREE}
    assert {h.help for h in hazards} == {""}
