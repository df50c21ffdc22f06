"""wgmma with A in registers, cp.async on mbarriers, the cluster's split barrier: emitted text."""

from __future__ import annotations

import pytest

from benchmarks.tiles import KERNELS
from exogpu.api import proc
from exogpu.codegen.host_steps import emit
from exogpu.codegen.toolchain import compile_cubin, find_toolchain
from exogpu.diagnostics.errors import ExoGpuError

TOOLCHAIN = find_toolchain()
needs_nvcc = pytest.mark.skipif(TOOLCHAIN is None, reason="no nvcc on this machine")


def source(procedure) -> str:
    facts = procedure.facts
    return emit(facts).source


@pytest.mark.parametrize("procedure", KERNELS.values(), ids=KERNELS)
def test_registers_are_proved(procedure):
    """What is emitted below is a kernel that the machine accepts."""
    assert procedure.check().word == "proved"


@needs_nvcc
@pytest.mark.parametrize("procedure", KERNELS.values(), ids=KERNELS)
def test_registers_compile(procedure):
    made = compile_cubin(source(procedure), "sm_90a", TOOLCHAIN)
    assert "serialized" not in made.log


def test_each_thread_arrives_for_its_own_copies():
    """128 arrivals, none of which waits: a warp's one arrival could not stand for all its lanes."""
    text = source(KERNELS["registers_f32"])
    assert ", 128);  // copies" in text
    kernel = text.partition("__global__")[2]
    assert "mbarrier_arrive_cp_async<" in kernel
    assert "cp.async.wait_all" not in kernel


@proc
def turns(x: f32[2, 32] @ CudaGmemLinear, y: f32[2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 1):
            cs: barrier @ CudaClusterSync
            for m in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[m, t] = 1
            Arrive(cuda_in_order) >> cs
            Await(cs, cuda_in_order, 0)
            for m in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, t] = x[1 - m, t]


def test_cluster_sync():
    assert turns.check_at().word == "proved"
    kernel = source(turns).partition("__global__")[2]
    arrive = kernel.index("barrier.cluster.arrive.release.aligned")
    assert arrive < kernel.index("barrier.cluster.wait.acquire.aligned") < kernel.index("y[")


@proc
def out_of_turn(x: f32[2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 1):
            cs: barrier @ CudaClusterSync
            Arrive(cuda_in_order) >> cs
            Arrive(cuda_in_order) >> cs
            Await(cs, cuda_in_order, 0)


@proc
def waits_for_loads(x: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 1):
            cs: barrier @ CudaClusterSync
            Arrive(tma_to_smem_async) >> cs
            Await(cs, cuda_in_order, 0)


@pytest.mark.parametrize(
    ("procedure", "words"),
    [
        (out_of_turn, "an Arrive of the cluster may follow"),
        (waits_for_loads, "TMA loads"),
    ],
)
def test_refused(procedure, words):
    """A second arrival on the hardware's one barrier, or none for copies still in flight."""
    with pytest.raises(ExoGpuError, match=words) as refused:
        source(procedure)
    assert [d.code for d in refused.value.diagnostics] == ["G803"]
