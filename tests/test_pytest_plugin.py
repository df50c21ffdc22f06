"""Kernels as tests of another suite: what fails prints what the terminal prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

SUITE = """from __future__ import annotations
import pytest
from exogpu import *


@proc
def right(M: size, x: f32[M] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x[m] = 0.0


@proc
def turned(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = tile[63 - t]
            Fence(cuda_in_order, cuda_in_order)


@pytest.mark.exogpu
def test_right():
    return right


@pytest.mark.exogpu(at={"M": 2}, timeout=60)
@pytest.mark.parametrize("kernel", [right])
def test_at_sizes(kernel):
    return [kernel]


def test_by_the_fixture(exogpu_proved):
    assert exogpu_proved(right).word == "proved"


@pytest.mark.exogpu
def test_wrong():
    return right, turned


def test_wrong_by_the_fixture(exogpu_proved):
    exogpu_proved(turned)


@pytest.mark.exogpu
def test_nothing():
    pass


@pytest.mark.exogpu(at={"K": 2})
def test_unknown_size():
    return right


def test_unmarked():
    assert True
"""


def test_a_suite_of_kernels(tmp_path: Path) -> None:
    (tmp_path / "test_kernels.py").write_text(SUITE)
    loaded = [] if _is_installed() else ["-p", "exogpu.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "--strict-markers", *loaded]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert "4 failed, 4 passed" in result.stdout, result.stdout + result.stderr
    failed = [line.split()[1] for line in result.stdout.splitlines() if line.startswith("FAILED")]
    names = [one.partition("::")[2].split(" ")[0] for one in failed]
    assert names == ["test_wrong", "test_wrong_by_the_fixture", "test_nothing", "test_unknown_size"]
    for part in (
        "hazard H701 RAW on tile[63] at M=1, task 1",
        " |                 tile[t] = x[m, t]\n",
        "|                 ^^^^^^^^^^^^^^^^^\n",
        "repair: add `Fence(cuda_in_order, cuda_in_order)` before line",
        "None is no kernel: give what @proc makes",
        "X901",
    ):
        assert part in result.stdout
    assert "Traceback" not in result.stdout and "pytest_plugin.py" not in result.stdout


def _is_installed() -> bool:
    from importlib.metadata import entry_points

    return any(one.value == "exogpu.pytest_plugin" for one in entry_points(group="pytest11"))
