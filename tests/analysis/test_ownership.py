"""Ownership of registers against enumeration, on generated programs."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from exogpu.analysis import collective, distribution
from exogpu.analysis.facts import gathered
from exogpu.hw.memories import CudaRmem
from exogpu.hw.units import cuda_thread, cuda_warp
from exogpu.ir.nodes import (
    Access,
    Add,
    Alloc,
    Assign,
    Compare,
    Const,
    CudaTasks,
    CudaThreads,
    CVar,
    DeviceFunction,
    FloorDiv,
    For,
    If,
    Int,
    Mod,
    Mul,
    Point,
    Proc,
    Seq,
    Stmt,
    WarpConfig,
)
from exogpu.ir.types import DataType, Sym
from exogpu.ir.walk import evaluate, holds

WARP, LANE, TIME = Sym("w"), Sym("t"), Sym("k")
NATURAL = Add(Mul(32, CVar(WARP)), CVar(LANE))

indices = st.one_of(
    st.integers(0, 3).map(Int),
    st.sampled_from([CVar(WARP), CVar(LANE), CVar(TIME), NATURAL]),
    st.builds(Mod, st.sampled_from([CVar(LANE), CVar(TIME), NATURAL]), st.sampled_from([2, 4, 32])),
    st.builds(FloorDiv, st.sampled_from([CVar(LANE), NATURAL]), st.sampled_from([2, 16, 32])),
    st.builds(Add, st.sampled_from([CVar(LANE), CVar(WARP), NATURAL]), st.just(CVar(TIME))),
    st.builds(lambda e: Add(Int(63), Mul(-1, e)), st.sampled_from([CVar(LANE), NATURAL])),
)
guards = st.one_of(
    st.none(),
    st.builds(
        Compare,
        st.sampled_from(["==", "<"]),
        st.sampled_from([CVar(WARP), CVar(LANE), CVar(TIME)]),
        st.integers(0, 2).map(Int),
    ),
)
uses = st.tuples(
    st.integers(1, 2),  # warps
    st.sampled_from([1, 4, 32]),  # lanes
    st.tuples(indices, indices),
    guards,
)


def program(chosen: list[tuple]) -> Proc:
    """One task with a register array and a statement in its own nest for each use."""
    x = Sym("x")
    nests: list[Stmt] = []
    for warps, lanes, index, guard in chosen:
        inner: Stmt = Assign(Access(x, tuple(Point(i) for i in index)), Const(0.0))
        if guard is not None:
            inner = If(guard, (inner,))
        inner = For(TIME, Int(0), Int(3), Seq(), (inner,))
        inner = For(LANE, Int(0), Int(lanes), CudaThreads(cuda_thread), (inner,))
        nests.append(For(WARP, Int(0), Int(warps), CudaThreads(cuda_warp), (inner,)))
    alloc = Alloc(x, DataType.F32, (Int(64), Int(64)), CudaRmem)
    task = For(Sym("task"), Int(0), Int(1), CudaTasks(), (alloc, *nests))
    return Proc("p", (), (), (DeviceFunction(1, (WarpConfig("", 2),), (task,)),))


def owners(chosen: list[tuple]) -> dict[tuple[int, int], set[int]]:
    """The threads that access each element."""
    found: dict[tuple[int, int], set[int]] = {}
    for warps, lanes, index, guard in chosen:
        for w, t, k in itertools.product(range(warps), range(lanes), range(3)):
            env = {WARP: w, LANE: t, TIME: k}
            if guard is None or holds(guard, env):
                i, j = (evaluate(e, env) for e in index)
                found.setdefault((i, j), set()).add(32 * w + t)
    return found


def test_an_accepted_register_has_one_owner_an_element() -> None:
    answers: Counter[bool] = Counter()

    @given(st.lists(uses, min_size=1, max_size=2))
    @settings(max_examples=300, derandomize=True, deadline=None)
    def check(chosen: list[tuple]) -> None:
        proc = program(chosen)
        executors, refused = collective.analyse(proc)
        assert not refused
        accepted = not distribution.check(gathered(proc, executors))
        answers[accepted] += 1
        if accepted:
            assert all(len(threads) == 1 for threads in owners(chosen).values())

    check()
    # Vacuous if one of the answers never occurs.
    assert answers[True] >= 10 and answers[False] >= 10


def test_a_register_indexed_by_the_thread_is_accepted() -> None:
    """Complete on what programs do: one index names the thread, the other runs in time."""
    for index in [(NATURAL, CVar(TIME)), (CVar(TIME), NATURAL), (CVar(WARP), CVar(LANE))]:
        chosen = [(2, 32, index, None), (2, 32, index, None)]
        proc = program(chosen)
        executors, _ = collective.analyse(proc)
        assert not distribution.check(gathered(proc, executors))
