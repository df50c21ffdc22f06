"""Several roles on one mbarrier, a phase each: all of them count, and only what is proved may."""

from __future__ import annotations

import pytest

from exogpu.api import Procedure
from exogpu.diagnostics.errors import ExoGpuError
from tests.codegen.shared_kernels import consumers_in_turn, producers_in_turn, slots_of_two
from tests.texts import made

HEAD = """
@proc
def kernel(K: size, x: f32[K, 32] @ CudaGmemLinear, y: f32[K, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(warp_config=[
        CudaWarpConfig("a", 1), CudaWarpConfig("b", 1), CudaWarpConfig("c", 1)
    ]):
        for i in cuda_tasks(0, 1):
            s: f32[2, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            other: barrier @ CudaMbarrier
"""


def _kernel(*lines: str) -> Procedure:
    inside = [*lines, "Fence(cuda_in_order, cuda_in_order)"]
    return made(HEAD + "".join(f"            {line}\n" for line in inside))


def _takes(role: str) -> list[str]:
    return [
        f'    with CudaWarps(name="{role}"):',
        "        Await(full, cuda_in_order, ~0)",
        "        for t in cuda_threads(0, 32, unit=cuda_thread):",
        "            y[k, t] = s[k % 2, t]",
        "        Arrive(cuda_in_order) >> empty",
    ]


FILLS = [
    '    with CudaWarps(name="a"):',
    "        Await(empty, cuda_in_order, ~2)",
    "        for t in cuda_threads(0, 32, unit=cuda_thread):",
    "            s[k % 2, t] = x[k, t]",
    "        Arrive(cuda_in_order) >> full",
]


@pytest.mark.parametrize("make", [consumers_in_turn, producers_in_turn, slots_of_two])
@pytest.mark.parametrize("ring", [2, 3])
def test_roles_that_share_a_ring_are_proved(make, ring) -> None:
    assert make(ring).check().word == "proved"


def test_a_role_that_does_not_follow_the_one_before_is_a_hazard() -> None:
    """c may await its phase while the one before, of b, is still to come."""
    kernel = _kernel(
        *("for k in seq(0, 3):", *FILLS, *_takes("b")),
        *("for k in seq(3, 6):", *FILLS, *_takes("c")),
    )
    verdict = kernel.check_at(K=6)
    assert [hazard.kind.value for hazard in verdict.hazards] == ["PHASE"]


def test_what_others_cannot_count_is_refused() -> None:
    """The parts of b await a phase each; how many that are, c does not see."""
    kernel = _kernel(
        *("for k in seq(0, 3):", '    with CudaWarps(name="a"):'),
        "        Arrive(cuda_in_order) >> full",
        'with CudaWarps(name="b"):',
        "    for t in cuda_threads(0, 2, unit=16 * cuda_thread):",
        "        Await(full, cuda_in_order, ~0)",
        'with CudaWarps(name="c"):',
        "    Await(full, cuda_in_order, ~0)",
    )
    with pytest.raises(ExoGpuError) as refused:
        kernel.emit(unchecked=True)
    assert {d.code for d in refused.value.diagnostics} == {"G807"}


TWICE = """
from exogpu import macro

@macro
def doubled(T, x, y):
    with CudaDeviceFunction(blockDim=96):
        for t in cuda_tasks(0, T):
            full: barrier @ CudaMbarrier
            for w in seq(0, 2):
                with CudaWarps(0, 1):
                    for i in cuda_threads(0, 32, unit=cuda_thread):
                        y[t, 32 * w + i] = x[t, i]
                    Arrive(cuda_in_order) >> full
                if w == 0:
                    with CudaWarps(1, 2):
                        Await(full, cuda_in_order, ~0)
                if w == 1:
                    with CudaWarps(2, 3):
                        Await(full, cuda_in_order, ~0)
                Fence(cuda_in_order, cuda_in_order)

@proc
def f(T: size, x: f32[T, 64] @ CudaGmemLinear, y: f32[T, 64] @ CudaGmemLinear):
    doubled(T, x, y)
    doubled(T, y, x)
"""


def test_rings_of_one_name_that_a_macro_makes_have_the_depth_that_is_proved() -> None:
    p = made(TWICE)
    verdict = p.check()
    assert verdict.word == "proved" and not verdict.warnings
    once = made(TWICE.replace("    doubled(T, y, x)\n", ""))
    needs = [step["shared_bytes"] for q in (once, p) for step in q.emit()[1]["steps"]]
    assert needs == [needs[0]] * 3
