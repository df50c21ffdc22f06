"""Bounds for all sizes: the verdict, and the smallest sizes of a refutation.

Decision `bounds`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exogpu.analysis.bounds import check_bounds, violations
from exogpu.analysis.bounds_messages import Finding, NegativeExtent, Outside
from exogpu.analysis.domain import admits_zero
from exogpu.hw.memories import DRAM
from exogpu.hw.units import standalone_thread
from exogpu.ir.nodes import (
    Access,
    Add,
    And,
    Assign,
    BExpr,
    Block,
    CallInstr,
    CExpr,
    Compare,
    Const,
    ControlParam,
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
    Or,
    Point,
    Proc,
    Seq,
    Stmt,
    Sub,
    WindowStmt,
)
from exogpu.ir.types import DataType, Sym
from exogpu.ir.walk import evaluate, holds, walk

pytestmark = pytest.mark.slow

M, N, X, A = Sym("M"), Sym("N"), Sym("x"), Sym("A")


def size(name: Sym) -> ControlParam:
    return ControlParam(name, "size")


def array(name: Sym, *shape: CExpr) -> DataParam:
    return DataParam(name, DataType.F32, shape, DRAM)


def store(name: Sym, *index: CExpr) -> Assign:
    return Assign(Access(name, tuple(Point(i) for i in index)), Const(0.0))


def loop(name: Sym, lo: CExpr, hi: CExpr, *body: object) -> For:
    return For(name, lo, hi, Seq(), body)  # type: ignore[arg-type]


def proc(params: tuple[object, ...], *body: object, where: tuple[BExpr, ...] = ()) -> Proc:
    return Proc("p", params, where, body)  # type: ignore[arg-type]


# --- brute force ----------------------------------------------------------------------------


Env = Mapping[Sym, int]
Shown = Mapping[Sym, "Window"]


@dataclass(frozen=True)
class Window:
    """The shape of a name, and, of a window, its source with one start or point a dimension."""

    shape: list[int]
    source: Window | None = None
    coords: tuple[tuple[bool, int], ...] = ()

    def contains(self, index: list[int]) -> bool:
        if not all(0 <= i < n for i, n in zip(index, self.shape, strict=True)):
            return False
        if self.source is None:
            return True
        rest = iter(index)
        through = [start + next(rest) if interval else start for interval, start in self.coords]
        return self.source.contains(through)


def window(access: Access, env: Env, shown: Shown) -> Window:
    shape, coords = [], []
    for coord in access.coords:
        if isinstance(coord, Interval):
            lo, hi = evaluate(coord.lo, env), evaluate(coord.hi, env)
            shape.append(hi - lo)
            coords.append((True, lo))
        else:
            coords.append((False, evaluate(coord.at, env)))
    return Window(shape, shown[access.name], tuple(coords))


def faults(proc: Proc, sizes: Env) -> Iterator[object]:
    """Every statement instance that leaves its variable at the sizes, by running all loops."""
    parameters = {
        p.name: Window([evaluate(e, sizes) for e in p.shape])
        for p in proc.params
        if isinstance(p, DataParam)
    }

    def block(body: Block, env: Env, shown: Shown) -> Iterator[object]:
        for stmt in body:
            match stmt:
                case For():
                    for i in range(evaluate(stmt.lo, env), evaluate(stmt.hi, env)):
                        yield from block(stmt.body, {**env, stmt.iterator: i}, shown)
                case If():
                    taken = stmt.body if holds(stmt.condition, env) else stmt.orelse
                    yield from block(taken, env, shown)
                case WindowStmt():
                    shown = {**shown, stmt.name: window(stmt.source, env, shown)}
                    if min(shown[stmt.name].shape, default=0) < 0:
                        yield stmt
                case Assign():
                    index = [evaluate(c.at, env) for c in stmt.target.coords]  # type: ignore[union-attr]
                    if not shown[stmt.target.name].contains(index):
                        yield stmt
                case CallInstr():
                    count, target = stmt.arguments
                    inner = {ROWS: evaluate(count, env)}  # type: ignore[arg-type]
                    operand = {DST: window(target, env, shown)}  # type: ignore[arg-type]
                    if any(block(stmt.instr.body, inner, operand)):
                        yield stmt

    yield from block(proc.body, sizes, parameters)


def smallest_faults(proc: Proc, limit: int) -> Mapping[int, tuple[int, int]]:
    """By id of the statement: the smallest (M, N) up to `limit` at which it is out of range."""
    found: dict[int, tuple[int, int]] = {}
    for m, n in sorted(admitted(proc, limit), key=by_size):
        sizes = {M: m, N: n}
        for stmt in faults(proc, sizes):
            found.setdefault(id(stmt), (m, n))
    return found


def admitted(proc: Proc, limit: int) -> list[tuple[int, int]]:
    """The sizes up to `limit` that the preconditions admit."""
    ranges = (range(0 if admits_zero(proc, s) else 1, limit + 1) for s in (M, N))
    pairs = itertools.product(*ranges)
    return [(m, n) for m, n in pairs if all(holds(b, {M: m, N: n}) for b in proc.preconditions)]


def by_size(sizes: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    return sum(sizes), sizes


# --- random programs ------------------------------------------------------------------------

OUTER, INNER = Sym("i"), Sym("j")


@cache
def affine(*variables: Sym) -> st.SearchStrategy[CExpr]:
    leaf = st.one_of(st.integers(-2, 4).map(Int), st.sampled_from(variables).map(CVar))
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(Add, inner, inner),
            st.builds(Sub, inner, inner),
            st.builds(Mul, st.integers(-1, 3), inner),
            st.builds(FloorDiv, inner, st.integers(2, 3)),
            st.builds(Mod, inner, st.integers(2, 3)),
        ),
        max_leaves=3,
    )


@cache
def conditions(*variables: Sym) -> st.SearchStrategy[BExpr]:
    operators = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    return st.builds(Compare, operators, affine(*variables), affine(*variables))


@st.composite
def programs(draw: st.DrawFn) -> Proc:
    inner = store(X, draw(affine(M, N, OUTER, INNER)))
    guarded = If(draw(conditions(M, OUTER, INNER)), (inner,), (store(X, draw(affine(N, OUTER))),))
    body = loop(INNER, draw(affine(M, OUTER)), draw(affine(N, OUTER)), guarded)
    outer = loop(OUTER, Int(0), draw(affine(M, N)), body, store(X, draw(affine(M, OUTER))))
    where = tuple(draw(st.lists(conditions(M, N), max_size=1)))
    return proc((size(M), size(N), array(X, Add(CVar(M), CVar(N)))), outer, where=where)


ROWS, DST, ROW = Sym("rows"), Sym("dst"), Sym("r")

IN_ROWS = Compare("<", CVar(ROW), CVar(ROWS))
CLEAR = Instr(
    name="clear",
    constants=(),
    params=(ControlParam(ROWS, "index"), array(DST, Int(3))),
    preconditions=(),
    body=(loop(ROW, Int(0), Int(3), If(IN_ROWS, (store(DST, CVar(ROW)),))),),
    cuda=False,
    unit=standalone_thread,
)
"""Writes the first `rows` of three elements."""


@st.composite
def programs_with_windows(draw: st.DrawFn) -> Proc:
    """A window of a matrix, a window of that, and instruction calls on both, in a loop."""
    outer, inner = Sym("w"), Sym("v")

    def tile(name: Sym) -> Access:
        start = draw(affine(M, N, OUTER))
        return Access(name, (Interval(start, Add(start, Int(3))),))

    lo, hi = draw(affine(M, OUTER)), draw(affine(N, OUTER))
    body = (
        WindowStmt(outer, Access(X, (Interval(lo, hi), Point(draw(affine(M, OUTER))))), None),
        WindowStmt(inner, Access(outer, (Interval(Int(1), draw(affine(N, OUTER))),)), None),
        CallInstr(CLEAR, (draw(affine(M, OUTER)), tile(outer))),
        CallInstr(CLEAR, (draw(affine(N, OUTER)), tile(inner))),
        store(inner, draw(affine(M, OUTER))),
    )
    guarded = If(draw(conditions(M, N, OUTER)), body)
    x = array(X, Add(CVar(M), CVar(N)), CVar(N))
    return proc((size(M), size(N), x), loop(OUTER, Int(0), draw(affine(M, N)), guarded))


@settings(derandomize=True, max_examples=200, deadline=None)
@given(programs_with_windows())
def test_windows_and_instructions_are_followed_to_their_variables(program: Proc) -> None:
    """Negative extents are faults of the window statement; a call's, of what its body touches."""
    agrees_with_enumeration(program)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(programs())
def test_the_verdict_is_that_of_running_every_loop(program: Proc) -> None:
    agrees_with_enumeration(program)


def agrees_with_enumeration(program: Proc) -> None:
    """A fault is claimed iff enumeration finds it, at the smallest sizes; all claims are run."""
    found = violations(program)
    if any(v.diagnostic.code == "B604" for v in found):
        assert not admitted(program, 8)
        return
    assert {v.diagnostic.code for v in found} <= {"B601", "B602"}
    by_statement = {id(s): s for s in walk(program.body)}
    refuted = {
        at: v for v in reversed(found) for at, s in by_statement.items() if speaks_of(v.finding, s)
    }
    enumerated = smallest_faults(program, LIMIT)
    assert enumerated.keys() <= refuted.keys()
    for stmt, violation in refuted.items():
        sizes = (violation.sizes["M"], violation.sizes["N"])
        assert stmt in {id(s) for s in faults(program, {M: sizes[0], N: sizes[1]})}
        if max(sizes) <= LIMIT:
            assert enumerated[stmt] == sizes
        elif stmt in enumerated:
            assert by_size(sizes) < by_size(enumerated[stmt])


def speaks_of(finding: Finding, stmt: Stmt) -> bool:
    match finding:
        case Outside():
            return stmt is (finding.call or finding.stmt)
        case NegativeExtent():
            return isinstance(stmt, WindowStmt) and stmt.name == finding.name
        case _:
            return False


LIMIT = 6


# --- single facts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "admitted"),
    [
        (Compare(">=", CVar(M), Int(0)), True),
        (Compare("<=", Int(0), CVar(M)), True),
        (Compare(">", CVar(M), Int(-1)), True),
        # An upper bound and a divisibility hold at 0, but do not speak of it.
        (Compare("<=", CVar(M), Int(64)), False),
        (Compare("==", Mod(CVar(M), 8), Int(0)), False),
        (Compare(">=", CVar(M), Int(1)), False),
        (Compare(">=", Sub(CVar(M), CVar(N)), Int(0)), False),
    ],
)
def test_zero_is_admitted_by_a_lower_bound_only(condition: BExpr, admitted: bool) -> None:
    assert admits_zero(proc((size(M), size(N)), where=(condition,)), M) is admitted


def between(expr: CExpr, lo: int, hi: int) -> BExpr:
    return And(Compare(">=", expr, Int(lo)), Compare("<=", expr, Int(hi)))


def test_the_smallest_sum_of_sizes_comes_before_the_smallest_first_size() -> None:
    far = And(Compare("==", CVar(M), Int(1)), Compare("==", CVar(N), Int(9)))
    near = And(between(CVar(M), 2, 4), Compare("==", Add(CVar(M), CVar(N)), Int(6)))
    fault = If(Or(far, near), (store(X, Int(-1)),))
    (violation,) = violations(proc((size(M), size(N), array(X, CVar(M))), fault))
    # (1, 9) sums to 10; (2, 4), (3, 3), (4, 2) to 6, of which (2, 4) is lexicographically first.
    assert violation.sizes == {"M": 2, "N": 4}


def test_an_index_argument_may_be_negative() -> None:
    at = Sym("at")
    program = proc((size(M), ControlParam(at, "index"), array(X, CVar(M))), store(X, CVar(at)))
    (violation,) = violations(program)
    # M = 1, at = -1 and M = 1, at = 1 have the same magnitude; the smaller value is named.
    assert violation.sizes == {"M": 1, "at": -1}


def test_contradictory_preconditions_are_said_to_be_so() -> None:
    program = proc(
        (size(M), array(X, CVar(M))),
        store(X, CVar(M)),
        where=(Compare("==", Mod(CVar(M), 2), Int(0)), Compare("==", CVar(M), Int(5))),
    )
    assert [d.code for d in check_bounds(program)] == ["B604"]
