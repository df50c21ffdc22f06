"""Dependent launches as emitted: who lets others begin, where it is waited, how it is launched."""

from __future__ import annotations

import re

import pytest
from dependent_kernels import in_two, scaled_by
from fake_cuda import CudaArray, FakeDriver, aligned

from exogpu import proc
from exogpu.codegen.runtime import Kernel, device_memory, driver
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.ir.nodes import WarpConfig as CudaWarpConfig
from exogpu.isa.cuda import cuda_memset0_1d
from exogpu.isa.sm90 import Sm90_tma_load
from exogpu.solvers import smt
from exogpu.symbolic.certificate.recheck import recheck
from exogpu.symbolic.certificate.write import write_certificate

BEGIN, WAIT = "griddepcontrol.launch_dependents;", "griddepcontrol.wait;"


def kernels(procedure) -> list[str]:
    """The text of each kernel."""
    source = procedure.emit(unchecked=True)[0].source
    return re.split(r"(?=extern \"C\" __global__)", source)[1:]


@pytest.mark.parametrize("procedure", [scaled_by, in_two], ids=lambda p: p.name)
def test_proved_and_confirmed_again(procedure, tmp_path):
    verdict = procedure.check()
    assert verdict.word == "proved"
    write_certificate(tmp_path, procedure, verdict)
    assert recheck(tmp_path, (smt.ask_z3,)).word == "confirmed"


def test_the_first_lets_the_second_begin_which_waits():
    """In its place, before TMA reads what was written otherwise, and at the end by all threads."""
    first, second = kernels(scaled_by)
    assert first.count(BEGIN) == 1 and WAIT not in first
    assert BEGIN not in second and second.count(WAIT) == 2
    order = [second.index(text) for text in ("= w[", WAIT, "fence.proxy.async.global", "tma_load")]
    assert order == sorted(order)
    assert re.search(r"\n    asm volatile\(\"griddepcontrol.wait;\" ::: \"memory\"\);\n}", second)


def test_nothing_that_may_still_be_written_is_read_through_the_cache():
    """A load of a `const __restrict__` pointer may be moved before the wait."""
    _, second = kernels(in_two)
    assert "float* part" in second and "const float* __restrict__ part" not in second
    assert second.index(WAIT) < second.index("= part[")
    assert "fence.proxy" not in second


@proc
def first_of_all(n: size, x: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32, dependent=True):
        for i in cuda_tasks(0, n):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x[i] = 1


@proc
def after_a_memset(n: size, x: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, n):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x[i] = 1
    cuda_memset0_1d(n, x[:])
    with CudaDeviceFunction(blockDim=32, dependent=True):
        for i in cuda_tasks(0, n):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x[i] += 1


@pytest.mark.parametrize(
    ("procedure", "code"),
    [(first_of_all, "C418"), (after_a_memset, "C418")],
    ids=lambda one: getattr(one, "name", one),
)
def test_a_dependent_launch_follows_a_launch(procedure, code):
    assert [d.code for d in procedure.diagnostics] == [code]


def test_no_other_launch_waits_for_launches():
    @proc
    def waits_alone(n: size, x: f32[n] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, n):
                Fence(cuda_stream_sync, cuda_in_order)

    (found,) = waits_alone.diagnostics
    assert found.code == "S323" and "a launch with dependent=True waits" in str(found)


def test_dependent_is_a_truth_value():
    @proc
    def counted(n: size, x: f32[n] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32, dependent=1):
            for i in cuda_tasks(0, n):
                pass

    (found,) = counted.diagnostics
    assert found.code == "P121" and "dependent is 1" in found.message


@pytest.fixture
def fake(monkeypatch):
    def forget():
        for cached in (driver.gpus, driver._primary, driver._pool, device_memory._encoded):
            cached.cache_clear()

    forget()
    fake = FakeDriver()
    monkeypatch.setattr(driver, "_driver", lambda: fake)
    yield fake
    forget()


def launched(fake) -> list[dict[int, int]]:
    """The attributes of each launch."""
    found = []
    for config, *_ in fake.arguments("cuLaunchKernelEx"):
        one = config._obj
        found.append(
            {one.attributes[at].id: one.attributes[at].value[0] for at in range(one.count)}
        )
    return found


PROGRAMMATIC = 6


def test_it_is_launched_early(fake):
    x, y = CudaArray(aligned((5, 32))), CudaArray(aligned((5, 32)))
    Kernel(in_two.emit(unchecked=True)[1], b"cubin")(x, y)
    assert launched(fake) == [{}, {PROGRAMMATIC: 1}]


def test_it_is_not_where_the_kernel_before_it_had_no_tasks(fake):
    """What came before that one is not known: the stream waits for it."""
    x, y = CudaArray(aligned((0, 32))), CudaArray(aligned((0, 32)))
    Kernel(in_two.emit(unchecked=True)[1], b"cubin")(x, y, n=0)
    assert launched(fake) == [{}]


@proc
def clusters(n: size, x: f32[n, 2, 32] @ CudaGmemLinear):
    for k in range(3):
        with CudaDeviceFunction(blockDim=32, clusterDim=2, dependent=k > 0):
            for i in cuda_tasks(0, n):
                for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        x[i, c, t] += 1


def test_so_are_clusters(fake):
    first, middle, last = kernels(clusters)
    assert (BEGIN in first, BEGIN in middle, BEGIN in last) == (True, True, False)
    Kernel(clusters.emit(unchecked=True)[1], b"cubin")(CudaArray(aligned((5, 2, 32))))
    cluster = 4
    assert launched(fake) == [{cluster: 2}, *[{cluster: 2, PROGRAMMATIC: 1}] * 2]


@proc
def plain(n: size, x: f32[n, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, n):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                x[i, t] = 1
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, n):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                x[i, t] = 2


def test_others_are_as_they_were(fake):
    assert all("griddepcontrol" not in text for text in kernels(plain))
    Kernel(plain.emit(unchecked=True)[1], b"cubin")(CudaArray(aligned((5, 32))))
    assert launched(fake) == [{}, {}]


def test_sm_80_has_none():
    with pytest.raises(ExoGpuError, match="a dependent launch needs sm_90a") as raised:
        in_two.emit(arch="sm_80", unchecked=True)
    assert [d.code for d in raised.value.diagnostics] == ["G810"]


def test_the_c_function_knows_whether_a_kernel_came_before():
    body = in_two.emit(unchecked=True)[0].host.source
    calls = re.findall(r"TRY\(launch\((\w+), task_count, .*stream(, \{.* launched\})?\)\);", body)
    assert calls == [("in_two_0", ""), ("in_two_1", ", {/* early */ launched}")]
    assert body.index("part.free()") < body.rindex("launched = false;")


LOAD_AND_STORE = [CudaWarpConfig("load", 1), CudaWarpConfig("store", 1)]


@proc
def told_by_a_barrier(
    x: f32[1, 32] @ CudaGmemLinear, y: f32[1, 32] @ CudaGmemLinear, z: f32[1, 32] @ CudaGmemLinear
):
    """The wait orders ordinary accesses alone, and a Fence after it those of TMA."""
    y_map = y[:, :] @ Sm90_tensorMap(0, 1, 32)
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, 1):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[0, t] = x[0, t]
    with CudaDeviceFunction(warp_config=LOAD_AND_STORE, dependent=True):
        for i in cuda_tasks(0, 1):
            tile: f32[1, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            with CudaWarps(name="load"):
                Fence(cuda_stream_sync, cuda_in_order)
            Fence(cuda_in_order, cuda_generic_and_async)
            with CudaWarps(name="load"):
                (
                    Sm90_tma_load(tile[:, :], y_map[:, :], rows=1, cols=32, box=(1, 32), swizzle=0)
                    >> full
                )
                Arrive(cuda_in_order) >> full
            with CudaWarps(name="store"):
                Await(full, cuda_in_order, ~0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    z[0, t] = tile[0, t]
            Fence(cuda_in_order, cuda_in_order)


def test_who_has_waited_fences_the_proxies_of_global_memory():
    """Nothing in this launch accesses y through the generic proxy: the launch before has."""
    assert told_by_a_barrier.check().word == "proved"
    _, second = kernels(told_by_a_barrier)
    path = second[second.index(WAIT) : second.index("Sm90_tma_load<1, false>(&")]
    assert 'asm volatile("fence.proxy.async;"' in path
