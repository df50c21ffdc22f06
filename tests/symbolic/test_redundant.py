"""Synchronisation that is not needed: what is listed can go, what is not listed cannot."""

from __future__ import annotations

import pytest

from exogpu import Policy, Procedure, proc
from exogpu.amir.nodes import Program
from exogpu.diagnostics.verdict import Proof
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.machine import fast
from exogpu.symbolic.prove import prove
from exogpu.symbolic.search.analysis import analyse
from exogpu.symbolic.search.redundant_synchronisation import (
    NothingFound,
    redundant,
    statements,
    without_barrier,
    without_statements,
)
from tests.machine.build import COMMIT, Q0, Q1, Q2, UNORDERED, Builder, Name, t


def found(program: Program) -> list[tuple[str, tuple[int, ...], str]]:
    assert NothingFound()(program)
    return [
        (one.kind, tuple(span.line for span in one.spans), one.replacement)
        for one in redundant(program)
    ]


def reverse(extra: bool, post: str = "cuda_in_order") -> Procedure:
    """Reverses rows through shared memory; `extra` adds a fence that nobody needs."""
    from exogpu.hw.timelines import SYNC_TIMELINES

    second = SYNC_TIMELINES[post]

    @proc
    def reverse(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for m in cuda_tasks(0, M):
                tile: f32[64] @ CudaSmemLinear
                if extra:
                    Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    tile[t] = x[m, t]
                Fence(cuda_in_order, second)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    y[m, t] = tile[63 - t]
                Fence(cuda_in_order, cuda_in_order)

    return reverse


def lines(program: Program) -> list[int]:
    return [statement.span.line for statement in statements(program)]


@pytest.mark.parametrize("policy", list(Policy))
def test_a_fence_that_nobody_needs(policy: Policy) -> None:
    program = reverse(True).amir(policy)
    first, middle, last = lines(program)
    listed = found(program)
    assert ("delete", (first,), "") in listed
    # The machine says the same of each fence.
    for statement in statements(program):
        mutant = without_statements(program, [statement])
        refuted = bool(fast.run(mutant, {"M": 3}).violations)
        assert refuted == (statement.span.line != first)
    # The middle fence makes visible, the last one only has to order in time.
    assert ("weaken", (last,), "Fence(cuda_in_order, cuda_temporal)") in listed
    assert not any(kind == "delete" and (middle in at or last in at) for kind, at, _ in listed)
    assert not any(
        text == "Fence(cuda_in_order, cuda_temporal)" and at == (middle,) for _, at, text in listed
    )


def test_a_timeline_that_is_stronger_than_needed() -> None:
    program = reverse(False, "cuda_generic_and_async").amir(Policy.PTX)
    middle, _ = lines(program)
    texts = [text for _, at, text in found(program) if at == (middle,)]
    assert texts == ["Fence(cuda_in_order, cuda_in_order)"]


def copies(b: Builder, awaits: int, needed: bool) -> Name:
    """A copy on Q2 with a commit group, awaited so often; read only where it is needed."""
    n = b.size("n")
    x, cg = b.data("x", 1), b.barrier("cg", mechanism=COMMIT)
    with b.tasks("i", 0, n):
        b.alloc(x)
        b.alloc(cg)
        b.write(x[0], t(0), Q2, level=UNORDERED)
        b.arrive(t(0), Q2, cg[()])
        for _ in range(awaits):
            b.await_(cg[()], t(0), Q1, n=0)
        if needed:
            b.read(x[0], t(0), Q1)
        b.free_barrier(cg)
        b.release(x)
    return cg


def test_the_second_of_two_awaits() -> None:
    b = Builder()
    copies(b, 2, True)
    program = b.program(Policy.PTX)
    _, first, second = lines(program)
    deleted = [at for kind, at, _ in found(program) if kind == "delete"]
    # Either Await can go, not both; the pairs with the Arrive cannot.
    assert deleted == [(first,), (second,)]


def test_a_barrier_that_goes_whole() -> None:
    b = Builder()
    cg = copies(b, 1, False)
    program = b.program(Policy.PTX)
    arrive, await_ = lines(program)
    deleted = [at for kind, at, _ in found(program) if kind == "delete"]
    assert deleted == [(arrive, await_)]
    # Without the Await alone, the barrier is out of balance.
    assert analyse(without_statements(program, statements(program)[1:])).violations
    assert NothingFound()(without_barrier(program, cg.sym))


@proc
def nobody_waits(M: size, y: f32[M, 32] @ CudaGmemLinear):
    """Each task waits for the one before, and has nothing of it."""
    ready: barrier[M] @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = 1.0
            if m > 0:
                Await(ready[m - 1], cuda_in_order, 0)
            Arrive(cuda_in_order) >> ready[m]


def test_flags_go_with_the_bounds_that_are_required_of_them() -> None:
    question = NothingFound(lambda findings: isinstance(prove(findings), Proof))
    (one,) = redundant(nobody_waits.amir(), question)
    assert one.kind == "delete" and len(one.spans) == 2


def test_a_barrier_that_an_instruction_signals_stays() -> None:
    from exogpu.amir.nodes import Trailing

    b = Builder()
    x, z = b.data("x", 1), b.barrier("z")
    b.alloc(z)
    b.write(x[0], t(0), Q2, level=UNORDERED, trailing=Trailing(z[()], (z[()],)))
    b.arrive(t(0), Q0, z[()])
    b.await_(z[()], t(0), Q1)
    b.free_barrier(z)
    program = b.program(Policy.PTX)
    assert NothingFound()(program)
    assert not [one for one in redundant(program) if len(one.spans) > 1]


@pytest.mark.parametrize("twice", [False, True])
def test_an_arrive_that_slots_count_stays(twice: bool) -> None:
    """Without it, other elements would be written; and a slot is of a barrier."""

    @proc
    def in_turn(K: size, x: f32[K, 32] @ CudaGmemLinear, y: f32[4, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                b: barrier @ CudaMbarrier
                for k in seq(0, K):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[slot(b), t] = x[k, t]
                    Arrive(cuda_in_order) >> b
                    Await(b, cuda_in_order, ~0)
                    if twice:
                        Arrive(cuda_in_order) >> b
                        Await(b, cuda_in_order, ~0)
                Fence(cuda_in_order, cuda_in_order)

    assert not [one for one in found(in_turn.amir(Policy.PTX)) if one[0] == "delete"]


def test_without_the_barrier_its_guards_are_gone() -> None:
    b = Builder()
    z = b.barrier("z", depth=2)
    y = b.barrier("y", depth=2, guard=z)
    other = b.barrier("other", depth=3)
    program = without_barrier(b.program(Policy.PTX), z.sym)
    left = {v.name: (v.guard, v.depth) for v in program.variables}
    assert left == {y.sym: (None, None), other.sym: (None, 3)}


def test_the_question_is_the_callers() -> None:
    program = reverse(False).amir(Policy.PTX)
    assert redundant(program, lambda _: False) == ()
    everything = redundant(program, lambda _: True)
    assert [one.kind for one in everything] == ["delete", "delete"]


def test_known_sizes_are_tried_on_the_machine_first(monkeypatch: pytest.MonkeyPatch) -> None:
    program = reverse(False).amir(Policy.PTX)
    broken = without_statements(program, statements(program)[:1])
    ask = NothingFound()
    assert not ask(broken)

    def fail(program: Program) -> None:
        raise AssertionError("the machine has refuted it")

    monkeypatch.setattr("exogpu.symbolic.search.redundant_synchronisation.analyse", fail)
    assert not ask(broken)


@pytest.mark.slow
def test_a_shipped_kernel() -> None:
    # No statement can go; the last Fence orders only the reuse of memory.
    program = gemm_sm80.amir(Policy.PTX)
    listed = found(program)
    assert not [one for one in listed if one[0] == "delete"]
    assert ("weaken", (lines(program)[-1],), "Fence(cuda_in_order, cuda_temporal)") in listed
    # The machine needs each statement at one of two small sizes.
    for statement in statements(program):
        mutant = without_statements(program, [statement])
        sizes = ({"M": 1, "N": 1, "K": 4}, {"M": 1, "N": 1, "K": 36})
        assert any(fast.run(mutant, at).violations for at in sizes), statement.text
