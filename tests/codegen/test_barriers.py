"""Rings of mbarriers, named barriers and proxy fences: what is emitted, and what is refused."""

from __future__ import annotations

import pytest

from exogpu.api import proc
from exogpu.codegen.host_steps import emit
from exogpu.codegen.mbarriers import rings
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.isa.sm90 import Sm90_tma_load
from exogpu.kernels import gemm_sm90, gemm_splitk_sm90

GEMMS = {**gemm_sm90.KERNELS, **gemm_splitk_sm90.KERNELS}


def emitted(procedure) -> str:
    facts = procedure.facts
    return emit(facts).source


def ring(procedure, name):
    facts = procedure.facts
    (found,) = [r for n, r in rings(facts).items() if n.name == name]
    return found


def body(text: str) -> str:
    return text[text.index("__global__") :]


# By CTA of the cluster: the CTAs of its row, and those of its column.  CTA (m, n) is 2 m + n in a
# 2 x 2 cluster: CTA 0 signals 0, 1 (its row) and 2 (its column).
@pytest.mark.parametrize(
    ("cluster", "count", "masks"),
    [
        ("1x1", 8, (0b1,)),
        ("2x1", 16, (0b11, 0b11)),
        ("1x2", 16, (0b11, 0b11)),
        ("2x2", 24, (0b0111, 0b1011, 0b1101, 0b1110)),
    ],
)
def test_rings_of_the_gemm(cluster, count, masks):
    """The producer warp arrives on its own `full` once; 8 consumer warps of each targeting CTA
    on `empty`.  The depth is 1 + the skips of both: 0 of `full`, 4
    of `empty`; and then a power of two."""
    gemm = GEMMS[f"gemm_sm90_{cluster}_128x256"]
    full, empty = ring(gemm, "full"), ring(gemm, "empty")
    assert (full.depth, full.skip, full.count, full.trailing, full.remote) == (8, 0, 1, True, False)
    assert (empty.depth, empty.skip, empty.count) == (8, 4, count)
    assert set(empty.targets.values()) == {masks}
    assert empty.remote is (cluster != "1x1")


def test_bytes_are_expected_once_a_phase():
    """What lands in a CTA each phase is its whole tiles, 128 x 32 and 256 x 32 elements of 4
    bytes, whoever sends the slices; one arrival expects them all."""
    text = body(emitted(GEMMS["gemm_sm90_2x2_128x256"]))
    assert text.count("full_bytes += 16384;") == 1
    assert text.count("full_bytes += 32768;") == 1
    assert text.count("mbarrier_arrive_expect_tx<8>(full, full_arrived, full_bytes);") == 1


def test_skipped_awaits_count_from_the_tasks_beginning():
    text = body(emitted(GEMMS["gemm_sm90_1x1_128x256"]))
    assert "if (empty_left > 0)" in text
    before_tasks = text[: text.index("for (int task_number")]
    assert "unsigned empty_awaited = 0;" in before_tasks
    assert "unsigned empty_left = 4;" not in before_tasks


def test_no_proxy_fence_between_tma_and_wgmma():
    """Both are in the async proxy, and no Arrive on `full` orders generic accesses: the one proxy
    fence is that of the initialisation."""
    assert body(emitted(GEMMS["gemm_sm90_2x1_128x256"])).count("fence.proxy.async") == 1


def test_named_barriers_differ_by_warpgroup():
    text = body(emitted(GEMMS["gemm_splitk_sm90_1x1_128x256"]))
    assert 'barrier.cta.sync.aligned %0, 128;" :: "r"(wg + 1)' in text


def test_release_across_ctas_only_after_writes():
    """Nothing is written before the Arrives of a task of the GEMM: its stores come after them, and
    those of the task before are ordered with none of them."""
    text = body(emitted(GEMMS["gemm_sm90_2x1_128x256"]))
    assert text.count("mbarrier_arrive_reads<") == 1
    assert text.count("mbarrier_arrive_cluster<") == 0
    assert text.index("mbarrier_arrive_reads<") < text.index("Sm90_store_D<")
    text = body(emitted(write_and_signal))
    assert text.count("mbarrier_arrive_reads<") == 0
    assert text.count("mbarrier_arrive_cluster<") == 1


@proc
def write_and_signal(x: f32[128] @ CudaGmemLinear):
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
def no_guard(x: f32[128] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 2):
            z: barrier @ CudaMbarrier
            Arrive(cuda_in_order) >> z
            Await(z, cuda_in_order, ~0)


def test_rings_without_guards_are_as_deep_as_phase_may_ask():
    """PHASE is proved for some depth up to 32 (decision `mbarrier-phase`).  Two warps arrive."""
    found = ring(no_guard, "z")
    assert (found.depth, found.count) == (32, 2)


@proc
def two_waiters(x: f32[128] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 2):
            z: barrier @ CudaMbarrier
            y: barrier(z) @ CudaMbarrier
            Arrive(cuda_in_order) >> y
            Await(y, cuda_in_order, ~0)
            for k in seq(0, 2):
                Arrive(cuda_in_order) >> z
            for w in cuda_threads(0, 2, unit=cuda_warp):
                Await(z, cuda_in_order, ~0)
            Await(z, cuda_in_order, ~0)


@proc
def two_skips(x: f32[128] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 2):
            z: barrier @ CudaMbarrier
            y: barrier(z) @ CudaMbarrier
            Arrive(cuda_in_order) >> y
            Await(y, cuda_in_order, ~0)
            for k in seq(0, 2):
                Arrive(cuda_in_order) >> z
            Await(z, cuda_in_order, ~0)
            Await(z, cuda_in_order, ~1)


@proc
def part_of_a_box(A: f32[256, 32] @ CudaGmemLinear):
    A_map = A[:, :] @ Sm90_tensorMap(128, 32, 32)
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 2):
            s: f32[64, 32] @ Sm90_SmemSwizzled(128)
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            Arrive(cuda_in_order) >> empty
            Await(empty, cuda_in_order, ~0)
            for w in cuda_threads(0, 1, unit=cuda_warp):
                (Sm90_tma_load(s[:, :], A_map[0:64, 0:32], rows=64, cols=32, box=(32, 32)) >> full)
                Arrive(cuda_temporal) >> full
            Await(full, cuda_generic_and_async, ~0)


@pytest.mark.parametrize(
    ("procedure", "code", "words"),
    [
        (two_waiters, "G807", "different threads await one element of z"),
        (two_skips, "G807", "differ in their skip"),
        (part_of_a_box, "G801", "a copy moves one box, and the window of [64, 32] is not one"),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_refused(procedure, code, words):
    with pytest.raises(ExoGpuError) as raised:
        emitted(procedure)
    (found,) = raised.value.diagnostics
    assert found.code == code
    assert words in found.message
