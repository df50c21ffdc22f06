"""What the printer prints parses back to the same IR."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exogpu import kernels
from exogpu.api import Procedure
from exogpu.diagnostics.errors import Span
from exogpu.hw.memories import DRAM
from exogpu.ir.nodes import (
    Access,
    Add,
    And,
    Apply,
    Assign,
    BinOp,
    Compare,
    Const,
    ControlParam,
    CVar,
    DataParam,
    FloorDiv,
    If,
    Int,
    Mod,
    Mul,
    Negate,
    Not,
    Or,
    Point,
    Proc,
    Read,
    Sub,
)
from exogpu.ir.printer import print_proc
from exogpu.ir.types import DataType, Sym
from exogpu.kernels import gemm_sm80, gemm_sm90, gemm_splitk_sm90, gemv_f32
from tests.codegen.dependent_kernels import scaled_by
from tests.texts import made


def shape(value: object, names: dict[Sym, int]) -> object:
    """The IR as nested tuples: variables by first occurrence, spans left out."""
    if isinstance(value, Sym):
        return ("variable", names.setdefault(value, len(names)), value.name)
    if isinstance(value, tuple):
        return tuple(shape(v, names) for v in value)
    if dataclasses.is_dataclass(value):
        fields = [f for f in dataclasses.fields(value) if f.name not in ("span", "doc")]
        parts = [shape(getattr(value, f.name), names) for f in fields]
        return (type(value).__name__, *parts)
    return value


def parse_back(text: str) -> Procedure:
    parsed = made(text)
    assert parsed.ir is not None, parsed.diagnostics
    return parsed


KERNELS = [
    gemm_sm80.gemm_sm80,
    gemv_f32.gemv,
    *gemm_sm90.KERNELS.values(),
    *gemm_splitk_sm90.KERNELS.values(),
    scaled_by,
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_kernels_parse_back(kernel: Procedure) -> None:
    assert kernel.ir is not None
    again = parse_back(print_proc(kernel.ir)).ir
    assert shape(again, {}) == shape(kernel.ir, {})


N = Sym("n")
X = Sym("x")
K = Sym("k")

integers = st.integers(-9, 9)
divisors = st.integers(1, 9)
# A product of a constant and a constant is folded when read, so terms keep a variable inside.
control = st.recursive(
    st.just(CVar(N)),
    lambda inner: st.one_of(
        st.builds(Add, inner, inner | integers.map(Int)),
        st.builds(Sub, inner | integers.map(Int), inner),
        st.builds(Mul, integers, inner),
        st.builds(FloorDiv, inner, divisors),
        st.builds(Mod, inner, divisors),
    ),
    max_leaves=8,
)
conditions = st.recursive(
    st.builds(Compare, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), control, control),
    lambda inner: st.one_of(
        st.builds(And, inner, inner), st.builds(Or, inner, inner), st.builds(Not, inner)
    ),
    max_leaves=5,
)
data = st.recursive(
    control.map(lambda c: Read(Access(X, (Point(c),)))),
    lambda inner: st.one_of(
        st.builds(BinOp, st.sampled_from("+-*/"), inner, inner | st.integers(0, 9).map(Const)),
        st.builds(Negate, inner),
        st.builds(
            lambda name, a: Apply(name, (a,)), st.sampled_from(["floor", "f16", "fast_exp"]), inner
        ),
    ),
    max_leaves=6,
)
integers_of_data = st.recursive(
    st.integers(0, 9).map(lambda n: Read(Access(K, (Point(Int(n)),)))),
    lambda inner: st.one_of(
        st.builds(BinOp, st.sampled_from("+-*/"), inner, inner | st.integers(1, 9).map(Const)),
        st.builds(Negate, inner),
        st.builds(
            lambda name, a, b: Apply(name, (a, b)),
            st.sampled_from(["&", "|", "^", "<<", ">>", "//", "%", "min"]),
            inner,
            inner | st.integers(1, 9).map(Const),
        ),
        st.builds(lambda name, a: Apply(name, (a,)), st.sampled_from(["~", "clz", "i8"]), inner),
    ),
    max_leaves=8,
)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(conditions, control, data)
def test_expressions_parse_back(condition, index, value) -> None:
    body = (If(condition, (Assign(Access(X, (Point(index),)), value),)),)
    params = (
        ControlParam(N, "size"),
        DataParam(X, DataType.F32, (CVar(N),), DRAM),
    )
    made = Proc("p", params, (), body)
    assert shape(parse_back(print_proc(made)).ir, {}) == shape(made, {})


@settings(max_examples=150, derandomize=True, deadline=None)
@given(integers_of_data)
def test_operators_of_integers_parse_back(value) -> None:
    params = (DataParam(K, DataType.I32, (Int(10),), DRAM),)
    made = Proc("p", params, (), (Assign(Access(K, (Point(Int(0)),)), value),))
    assert shape(parse_back(print_proc(made)).ir, {}) == shape(made, {})


def test_spans_are_not_compared() -> None:
    # Otherwise every comparison above would fail, or compare nothing.
    assert Int(3, Span("a", 1, 1, 1, 2)) == Int(3)
    assert shape(Int(3), {}) != shape(Int(4), {})
    assert kernels is not None
