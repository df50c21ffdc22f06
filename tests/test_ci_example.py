"""The example of a GitHub workflow: its commands run, and write what its steps take."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from exogpu.cli.commands import app

WORKFLOW = (Path(__file__).parent.parent / "examples" / "ci" / "exogpu.yml").read_text()
COMMANDS = re.findall(r"run: exogpu (.+)", WORKFLOW)
KERNEL = """from exogpu import *
@proc
def fill(n: size, z: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for b in cuda_tasks(0, (n + 31) / 32):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                if 32 * b + t < n:
                    z[32 * b + t] = 1.0
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "fill.py").write_text(KERNEL)
    return tmp_path


def test_the_commands_run_and_write_what_is_uploaded(project: Path, verdicts: Path) -> None:
    check, compiles = COMMANDS
    ran = CliRunner().invoke(app, check.split())
    assert ran.exit_code == 0, ran.output
    assert "EXOGPU_CACHE:" in WORKFLOW and [*verdicts.iterdir()]
    (sarif,) = re.findall(r"sarif_file: (\S+)", WORKFLOW)
    assert json.loads((project / sarif).read_text())["version"] == "2.1.0"
    # Without the toolkit, which the workflow installs.
    ran = CliRunner().invoke(app, compiles.replace(" --cubin", "").split())
    assert ran.exit_code == 0, ran.output
    (artifact,) = re.findall(r"path: (cubins)", WORKFLOW)
    assert [*(project / artifact).rglob("*.cu")]


def test_a_hazard_fails_the_check_and_is_uploaded(project: Path) -> None:
    (project / "kernels" / "fill.py").write_text(KERNEL.replace("< n:", "< n + 1:"))
    assert CliRunner().invoke(app, COMMANDS[0].split()).exit_code == 1
    (run,) = json.loads((project / "exogpu.sarif").read_text())["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["B601"]
