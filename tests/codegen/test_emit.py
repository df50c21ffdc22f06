"""Emitted kernels: golden sources, compilation without spills, and what SASS must show."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from exogpu.codegen.host import Emitted, emit
from exogpu.codegen.toolchain import compile_cubin, find_toolchain
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemv import gemv

GOLDEN = Path(__file__).parent / "golden"
TOOLCHAIN = find_toolchain()
CUOBJDUMP = shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin")
needs_nvcc = pytest.mark.skipif(TOOLCHAIN is None, reason="no nvcc on this machine")

# The instructions that the hardware's own paths need: vector loads and shuffles for the GEMV;
# cp.async (LDGSTS) and tensor cores (HMMA) for the GEMM.
KERNELS = [(gemv, ("LDG.E.128", "SHFL.BFLY")), (gemm_sm80, ("LDGSTS", "HMMA.1688.F32.TF32"))]


def emitted(procedure, arch="sm_90a") -> Emitted:
    analysed = procedure.analysed
    return emit(analysed.proc, analysed.facts, arch)


@pytest.mark.parametrize("procedure", [k for k, _ in KERNELS], ids=lambda k: k.name)
def test_golden(procedure, golden):
    golden(GOLDEN / f"{procedure.name}.cu", emitted(procedure).source)


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("procedure", [k for k, _ in KERNELS], ids=lambda k: k.name)
def test_compiles_without_spills(procedure, arch):
    """A stack frame would mean that a register tile was put into local memory."""
    made = compile_cubin(emitted(procedure, arch).source, arch, TOOLCHAIN)
    assert re.findall(r"(\d+) bytes (?:stack frame|spill \w+)", made.log) == ["0", "0", "0"]


@needs_nvcc
@pytest.mark.skipif(CUOBJDUMP is None, reason="no cuobjdump on this machine")
@pytest.mark.parametrize(("procedure", "wanted"), KERNELS, ids=lambda k: getattr(k, "name", ""))
def test_sass(procedure, wanted, tmp_path):
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(compile_cubin(emitted(procedure).source, "sm_90a", TOOLCHAIN).cubin)
    sass = subprocess.check_output([CUOBJDUMP, "-sass", cubin], text=True)
    for instruction in wanted:
        assert instruction in sass


def test_manifest_says_how_to_launch():
    """(M + 31) / 32 tasks of 256 threads; K must be a multiple of 4, as the source asserts."""
    manifest = emitted(gemv).manifest
    assert manifest["preconditions"] == [["==", ["%", "K", 4], 0]]
    (launch,) = manifest["steps"]
    assert launch["block"] == 256
    assert launch["arguments"] == ["M", "K", "A", "x", "y"]
