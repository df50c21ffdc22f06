"""What is told once: a finding of a macro that is read twice, a file that takes too long to load;
and procedures of one name, which are told apart by their files."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from exogpu import macro, proc
from exogpu.cli.commands import app
from exogpu.isa.cuda import cuda_load

GOOD = "from exogpu import *\n@proc\ndef good(n: size, x: f32[n] @ DRAM):\n    x[0] = 1.0\n"


@macro
def load(r, x, m):
    cuda_load(r[:], x[m, 0:4])


@proc
def twice_misplaced(M: size, N: size, x: f32[M, N] @ CudaGmemLinear, y: f32[M, 2] @ CudaGmemLinear):
    assert N >= 4
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                a: f32[4]
                b: f32[4]
                load(a, x, m)
                load(b, x, m)
                y[m, 0] = a[0]
                y[m, 1] = b[0]


def test_a_macro_that_is_read_twice() -> None:
    (hazard,) = twice_misplaced.check().hazards
    assert hazard.code == "B606"
    (hazard,) = twice_misplaced.check_at(M=2, N=5).hazards
    assert hazard.code == "B606"


def test_two_files_with_procedures_of_one_name(tmp_path: Path) -> None:
    for name in ("first.py", "second.py"):
        (tmp_path / name).write_text(GOOD)
    lines = CliRunner().invoke(app, ["check", "--no-cache", str(tmp_path)]).output.splitlines()
    assert lines[0].startswith("good: proved")
    assert lines[1].startswith("good of ") and "second.py: proved" in lines[1]


def test_a_file_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow.py").write_text(f"import time\ntime.sleep(5)\n{GOOD}")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["check", "--timeout", "0.2", "--no-cache", "slow.py"])
    assert result.exit_code == 3
    assert result.output.count("slow.py: undecided") == 1
