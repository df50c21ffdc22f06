"""`exogpu report`, `exogpu why`, and what notebooks show."""

from __future__ import annotations

import json

import pytest
from samples import hazardous, hostile, reverse
from typer.testing import CliRunner

from exogpu.cli.commands import app

TEXT = """\
from exogpu.api import proc

@proc
def reverse(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
            {fence}
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = tile[63 - t]
            Fence(cuda_in_order, cuda_in_order)
            Fence(cuda_in_order, cuda_in_order)
"""
SAFE = TEXT.format(fence="Fence(cuda_in_order, cuda_in_order)")
HAZARD = TEXT.format(fence="pass")


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "safe.py").write_text(SAFE)
    (tmp_path / "hazard.py").write_text(HAZARD)

    def run(*arguments: str):
        return CliRunner().invoke(app, arguments)

    return run


def test_report_writes_a_folder_a_procedure(call, tmp_path):
    result = call("report", "safe.py", "-o", "out")
    assert result.exit_code == 0, result.output
    assert result.stdout == "reverse: proved, out/reverse/report.html\n"
    assert (tmp_path / "out/reverse/report.md").read_text().startswith("# reverse: proved\n")
    sarif = json.loads((tmp_path / "out/results.sarif").read_text())
    assert sarif["version"] == "2.1.0"
    certificate = json.loads((tmp_path / "out/reverse/certificate.json").read_text())
    page = (tmp_path / "out/reverse/report.html").read_text()
    assert certificate["digest"] in page
    assert "obligations/" not in page
    written = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert not [file for file in written if str(tmp_path) in file.read_text()]


def test_report_of_a_file_whose_name_is_no_text(call, tmp_path):
    (tmp_path / "safe\udcff.py").write_text((tmp_path / "safe.py").read_text())
    result = call("report", "safe\udcff.py", "-o", "out")
    assert result.exit_code == 0, result.output
    assert r"safe\udcff.py" in (tmp_path / "out/reverse/report.html").read_text()
    assert json.loads((tmp_path / "out/results.sarif").read_text())


def test_report_of_a_hazard(call, tmp_path):
    result = call("report", "hazard.py", "-o", "out", "--at", "M=2")
    assert result.exit_code == 1
    text = (tmp_path / "out/reverse/report.md").read_text()
    assert "## H701 RAW on tile\\[63\\] at M = 2, task 1" in text


def test_procedures_of_one_name_get_folders_of_their_own(call, tmp_path):
    result = call("report", ".", "-o", "out", "--at", "M=2")
    assert result.exit_code == 1
    assert {p.name for p in (tmp_path / "out").iterdir() if p.is_dir()} == {
        "reverse",
        "reverse-2",
    }


@pytest.mark.parametrize("arguments", [("-o", "out"), ("safe.py", "--all", "-o", "out")])
def test_report_takes_a_target_or_all(call, arguments):
    result = call("report", *arguments)
    assert result.exit_code == 2
    assert "X980" in result.stderr


def test_report_into_a_file(call, tmp_path):
    (tmp_path / "out").write_text("")
    result = call("report", "safe.py", "-o", "out")
    assert result.exit_code == 2
    assert "X948" in result.stderr


def test_why_a_fence_is_needed(call):
    result = call("why", "safe.py:10")
    assert result.exit_code == 0, result.output
    assert "Needed by" in result.stdout
    assert "RAW tile: tile[t] = x[m, t] (line 9), then y[m, t] = tile[63 - t] (line 12)" in (
        result.stdout
    )


def test_why_one_of_two_fences_is_not(call):
    """Both stand between the same statements: the chains pass at most one of them."""
    shown = [call("why", f"safe.py:{line}").stdout for line in (13, 14)]
    assert sum("redundant" in text for text in shown) == 1


def test_why_an_access_is_safe(call):
    result = call("why", "safe.py:9")
    assert "write of tile" in result.stdout
    assert "thanks to the Fence at line 10" in result.stdout


@pytest.mark.parametrize("place, code", [("safe.py", "X981"), ("safe.py:1", "X982")])
def test_why_needs_a_statement(call, place, code):
    result = call("why", place)
    assert result.exit_code == 2
    assert code in result.stderr


def test_notebooks_show_verdicts_and_procedures():
    verdict = hazardous.check_at(M=2)._repr_html_()
    assert "refuted" in verdict and "RAW line" in verdict
    assert "safe" in reverse.check_at(M=2)._repr_html_()
    assert "def reverse(M: size" in reverse._repr_html_()
    for shown in (hostile._repr_html_(), hostile.check_at(M=2)._repr_html_()):
        assert "<img" not in shown
        assert "&lt;/script&gt;" in shown
