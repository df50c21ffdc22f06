"""The laws of expressions never call two values the same that differ: in integers of all widths,
and where they assume nothing in floating point of any values."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exogpu import ExoGpuError, schedule
from exogpu.interpreter import elementwise
from exogpu.interpreter.values import NUMPY
from tests.texts import made

pytestmark = pytest.mark.slow

INTEGERS = ("i8", "ui8", "ui16", "ui32", "i32", "i64", "ui64")
FLOATS = ("f16", "f32", "f64")


def leaf(random: Random) -> str:
    return random.choice(["a[i]", "b[i]", "c[i]", "y[i]", "2", "3", "1", "0"])


def value(random: Random, depth: int, *, whole: bool) -> str:
    if depth == 0 or random.random() < 0.3:
        return leaf(random)
    one, two = (value(random, depth - 1, whole=whole) for _ in range(2))
    match random.choice("++**-nmsd"):
        case "n":
            return f"(-({one}))"
        case "m":
            return f"{random.choice(['min', 'max'])}({one}, {two})"
        case "s":
            return f"select({leaf(random)}, {leaf(random)}, {one}, {two})"
        case "d" if whole:
            return f"(({one}) / 3)"
        case "d":
            return f"(({one}) / 2)"
        case op:
            return f"(({one}) {op} ({two}))"


def changed(random: Random, whole: bool) -> tuple[str, str]:
    """Two expressions that are the same by one rule of arithmetic, or nearly so."""
    x, y, z = (value(random, 1, whole=whole) for _ in range(3))
    one, other = random.choice(
        [
            (f"({x}) + (({y}) + ({z}))", f"(({x}) + ({y})) + ({z})"),
            (f"({x}) * (({y}) + ({z}))", f"({x}) * ({y}) + ({x}) * ({z})"),
            (f"({x}) * (({y}) * ({z}))", f"({z}) * (({x}) * ({y}))"),
            (f"({x}) - ({y})", f"({x}) + (-({y}))"),
            (f"({x}) - ({y})", f"({y}) - ({x})"),
            (f"max({x}, {y})", f"max({y}, {x})"),
            (f"max({x}, {y})", f"min({y}, {x})"),
            (f"(({x}) + ({y})) / 2", f"(({y}) + ({x})) / 2"),
            (f"(({x}) + ({y})) / 2", f"({y}) / 2 + ({x}) / 2"),
            (f"max(({x}) + ({y}), {z})", f"max({z}, ({y}) + ({x}))"),
            (f"max(({x}) + ({y}), ({z}) + ({y}))", f"max({x}, {z}) + ({y})"),
            (f"(({x}) + ({y})) - ({y})", x),
            (f"2 * ({x})", f"({x}) + ({x})"),
            (f"select({x}, {y}, {z}, {x})", f"select({y}, {x}, {x}, {z})"),
            (x, f"({x}) * 1"),
            (x, f"({x}) + 0"),
            (x, y),
        ]
    )
    around = random.choice(["{0}", "({0}) + ({1})", "({0}) * ({1})", "({0}) / 3", "max({0}, {1})"])
    rest = leaf(random)
    return around.format(one, rest), around.format(other, rest)


def program(random: Random) -> tuple[str, str, bool]:
    whole = random.random() < 0.6
    kinds = [random.choice(INTEGERS if whole else FLOATS) for _ in range(4)]
    params = ", ".join(f"{n}: {k}[8] @ DRAM" for n, k in zip("abcy", kinds, strict=True))
    one, other = changed(random, whole)
    op = random.choice(["=", "+="])
    lines = ["@proc", f"def f({params}):", "    for i in seq(0, 8):", f"        y[i] {op} {one}"]
    return "\n".join(lines) + "\n", other, whole


def random_values(kind: np.dtype[np.generic], seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if kind.kind in "iu":
        return random.integers(-(1 << 62), 1 << 62, 8).astype(kind)
    return (random.standard_normal(8) * 10.0 ** random.integers(-2, 3, 8)).astype(kind)


def judge(seed: int) -> str:
    """What became of one rewriting; a wrong one is an error."""
    random = Random(seed)
    text, other, _ = program(random)
    p = made(text)
    if p.ir is None or p.diagnostics:
        return "unfit"
    try:
        q = schedule.rewrite_expr(
            p, "y[_] _ _", schedule.find(p, "y[_] _ _").expressions()[0], other
        )
    except ExoGpuError as error:
        assert {d.code for d in error.diagnostics} <= {"X991", "X992"}, error
        return "refused"
    if q.ir is None or q.diagnostics:
        return "unfit"
    if schedule.assumptions(q):
        return "assuming"
    for trial in range(4):
        arrays = {
            param.name.name: random_values(NUMPY[param.dtype], 97 * trial + n)  # type: ignore[union-attr]
            for n, param in enumerate(p.ir.params)
        }
        before, after = ({n: a.copy() for n, a in arrays.items()} for _ in range(2))
        try:
            elementwise.run(p.ir, before)
        except ZeroDivisionError:
            continue
        elementwise.run(q.ir, after)
        same = np.array_equal(before["y"], after["y"], equal_nan=before["y"].dtype.kind == "f")
        assert same, (schedule.text(p), schedule.text(q), before["y"], after["y"])
    return "same"


counts: dict[str, int] = {}


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.integers(0, 1 << 32))
def any_rewriting(seed: int) -> None:
    word = judge(seed)
    counts[word] = counts.get(word, 0) + 1


def test_what_is_called_the_same_is() -> None:
    counts.clear()
    any_rewriting()
    assert counts["same"] > 25 and counts["refused"] > 25 and counts["assuming"] > 5, counts
