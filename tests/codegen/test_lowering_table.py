"""docs/lowering.md is what the code does: the table's text, row by row, in emitted kernels."""

from __future__ import annotations

import re

import flag_kernels
import pytest
from dependent_kernels import in_two, scaled_by
from role_kernels import handed_over

from benchmarks.tiles import KERNELS as TILES
from exogpu.api import proc
from exogpu.codegen.host_steps import emit
from exogpu.codegen.lowering_rows import ROWS
from exogpu.codegen.lowering_table import DOCUMENT, document
from exogpu.isa.sm90 import Sm90_tma_multicast, Sm90_tma_store
from exogpu.kernels import gemm_sm90, gemm_splitk_sm90
from exogpu.kernels.gemm_sm80 import gemm_sm80


@proc
def fences(x: f32[128] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=256):
        for task in cuda_tasks(0, 2):
            y: barrier[2] @ CudaMbarrier
            cs: barrier @ CudaClusterSync
            for m in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Fence(cuda_in_order, cuda_in_order)
                for w in cuda_threads(0, 8, unit=cuda_warp):
                    Fence(cuda_in_order, cuda_generic_and_async)
                    for q in cuda_threads(0, 4, unit=8 * cuda_thread):
                        Fence(cuda_in_order, cuda_in_order)
                    for q in cuda_threads(0, 4, unit=4 * cuda_threads_strided(2, 8)):
                        Fence(cuda_in_order, cuda_in_order)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        Fence(Sm80_cp_async, cuda_in_order)
                        Fence(tma_to_gmem_async, cuda_in_order)
                for g in cuda_threads(0, 2, unit=cuda_warpgroup):
                    Fence(wgmma_async, cuda_in_order)
                for h in cuda_threads(0, 1, unit=8 * cuda_thread):
                    Arrive(cuda_in_order) >> y[m]
                Await(y[m], cuda_in_order, ~0)
            Arrive(cuda_in_order) >> cs
            Await(cs, cuda_in_order, 0)


@proc
def publishes(x: f32[128] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 2):
            z: barrier[2] @ CudaMbarrier
            for m in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[64 * task + 32 * m + t] = 1
                Arrive(cuda_in_order) >> z[m] >> z[:]
                Await(z[m], cuda_in_order, ~0)
            Fence(cuda_in_order, cuda_in_order)


@proc
def reads_back(y: f32[32, 32] @ CudaGmemLinear, z: f32[32] @ CudaGmemLinear):
    w = y[:, :] @ Sm90_tensorMap(0, 32, 32)
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            S: f32[32, 32] @ CudaSmemLinear
            g: barrier @ CudaCommitGroup
            for t in cuda_threads(0, 32, unit=cuda_thread):
                for k in seq(0, 32):
                    S[t, k] = 1
            Fence(cuda_in_order, cuda_generic_and_async)
            Sm90_tma_store(w[:, :], S[:, :], rows=32, cols=32, box=(32, 32))
            Arrive(tma_to_gmem_async) >> g
            Await(g, cuda_in_order, 0)
            Fence(tma_to_gmem_async, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                z[t] = y[t, 0]
            Fence(cuda_in_order, cuda_in_order)


@proc
def multicasts(x: f32[64, 32] @ CudaGmemLinear):
    x_map = x[:, :] @ Sm90_tensorMap(128, 32, 32)
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 1):
            s: f32[2, 64, 32] @ Sm90_SmemSwizzled(128)
            full: barrier[2] @ CudaMbarrier
            z: barrier[2] @ CudaMbarrier
            (
                Sm90_tma_multicast(s[:, :, :], x_map[:, :], n=2, rows=64, cols=32, box=(32, 32))
                >> full[:]
            )
            for m in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Arrive(cuda_temporal) >> full[m] >> full[:]
                Await(full[m], cuda_temporal, ~0)
                for h in cuda_threads(0, 1, unit=8 * cuda_thread):
                    Arrive(cuda_in_order) >> z[m] >> z[:]
                Await(z[m], cuda_in_order, ~0)


EXAMPLES = [
    reads_back,
    fences,
    multicasts,
    publishes,
    gemm_sm80,
    gemm_sm90.KERNELS["gemm_sm90_1x1_128x256"],
    gemm_sm90.KERNELS["gemm_sm90_2x1_128x256"],
    gemm_splitk_sm90.KERNELS["gemm_splitk_sm90_1x1_128x256"],
    *TILES.values(),
    scaled_by,
    in_two,
    flag_kernels.chain,
    handed_over,
]


@pytest.fixture(scope="module")
def emitted() -> str:
    """The kernels of all examples, without indentation: rows of several lines are found too."""
    texts = []
    by_all = [(multicasts, True), (gemm_sm90.KERNELS["gemm_sm90_2x1_128x256"], True)]
    for procedure, arrive_all in [*((p, False) for p in EXAMPLES), *by_all]:
        facts = procedure.facts
        waits = ["[[true, 1]]"] if procedure is flag_kernels.chain else ()
        source = emit(facts, arrive_all=arrive_all, waits=waits).source
        lines = source.partition("__global__")[2].splitlines()
        texts.append("\n".join(line.strip() for line in lines))
    return "\n".join(texts)


def pattern(text: str) -> str:
    """The row's text as a regular expression: fields stand for anything."""
    lines = "\n".join(line.strip() for line in text.splitlines())
    return re.sub(r"\\\{\w+\\\}", "[^\n]+?", re.escape(lines))


def test_document_is_up_to_date():
    assert DOCUMENT.read_text() == document(), "run python -m exogpu.codegen.lowering_table"


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.text])
def test_every_row_is_emitted(emitted, name):
    assert re.search(pattern(ROWS[name].text), emitted)


def test_nothing_else_is_emitted(emitted):
    """Every PTX instruction in the kernels' own text, registers aside, is a row of the table."""
    texts = "\n".join(row.text for row in ROWS.values())
    known = [
        re.sub(r"\\{\w+\\}", ".*", re.escape(instruction))
        for instruction in re.findall(r'"([\w.:{}]+)', texts)
    ]
    found = set(re.findall(r'asm volatile\("([\w.:]+)', emitted))
    assert len(found) > 10
    assert {f for f in found if not any(re.fullmatch(k, f) for k in known)} <= {
        "setmaxnreg.dec.sync.aligned.u32",
        "setmaxnreg.inc.sync.aligned.u32",
    }
