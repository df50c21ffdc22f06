"""Memory that a procedure has for itself: allocated and given back on the stream of each call."""

from __future__ import annotations

import ctypes
from threading import Thread

import numpy as np
import pytest
from fake_cuda import CudaArray, FakeDriver, aligned

from exogpu import proc
from exogpu.codegen.runtime import Kernel, LaunchError, device_memory, driver
from exogpu.isa.cuda import cuda_memset0_1d


@proc
def by_way(n: size, x: f32[n, 32] @ CudaGmemLinear, y: f32[n, 32] @ CudaGmemLinear):
    twice: f32[n, 32] @ CudaGmemLinear
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, n):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                twice[i, t] = x[i, t] + x[i, t]
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, n):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[i, t] = twice[i, 31 - t]


@proc
def cleared(n: size, x: f32[n] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
    z: f32[n] @ CudaGmemLinear
    cuda_memset0_1d(n, z[:])
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, n):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                y[i] = z[i]


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


def kernel_of(procedure):
    return Kernel(procedure.emit(unchecked=True)[1], b"cubin")


def arrays(n):
    return CudaArray(aligned((n, 32))), CudaArray(aligned((n, 32)))


def pointers(arguments, count):
    """The last `count` arguments of a launch: all are pointers, after one size."""
    values = ctypes.cast(arguments, ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64)))
    return [values[1 + at].contents.value for at in range(count)]


def test_the_manifest_says_what_is_allocated():
    steps = by_way.emit(unchecked=True)[1]["steps"]
    assert [step["op"] for step in steps] == ["allocate", "launch", "launch"]
    assert steps[0] == {"op": "allocate", "name": "twice", "dtype": "f32", "shape": ["n", 32]}


def test_what_others_than_kernels_use_is_the_c_functions():
    assert [s["op"] for s in cleared.emit(unchecked=True)[1]["steps"]] == ["host"]


def test_both_kernels_get_it_between_allocation_and_end(fake):
    """Of so many bytes, on the stream of the call; in a repeated call it may be elsewhere."""
    seen = []
    fake.on_launch = lambda function, grid, arguments: seen.append(
        (pointers(arguments, 2), sorted(fake.memory))
    )
    kernel = kernel_of(by_way)
    x, y = arrays(5)
    for stream in (77, 78, 77):
        kernel(x, y, stream=stream)
    for first, second in zip(seen[::2], seen[1::2], strict=True):
        (parts,) = first[1]
        assert set(first[0]) == {x.array.ctypes.data, parts}
        assert set(second[0]) == {y.array.ctypes.data, parts}
    assert [a[1].value for a in fake.arguments("cuMemAllocFromPoolAsync")] == [4 * 5 * 32] * 3
    assert [a[3].value for a in fake.arguments("cuMemAllocFromPoolAsync")] == [77, 78, 77]
    assert [a[1].value for a in fake.arguments("cuMemFreeAsync")] == [77, 78, 77]
    order = [n for n, _ in fake.calls if n in ("cuMemFreeAsync", "cuLaunchKernelEx")]
    assert order == ["cuLaunchKernelEx", "cuLaunchKernelEx", "cuMemFreeAsync"] * 3
    assert len(fake.arguments("cuMemPoolCreate")) == 1
    assert not fake.memory


def test_it_is_given_back_where_a_launch_fails(fake):
    def fail(function, grid, arguments):
        raise LaunchError("no")

    fake.on_launch = fail
    with pytest.raises(LaunchError):
        kernel_of(by_way)(*arrays(3))
    assert not fake.memory


def test_calls_of_several_threads_have_memory_of_their_own(fake):
    """Each launch gets an address that exists, while another thread enqueues its own."""
    wrong = []

    def look(function, grid, arguments):
        if not set(pointers(arguments, 2)) & fake.memory.keys():
            wrong.append(grid)

    fake.on_launch = look
    kernel = kernel_of(by_way)
    x, y = arrays(2)
    calls = [Thread(target=lambda s=s: [kernel(x, y, stream=s) for _ in range(20)]) for s in (1, 2)]
    for one in calls:
        one.start()
    for one in calls:
        one.join()
    assert not wrong and not fake.memory


def test_numpy_arrays_come_with_it(fake):
    kernel_of(by_way)(np.zeros((2, 32), np.float32), np.zeros((2, 32), np.float32))
    assert not fake.memory
