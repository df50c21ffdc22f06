"""Rows of arrays in one call: which kernel gets which arrays, and what is said of others.

The kernel itself is replaced by its meaning: what is tested here is what it is given.
"""

from __future__ import annotations

import numpy as np
import pytest

from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.kernels import layer_norm, rms_norm, row_calls, softmax, stencil, transpose


@pytest.fixture
def called(monkeypatch):
    """The names of the kernels that were called, with their shapes; they compute what they mean."""
    names: list[str] = []

    def kernel(name, shape=None):
        def run(stream=None, *, x, y, weight=1.0, bias=0.0, count=0.0, eps=0.0):
            names.append(name if shape is None else f"{name}_{shape}")
            if shape is not None:
                assert x.ndim == y.ndim == 2 and count in (0.0, x.shape[1])
            if name.startswith("transpose"):
                y[...] = x.transpose(0, 2, 1)
            elif name == "softmax":
                y[...] = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
            elif name.startswith("stencil"):
                y[...] = x * weight[1][1]
            else:
                centred = x - x.mean(-1, keepdims=True) if name == "layer_norm" else x
                y[...] = (
                    centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * weight + bias
                )

        return run

    monkeypatch.setattr(row_calls, "kernel", kernel)
    return names


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(5,), (7, 12), (2, 3, 8)], ids=str)
def test_rows_of_any_array(called, shape):
    x, out = random(*shape), np.empty(shape, np.float32)
    y = softmax(x)
    assert y.shape == shape and np.allclose(y.sum(-1), 1)
    assert softmax(x, out) is out and np.array_equal(out, y)
    weight, bias = random(shape[-1]), random(shape[-1])
    assert np.allclose(layer_norm(x, weight, bias).mean(-1).shape, shape[:-1])
    assert np.allclose(rms_norm(x, 0 * weight + 1, eps=0.0) ** 2 @ np.ones(shape[-1]), shape[-1])
    kind = "f32_any_1x128" if shape == (5,) else "f32_1x128"
    assert called == [f"{name}_{kind}" for name in ("softmax", "softmax", "layer_norm", "rms_norm")]


def test_long_rows_are_those_of_a_cluster_and_longer_ones_are_looped_over(called):
    for columns in (65536, 65537, 1 << 18):
        softmax(random(2, columns))
    kinds = ("f32_65536_2x32x1", "f32_any_looped", "f32_looped")
    assert called == [f"softmax_{kind}" for kind in kinds]


def test_two_dimensions_are_exchanged(called):
    x = random(2, 3, 4)
    assert np.array_equal(transpose(x), x.transpose(0, 2, 1))
    assert np.array_equal(transpose(x[0]), x[0].T)
    assert called == ["transpose_f32"] * 2


def test_neighbours(called):
    for columns in (4, 5):
        x = random(3, columns)
        assert np.array_equal(stencil(x, 2 * np.ones((3, 3), np.float32)), 2 * x)
    assert called == ["stencil_rows", "stencil"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: softmax(np.zeros((2, 2))), "x is float64"),
        (lambda: softmax(3.0), "x is a float, and no array"),
        (lambda: softmax(np.float32(3.0)), "x has 0 dimensions"),
        (
            lambda: softmax(random(2, 4), random(4, 2)),
            r"out is \(4, 2\) \(give an array of \(2, 4\)\)",
        ),
        (lambda: softmax(random(4, 2, 3).transpose(1, 0, 2)), "x has strides"),
        (lambda: softmax(random(2, 3, 4), random(3, 2, 4).transpose(1, 0, 2)), "out has strides"),
        (lambda: rms_norm(random(2, 4), random(3)), "weight has 3 elements, and rows have 4"),
        (lambda: rms_norm(random(2, 4), random(1, 4)), "weight has 2 dimensions"),
        (lambda: layer_norm(random(2, 4), random(4), random(5)), "bias has 5 elements"),
        (lambda: layer_norm(random(4), random(4).astype(np.float64), random(4)), "weight is float"),
        (lambda: transpose(random(4)), "x has 1 dimension "),
        (lambda: stencil(random(2, 3, 4), np.ones((3, 3))), "x has 3 dimensions"),
    ],
)
def test_arrays_that_do_not_fit(called, call, said):
    with pytest.raises(LaunchError, match=said):
        call()
    assert not called
