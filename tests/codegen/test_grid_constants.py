"""CudaGridConstant: parameters by value, in kernels, in the C function and in a call."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from fake_cuda import CudaArray, FakeDriver, aligned

from exogpu import proc
from exogpu.codegen.runtime import Kernel, LaunchError, driver
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.frontend.instructions import instr
from exogpu.hw.operands import CUDA_MEMORY, HOST, STREAM
from exogpu.hw.units import cuda_thread


@proc
def scaled(a: f32 @ CudaGridConstant, b: i32[2, 3] @ CudaGridConstant, x: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                n: i32
                n = b[1, 2]
                x[t] += a


@proc
def changed_between(h: f32 @ DRAM, x: f32[32] @ CudaGmemLinear):
    c: f32[2] @ CudaGridConstant
    for k in seq(0, 3):
        c[0] = h
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[t] += c[0]


@proc
def by_size(M: size, c: f32[M] @ CudaGridConstant, x: f32[M] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, M):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x[task] = c[task]


@proc
def large(c: f32[1024] @ CudaGridConstant, x: f32 @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x = c[1023]


def test_a_kernel_takes_the_elements():
    assert not scaled.check().warnings
    emitted = scaled.emit()[0]
    assert "const __grid_constant__ GridConstant<float, 1> a_value" in emitted.source
    assert "const __grid_constant__ GridConstant<int, 6> b_value" in emitted.source
    assert "const float (&a)[1] = a_value.at;" in emitted.source
    assert "x[t] += a[0];" in emitted.source
    assert "struct GridConstant {" in emitted.source
    # cudaLaunchKernelExC copies a parameter from where its pointer points: the caller's elements.
    assert "{&x, const_cast<float*>(a), const_cast<int*>(b)}" in emitted.host.source


def test_the_cpu_part_writes_what_the_next_launch_takes():
    emitted = changed_between.emit()[0]
    assert "std::vector<float> c;" in emitted.host.source
    assert "host_array(c, elements({2}))" in emitted.host.source
    assert "c.data()[0] = h[0];" in emitted.host.source
    assert "const_cast<float*>(c.data())" in emitted.host.source


@pytest.mark.parametrize(("procedure", "code"), [(by_size, "G802"), (large, "G812")])
def test_constants_have_constant_extents_and_fit_the_parameters(procedure, code):
    with pytest.raises(ExoGpuError) as refused:
        procedure.emit()
    assert [d.code for d in refused.value.diagnostics] == [code]
    assert [w.code for w in procedure.check().warnings] == [code]


@pytest.fixture
def launched(monkeypatch):
    """The parameters of every launch of `scaled`: a and b, after the pointer."""
    seen = []

    def on_launch(function, grid, arguments):
        a = ctypes.cast(arguments[1], ctypes.POINTER(ctypes.c_float))[0]
        b = ctypes.cast(arguments[2], ctypes.POINTER(ctypes.c_int))[:6]
        seen.append((a, b))

    fake = FakeDriver()
    fake.on_launch = on_launch
    for cached in (driver.gpus, driver._primary):
        cached.cache_clear()
    monkeypatch.setattr(driver, "_driver", lambda: fake)
    yield seen
    for cached in (driver.gpus, driver._primary):
        cached.cache_clear()


def test_a_call_hands_over_numbers_and_arrays_as_they_are_now(launched):
    kernel = Kernel(scaled.emit(unchecked=True)[1], b"cubin")
    x, b = CudaArray(aligned((32,))), np.arange(6, dtype=np.int32).reshape(2, 3)
    kernel(1.5, b, x)
    b[1, 2] = 7  # the same array: what a call takes is not what an earlier one took
    kernel(np.float32(2.5), b, x)
    kernel(np.full((), 2.5, np.float32), b, x)
    kernel(3, b.T.copy().T, x)
    assert launched == [
        (1.5, [0, 1, 2, 3, 4, 5]),
        (2.5, [0, 1, 2, 3, 4, 7]),
        (2.5, [0, 1, 2, 3, 4, 7]),
        (3.0, [0, 1, 2, 3, 4, 7]),
    ]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("1", np.zeros((2, 3), np.int32)),
        (1.5, 2),
        (1e60, np.zeros((2, 3), np.int32)),
        (np.float64(1.5), np.zeros((2, 3), np.int64)),
        (1.5, CudaArray(aligned((2, 3)))),
    ],
)
def test_what_is_no_constant_of_the_type_is_refused(launched, a, b):
    kernel = Kernel(scaled.emit(unchecked=True)[1], b"cubin")
    with pytest.raises(LaunchError):
        kernel(a, b, CudaArray(aligned((32,))))
    assert launched == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"cuda": False, "dst": STREAM}, "accesses dst on the stream, later than it is called"),
        ({"unit": cuda_thread, "dst": CUDA_MEMORY}, "writes dst, which a kernel takes by value"),
    ],
)
def test_only_the_cpu_and_launches_access_them(arguments, expected):
    """A copy to it was proved to be in order with the launch that takes its value (decision
    `host-lifetime`)."""

    @instr(template="{dst}[0] = 1;", **arguments)
    def put(dst: f32[4] @ CudaGridConstant):
        for i in seq(0, 4):
            dst[i] = 1

    with pytest.raises(ExoGpuError, match=expected) as refused:
        put.instantiate({})
    assert [d.code for d in refused.value.diagnostics] == ["T221"]


def test_the_cpu_may_by_an_instruction_of_its_own():
    @instr(cuda=False, dst=HOST, template="{dst}[0] = 1;")
    def put(dst: f32[4] @ CudaGridConstant):
        for i in seq(0, 4):
            dst[i] = 1

    assert put.instantiate({}).name == "put"
