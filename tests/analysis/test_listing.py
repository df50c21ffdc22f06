"""Who executes each scope, in words and as a relation, as `exogpu threads` prints it."""

from __future__ import annotations

from exogpu.analysis.thread_names import listing
from tests.analysis.reading import collective_facts, judge, read


def gemm_like():
    with CudaDeviceFunction(
        clusterDim=2, warp_config=[CudaWarpConfig("p", 4), CudaWarpConfig("c", 8)]
    ):
        for task in cuda_tasks(0, 1):
            with CudaWarps(0, 1, name="p"):
                pass
            for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                with CudaWarps(name="c"):
                    for wg in cuda_threads(0, 2, unit=cuda_warpgroup):
                        for t in cuda_threads(0, 128, unit=cuda_thread):
                            pass


def test_scopes_in_words() -> None:
    proc = read(gemm_like)
    lines = listing(proc, collective_facts(proc))
    assert [(line.depth, line.opens, line.executors) for line in lines] == [
        (0, "CudaDeviceFunction(clusterDim=2, blockDim=384)",
         "all 384 threads of each of the 2 CTAs of the cluster"),
        (1, 'CudaWarps(0, 1, name="p")', "threads 0 .. 31 of each of the 2 CTAs of the cluster"),
        (1, "for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster)",
         "CTA cta of the cluster, all 384 threads"),
        (2, 'CudaWarps(0, 8, name="c")', "CTA cta of the cluster, threads 128 .. 383"),
        (3, "for wg in cuda_threads(0, 2, unit=cuda_warpgroup)",
         "CTA cta of the cluster, threads 128*wg + 128 .. 128*wg + 255"),
        (4, "for t in cuda_threads(0, 128, unit=cuda_thread)",
         "CTA cta of the cluster, thread 128*wg + t + 128"),
    ]  # fmt: skip
    assert lines[0].relation == "{ [] -> [t] : 0 <= t <= 767 }"
    assert lines[2].relation == "{ [cta] -> [t] : 0 <= cta <= 1 and 384cta <= t <= 383 + 384cta }"


def copy_through_tmp():
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            tmp: f32[32]
            for i in cuda_threads(0, 32, unit=cuda_thread):
                tmp[i] = 1
            for i in cuda_threads(0, 32, unit=cuda_thread):
                tmp[31 - i] = 2


def test_a_disagreement_shows_both_uses_and_both_owners() -> None:
    (found,) = judge(read(copy_through_tmp))
    assert found.code == "D501"
    assert "tmp[0] belongs to thread 0 in one and to thread 31 in the other" in found.message
    first, allocated = found.notes
    assert found.span.text.strip() == "tmp[31 - i] = 2"
    assert (first.span.text.strip(), first.message) == (
        "tmp[i] = 1",
        "here tmp[0] is accessed by thread 0",
    )
    assert allocated.span.text.strip() == "tmp: f32[32]"
