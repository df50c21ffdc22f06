"""Bounds for all sizes: the verdict, and the smallest sizes of a refutation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exogpu.frontend.bounds import check_bounds, violations
from exogpu.frontend.instances import admits_zero
from exogpu.hw.memories import DRAM
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Add,
    And,
    Assign,
    BExpr,
    Block,
    CExpr,
    Compare,
    Const,
    ControlParam,
    CVar,
    DataParam,
    FloorDiv,
    For,
    If,
    Int,
    Mod,
    Mul,
    Or,
    Point,
    Proc,
    Seq,
    Sub,
)
from exogpu.ir.types import DataType
from exogpu.ir.walk import evaluate, holds

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


def faults(proc: Proc, sizes: Mapping[Sym, int]) -> Iterator[object]:
    """Every out-of-range access at the sizes, by running all loops."""
    shapes = {
        p.name: [evaluate(e, sizes) for e in p.shape]
        for p in proc.params
        if isinstance(p, DataParam)
    }

    def block(body: Block, env: Mapping[Sym, int]) -> Iterator[object]:
        for stmt in body:
            match stmt:
                case For():
                    for i in range(evaluate(stmt.lo, env), evaluate(stmt.hi, env)):
                        yield from block(stmt.body, {**env, stmt.iterator: i})
                case If():
                    yield from block(stmt.body if holds(stmt.condition, env) else stmt.orelse, env)
                case Assign():
                    index = [evaluate(c.at, env) for c in stmt.target.coords]  # type: ignore[union-attr]
                    shape = shapes[stmt.target.name]
                    if not all(0 <= i < n for i, n in zip(index, shape, strict=True)):
                        yield stmt

    yield from block(proc.body, sizes)


def smallest_faults(proc: Proc, limit: int) -> Mapping[int, tuple[int, int]]:
    """By id of the statement: the smallest (M, N) up to `limit` at which it is out of range."""
    found: dict[int, tuple[int, int]] = {}
    pairs = itertools.product(range(1, limit + 1), repeat=2)
    for m, n in sorted(pairs, key=by_size):
        sizes = {M: m, N: n}
        if all(holds(b, sizes) for b in proc.preconditions):
            for stmt in faults(proc, sizes):
                found.setdefault(id(stmt), (m, n))
    return found


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


@settings(derandomize=True, max_examples=300, deadline=None)
@given(programs())
def test_the_verdict_is_that_of_running_every_loop(program: Proc) -> None:
    """A fault is claimed iff enumeration finds it, at the smallest sizes; all claims are run."""
    found = violations(program)
    if any(v.diagnostic.code == "B604" for v in found):
        pairs = itertools.product(range(1, 9), repeat=2)
        assert not any(all(holds(b, {M: m, N: n}) for b in program.preconditions) for m, n in pairs)
        return
    assert {v.diagnostic.code for v in found} <= {"B601"}
    refuted = {id(v.finding.stmt): v for v in found}  # type: ignore[union-attr]
    enumerated = smallest_faults(program, LIMIT)
    assert enumerated.keys() <= refuted.keys()
    for stmt, violation in refuted.items():
        sizes = (violation.sizes["M"], violation.sizes["N"])
        assert stmt in {id(s) for s in faults(program, {M: sizes[0], N: sizes[1]})}
        if max(sizes) <= LIMIT:
            assert enumerated[stmt] == sizes
        elif stmt in enumerated:
            assert by_size(sizes) < by_size(enumerated[stmt])


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
