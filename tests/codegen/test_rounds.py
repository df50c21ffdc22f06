"""Bands of tasks that read least, and launches whose rounds of tasks are all as full."""

from __future__ import annotations

from math import ceil
from types import SimpleNamespace

import pytest
from fake_runtime import HostFunction
from on_the_host import GXX

from exogpu import proc
from exogpu.codegen.host_steps import emit
from exogpu.codegen.runtime.modules import clusters_for
from exogpu.codegen.task_order import Grouped, Hilbert, Lexicographic
from exogpu.frontend.macros import macro
from exogpu.kernels import gemm_fused_sm90, gemm_grouped_sm90, gemm_sm90


def product_of(TM: int, TN: int, *, triangle: bool = False, loaded: bool = False):
    """C = A B + bias by threads, TM x TN elements a task; of A below its diagonal, or as many
    columns as memory says."""

    @macro
    def tile(m, n, end, A, B, bias, C):
        for t in cuda_threads(0, 32, unit=cuda_thread):
            for i in seq(0, TM):
                if t < TN:
                    C[TM * m + i, TN * n + t] = bias[TN * n + t]
                    for k in seq(0, end):
                        C[TM * m + i, TN * n + t] += A[TM * m + i, k] * B[k, TN * n + t]

    @proc(name=f"product_{TM}x{TN}")
    def product(
        M: size,
        N: size,
        K: size,
        A: f32[TM * M, TM * M + K] @ CudaGmemLinear,
        B: f32[TM * M + K, TN * N] @ CudaGmemLinear,
        bias: f32[TN * N] @ CudaGmemLinear,
        steps: i32[1] @ CudaGmemLinear,
        C: f32[TM * M, TN * N] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=32):
            for n in cuda_tasks(0, N):
                for m in cuda_tasks(0, M):
                    if triangle:
                        tile(m, n, TM * m + 1, A, B, bias, C)
                    else:
                        if loaded:
                            last = load_index(steps[0], 0, K)
                            tile(m, n, last, A, B, bias, C)
                        else:
                            tile(m, n, K, A, B, bias, C)

    return product


def launch_of(procedure, order=None) -> dict[str, object]:
    (launch,) = emit(procedure.facts, task_order=order).manifest["steps"]
    return launch


def band(procedure, order=None) -> str:
    text = emit(procedure.facts, task_order=order).source.partition("const int2 tile = ")[2]
    return text.partition(";")[0]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("1x1_128x256", 16),  # 128 tiles of 128 x 256 in 16 rows and 8 columns
        ("2x1_128x256", 8),
        ("1x2_128x256", 16),
        ("1x2_256x192", 8),
        ("1x1_64x32", 8),
    ],
)
def test_tiles_that_run_at_the_same_time_are_about_a_square(name, rows):
    found = band(gemm_sm90.KERNELS[f"gemm_sm90_{name}"])
    assert found.endswith(f"tasks_tm, tasks_tn, {rows})")


def test_a_vector_does_not_choose_the_loops():
    """The bias depends on columns alone, and A on the batch: they are not the pair."""
    (kernel,) = (k for n, k in gemm_fused_sm90.KERNELS.items() if n.endswith("bias_gelu"))
    assert band(kernel).endswith("tasks_tm, tasks_tn, 16)")
    assert launch_of(kernel)["level"] is True


def test_where_rows_are_loaded_a_band_has_few():
    kernel = gemm_grouped_sm90.KERNELS["gemm_grouped_bf16_sm90_128x256"]
    assert band(kernel).endswith("tasks_t, tasks_tn, 4)")
    assert "level" not in launch_of(kernel)


@pytest.mark.parametrize(
    ("procedure", "order", "level"),
    [
        (product_of(8, 16), None, True),
        (product_of(8, 16), Grouped(3), True),
        (product_of(8, 16), Hilbert(), True),
        (product_of(8, 16), Lexicographic(), False),
        (product_of(8, 16, triangle=True), None, False),  # tasks of other lengths
        (product_of(8, 16, loaded=True), None, False),
    ],
)
def test_tasks_that_share_and_take_equally_long_have_full_rounds(procedure, order, level):
    assert launch_of(procedure, order).get("level", False) is level


@pytest.mark.skipif(GXX is None, reason="no g++ on this machine")
@pytest.mark.parametrize("triangle", [False, True])
def test_the_call_and_the_c_function_launch_as_many(tmp_path, triangle):
    """The device holds 264 CTAs: as few as need no more rounds, if they are 248 or more."""
    procedure = product_of(8, 16, triangle=triangle)
    function = HostFunction(procedure, tmp_path)
    level = launch_of(procedure).get("level", False)
    assert level is not triangle
    loaded = SimpleNamespace(clusters=264, launch=SimpleNamespace(level=level))
    seen = set()
    for tasks in (*range(1, 12), 263, 264, 265, 500, 512, 527, 528, 529, 1023, 1024, 4224, 100003):
        assert function(M=1, N=tasks, K=4) == 0
        grid = function.grid
        assert grid == clusters_for(loaded, tasks, None)
        assert clusters_for(loaded, tasks, 7) == min(grid, 7)
        assert ceil(tasks / grid) == ceil(tasks / 264), "no more rounds than there must be"
        held = min(tasks, 264)
        few = ceil(tasks / ceil(tasks / 264))
        assert grid == (few if level and few >= 264 * 15 / 16 else held)
        seen.add(grid == held)
    assert seen == ({True, False} if level else {True})
