"""What the driver is asked for, in which order: with a driver that only remembers."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from fake_cuda import CudaArray, FakeDriver, Packed, aligned

from exogpu import proc
from exogpu.codegen.runtime import (
    Kernel,
    LaunchError,
    device_memory,
    driver,
)
from exogpu.codegen.runtime import (
    manifest as runtime_manifest,
)
from exogpu.isa.cuda import cuda_memset0_1d
from exogpu.kernels import gemm_sm90, gemm_splitk_sm90
from exogpu.kernels.gemv_f32 import gemv


@pytest.fixture
def use(monkeypatch):
    """Makes a fake driver the driver."""

    def forget():
        for cached in (driver.gpus, driver._primary, device_memory._encoded):
            cached.cache_clear()

    def use(fake):
        forget()
        monkeypatch.setattr(driver, "_driver", lambda: fake)
        return fake

    yield use
    forget()


def kernel_of(procedure):
    return Kernel(procedure.emit(unchecked=True)[1], b"cubin")


@pytest.fixture
def small():
    return kernel_of(gemv), [CudaArray(aligned(s)) for s in ((100, 32), (32,), (100,))]


GEMM = gemm_sm90.KERNELS["gemm_sm90_2x1_128x256"]
SPLIT_K = gemm_splitk_sm90.make_gemm_splitk(1, 1, 128, 256, dependent=False)
GEMM_SHAPES = ((1, 300, 64), (1, 600, 64), (1, 300, 600))


@proc
def rows(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = x[m, t]


def test_a_block_a_task_or_as_many_as_fit(use):
    """132 multiprocessors of two blocks hold 264; the cubin is loaded once."""
    grids = []
    fake = use(FakeDriver())
    fake.on_launch = lambda function, grid, arguments: grids.append(grid)
    kernel = kernel_of(rows)
    for count in (4, 1000):
        kernel(CudaArray(aligned((count, 32))), CudaArray(aligned((count, 32))))
    assert grids == [(4, 1, 1), (264, 1, 1)]
    assert len(fake.arguments("cuModuleLoadData")) == 1


def test_clusters_and_tensor_maps(use):
    """Tiles of 256 x 256: 2 x 3 tasks, clusters of 2.  Maps are made once an array."""
    fake = use(FakeDriver())
    grids = []
    fake.on_launch = lambda function, grid, arguments: grids.append(grid)
    kernel, arrays = kernel_of(GEMM), [CudaArray(aligned(s)) for s in GEMM_SHAPES]
    kernel(*arrays)
    kernel(*arrays)
    assert grids == [(12, 1, 1)] * 2
    assert len(fake.arguments("cuTensorMapEncodeTiled")) == 2
    kernel(CudaArray(aligned(GEMM_SHAPES[0])), *arrays[1:])
    assert len(fake.arguments("cuTensorMapEncodeTiled")) == 3
    # Of A: 11 is f32 rounded to tf32; innermost dimension first, strides of outer ones in bytes.
    _, dtype, rank, pointer, shape, strides, box, *_ = fake.arguments("cuTensorMapEncodeTiled")[0]
    assert (dtype, rank.value, pointer.value) == (11, 3, arrays[0].array.ctypes.data)
    assert (list(shape), list(strides), list(box)) == ([64, 300, 1], [256, 76800], [32, 128, 1])


def test_steps_are_enqueued_in_order_on_the_stream(use):
    fake = use(FakeDriver())
    shapes = ((1, 128, 2, 64), (1, 256, 2, 64), (1, 128, 256))
    arrays = [CudaArray(aligned(s)) for s in shapes]
    kernel_of(SPLIT_K)(*arrays, stream=77)
    assert fake.names()[-2:] == ["cuMemsetD8Async", "cuLaunchKernelEx"]
    (memset,) = fake.arguments("cuMemsetD8Async")
    assert (memset[0].value, memset[2].value) == (arrays[2].array.ctypes.data, 4 * 128 * 256)
    assert memset[3].value == 77
    assert fake.arguments("cuLaunchKernelEx")[0][0]._obj.stream == 77


@proc
def clears_a_part(n: size, x: f32[2 * n] @ CudaGmemLinear, y: f32[n, 4, n] @ CudaGmemLinear):
    cuda_memset0_1d(n, x[n : 2 * n])
    cuda_memset0_1d(n, y[n - 1, 2, :])


def test_a_memset_of_a_part_leaves_the_rest(use):
    fake = use(FakeDriver())
    x, y = (CudaArray(aligned(shape)) for shape in ((6,), (3, 4, 3)))
    kernel_of(clears_a_part)(x, y, n=3)
    cleared = [(a.value, b.value, n.value) for a, b, n, _ in fake.arguments("cuMemsetD8Async")]
    begins = x.array.ctypes.data + 4 * 3, y.array.ctypes.data + 4 * (2 * 4 + 2) * 3
    assert cleared == [(begins[0], 0, 12), (begins[1], 0, 12)]


def test_numpy_arrays_are_copied_in_and_results_out(use):
    """The fake kernel writes 7 to y; A and x, which are only read, do not come back."""
    fake = use(FakeDriver())

    def write(function, grid, arguments):
        address = fake.arguments("cuMemAlloc_v2")[2][0]._obj.value
        np.frombuffer(fake.memory[address], np.float32)[:] = 7

    fake.on_launch = write
    y = np.zeros(100, np.float32)
    kernel_of(gemv)(np.ones((100, 32), np.float32), np.ones(32, np.float32), y)
    assert (y == 7).all()
    assert len(fake.arguments("cuMemcpyDtoHAsync_v2")) == 1
    assert fake.names()[-1] == "cuStreamSynchronize"
    assert not fake.memory


def test_memory_is_given_back_where_a_launch_fails(use):
    fake = use(FakeDriver())

    def fail(function, grid, arguments):
        raise LaunchError("no")

    fake.on_launch = fail
    with pytest.raises(LaunchError):
        kernel_of(gemv)(*(np.zeros(s, np.float32) for s in ((100, 32), (32,), (100,))))
    assert not fake.memory
    assert fake.names()[-1] == "cuStreamSynchronize"  # copies may still read numpy's memory


def library(monkeypatch, name, stream):
    """A class of arrays of a library whose current stream is `stream`."""
    current = SimpleNamespace(cuda_stream=stream, ptr=stream)
    cuda = SimpleNamespace(
        current_stream=lambda device: current, get_current_stream=lambda device: current
    )
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(cuda=cuda))
    device = SimpleNamespace(type="cuda", id=0)
    return type("Tensor", (CudaArray,), {"__module__": name, "device": device})


def test_the_current_stream_of_the_first_library_waits_for_the_others(use, small, monkeypatch):
    """torch's stream 5 waits for cupy's 6 before the launch, and 6 for 5 after it."""
    fake = use(FakeDriver())
    torch, cupy = library(monkeypatch, "torch", 5), library(monkeypatch, "cupy", 6)
    kernel, (a, x, y) = small
    kernel(torch(a.array), cupy(x.array), torch(y.array))
    recorded = [arguments[1].value for arguments in fake.arguments("cuEventRecord")]
    waiting = [arguments[0].value for arguments in fake.arguments("cuStreamWaitEvent")]
    assert (recorded, waiting) == ([6, 5], [5, 6])
    launch = fake.arguments("cuLaunchKernelEx")[0]
    assert launch[0]._obj.stream == 5
    at = [name for name, _ in fake.calls if name in ("cuStreamWaitEvent", "cuLaunchKernelEx")]
    assert at == ["cuStreamWaitEvent", "cuLaunchKernelEx", "cuStreamWaitEvent"]


def test_producers_are_waited_for(use, small):
    """The array interface names the stream that makes an array; DLPack is told who uses it."""
    fake = use(FakeDriver())
    kernel, (a, x, y) = small
    packed = Packed(x.array)
    kernel(CudaArray(a.array, stream=9), packed, y, stream=SimpleNamespace(ptr=8))
    assert [arguments[1].value for arguments in fake.arguments("cuEventRecord")] == [9]
    assert packed.stream == 8
    kernel(a, packed, y)
    assert packed.stream == 1  # DLPack's number of the default stream


@pytest.mark.parametrize(
    ("fake", "expected"),
    [
        (FakeDriver(capability=(8, 0)), r"for sm_90a, and GPU 0 \(Fake GPU\) is sm_80"),
        (FakeDriver(capability=(9, 1)), "is sm_91"),
        ("two", "on several devices"),
        ("elsewhere", "x does not point to memory that CUDA knows"),
    ],
)
def test_nothing_is_launched_on_the_wrong_device(use, small, fake, expected):
    kernel, arrays = small
    where = arrays[1].array.ctypes.data
    if isinstance(fake, str):
        fake = FakeDriver(count=2, places={where: 1 if fake == "two" else None})
    use(fake)
    with pytest.raises(LaunchError, match=expected):
        kernel(*arrays)
    assert not fake.arguments("cuLaunchKernelEx")


def test_sm_80_code_runs_on_later_chips_of_its_generation(use):
    arrays = [CudaArray(aligned(s)) for s in ((100, 32), (32,), (100,))]
    kernel = Kernel(gemv.emit("sm_80", unchecked=True)[1], b"cubin")
    fake = use(FakeDriver(capability=(8, 6)))
    kernel(*arrays)
    assert fake.arguments("cuLaunchKernelEx")
    use(FakeDriver(capability=(9, 0)))
    with pytest.raises(LaunchError, match="compiled for sm_80"):
        kernel(*arrays)


def test_what_only_the_c_function_does_is_told():
    manifest = {"name": "p", "arch": "sm_90a", "parameters": [], "preconditions": []}
    with pytest.raises(LaunchError, match=r"make libp\.so .*by `exogpu compile --so`"):
        Kernel({**manifest, "steps": [{"op": "host"}]}, b"")()


def test_what_has_no_elements_has_no_tensor_map():
    """The driver refuses an extent of 0."""
    array = SimpleNamespace(shape=(4, 0), pointer=0)
    with pytest.raises(LaunchError, match="x has no elements"):
        device_memory.tensor_map(runtime_manifest.MapOf("x", (1, 32), 0), array, "f32")
