"""What resides from task to task: made once, and counted on."""

from __future__ import annotations

from exogpu.kernels.gemm_sm90 import make_resident


def emitted(cluster: int) -> str:
    made, _ = make_resident(cluster, 1, 128, 64).emit(unchecked=True)
    return made.source[made.source.index("__global__") :]


def paths(text: str) -> list[str]:
    """The text of each warp group, from its counters to its end."""
    return text.split("const int tasks_batch")[1:]


def test_counters_and_places_stand_before_the_tasks() -> None:
    producer, unused, consumer = paths(emitted(1))
    for path in (producer, consumer):
        before, tasks = path.split("for (int task_number")
        assert "float* const A_smem = " in before and "float* const B_smem = " in before
        assert "const unsigned full = smem_address" in before
        assert "smem_address(smem" not in tasks
        assert "_begin = " not in tasks
    assert "unsigned full_arrived = 0;" in producer.split("for (int task_number")[0]
    assert "A_smem" not in unused


def test_nobody_meets_at_the_end_of_a_task() -> None:
    tasks = [path.split("for (int task_number")[1] for path in paths(emitted(1))]
    assert not any("__syncthreads" in one or "bar.sync" in one for one in tasks)


def test_no_cta_of_a_cluster_leaves_before_another() -> None:
    alone, pair = emitted(1), emitted(2)
    assert "barrier.cluster" not in alone
    # Once after the mbarriers are initialised, and once at the end of the kernel.
    assert pair.count("barrier.cluster.arrive") == pair.count("barrier.cluster.wait") == 2
    assert pair.rstrip().endswith("}")
    end = pair.rindex("barrier.cluster.wait")
    assert "task_number" not in pair[end:]
