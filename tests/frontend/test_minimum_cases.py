"""`min` and `max` in control expressions mean what Python's do, in every place that takes them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from exogpu import Procedure, proc
from exogpu.ir.printer import print_proc


@proc
def clamped(M: size, x: f32[M] @ CudaGmemLinear, y: f32[M] @ CudaGmemLinear):
    """Neighbours, those at the ends again, and what is three before the end."""
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, (M + 31) / 32):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                i = 32 * task + t
                if i < M:
                    y[i] = x[max(i - 1, 0)] + 2.0 * x[min(i + 1, M - 1)] + x[max(min(i, M - 3), 0)]


@proc
def bounded(M: size, x: f32[M] @ CudaGmemLinear, y: f32[M] @ CudaGmemLinear):
    """Tiles of 32, of which a name says how long they are; loops from and to them."""
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, (M + 31) / 32):
            n = min(32, M - 32 * task)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                if t < n:
                    y[32 * task + t] = 0.0
                    for i in seq(max(t - 2, 0), min(t + 2, n)):
                        y[32 * task + t] += x[32 * task + i]


def test_as_python_has_them() -> None:
    for M in (1, 2, 3, 40):
        x = np.arange(M, dtype=np.float32) ** 2
        i = np.arange(M)
        y = np.zeros_like(x)
        clamped.run(x=x, y=y)
        last = x[np.maximum(np.minimum(i, M - 3), 0)]
        assert np.array_equal(y, x[np.maximum(i - 1, 0)] + 2 * x[np.minimum(i + 1, M - 1)] + last)
        bounded.run(x=x, y=y)
        for at in range(M):
            begin, n = 32 * (at // 32), min(32, M - 32 * (at // 32))
            t = at - begin
            assert y[at] == x[begin + max(t - 2, 0) : begin + min(t + 2, n)].sum()


@pytest.mark.parametrize("procedure", [clamped, bounded], ids=lambda one: one.name)
def test_proved_and_safe(procedure: Procedure) -> None:
    assert procedure.check().word == "proved"
    assert procedure.check_at(M=33).word == "proved"


def test_out_of_bounds_is_found() -> None:
    @proc
    def beyond(M: size, x: f32[M] @ DRAM):
        for i in seq(0, M):
            x[min(i + 1, M)] = 0.0

    verdict = beyond.check()
    assert verdict.word == "refuted" and "M = 1" in str(verdict)


CONDITIONS = (
    "min(i, j) < 3",
    "min(i, j) >= 3",
    "max(i, j) <= 3",
    "max(i, j) > 3",
    "5 - min(i, j) > 3",
    "min(i, j) == 3",
    "max(i, j) != i",
    "min(i, j) < max(j, 3) - 1",
    "min(i, j) + max(i, j) % 2 < 4",
    "not max(i, 2, j) < 4",
    "min(min(i, 4), max(j, 2)) == 2 or i == 0",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions(condition: str, tmp_path) -> None:
    """For all values of i and j."""
    text = (
        "from __future__ import annotations\nfrom exogpu import *\n\n\n@proc\n"
        "def p(x: f32[7, 7] @ DRAM):\n    for i in seq(0, 7):\n        for j in seq(0, 7):\n"
        f"            if {condition}:\n                x[i, j] = 1.0\n"
    )
    file = tmp_path / "p.py"
    file.write_text(text)
    space: dict[str, object] = {}
    exec(compile(text, str(file), "exec"), space)
    made = space["p"]
    assert isinstance(made, Procedure)
    x = np.zeros((7, 7), np.float32)
    made.run(x=x)
    wanted = [[float(eval(condition, {"i": i, "j": j})) for j in range(7)] for i in range(7)]
    assert np.array_equal(x, wanted)


def test_a_loop_to_a_constant_or_less_goes_to_the_constant() -> None:
    """Its registers have constant indices so, whichever comes first."""
    text = print_proc(bounded.ir)
    assert "for i in seq(0, t + 2):" in text or "for i in seq(t - 2, t + 2):" in text

    @proc
    def tail(n: size, x: f32[n] @ DRAM):
        for i in seq(0, min(n, 8)):
            x[i] = 0.0

    assert re.search(r"seq\(0, 8\):\n\s+if i < n:", print_proc(tail.ir))
