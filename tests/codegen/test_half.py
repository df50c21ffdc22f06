"""wgmma on 16-bit types: one tile, one CTA, no roles."""

from __future__ import annotations

import pytest

from exogpu.api import proc
from exogpu.codegen.host_steps import emit
from exogpu.codegen.toolchain import compile_cubin, find_toolchain
from exogpu.codegen.toolchain.compilers import disassemble
from exogpu.codegen.toolchain.find import find_program
from exogpu.hw.language import bf16, f16
from exogpu.isa.sm90 import Sm90_store_D, Sm90_tma_load, Sm90_wgmma_f16, Sm90_zero_scale_d

TOOLCHAIN = find_toolchain()
DISASSEMBLER = find_program("nvdisasm") or find_program("cuobjdump")
needs_nvcc = pytest.mark.skipif(TOOLCHAIN is None, reason="no nvcc on this machine")


def make_tile(half, name):
    """C = A * B^T, 128 x 64 elements from 64 columns."""

    @proc(name=name)
    def tile(
        A: half[128, 64] @ CudaGmemLinear,
        B: half[64, 64] @ CudaGmemLinear,
        C: f32[128, 64] @ CudaGmemLinear,
    ):
        A_map = A[:, :] @ Sm90_tensorMap(128, 128, 64)
        B_map = B[:, :] @ Sm90_tensorMap(128, 64, 64)
        with CudaDeviceFunction(blockDim=128):
            for task in cuda_tasks(0, 1):
                A_smem: half[128, 64] @ Sm90_SmemSwizzled(128)
                B_smem: half[64, 64] @ Sm90_SmemSwizzled(128)
                D: f32[128, 64] @ Sm90_RmemMatrixD(128, 64)
                full: barrier @ CudaMbarrier
                cg: barrier @ CudaCommitGroup
                for w in cuda_threads(0, 1, unit=cuda_warp):
                    (
                        Sm90_tma_load(
                            A_smem[:, :],
                            A_map[:, :],
                            rows=128,
                            cols=64,
                            box=(128, 64),
                            dtype=half,
                        )
                        >> full
                    )
                    (
                        Sm90_tma_load(
                            B_smem[:, :],
                            B_map[:, :],
                            rows=64,
                            cols=64,
                            box=(64, 64),
                            dtype=half,
                        )
                        >> full
                    )
                    Arrive(cuda_temporal) >> full
                Await(full, cuda_generic_and_async, ~0)
                Sm90_zero_scale_d(D[:, :], M=128, N=64)
                Fence(wgmma_fence_1, wgmma_fence_2)
                for kk in seq(0, 4):
                    Sm90_wgmma_f16(
                        D[:, :],
                        A_smem[:, 16 * kk : 16 * kk + 16],
                        B_smem[:, 16 * kk : 16 * kk + 16],
                        M=128,
                        N=64,
                        dtype=half,
                    )
                Arrive(wgmma_async) >> cg
                Await(cg, cuda_in_order, 0)
                Sm90_store_D(128, 64, C[:, :], D[:, :], M=128, N=64)
                Fence(cuda_in_order, cuda_in_order)

    return tile


TILES = [make_tile(f16, "half_tile"), make_tile(bf16, "bfloat_tile")]


def emitted(procedure) -> str:
    facts = procedure.facts
    return emit(facts).source


@pytest.mark.parametrize("procedure", TILES, ids=lambda k: k.name)
def test_tile_is_proved(procedure):
    """What is emitted below is a kernel that the machine accepts."""
    assert procedure.check_at().word == "proved"


@needs_nvcc
@pytest.mark.skipif(DISASSEMBLER is None, reason="no nvdisasm on this machine")
@pytest.mark.parametrize(("procedure", "kind"), [(TILES[0], ""), (TILES[1], ".BF16")])
def test_sass_of_tile(procedure, kind):
    """128 rows are two wgmmas for each of four steps of 16 columns."""
    made = compile_cubin(emitted(procedure), "sm_90a", TOOLCHAIN)
    assert "serialized" not in made.log
    assert disassemble(made.cubin).count(f"HGMMA.64x64x16.F32{kind} ") == 8
