"""Emitted kernels: golden sources, compilation without spills, and what SASS must show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exogpu.codegen.host_steps import Emitted, emit
from exogpu.codegen.toolchain import compile_cubin, find_toolchain
from exogpu.codegen.toolchain.compilers import disassemble
from exogpu.codegen.toolchain.find import find_program
from exogpu.kernels import gemm_sm90, gemm_splitk_sm90
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemv_f32 import gemv

GOLDEN = Path(__file__).parent / "golden"
TOOLCHAIN = find_toolchain()
DISASSEMBLER = find_program("nvdisasm") or find_program("cuobjdump")
needs_nvcc = pytest.mark.skipif(TOOLCHAIN is None, reason="no nvcc on this machine")

ONE_CTA = gemm_sm90.KERNELS["gemm_sm90_1x1_128x256"]
CLUSTER = gemm_sm90.KERNELS["gemm_sm90_2x2_256x192"]
SPLIT_K = gemm_splitk_sm90.KERNELS["gemm_splitk_sm90_2x1_128x256"]

# The instructions that the hardware's own paths need: vector loads and shuffles for the GEMV;
# cp.async (LDGSTS) and tensor cores (HMMA) for the GEMM of sm_80; wgmma (HGMMA), TMA (UTMALDG,
# UTMAREDG) and a change of registers by role (USETMAXREG) for those of sm_90a.
KERNELS = [
    (gemv, ("LDG.E.128", "SHFL.BFLY")),
    (gemm_sm80, ("LDGSTS", "HMMA.1688.F32.TF32")),
    (ONE_CTA, ("HGMMA.64x256x8.F32.TF32", "UTMALDG.3D", "USETMAXREG")),
    (CLUSTER, ("HGMMA.64x192x8.F32.TF32", "UTMALDG.3D.MULTICAST", "USETMAXREG")),
    (SPLIT_K, ("HGMMA.64x256x8.F32.TF32", "UTMALDG.4D.MULTICAST", "UTMAREDG.3D.ADD")),
]
NAMES = {"ids": lambda k: getattr(k, "name", "")}


def emitted(procedure, arch="sm_90a") -> Emitted:
    facts = procedure.facts
    return emit(facts, arch)


@pytest.mark.parametrize("procedure", [k for k, _ in KERNELS], **NAMES)
def test_golden(procedure, golden):
    golden(GOLDEN / f"{procedure.name}.cu", emitted(procedure).source)


@needs_nvcc
@pytest.mark.parametrize(
    ("procedure", "arch"),
    [(gemv, "sm_80"), (gemm_sm80, "sm_80"), *((k, "sm_90a") for k, _ in KERNELS)],
    **NAMES,
)
def test_compiles_without_spills(procedure, arch):
    """A stack frame would mean that a register tile was put into local memory, and C7510 that
    wgmma was made to wait for each product."""
    made = compile_cubin(emitted(procedure, arch).source, arch, TOOLCHAIN)
    assert set(re.findall(r"(\d+) bytes (?:stack frame|spill \w+)", made.log)) == {"0"}
    assert "serialized" not in made.log


@needs_nvcc
@pytest.mark.skipif(DISASSEMBLER is None, reason="no nvdisasm on this machine")
@pytest.mark.parametrize(("procedure", "wanted"), KERNELS, **NAMES)
def test_sass(procedure, wanted):
    sass = disassemble(compile_cubin(emitted(procedure).source, "sm_90a", TOOLCHAIN).cubin)
    for instruction in wanted:
        assert instruction in sass
    products = list(re.finditer("HGMMA", sass))
    if products:
        # One k-step's products follow each other: no wait for the last, no fence of the GPU.
        main_loop = sass[products[0].start() : products[-1].start()]
        assert "DEPBAR" not in main_loop
        assert "MEMBAR" not in main_loop


def test_manifest_says_how_to_launch():
    """Tasks of 256 threads, eight rows each; K must be a multiple of 4, as the source asserts."""
    manifest = emitted(gemv).manifest
    assert manifest["preconditions"] == [["==", ["%", "K", 4], 0]]
    (launch,) = manifest["steps"]
    assert launch["block"] == 256
    assert launch["tasks"] == [[["//", ["-", ["+", "M", 8], 1], 8]]]
    assert launch["arguments"] == ["M", "K", "A", "x", "y"]


def test_manifest_describes_tensor_maps():
    """A and B are reached by TMA alone: no pointers.  A CTA of 2 x 2 loads half of the 256 rows
    of A, and half of the 192 of B, by 32 columns of 4 bytes: the swizzle's 128 bytes.
    Both are rounded."""
    (launch,) = emitted(CLUSTER).manifest["steps"]
    assert (launch["cluster"], launch["block"]) == (4, 384)
    sizes, (c, a, b) = launch["arguments"][:4], launch["arguments"][4:]
    assert sizes == ["L", "M", "N", "cluster_K"]
    assert c == "C"
    assert a == {"tensor": "A", "box": [1, 128, 32], "swizzle": 128, "tf32": True}
    assert b == {"tensor": "B", "box": [1, 96, 32], "swizzle": 128, "tf32": True}
