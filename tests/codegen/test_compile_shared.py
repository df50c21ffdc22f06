"""Shared objects: made by nvcc, called from C and by ctypes; what is missing is named."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from exogpu.cli.commands import app
from exogpu.codegen.toolchain import CompileError, compile_shared, compilers, find
from exogpu.kernels.gemv_f32 import gemv

GCC = shutil.which("gcc")
needs_nvcc = pytest.mark.skipif(
    find.find_nvcc() is None or GCC is None, reason="no nvcc or no gcc here"
)

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "gemv.h"

int main(void)
{
    char* memory = malloc(64);
    float* aligned = (float*)memory;
    float* between = (float*)(memory + 4);
    printf("%d ", gemv_launch(8, 6, aligned, aligned, aligned, NULL) == EXOGPU_WRONG_SIZE);
    printf("%d ", gemv_launch(0, 8, aligned, aligned, aligned, NULL) == EXOGPU_WRONG_SIZE);
    printf("%d ", gemv_launch(8, 8, between, aligned, aligned, NULL) == EXOGPU_MISALIGNED);
    printf("%d\\n", gemv_launch(8, 8, aligned, aligned, aligned, NULL));
    free(memory);
    return 0;
}
"""
NO_GPU = ("100", "35")
"""cudaErrorNoDevice, and cudaErrorInsufficientDriver where there is no driver either."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the GEMV's shared object and header."""
    folder = tmp_path_factory.mktemp("build")
    paths = gemv.compile(unchecked=True).save(folder, so=True)
    assert [p.name for p in paths[-2:]] == ["gemv.cubin", "libgemv.so"]
    return folder


@needs_nvcc
def test_a_c_program_calls_it(built):
    """The header is strict C99, the library all that is linked; errors come back as documented."""
    (built / "main.c").write_text(MAIN)
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    link = ["main.c", "-L.", "-lgemv", "-Wl,-rpath,$ORIGIN", "-o", "main"]
    subprocess.run([GCC, *strict, *link], cwd=built, check=True)
    blind = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([built / "main"], env=blind, capture_output=True, text=True, check=True)
    *refused, status = done.stdout.split()
    assert refused == ["1", "1", "1"]
    assert status in NO_GPU


@needs_nvcc
def test_ctypes_calls_it(built):
    """Loading it needs no driver: none is linked."""
    library = ctypes.CDLL(str(built / "libgemv.so"))
    nothing = ctypes.c_void_p()
    assert library.gemv_launch(8, 6, nothing, nothing, nothing, nothing) == -1
    assert library.gemv_launch(8, 8, ctypes.c_void_p(4), nothing, nothing, nothing) == -2


TEXTS = {"x.h": "int x(void);", "x.cu": '#include "x.h"\nextern "C" int x() { return 7; }'}


@needs_nvcc
def test_what_is_cached_is_not_compiled_again(tmp_path, monkeypatch):
    """Every text counts, those that are included too; so does the architecture."""
    made = []
    monkeypatch.setattr(
        compilers, "_compile_shared_object", lambda *a: made.append(a[1:]) or b"\x7fELF"
    )
    for main, texts, arch in (
        ("x.cu", TEXTS, "sm_90a"),
        ("x.cu", TEXTS, "sm_90a"),
        ("x.cu", TEXTS, "sm_80"),
        ("x.cu", {**TEXTS, "x.h": "int x();"}, "sm_90a"),
    ):
        assert compile_shared(main, texts, arch, tmp_path) == b"\x7fELF"
    assert len(made) == 3


@needs_nvcc
def test_a_refusal_has_the_compilers_text_and_leaves_nothing(tmp_path):
    with pytest.raises(CompileError, match=r'identifier "seven" is undefined') as refused:
        texts = {**TEXTS, "x.cu": "int x() { return seven; }"}
        compile_shared("x.cu", texts, "sm_90a", tmp_path)
    assert "x.cu(1)" in refused.value.problem
    assert list(tmp_path.iterdir()) == []


# --- what is missing ----------------------------------------------------------------------


def test_nvrtc_alone_does_not_do(monkeypatch, tmp_path):
    monkeypatch.setattr(compilers, "find_nvcc", lambda: None)
    with pytest.raises(CompileError, match="a shared object needs nvcc") as refused:
        compile_shared("x.cu", TEXTS, "sm_90a", tmp_path)
    assert refused.value.remedy == "pip install 'exogpu[cuda]'"


def test_without_a_host_compiler_one_is_asked_for(monkeypatch, tmp_path):
    nvcc = find.Nvcc(tmp_path / "nvcc", tmp_path / "ptxas", "nvcc 13.0", "build")
    monkeypatch.setattr(compilers, "find_nvcc", lambda: nvcc)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("NVCC_CCBIN", raising=False)
    with pytest.raises(CompileError, match=r"host C\+\+ compiler") as refused:
        compile_shared("x.cu", TEXTS, "sm_90a", tmp_path)
    assert "apt install g++" in refused.value.remedy


@pytest.mark.skipif(find.find_toolchain() is None, reason="no NVRTC or nvcc here")
def test_the_command_says_so_and_writes_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(compilers, "find_nvcc", lambda: None)
    target = ["exogpu.kernels.gemv_f32::gemv", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(app, ["compile", *target, "--so", "--unchecked"])
    assert result.exit_code == 2
    assert "X961" in result.stderr and "needs nvcc" in result.stderr
    assert not (tmp_path / "out").exists()


@needs_nvcc
def test_the_command_writes_it(tmp_path):
    target = ["exogpu.kernels.gemv_f32::gemv", "-o", str(tmp_path)]
    result = CliRunner().invoke(app, ["compile", *target, "--so", "--unchecked"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "libgemv.so").read_bytes().startswith(b"\x7fELF")
    assert (tmp_path / "gemv.h").exists()
