"""The ISL facade, and the IR's expressions as ISL text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exogpu.ir import render
from exogpu.ir.nodes import Add, And, Compare, CVar, FloorDiv, Int, Mod, Mul, Not, Or, Sub, Truth
from exogpu.ir.types import Sym
from exogpu.ir.walk import evaluate, holds
from exogpu.solvers import isl

X, Y = Sym("x"), Sym("x")  # two variables of one name

exprs = st.recursive(
    st.one_of(st.integers(-9, 9).map(Int), st.sampled_from([CVar(X), CVar(Y)])),
    lambda inner: st.one_of(
        st.builds(Add, inner, inner),
        st.builds(Sub, inner, inner),
        st.builds(Mul, st.integers(-3, 3), inner),
        st.builds(FloorDiv, inner, st.integers(1, 5)),
        st.builds(Mod, inner, st.integers(1, 5)),
    ),
    max_leaves=5,
)
conditions = st.recursive(
    st.one_of(
        st.booleans().map(Truth),
        st.builds(Compare, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), exprs, exprs),
    ),
    lambda inner: st.one_of(
        st.builds(And, inner, inner), st.builds(Or, inner, inner), st.builds(Not, inner)
    ),
    max_leaves=4,
)


@given(exprs, conditions)
@settings(max_examples=150, derandomize=True, deadline=None)
def test_text_means_what_the_interpreter_computes(expr, condition) -> None:
    """Over a grid with negative values: division and remainder round down in both."""
    x, y = render.identifier(X), render.identifier(Y)
    grid = [(a, b) for a in range(-4, 5) for b in range(-4, 5)]
    box = f"-4 <= {x} <= 4 and -4 <= {y} <= 4"
    kept = isl.set_of((), (x, y), f"{box} and {render.isl_cond(condition)}")
    assert isl.points(kept) == [p for p in grid if holds(condition, {X: p[0], Y: p[1]})]
    values = isl.map_of((), (x, y), ("v",), f"{box} and v = {render.isl_expr(expr)}")
    expected = [(*p, evaluate(expr, {X: p[0], Y: p[1]})) for p in grid]
    assert isl.wrapped_points(values) == expected


def test_smallest_point_takes_parameters_first() -> None:
    found = isl.set_of(["n"], ["i"], "n >= 3 and 0 <= i < n and i mod 3 = 2")
    assert isl.smallest(found) == {"n": 3, "i": 2}
    assert isl.smallest(isl.set_of(["n"], ["i"], "i < 0 and i > n and n > 0")) is None
    # No smallest one: some point.
    some = isl.smallest(isl.set_of((), ["i"], "i < 4"))
    assert some is not None and some["i"] < 4


def test_projection_and_fixing_are_by_name() -> None:
    found = isl.set_of(["n"], ["i", "j", "k"], "0 <= i < n and j = 2i and k = j + 1")
    kept = isl.fix(isl.project_onto(found, ["i", "k"]), {"n": 3})
    assert isl.points(isl.drop_param(kept, "n")) == [(0, 1), (1, 3), (2, 5)]


def test_two_outputs() -> None:
    halves = isl.map_of((), ["i"], ["o"], "0 <= i < 4 and i = floor(o / 2)")
    assert isl.two_outputs(halves) == ({"_0": 0}, (0,), (1,)) or isl.two_outputs(halves) == (
        {"i": 0},
        (0,),
        (1,),
    )
    assert isl.two_outputs(isl.inverse(halves)) is None


def test_too_many_points_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 10 points"):
        isl.points(isl.set_of((), ["i"], "0 <= i < 11"), limit=10)
