"""Sums across tasks in one call: which kernel gets which arrays, and that kernels compute them."""

from __future__ import annotations

import numpy as np
import pytest

from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.diagnostics.verdict import Policy
from exogpu.kernels import row_calls
from exogpu.kernels.row_calls import scan, total
from exogpu.kernels.scan_rows import SHAPES, Shape, shape_of
from exogpu.kernels.scan_waves import make_scan
from exogpu.kernels.total_f32 import make_total


@pytest.fixture
def called(monkeypatch):
    """The kernels that were called; they compute what they mean."""
    names: list[str] = []

    def scanned(shape):
        def run(stream=None, *, x, y):
            assert x.ndim == y.ndim == 2 and x.shape == y.shape
            names.append(str(shape))
            y[...] = np.cumsum(x, -1, dtype=x.dtype)

        return run

    def totalled(*, vectors):
        def run(stream=None, *, x, y):
            assert x.ndim == 1
            names.append("vectors" if vectors else "any")
            y[...] = x.sum()

        return run

    monkeypatch.setattr(row_calls, "_scan", scanned)
    monkeypatch.setattr(row_calls, "_total", totalled)
    return names


def test_rows_of_any_array(called):
    for shape in ((5,), (7, 300), (2, 3, 8192), (1, 100001)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        assert np.array_equal(scan(x), np.cumsum(x, -1))
        out = np.empty_like(x)
        assert scan(x, out) is out and total(x).shape == ()
    scan(np.ones((2, 8), np.int32))
    assert called[::3] == ["f32_1x8_any", "f32_2x4", "f32_16x8", "f32_16x32_any", "i32_1x2"]
    assert called[2::3] == ["any", "vectors", "vectors", "any"]


def test_the_smallest_tile_that_has_a_row():
    for shape in SHAPES:
        assert shape_of(shape.dtype, shape.tile if shape.vectors else shape.tile - 1) == shape
        assert shape.tile % shape.vector == 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: scan(np.zeros((2, 2))), "x is float64"),
        (lambda: scan(np.float32(1.0)), "x has 0 dimensions"),
        (lambda: scan(np.zeros((2, 4), np.float32), np.zeros((4, 2), np.float32)), "out is"),
        (lambda: scan(np.zeros((2, 4), np.float32), np.zeros((2, 4), np.int32)), "out is int32"),
        (lambda: scan(np.zeros((4, 4), np.float32)[:, :2]), "x has strides"),
        (lambda: total(np.zeros(4, np.int32)), "x is int32"),
        (lambda: total(np.zeros(4, np.float32), np.zeros(1, np.float32)), "out is (1,)"),
    ],
)
def test_what_is_refused(called, call, said):
    with pytest.raises(LaunchError) as refused:
        call()
    assert said in str(refused.value)


@pytest.mark.parametrize("shape", [Shape("f32", 1, 2), Shape("i32", 2, 1, vectors=False)], ids=str)
def test_a_scan_computes_sums(shape):
    """Of one tile, of several in one wave, of two waves; safe at these sizes."""
    kernel, wave = make_scan(shape), shape.tile * 32 * shape.warps
    for M, N in ((2, shape.vector), (1, 3 * shape.tile + shape.vector), (1, wave + shape.vector)):
        x = np.random.default_rng(N).integers(-99, 99, (M, N)).astype(shape.type.value[0] + "4")
        y = np.empty_like(x)
        kernel.run(x=x, y=y)
        assert np.array_equal(y, np.cumsum(x, 1, dtype=x.dtype))
    for policy in Policy:
        assert kernel.check_at(policy=policy, M=2, N=2 * shape.tile + shape.vector).word == "proved"


def test_a_total_is_proved_and_right():
    kernel = make_total(vectors=True)
    assert kernel.check().word == "proved"
    x, y = np.arange(40000, dtype=np.float32) % 7, np.empty((), np.float32)
    kernel.run(x=x, y=y)
    assert y == x.sum()
