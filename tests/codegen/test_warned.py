"""What is proved and has no lowering: a check warns with the code that compiling raises.

Decision `checked-compiles`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from exogpu import proc
from exogpu.cli.commands import app
from exogpu.cli.exit_handler import Outcome, exit_status
from exogpu.cli.output_formats import json_text, sarif_text
from exogpu.codegen import compiled_kernel
from exogpu.diagnostics.errors import ExoGpuError


@proc
def extent(M: size, x: f32[M] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, M):
            buf: f32[M] @ CudaSmemLinear
            for t in cuda_threads(0, 1, unit=cuda_thread):
                buf[task] = 1
                x[task] = buf[task]
            Fence(cuda_in_order, cuda_in_order)


@proc
def named(x: f32[512] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=1024):
        for task in cuda_tasks(0, 1):
            for w in cuda_threads(0, 16, unit=2 * cuda_warp):
                Fence(cuda_in_order, cuda_in_order)


@proc
def compiled(M: size, x: f32[M] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, M):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x[task] = 1


@pytest.mark.parametrize(("procedure", "code"), [(extent, "G802"), (named, "G803")])
def test_a_check_warns_with_the_code_and_line_of_compiling(procedure, code):
    verdict = procedure.check()
    assert verdict.word == "proved" and bool(verdict)
    with pytest.raises(ExoGpuError) as refused:
        procedure.emit()
    assert verdict.warnings == refused.value.diagnostics
    assert [w.code for w in verdict.warnings] == [code]
    assert all(w.span.line for w in verdict.warnings)


def test_what_compiles_has_no_warnings():
    assert compiled.check().warnings == ()
    assert "__global__" in compiled.emit()[0].source


def test_warnings_are_shown_and_change_no_exit_status():
    verdict = named.check()
    outcome = Outcome(named.ir.span, verdict)
    assert "warning G803" in str(verdict) and "cannot be compiled" in str(verdict)
    (element,) = json.loads(json_text([outcome]))
    assert [w["code"] for w in element["warnings"]] == ["G803"]
    assert element["warnings"][0]["line"] == verdict.warnings[0].span.line
    (result,) = json.loads(sarif_text([outcome], "0"))["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("G803", "warning")
    assert "G803" in verdict._repr_html_()
    assert exit_status([outcome]) == 0


def test_a_fence_of_one_thread_is_compiled_with_its_warning(tmp_path):
    cases = Path(__file__).parents[1] / "cases" / "verdicts" / "fences.py"
    result = CliRunner().invoke(app, ["compile", f"{cases}::guarded", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "warning C419: this Fence joins one thread: end the loop before it" in result.output
    assert "__syncthreads" not in (tmp_path / "guarded.cu").read_text()


def test_a_failure_of_code_generation_leaves_a_proof_alone(monkeypatch):
    def broken(*_):
        raise KeyError("x")

    monkeypatch.setattr(compiled_kernel, "lowered", broken)

    @proc
    def again(x: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[t] = 1

    verdict = again.check()
    assert verdict.word == "proved"
    assert [w.code for w in verdict.warnings] == ["G813"]
