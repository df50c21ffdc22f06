"""What compile and report write: a place for each procedure, and nothing stale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from exogpu.cli.commands import app

SAFE = """\
from exogpu import *

@proc
def k(n: size, x: f32[n, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, n):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                x[i, t] = VALUE
"""
RACE = SAFE.replace("x[i, t]", "x[i, 0]")
WRONG = SAFE.replace("x[i, t]", "x[i, u]")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(command: str, text: str) -> int:
    Path("k.py").write_text(text)
    return CliRunner().invoke(app, command.split()).exit_code


def written(folder: str) -> set[str]:
    return {str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_file()}


def test_procedures_of_one_name_are_all_compiled() -> None:
    text = SAFE.replace("VALUE", "1.0") + SAFE.replace("VALUE", "2.0")
    assert call("compile k.py -o out", text) == 0
    assert "1.0f" in Path("out/k.cu").read_text()
    assert "2.0f" in Path("out/k-2/k.cu").read_text()
    for folder in ("out", "out/k-2"):
        digest = json.loads(Path(folder, "k.json").read_text())["checked"]["certificate"]
        certificate = Path(folder, "k.certificate/certificate.json")
        assert json.loads(certificate.read_text())["digest"] == digest


@pytest.mark.parametrize(("text", "status"), [(RACE, 1), (WRONG, 2)])
def test_nothing_stale_is_left_of_what_is_refused(text: str, status: int) -> None:
    assert call("compile k.py -o out", SAFE.replace("VALUE", "1.0")) == 0
    Path("out/notes.txt").write_text("mine")
    Path("out/other.json").write_text("{}")
    Path("out/k.cubin").write_text("older")
    assert call("compile k.py -o out", text.replace("VALUE", "1.0")) == status
    assert written("out") == {"notes.txt", "other.json"}


def test_what_exogpu_did_not_write_is_not_removed() -> None:
    Path("out").mkdir()
    for name in ("k.cu", "k.h", "k.json"):
        Path("out", name).write_text('{"name": "mine"}')
    assert call("compile k.py -o out", RACE.replace("VALUE", "1.0")) == 1
    assert written("out") == {"k.cu", "k.h", "k.json"}


def test_unchecked_output_has_no_older_certificate() -> None:
    text = SAFE.replace("VALUE", "1.0")
    assert call("compile k.py -o out", text) == 0
    assert call("compile k.py -o out --unchecked", text) == 0
    assert written("out") == {"k.cu", "k.h", "k.json", "k_host.cu"}


def test_a_report_of_what_is_refuted_has_no_older_certificate() -> None:
    assert call("report k.py -o out", SAFE.replace("VALUE", "1.0")) == 0
    assert "k/certificate.json" in written("out")
    assert call("report k.py -o out", RACE.replace("VALUE", "1.0")) == 1
    assert written("out") == {"results.sarif", "k/report.html", "k/report.md", "k/report.json"}
