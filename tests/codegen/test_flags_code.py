"""What is emitted for flags: zeroed counts, a cooperative launch, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from fake_cuda import CudaArray, FakeDriver, aligned
from fake_runtime import HostFunction
from flag_kernels import by_roles, chain, total

from exogpu.api import proc
from exogpu.codegen.host_steps import emit
from exogpu.codegen.runtime import Kernel, device_memory, driver
from exogpu.codegen.task_order import Grouped, Lexicographic
from exogpu.codegen.toolchain import compile_cubin, find_toolchain
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.nodes import WarpConfig as CudaWarpConfig
from exogpu.ir.types import BarrierMechanism
from exogpu.isa.sm90 import Sm90_tma_load, Sm90_tma_store
from exogpu.schedule import find, insert_arrive, insert_await, insert_barrier_alloc

ONE = ["[[true, 1]]"]


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


def test_the_count_is_zeroed_between_its_allocation_and_the_launch(fake):
    kernel = Kernel(emit(chain.facts, waits=ONE).manifest, b"cubin")
    x, y = (CudaArray(aligned((5, 32))) for _ in range(2))
    kernel(x, y)
    kernel(x, y)
    wanted = ["cuMemAllocFromPoolAsync", "cuMemsetD8Async", "cuLaunchKernelEx", "cuMemFreeAsync"]
    order = [name for name, _ in fake.calls if name in wanted]
    assert order == 2 * wanted
    (_, byte, count, _), *_ = fake.arguments("cuMemsetD8Async")
    assert (byte.value, count.value) == (0, 4 * 5)


def test_the_launch_is_cooperative(fake):
    manifest = emit(chain.facts, waits=ONE).manifest
    assert [s["together"] for s in manifest["steps"] if s["op"] == "launch"] == [True]
    Kernel(manifest, b"cubin")(*(CudaArray(aligned((3, 32))) for _ in range(2)))
    config = fake.arguments("cuLaunchKernelEx")[-1][0]._obj
    ids = [config.attributes[at].id for at in range(config.count)]
    assert ids == [2] and config.attributes[0].value[0] == 1


def test_the_host_function_compiles_and_launches(tmp_path, monkeypatch):
    made = emit(chain.facts, waits=ONE)
    plain = replace(made, source=re.sub(r"(asm volatile|__syncthreads)\(.*?\);", ";", made.source))
    monkeypatch.setattr("fake_runtime.emitted", lambda procedure: plain)
    host = made.host.source
    assert "TRY(ready.zero(elements({T})));" in host
    assert "{/* early */ false, /* together */ true}" in host
    HostFunction(chain, tmp_path)


def test_one_thread_of_the_scope_signals_and_polls():
    """A warp, half a warp, one thread."""
    text = emit(by_roles.facts, waits=ONE * 2).source
    signals = re.findall(r"__syncwarp\((.*?)\);\n\s+if \(thread == (.*?)\)\n\s+flag_arrive", text)
    assert len(signals) == 1
    assert re.search(r"\n\s+flag_await\(&ready\[[^\n]*\n\s+// \d+: y\[t, i\] = a", text)


@proc
def of_clusters(T: size, y: f32[T] @ CudaGmemLinear):
    ready: barrier[T] @ CudaFlag
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for t in cuda_tasks(0, T):
            for c in cuda_threads(0, 1, unit=cuda_cta_in_cluster):
                Arrive(cuda_in_order) >> ready[t]


@proc
def dependent(T: size, y: f32[T] @ CudaGmemLinear):
    ready: barrier[T] @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for t in cuda_tasks(0, T):
            for i in cuda_threads(0, 1, unit=cuda_thread):
                y[t] = 1.0
    with CudaDeviceFunction(blockDim=32, dependent=True):
        for t in cuda_tasks(0, T):
            Arrive(cuda_in_order) >> ready[t]


@pytest.mark.parametrize(
    ("procedure", "said"),
    [(of_clusters, "clusters of several CTAs"), (dependent, "a dependent launch")],
    ids=lambda one: getattr(one, "name", ""),
)
def test_where_not_all_ctas_would_be_there(procedure, said):
    with pytest.raises(ExoGpuError, match=said):
        emit(procedure.facts)


def test_tasks_are_taken_in_program_order():
    assert emit(total.facts, waits=['[[true, "T"]]'], task_order=Lexicographic()).source
    with pytest.raises(ExoGpuError, match="order is not that of the program"):
        emit(total.facts, waits=['[[true, "T"]]'], task_order=Grouped(8))


def test_flags_are_not_scheduled():
    """A schedule that adds one, or signals one, is refused."""
    at = find(chain, "t").body()[0].before()
    for step in (
        lambda: insert_barrier_alloc(chain, at, "more", [1], BarrierMechanism.FLAG),
        lambda: insert_arrive(chain, at, SYNC_TIMELINES["tma_to_gmem_async"], "ready[t]"),
        lambda: insert_await(chain, at, "ready[t]", SYNC_TIMELINES["cuda_in_order"]),
    ):
        with pytest.raises(ExoGpuError, match="not scheduled"):
            step()


def test_a_wait_by_cases():
    """The value of the first condition that holds, or the last."""
    text = emit(chain.facts, waits=['[[["<", "@0", 3], 1], [true, ["-", "T", "@0"]]]']).source
    assert "flag_await(&ready[t - 1], (t < 3) ? 1 : (T - t));" in text


@pytest.mark.skipif(find_toolchain() is None, reason="no nvcc on this machine")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_compiles(arch):
    made = compile_cubin(emit(chain.facts, arch, waits=ONE).source, arch, find_toolchain())
    assert "red.release.gpu.global.add.u32" in made.ptx
    assert "ld.acquire.gpu.global.u32" in made.ptx
    assert re.findall(r"(\d+) bytes stack frame", made.log) == ["0"]


@proc
def loaded_by_another(
    T: size,
    x: f32[T, 1, 32] @ CudaGmemLinear,
    a: f32[T, 1, 32] @ CudaGmemLinear,
    y: f32[T, 32] @ CudaGmemLinear,
):
    """A warp that accesses no memory itself awaits what other CTAs wrote, and loads it by TMA."""
    a_map = a[:, :, :] @ Sm90_tensorMap(0, 1, 1, 32)
    ready: barrier[T] @ CudaFlag
    with CudaDeviceFunction(warp_config=[CudaWarpConfig("load", 1), CudaWarpConfig("store", 1)]):
        for t in cuda_tasks(0, T):
            tile: f32[1, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            with CudaWarps(name="store"):
                for i in cuda_threads(0, 32, unit=cuda_thread):
                    a[t, 0, i] = x[t, 0, i]
                Arrive(cuda_in_order) >> ready[t]
            if t > 0:
                with CudaWarps(name="load"):
                    Await(ready[t - 1], cuda_in_order, 0)
                Fence(cuda_in_order, cuda_generic_and_async)
                with CudaWarps(name="load"):
                    (
                        Sm90_tma_load(
                            tile[:, :],
                            a_map[t - 1, :, :],
                            rows=1,
                            cols=32,
                            box=(1, 1, 32),
                            swizzle=0,
                        )
                        >> full
                    )
                    Arrive(cuda_in_order) >> full
                with CudaWarps(name="store"):
                    Await(full, cuda_in_order, ~0)
                    for i in cuda_threads(0, 32, unit=cuda_thread):
                        y[t, i] = tile[0, i]
            Fence(cuda_in_order, cuda_in_order)


def test_who_has_awaited_a_flag_fences_proxies():
    """What other CTAs wrote is the generic proxy's: the fence stands on the path of the warp that
    has been told of it, before the barrier, and is of global memory too."""
    assert loaded_by_another.check().word == "proved"
    text = emit(loaded_by_another.facts, waits=ONE).source
    path = text[text.index("flag_await(&") : text.index("Sm90_tma_load<1, false>(&")]
    assert "fence.proxy.async;" in path


@proc
def stored_twice(x: f32[2, 32] @ CudaGmemLinear, y: f32[1, 32] @ CudaGmemLinear):
    """Two tasks store one tile, in the order of a flag."""
    y_map = y[:, :] @ Sm90_tensorMap(0, 1, 32)
    ready: barrier @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for t in cuda_tasks(0, 2):
            tile: f32[1, 32] @ CudaSmemLinear
            for i in cuda_threads(0, 32, unit=cuda_thread):
                tile[0, i] = x[t, i]
            Fence(cuda_in_order, cuda_generic_and_async)
            if t == 1:
                Await(ready, cuda_in_order, 0)
            Sm90_tma_store(y_map[:, :], tile[:, :], rows=1, cols=32, box=(1, 32), swizzle=0)
            Fence(tma_to_gmem_async, cuda_in_order)
            if t == 0:
                Arrive(cuda_in_order) >> ready


def test_a_flag_waits_for_what_bulk_stores_write():
    """Their reads alone would do where no other task may store the same, which flags allow."""
    assert stored_twice.check().word == "proved"
    text = emit(stored_twice.facts, waits=ONE).source
    assert "cp.async.bulk.wait_group 0;" in text and "wait_group.read" not in text
