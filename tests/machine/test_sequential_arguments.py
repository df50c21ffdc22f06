"""The arguments of a run are checked before anything changes, and change in place."""

from __future__ import annotations

import numpy as np
import pytest

from exogpu import interpreter
from exogpu.api import proc
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.interpreter import elementwise


@proc
def scale(M: size, K: size, A: f32[M, K] @ DRAM, b: bf16[K] @ DRAM, s: f32 @ DRAM):
    assert K % 2 == 0
    for m in seq(0, M):
        for k in seq(0, K):
            A[m, k] = A[m, k] * s + b[k]


@proc
def sum_of(M: size, x: f32[M] @ DRAM, s: f32 @ DRAM):
    assert M >= 0
    for m in seq(0, M):
        s += x[m]


def good() -> dict[str, object]:
    return {
        "A": np.ones((3, 4), np.float32),
        "b": np.ones(4, np.float32),
        "s": np.full((), 2, np.float32),
    }


def test_sizes_follow_from_shapes_and_scalars_may_be_numbers():
    for change in ({}, {"M": 3}, {"s": 2.0}, {"K": np.int64(4)}):
        given = good() | change
        interpreter.run(scale.ir, given)
        np.testing.assert_array_equal(given["A"], np.full((3, 4), 3))


def test_arrays_of_any_layout_change_in_place():
    base = np.ones((8, 6), np.float32)
    view = base[1::2, ::-2][:3].T.T
    interpreter.run(scale.ir, {"A": view[:, :2], "b": np.ones(2, np.float32), "s": 2.0})
    np.testing.assert_array_equal(view[:, :2], np.full((3, 2), 3))
    assert base.sum() == 8 * 6 + 2 * 6  # six elements grew by two, no other


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"AA": 1}, "X920"),
        ({"A": None}, "X922"),
        ({"A": np.ones((3, 4))}, "X922"),  # float64
        ({"M": 3.0}, "X922"),
        ({"M": True}, "X922"),
        ({"A": np.ones(4, np.float32)}, "X923"),
        ({"A": np.ones((3, 6), np.float32)}, "X923"),  # b says K = 4
        ({"M": 4}, "X923"),
        ({"b": np.full(4, 0.1, np.float32)}, "X924"),  # 0.1 in f32 is not bf16
        ({"A": np.ones((3, 3), np.float32), "b": np.ones(3, np.float32)}, "X904"),  # K odd
        ({"A": np.ones((0, 4), np.float32)}, "X903"),  # M = 0
    ],
)
def test_arguments_are_checked_first(change, code):
    given = good() | change
    with pytest.raises(ExoGpuError) as error:
        interpreter.run(scale.ir, given)
    assert {d.code for d in error.value.diagnostics} == {code}
    assert all(d.help for d in error.value.diagnostics)


def test_missing_array_and_what_follows_from_it():
    with pytest.raises(ExoGpuError) as error:
        interpreter.run(scale.ir, {"b": np.ones(4, np.float32), "s": 1.0})
    assert "X921" in {d.code for d in error.value.diagnostics}


def test_written_arrays_must_be_writable_and_their_own():
    x = np.ones(4, np.float32)
    with pytest.raises(ExoGpuError, match="X925"):
        interpreter.run(sum_of.ir, {"x": x, "s": 0.0})
    with pytest.raises(ExoGpuError, match="X926"):
        interpreter.run(sum_of.ir, {"x": x, "s": x[2:3].reshape(())})


def test_zero_size_where_a_precondition_admits_it():
    given = {"x": np.ones(0, np.float32), "s": np.full((), 7, np.float32)}
    interpreter.run(sum_of.ir, given)
    assert given["s"] == 7


def test_what_is_wider_than_its_sum_is_rounded_after_it_is_added() -> None:
    @proc
    def wide(n: size, x: f64[n] @ DRAM, y: f32[4] @ DRAM):
        for i in seq(0, n):
            for j in seq(0, 2):
                y[(i + j) % 4] += x[i]

    found = {"x": np.array([4e38, 0, 1e38, 0]), "y": np.full(4, -3e38, np.float32)}
    wanted = {name: array.copy() for name, array in found.items()}
    wide.run(n=4, **found)
    elementwise.run(wide.ir, {"n": 4, **wanted})
    assert np.isfinite(found["y"]).all()
    assert np.array_equal(found["y"], wanted["y"])
