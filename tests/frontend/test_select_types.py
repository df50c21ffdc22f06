"""`select`: what is compared has a type of its own, and so have the results."""

from __future__ import annotations

import numpy as np

from exogpu.api import proc


@proc
def nearer(n: size, a: i32[n] @ DRAM, x: f64[n] @ DRAM, y: f64[n] @ DRAM):
    for i in seq(0, n):
        y[i] = select(a[i], 3, x[i], 0.5)


def test_integers_are_compared_for_floats():
    a, x = np.array([2, 3, 4, -1], np.int32), np.arange(4.0)
    y = np.zeros(4)
    nearer.run(a=a, x=x, y=y)
    assert not nearer.diagnostics and np.array_equal(y, [0, 0.5, 0.5, 3])


@proc
def mixed(n: size, a: i32[n] @ DRAM, x: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = select(a[i], x[i], 0.0, 1.0)
        x[i] = select(a[i], 1, a[i], x[i])


def test_neither_is_mixed():
    assert [d.code for d in mixed.diagnostics] == ["T210", "T210"]
