"""Overlap and alignment against enumeration, on generated calls."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exogpu.analysis.operand_windows import demands, violations
from exogpu.diagnostics.hazards import HazardKind
from exogpu.hw.memories import DRAM, CudaGmemLinear
from exogpu.hw.operands import HOST, aligned
from exogpu.hw.units import standalone_thread
from exogpu.ir.nodes import (
    Access,
    Add,
    CallInstr,
    CExpr,
    Compare,
    ControlParam,
    Coord,
    CVar,
    DataParam,
    FloorDiv,
    For,
    If,
    Instr,
    Int,
    Interval,
    Mod,
    Mul,
    Point,
    Proc,
    Seq,
)
from exogpu.ir.types import AccessMode, DataType, Operand, Sym
from exogpu.ir.walk import evaluate, holds

pytestmark = pytest.mark.slow

M, K, OUTER, INNER, A = Sym("M"), Sym("K"), Sym("i"), Sym("j"), Sym("A")
LIMIT = 5
"""Sizes are enumerated up to here."""

Env = Mapping[Sym, int]

sizes = st.sampled_from(
    [CVar(K), CVar(M), Mul(2, CVar(K)), Add(CVar(K), Int(1)), Add(CVar(M), CVar(K)), Int(2), Int(3)]
)
atoms = st.sampled_from(
    [CVar(OUTER), CVar(INNER), CVar(M), Mod(CVar(OUTER), 2), FloorDiv(CVar(INNER), 2)]
)
indices = st.builds(
    lambda factor, atom, offset: Add(Mul(factor, atom), Int(offset)),
    st.sampled_from([0, 1, 2, 4]),
    atoms,
    st.integers(0, 4),
)
conditions = st.builds(
    lambda op, left, right: Compare(op, left, Add(right, Int(1))),
    st.sampled_from(["==", "<", ">="]),
    atoms,
    atoms,
)


def loops(call: CallInstr, guard: Compare | None) -> For:
    body = (call,) if guard is None else (If(guard, (call,)),)
    return For(OUTER, Int(0), CVar(M), Seq(), (For(INNER, Int(0), CVar(K), Seq(), body),))


def instances(guard: Compare | None) -> Iterator[Env]:
    """The instances of the call, in the order of `smallest`."""
    pairs = itertools.product(range(1, LIMIT + 1), repeat=2)
    for m, k in sorted(pairs, key=lambda p: (sum(p), *p)):
        for i, j in itertools.product(range(m), range(k)):
            env = {M: m, K: k, OUTER: i, INNER: j}
            if guard is None or holds(guard, env):
                yield env


def procedure(
    call: CallInstr, shape: tuple[CExpr, ...], dtype: DataType, guard: Compare | None
) -> Proc:
    params = (
        ControlParam(M, "size"),
        ControlParam(K, "size"),
        DataParam(A, dtype, shape, CudaGmemLinear),
    )
    return Proc("p", params, (), (loops(call, guard),))


def required(proc: Proc, env: Env) -> bool:
    """Whether what has to be proved of the operands holds at an instance."""
    asked = (condition for demand in demands(proc, ()) for condition in demand.required)
    return all(holds(condition, env) for condition in asked)


def judged(proc: Proc, kind: str) -> dict[str, int] | None:
    """The smallest sizes that the analysis finds, up to the limit."""
    found = violations(proc, ())
    assert all(v.kind.value == kind for v in found)
    for violation in found:
        sizes = {n: v for n, v in violation.sizes.items() if n in ("M", "K")}
        if sum(sizes.values()) <= LIMIT + 1:
            return sizes
    return None


def instruction(*params: DataParam, modes: tuple[AccessMode, ...], **flags: object) -> Instr:
    return Instr("g", (), params, (), (), False, standalone_thread, modes=modes, **flags)  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(sizes, sizes, sizes),
    st.tuples(indices, indices, indices),
    st.sampled_from([(DataType.F32, 16), (DataType.F32, 8), (DataType.F16, 8), (DataType.I8, 4)]),
    st.none() | conditions,
)
def test_alignment(
    shape: tuple[CExpr, ...],
    index: tuple[CExpr, ...],
    what: tuple[DataType, int],
    guard: Compare | None,
) -> None:
    dtype, align = what
    operand: Operand = aligned(HOST, align)
    param = DataParam(Sym("x"), dtype, (Int(1),), CudaGmemLinear, operand)
    coords = (*map(Point, index[:2]), Interval(index[2], Add(index[2], Int(1))))
    call = CallInstr(instruction(param, modes=(AccessMode.READ,)), (Access(A, coords),))

    def misplaced(env: Env) -> bool:
        _, rows, columns = (evaluate(n, env) for n in shape)
        i, j, k = (evaluate(e, env) for e in index)
        return ((i * rows + j) * columns + k) * dtype.bytes % align != 0

    expected = next((env for env in instances(guard) if misplaced(env)), None)
    proc = procedure(call, shape, dtype, guard)
    assert all(required(proc, env) != misplaced(env) for env in instances(guard))
    found = judged(proc, HazardKind.ALIGN.value)
    if expected is None or expected[M] + expected[K] > LIMIT + 1:
        assert found is None
    else:
        assert found == {"M": expected[M], "K": expected[K]}


@st.composite
def windows(draw: st.DrawFn) -> tuple[Coord, Coord]:
    start, at = draw(indices), draw(indices)
    window = Interval(start, Add(start, Int(3)))
    return (Point(at), window) if draw(st.booleans()) else (window, Point(at))


@settings(max_examples=150, deadline=None)
@given(windows(), windows(), st.booleans(), st.none() | conditions)
def test_overlap(
    first: tuple[Coord, Coord], second: tuple[Coord, Coord], in_place: bool, guard: Compare | None
) -> None:
    shape = (Add(CVar(M), Int(6)), Add(CVar(K), Int(6)))
    x, y = (DataParam(Sym(n), DataType.F32, (Int(3),), DRAM, HOST) for n in "xy")
    both = frozenset({x.name, y.name}) if in_place else frozenset[Sym]()
    modes = (AccessMode.READ, AccessMode.READ_WRITE)
    call = CallInstr(
        instruction(x, y, modes=modes, in_place=both), (Access(A, first), Access(A, second))
    )

    def touched(window: tuple[Coord, Coord], env: Env) -> list[tuple[int, ...]]:
        """The elements, in the order of the window."""
        ranges = [
            [evaluate(c.at, env)]
            if isinstance(c, Point)
            else range(evaluate(c.lo, env), evaluate(c.hi, env))
            for c in window
        ]
        extents = [evaluate(n, env) for n in shape]
        return [
            e if all(0 <= v < n for v, n in zip(e, extents, strict=True)) else ()
            for e in itertools.product(*ranges)
        ]

    def overlapping(env: Env) -> bool:
        pairs = itertools.product(enumerate(touched(first, env)), enumerate(touched(second, env)))
        return any(a and a == b and not (in_place and n == m) for (n, a), (m, b) in pairs)

    expected = next((env for env in instances(guard) if overlapping(env)), None)
    proc = procedure(call, shape, DataType.F32, guard)
    assert all(required(proc, env) != overlapping(env) for env in instances(guard))
    found = judged(proc, HazardKind.OVERLAP.value)
    if expected is None or expected[M] + expected[K] > LIMIT + 1:
        assert found is None
    else:
        assert found == {"M": expected[M], "K": expected[K]}
