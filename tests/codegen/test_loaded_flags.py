"""Flags of which memory tells how many arrive."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated
from campaigns.emulator.orders import ORDERS
from exogpu import proc
from exogpu.cli.loader import load
from exogpu.diagnostics.errors import ExoGpuError


def awaits(text: str) -> list[str]:
    lines = (line.strip() for line in text.partition("__global__")[2].splitlines())
    return [line for line in lines if line.startswith("flag_await")]


@pytest.mark.parametrize("unread", [False, True])
@pytest.mark.ci
def test_an_await_counts_by_the_value_that_the_proof_names(unread, tmp_path):
    """A value that the Await does not read, and a loop inside the value's block, change nothing."""

    @proc
    def kernel(
        M: size,
        L: size,
        other: i32[M] @ CudaGmemLinear,
        counts: i32[M] @ CudaGmemLinear,
        x: f32[M, 32] @ CudaGmemLinear,
        y: f32[M, 32] @ CudaGmemLinear,
    ):
        ready: barrier[M] @ CudaFlag
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, M):
                if unread:
                    u = load_index(other[m], 0, L)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[m, t] = 1.0
                a = load_index(counts[m], 1, L + 1)
                for i in seq(0, 3):
                    if i < a:
                        Arrive(cuda_in_order) >> ready[m]
                for k in seq(0, 2):
                    Await(ready[m], cuda_in_order, 0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[m, t] = x[m, 31 - t]

    verdict = kernel.check()
    assert verdict.word == "proved", verdict.reason
    made, manifest = kernel.emit()
    (line,) = awaits(made.source)
    number = line.partition(", ")[2]
    assert "a" in number and "k" not in number and "u" not in number
    if shutil.which("g++") is None:
        return
    emulated = Emulated(made.source, manifest, tmp_path)
    counts, other = np.array([4, 1, 3, 2], np.int32), np.zeros(4, np.int32)
    for order in ORDERS:
        x, y = np.zeros((4, 32), np.float32), np.zeros((4, 32), np.float32)
        arrays = {"other": other, "counts": counts, "x": x, "y": y}
        emulated(arrays, {"M": 4, "L": 4}, order)
        assert (y == 1.0).all()


def test_a_value_that_has_no_name_at_the_await_is_refused():
    @proc
    def kernel(M: size, L: size, counts: i32[M] @ CudaGmemLinear, x: f32[M, 32] @ CudaGmemLinear):
        ready: barrier[M] @ CudaFlag
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, M):
                for u in range(1):
                    a = load_index(counts[m], 1, L + 1)
                    for i in seq(0, 3):
                        if i < a:
                            Arrive(cuda_in_order) >> ready[m]
                Await(ready[m], cuda_in_order, 0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[m, t] = 1.0

    verdict = kernel.check()
    assert verdict.word == "proved", verdict.reason
    assert [warning.code for warning in verdict.warnings] == ["G803"]
    with pytest.raises(ExoGpuError, match="how many arrivals this Await of ready waits for"):
        kernel.emit()


@pytest.mark.slow
def test_a_flag_that_a_table_names_is_awaited_by_its_number(tmp_path):
    """One Arrive on each flag, whichever the table names; else nothing is emitted."""
    tables = Path(__file__).parent.parent / "cases" / "verdicts" / "tables.py"
    (unit,) = load(f"{tables}::one_table")
    assert unit.procedure is not None
    made, manifest = unit.procedure.emit()
    (line,) = awaits(made.source)
    assert line.endswith(", 1);"), line
    if shutil.which("g++") is not None:
        emulated = Emulated(made.source, manifest, tmp_path)
        dep = np.array([3, 0, 1, 0, 2], np.int32)
        x = np.arange(160, dtype=np.float32).reshape(5, 32)
        expected = np.zeros_like(x)
        unit.procedure.run(M=5, dep=dep, x=x, y=expected)
        for order in ORDERS:
            y = np.zeros_like(x)
            emulated({"dep": dep, "x": x, "y": y}, {"M": 5}, order)
            assert np.array_equal(y, expected)
    (unit,) = load(f"{tables}::sometimes")
    assert unit.procedure is not None
    with pytest.raises(ExoGpuError, match="how many arrivals this Await of f waits for"):
        unit.procedure.emit()
