"""The cluster's one barrier: loops of known length, and Fences between an Arrive and its Await."""

from __future__ import annotations

import re

import pytest

from exogpu import proc
from exogpu.diagnostics.errors import ExoGpuError

TURN = re.compile(r"// \d+: (Arrive|Await|Fence)|barrier\.cluster\.(arrive|wait)")


def turns(procedure) -> str:
    """In program order: each statement's first letter, then what it does to the barrier."""
    verdict = procedure.check()
    assert verdict.word == "proved" and not verdict.warnings, verdict
    text = procedure.emit()[0].source
    text = text[text.index("task_number;") :]
    found = [m[1] or m[2] for m in TURN.finditer(text)]
    return " ".join(found)


@proc
def one_iteration(x: f32[2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 2):
            cs: barrier @ CudaClusterSync
            for i in seq(0, 1):
                Arrive(cuda_in_order) >> cs
            for i in seq(0, 0):
                Arrive(cuda_in_order) >> cs
            for i in seq(0, 1):
                Await(cs, cuda_in_order, 0)


@proc
def several_iterations(K: size, x: f32[2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 2):
            cs: barrier @ CudaClusterSync
            Arrive(cuda_in_order) >> cs
            for i in seq(0, 5):
                Await(cs, cuda_in_order, 0)
                Arrive(cuda_in_order) >> cs
            Await(cs, cuda_in_order, 0)


@proc
def fence_between(x: f32[2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 2):
            cs: barrier @ CudaClusterSync
            Arrive(cuda_in_order) >> cs
            Fence(cuda_in_order, cuda_in_order)
            Fence(cuda_in_order, cuda_in_order)
            Await(cs, cuda_in_order, 0)
            Fence(cuda_in_order, cuda_in_order)


@proc
def fence_in_a_loop(K: size, x: f32[2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 2):
            cs: barrier @ CudaClusterSync
            for k in seq(0, K):
                Arrive(cuda_in_order) >> cs
                Fence(cuda_in_order, cuda_in_order)
                Await(cs, cuda_in_order, 0)
            Arrive(cuda_in_order) >> cs
            Await(cs, cuda_in_order, 0)


@pytest.mark.parametrize(
    ("procedure", "expected"),
    [
        # The loop of no iterations is emitted, and never entered.
        (one_iteration, "Arrive arrive Arrive arrive Await wait"),
        (several_iterations, "Arrive arrive Await wait Arrive arrive Await wait"),
        (
            fence_between,
            "Arrive arrive Fence wait arrive wait Fence arrive wait Await Fence arrive wait",
        ),
        (fence_in_a_loop, "Arrive arrive Fence wait arrive wait Await Arrive arrive Await wait"),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_arrivals_and_waits_take_turns(procedure, expected):
    """A Fence waits for what is pending, then joins the cluster; its Await waits no more."""
    assert turns(procedure) == expected


@proc
def any_number_of_fences(K: size, x: f32[2, 32] @ CudaGmemLinear):
    assert K >= 0
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 2):
            cs: barrier @ CudaClusterSync
            Arrive(cuda_in_order) >> cs
            for k in seq(0, K):
                Fence(cuda_in_order, cuda_in_order)
            Await(cs, cuda_in_order, 0)


@proc
def two_arrivals(x: f32[2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 2):
            cs: barrier @ CudaClusterSync
            for i in seq(0, 2):
                Arrive(cuda_in_order) >> cs
            Await(cs, cuda_in_order, 0)


@proc
def arrival_after_a_fence(x: f32[2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 2):
            cs: barrier @ CudaClusterSync
            Arrive(cuda_in_order) >> cs
            Fence(cuda_in_order, cuda_in_order)
            Arrive(cuda_in_order) >> cs
            Await(cs, cuda_in_order, 0)


@proc
def pending_at_the_end(x: f32[2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 2):
            cs: barrier @ CudaClusterSync
            Arrive(cuda_in_order) >> cs


@pytest.mark.parametrize(
    "procedure",
    [any_number_of_fences, two_arrivals, arrival_after_a_fence, pending_at_the_end],
    ids=lambda p: p.name,
)
def test_out_of_turn(procedure):
    with pytest.raises(ExoGpuError) as refused:
        procedure.emit(unchecked=True)
    assert [d.code for d in refused.value.diagnostics] == ["G803"]
