"""Steps rewrite no function of data that they do not know: only what is computed alike is one."""

from __future__ import annotations

import pytest

from exogpu import schedule
from exogpu.api import Procedure
from exogpu.diagnostics.errors import ExoGpuError
from tests.texts import made


def assigned(value: str, y: str = "i32") -> str:
    return (
        "@proc\ndef f(n: size, a: f32[n] @ DRAM, h: bf16[n] @ DRAM, k: i32[n] @ DRAM, "
        f"m: i32[n] @ DRAM, u: ui32[n] @ DRAM, y: {y}[n] @ DRAM):\n"
        f"    for i in seq(0, n):\n        y[i] = {value}\n"
    )


SAME = [
    ("f32(k[i]) * a[i]", "a[i] * f32(k[i])", "f32"),
    ("k[i] + (m[i] & 3)", "(m[i] & 3) + k[i]", "i32"),
    ("(k[i] >> 2) * 2 + (k[i] >> 2) * 3", "(k[i] >> 2) * 5", "i32"),
]
OTHER = [
    ("i32(a[i], rn)", "i32(a[i], rz)", "i32"),
    ("i32(a[i])", "i32(a[i], rm)", "i32"),
    ("bits(a[i] + a[i] * 2.0)", "bits(a[i] * 3.0)", "ui32"),
    ("f32(bits(a[i] + a[i] * 2.0))", "f32(bits(a[i] * 3.0))", "f32"),
    ("ui32(bits(h[i]))", "bits(f32(h[i]))", "ui32"),
    ("k[i] >> 1", "i32(ui32(k[i]) >> 1)", "i32"),
    ("k[i] // 3", "k[i] / 3", "i32"),
    ("k[i] % m[i]", "k[i] - k[i] / m[i] * m[i]", "i32"),
    ("exp(a[i])", "fast_exp(a[i])", "f32"),
    ("bf16(a[i])", "a[i]", "f32"),
    ("k[i] << m[i]", "m[i] << k[i]", "i32"),
    ("k[i] & m[i]", "k[i] | m[i]", "i32"),
    ("f32(i8(k[i]))", "f32(k[i])", "f32"),
]


def rewritten(one: str, other: str, y: str) -> Procedure:
    """The procedure of one value with another in its place.  Raises ExoGpuError."""
    p = made(assigned(one, y))
    assert not p.diagnostics and not made(assigned(other, y)).diagnostics
    return schedule.rewrite_expr(
        p, "y[_] = _", schedule.find(p, "y[_] = _").expressions()[0], other
    )


@pytest.mark.parametrize(("one", "other", "y"), SAME)
def test_sums_of_them_are_sums(one: str, other: str, y: str) -> None:
    assert not schedule.assumptions(rewritten(one, other, y))


@pytest.mark.parametrize(("one", "other", "y"), OTHER)
def test_what_is_computed_otherwise_is_refused(one: str, other: str, y: str) -> None:
    with pytest.raises(ExoGpuError):
        rewritten(one, other, y)


@pytest.mark.parametrize("division", ["/", "//", "%"])
def test_what_may_divide_by_zero_is_not_left_out(division: str) -> None:
    value = f"k[i] {division} m[i] * 0 + k[i]"
    with pytest.raises(ExoGpuError):
        rewritten(value, "k[i]", "i32")
    assert rewritten(value.replace("m[i]", "3"), "k[i]", "i32")
