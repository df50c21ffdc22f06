"""Tests of help where users ask: `explain`, `help`, `repr`, and calls that Python would make."""

from __future__ import annotations

import pydoc
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import exogpu
from exogpu import proc
from exogpu.cli.commands import app
from exogpu.frontend.reference import FUNCTIONS_OF_DATA, MEMORIES, STATEMENTS, UNITS
from exogpu.frontend.suggestions import WORDS
from exogpu.hw import language
from exogpu.ir.scalar_functions import CALLED
from exogpu.isa.sm90 import Sm90_tma_load


@proc
def copy(n: size, x: f32[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, n):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[m] = x[m]


def test_every_word_is_explained() -> None:
    assert {*WORDS} <= {*STATEMENTS, "slot"}
    assert {*FUNCTIONS_OF_DATA} == {*CALLED}
    assert {*MEMORIES} == {*language.MEMORIES}
    assert {*UNITS} == {*language.UNITS}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("Fence", "__syncthreads()"),
        ("Await", "mbarrier.try_wait"),
        ("fast_exp", "__expf"),
        ("i32", "rn, rz, rm, rp"),
        ("__popc", "popcount"),
        ("CudaSmemLinear", "__shared__"),
        ("Sm90_tma_load", "Executed by: cuda_warp. Architecture: sm_90a."),
    ],
)
def test_explain_knows_words_and_instructions(name: str, part: str) -> None:
    result = CliRunner().invoke(app, ["explain", name])
    assert result.exit_code == 0
    assert part in result.output


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("__syncthreads()", "Fence"),
        ("threadIdx.x", "cuda_threads"),
        ("mbarrier.try_wait.parity", "Await"),
        ("bar.sync", "CudaNamedBarrier"),
        ("__shfl_xor_sync", "cuda_shfl_xor"),
        ("cp.async", "Sm80_cp_async_copy"),
        ("wgmma.fence", "Fence"),
        ("wait_group", "Await"),
    ],
)
def test_explain_knows_names_of_cuda(name: str, written: str) -> None:
    result = CliRunner().invoke(app, ["explain", name])
    assert result.exit_code == 0
    assert f"    {written} " in result.output


@pytest.mark.parametrize("name", ["tcgen05.mma", "sync", "async", "fence", "a"])
def test_explain_knows_no_part_of_a_name_of_cuda(name: str) -> None:
    found = CliRunner().invoke(app, ["explain", name])
    assert "a name of CUDA, written here by" not in found.output


def test_explain_suggests_the_spelling_of_a_word() -> None:
    result = CliRunner().invoke(app, ["explain", "fence"])
    assert result.exit_code != 0
    assert "did you mean Fence?" in result.output


def test_help_of_an_instruction_is_its_own() -> None:
    text = pydoc.plain(pydoc.render_doc(Sm90_tma_load))
    assert "One lane starts the copy of a tile into shared memory" in text
    assert "dst[i, j] = src[i, j]" in text
    assert repr(Sm90_tma_load).startswith("<instruction Sm90_tma_load(dst")


def test_a_procedure_shows_its_signature() -> None:
    assert repr(copy) == (
        "<procedure copy(n: size, x: f32[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear)>"
    )


def test_a_verdict_shows_what_the_command_line_prints() -> None:
    verdict = copy.check()
    assert repr(verdict) == str(verdict)
    assert repr(verdict).startswith("copy: proved for all sizes")


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: copy(1), "copy.run(n=..., x=..., y=...)"),
        (lambda: copy[1], "copy.compile()(...)"),
        (lambda: copy.run(5), "copy.run(n=..., x=..., y=...)"),
        (lambda: copy.check(n=4), "copy.check_at(n=4)"),
    ],
)
def test_a_call_that_python_would_make_says_what_to_write(call: object, remedy: str) -> None:
    assert callable(call)
    with pytest.raises(TypeError) as error:
        call()
    assert remedy in str(error.value)


def test_the_package_lists_its_names() -> None:
    assert {*exogpu.__all__} <= {*dir(exogpu)}


KERNEL = """
from exogpu import *
@proc
def kernel(n: size, x: f32[n] @ CudaGmemLinear):
    pass
"""


@pytest.mark.parametrize("other", ["", "def wrong():\n    return nothing\nwrong()\n"])
def test_a_file_without_the_future_import_is_told_so(tmp_path: Path, other: str) -> None:
    """An error of another kind gets no such note."""
    file = tmp_path / "kernel.py"
    file.write_text(other or KERNEL)
    result = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, check=False
    )
    assert "NameError" in result.stderr
    assert ("from __future__ import annotations" in result.stderr) == (not other)


FACTORY = """
from __future__ import annotations
from exogpu import *
def make(value):
    @proc
    def fill(n: size, x: f32[n] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, n):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    x[m] = value
    return fill
ones, twos = make(1.0), make(2.0)
"""


def test_procedures_of_a_factory_have_the_names_of_their_variables(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(FACTORY)
    result = CliRunner().invoke(app, ["check", str(file)])
    assert "ones: proved" in result.output
    assert "twos: proved" in result.output
    result = CliRunner().invoke(app, ["compile", f"{file}::twos", "-o", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "twos" in (tmp_path / "out" / "twos.cu").read_text()
