"""Small procedures to schedule, and runs of them on random data."""

from __future__ import annotations

import numpy as np

import exogpu
from exogpu import ExoGpuError
from exogpu.api import Procedure
from exogpu.interpreter.values import NUMPY
from exogpu.ir.nodes import ControlParam, DataParam, Proc
from exogpu.ir.scalars import INTEGERS
from exogpu.ir.walk import evaluate


@exogpu.proc
def gemm(M: size, N: size, K: size, A: f32[M, K] @ DRAM, B: f32[K, N] @ DRAM, C: f32[M, N] @ DRAM):
    for i in seq(0, M):
        for j in seq(0, N):
            C[i, j] = 0
            for k in seq(0, K):
                C[i, j] += A[i, k] * B[k, j]


@exogpu.proc
def even(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    assert n % 4 == 0
    for i in seq(0, n):
        y[i] = 2 * x[i]


@exogpu.proc
def two(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = 1
        y[i] = x[i]


@exogpu.proc
def apart(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = 1
    for j in seq(0, n):
        y[j] = x[j]


@exogpu.proc
def carried(n: size, x: f32[n + 1] @ DRAM):
    for i in seq(0, n):
        x[i + 1] = x[i] + 1


@exogpu.proc
def skewed(n: size, x: f32[n + 1, n + 1] @ DRAM):
    for i in seq(0, n):
        for j in seq(0, n):
            x[i + 1, j] = x[i, j + 1] + 1


@exogpu.proc
def square(m: size, n: size, x: f32[m, n] @ DRAM):
    for i in seq(0, m):
        for j in seq(0, n):
            x[i, j] = 3


@exogpu.proc
def four(m: size, x: f32[m, 4] @ DRAM):
    for i in seq(0, m):
        for j in seq(0, 4):
            x[i, j] += 3


@exogpu.proc
def shorts(x: f32[8] @ DRAM):
    for i in seq(0, 3):
        x[2 * i] = x[i] + 1


@exogpu.proc
def pieces(n: size, x: f32[n] @ DRAM):
    assert n >= 3
    for i in seq(0, 3):
        x[i] = 7
    for i in seq(3, n):
        x[i] = 7


@exogpu.proc
def gap(n: size, x: f32[n] @ DRAM):
    assert n >= 4
    for i in seq(0, 3):
        x[i] = 7
    for i in seq(4, n):
        x[i] = 7


@exogpu.proc
def reversed_fuse(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = 1
    for j in seq(0, n):
        y[j] = x[n - 1 - j]


@exogpu.proc
def order(x: f32[4] @ DRAM, y: f32[4] @ DRAM):
    x[0] = 1
    y[0] = 2
    y[1] = x[0]


@exogpu.proc
def guarded(m: size, n: size, x: f32[n] @ DRAM):
    for i in seq(0, n):
        if m > 3:
            x[i] = 0


@exogpu.proc
def guarded_by_i(n: size, x: f32[n] @ DRAM):
    for i in seq(0, n):
        if i > 3:
            x[i] = 0


@exogpu.proc
def tail(C: f32[8] @ DRAM):
    tmp: f32[8] @ DRAM
    for i in seq(0, 8):
        if i < 6:
            tmp[i] = 0
    for i in seq(0, 8):
        if i < 6:
            C[i] = tmp[i]


@exogpu.proc
def tail_read(C: f32[8] @ DRAM):
    for i in seq(0, 8):
        if i < 6:
            C[i] = 0


@exogpu.proc
def dead(n: size, x: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = 5
    for i in seq(0, n):
        x[i] = 6


@exogpu.proc
def last(n: size, x: f32[n] @ DRAM, y: f32[1] @ DRAM):
    for i in seq(0, n):
        y[0] = x[i]


@exogpu.proc
def scalar(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        t: f32 @ DRAM
        t = x[i] + 1
        y[i] = t * t


@exogpu.proc
def running(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    t: f32 @ DRAM
    t = 0
    for i in seq(0, n):
        t += x[i]
        y[i] = t


@exogpu.proc
def outside(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    t: f32 @ DRAM
    for i in seq(0, n):
        t = x[i]
        y[i] = t


@exogpu.proc
def kept_for_the_next(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    t: f32 @ DRAM
    for i in seq(0, n):
        if i > 0:
            y[i] = t
        t = x[i]


@exogpu.proc
def wide(y: f32[4] @ DRAM):
    t: f32[8] @ DRAM
    for i in seq(0, 4):
        t[i + 2] = 1
    for i in seq(0, 4):
        y[i] = t[i + 2]


@exogpu.proc
def tiled(x: f32[8, 4] @ DRAM, y: f32[8, 4] @ DRAM):
    unused: f32[2] @ DRAM
    t: f32[8, 4] @ DRAM
    for i in seq(0, 8):
        for j in seq(0, 4):
            t[i, j] = x[i, j]
    for i in seq(0, 8):
        for j in seq(0, 4):
            y[i, j] = t[i, 3 - j]


@exogpu.proc
def one_after_the_other(x: f32[4] @ DRAM, y: f32[4] @ DRAM):
    t: f32 @ DRAM
    t = x[0]
    y[0] = t + 1
    u: f32 @ DRAM
    u = x[1]
    y[1] = u
    y[2] = u + 2


@exogpu.proc
def both_at_once(x: f32[4] @ DRAM, y: f32[4] @ DRAM):
    t: f32 @ DRAM
    t = x[0]
    u: f32 @ DRAM
    u = x[1]
    y[1] = t + u


@exogpu.proc
def windowed(x: f32[8] @ DRAM, y: f32[4] @ DRAM):
    w = x[4:8]
    for i in seq(0, 4):
        y[i] = w[i]


@exogpu.proc
def squares(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        y[i] = x[i] * x[i]


@exogpu.proc
def tidied(n: size, x: f32[n] @ DRAM):
    assert n >= 4
    for k in seq(0, 4):
        for i in seq(0, 1):
            if k < n:
                x[(4 * k + i) / 4] = 0


@exogpu.proc
def passed(x: f32[4] @ DRAM):
    x[0] = 0
    pass


@exogpu.proc
def calling(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, 2):
        squares(n, x[:], y[:])


def data(proc: Proc, seed: int, sizes: dict[str, int]) -> dict[str, object]:
    """Arguments of small whole numbers, so that sums are exact in any order; integers wrap."""
    random = np.random.default_rng(seed)
    given: dict[str, object] = {}
    env = {}
    for param in proc.params:
        if isinstance(param, ControlParam):
            env[param.name] = given[param.name.name] = sizes[param.name.name]
    for param in proc.params:
        if isinstance(param, DataParam):
            shape = tuple(evaluate(e, env) for e in param.shape)
            kind = NUMPY[param.dtype]
            most = 1 << 40 if param.dtype in INTEGERS else 3
            given[param.name.name] = random.integers(-most, most + 1, shape).astype(kind)
    return given


def same_results(first: Procedure, second: Procedure, limit: int = 9) -> int:
    """Run both at several sizes; how many were admitted by the preconditions."""
    runs = 0
    random = np.random.default_rng(limit)
    for seed in range(limit):
        sizes = {name: int(random.integers(1, 14)) for name in first.size_names}
        assert first.ir is not None
        given = data(first.ir, seed, sizes)
        expected = {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in given.items()}
        actual = {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in given.items()}
        try:
            first.run(**expected)
        except ExoGpuError as error:
            assert {d.code for d in error.diagnostics} <= {"X904"}, error
            continue
        second.run(**actual)
        runs += 1
        for name, array in expected.items():
            whole = np.issubdtype(np.asarray(array).dtype, np.integer)
            # Beyond, the order of sums is seen.
            exact = whole or float(np.abs(array).max(initial=0)) < 1 << 24
            tolerance = 0 if exact else 1e-5
            np.testing.assert_allclose(
                actual[name], array, rtol=tolerance, atol=0, err_msg=f"{name} at {sizes}"
            )
    return runs
