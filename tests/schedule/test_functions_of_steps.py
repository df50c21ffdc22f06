"""Steps with every data function have certificates; infinite constants are no real numbers."""

from __future__ import annotations

import json
from math import inf

import pytest

from exogpu import ExoGpuError, schedule
from exogpu.ir.scalar_functions import FUNCTIONS, OF_INTEGERS, WRITTEN, called_as
from exogpu.ir.scalars import Constant, Operation
from exogpu.ir.types import DataType
from exogpu.symbolic.steps.normal_form import Leaf, as_numbers
from exogpu.symbolic.steps.step_certificate import UnlikeError
from tests.schedule.step_records import failing, recorded
from tests.texts import made

F32 = DataType.F32


def mapped(value: str, of: str = "f32", gives: str = "f32") -> str:
    return (
        f"@proc\ndef f(n: size, a: {of}[n] @ DRAM, b: {of}[n] @ DRAM, y: {gives}[n] @ DRAM):\n"
        f"    for i in seq(0, n):\n        y[i] = {value}\n"
    )


def applied(name: str) -> str:
    """A procedure of any function of the table."""
    row, (called, word) = FUNCTIONS[name], called_as(name)
    given = ["232" if o == "literal" else "ab"[at % 2] + "[i]" for at, o in enumerate(row.takes)]
    if row.symbol:
        text = f"{given[0]} {name} {given[1]}" if len(given) == 2 else f"{name}{given[0]}"
    else:
        text = f"{called}({', '.join([*given, *filter(None, [word])])})"
    of = "i32" if row.takes[0] in OF_INTEGERS else "f32"
    gives = row.gives if isinstance(row.gives, DataType) else DataType(of)
    return mapped(text, of, gives.value)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_step_around_any_function_is_certified(name: str) -> None:
    p = made(applied(name))
    q = schedule.divide_loop(p, "i", 4, ["io", "ii"], tail="guard")
    pairs = recorded(q)
    assert pairs and not any(failing(*pair) for pair in pairs)


PADDED = """
@proc
def f(n: size, a: f32[n] @ DRAM, y: f32[1] @ DRAM):
    assert n > 8
    t: f32[n] @ DRAM
    for i in seq(0, n):
        t[i] = 0
        if i < n - 4:
            t[i] = a[i]
    for i in seq(0, n):
        if i < n - 4:
            y[0] += tf32(t[i]) * tf32(t[i])
"""


def test_what_is_rounded_from_zero_is_zero() -> None:
    """So a guard that keeps products of padding from being added may go."""
    q = schedule.remove_if(made(PADDED), "if _: _ #1")
    pairs = recorded(q)
    assert pairs and not any(failing(*pair) for pair in pairs)


@pytest.mark.parametrize(
    "value",
    [
        "a[i] + 1e999 - 1e999",
        "a[i] * (1e999 - 1e999)",
        "a[i] + 0 * 1e999",
        "a[i] + (b[i] + -1e999) - (-1e999 + b[i])",
        "a[i] + max(b[i] + 1e999, 0) - max(1e999 + b[i], 0)",
        "a[i] + 1e999 / 2 - 1e999 / 2",
        "a[i] + max(b[i], 1e999) - max(b[i], 1e999)",
        "a[i] + select(b[i], 0, 0, -1e999) - select(b[i], 0, 0, -1e999)",
        "a[i] + fma(b[i], 1e999, 1) - fma(b[i], 1e999, 1)",
    ],
)
def test_infinity_is_not_subtracted_from_itself(value: str) -> None:
    with pytest.raises(ExoGpuError, match="infinity"):
        schedule.rewrite_expr(made(mapped("a[i]")), "y[_] = _", "a[i]", value)


def test_nor_is_what_is_divided_by_zero() -> None:
    with pytest.raises(ExoGpuError, match="divides by zero"):
        schedule.rewrite_expr(made(mapped("a[i]")), "y[_] = _", "a[i]", "a[i] + 1 / 0.0 - 1 / 0.0")


SCALED = """
@proc
def f(n: size, a: f32[n] @ DRAM, y: f32[1] @ DRAM):
    assert n >= 0
    y[0] = 0
    for i in seq(0, n):
        y[0] += {factor} * a[i]
"""


def test_infinity_is_no_factor_of_a_sum() -> None:
    """Of nothing it is none, and 0 without it."""
    assert schedule.lift_reduce_constant(made(SCALED.format(factor="2")), "y[_] = _")
    with pytest.raises(ExoGpuError, match="no sum from zero and a factor of it"):
        schedule.lift_reduce_constant(made(SCALED.format(factor="1e999")), "y[_] = _")


def test_nor_is_it_one_in_a_certificate() -> None:
    *_, (record, witness) = recorded(
        schedule.lift_reduce_constant(made(SCALED.format(factor="7.5")), "y[_] = _")
    )
    for factor in ("-2.0", "inf", "nan"):
        changed = json.loads(json.dumps(record).replace("7.5", factor))
        if factor == "-2.0":
            assert not failing(changed, witness)
        else:
            with pytest.raises(UnlikeError, match="no real number"):
                failing(changed, witness)


def test_infinity_may_be_compared_with() -> None:
    p = made(mapped("1 + max(a[i], -1e999)"))
    whole = schedule.find(p, "y[_] = _").expressions()[0]
    q = schedule.rewrite_expr(p, "y[_] = _", whole, "max(-1e999, a[i]) * 1 + 1")
    assert schedule.assumptions(q)
    pairs = recorded(q)
    assert pairs and not any(failing(*pair) for pair in pairs)


def test_nor_does_a_certificate_subtract_it() -> None:
    x, infinite = Leaf(0, F32, F32), Constant(inf, F32)
    both = Operation("-", (Operation("+", (x, infinite), F32), infinite), F32)  # type: ignore[arg-type]
    assert as_numbers(both, x, F32) is None
    finite = Constant(2.0, F32)
    both = Operation("-", (Operation("+", (x, finite), F32), finite), F32)  # type: ignore[arg-type]
    assert as_numbers(both, x, F32) is True
