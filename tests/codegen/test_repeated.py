"""A call that repeats another launches the same, on other memory too, without looking at its arrays
again; one that differs in anything else is looked at."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from fake_cuda import CudaArray, Tensor, aligned, torch_on

from exogpu.codegen.runtime import Kernel, LaunchError
from exogpu.kernels import gemm_splitk_sm90
from exogpu.kernels.gemv_f32 import gemv


@pytest.fixture
def fake(monkeypatch):
    with torch_on(monkeypatch) as driver:
        yield driver


def kernel_of(procedure):
    return Kernel(procedure.emit(unchecked=True)[1], b"cubin")


def tensors(*shapes, **how):
    return [Tensor(aligned(shape), **how) for shape in shapes]


SHAPES = ((100, 32), (32,), (100,))


def launched(fake):
    """Stream, blocks and arguments of each launch."""
    return [
        (where._obj.stream, tuple(where._obj.grid), bytes(pointers))
        for where, _, pointers, _ in fake.arguments("cuLaunchKernelEx")
    ]


def test_the_same_is_launched_and_nothing_looked_at(fake):
    kernel, arrays = kernel_of(gemv), tensors(*SHAPES)
    for _ in range(3):
        kernel(*arrays)
    (first, second, third) = launched(fake)
    assert first[:2] == second[:2] and second == third and first[0] == 5
    assert [a.looked_at for a in arrays] == [1, 1, 1]


def test_a_repeated_call_says_which_index_ended_the_one_before(fake):
    kernel, arrays = kernel_of(gemv), tensors(*SHAPES)
    kernel(*arrays)
    assert kernel._plans
    kernel._faults[0] = (ctypes.c_longlong * 4)(9, 0, 4, 12)
    plain = fake.call
    fake.call = lambda name, *rest: 719 if name == "cuLaunchKernelEx" else plain(name, *rest)
    with pytest.raises(LaunchError, match=r"9 is not one of 0 \.\. 3"):
        kernel(*arrays)


def test_all_steps_are_repeated(fake):
    kernel = kernel_of(gemm_splitk_sm90.make_gemm_splitk(1, 1, 128, 256, dependent=False))
    arrays = tensors((1, 128, 2, 64), (1, 256, 2, 64), (1, 128, 256))
    for _ in range(2):
        kernel(*arrays)
    assert fake.names()[-4:] == ["cuMemsetD8Async", "cuLaunchKernelEx"] * 2
    one, two = ([a.value for a in each] for each in fake.arguments("cuMemsetD8Async"))
    assert one == two and one[0] == arrays[2].data_ptr()


def test_what_differs_is_looked_at(fake):
    kernel, arrays = kernel_of(gemv), tensors(*SHAPES)
    kernel(*arrays)

    def looks(*given, **how):
        before = [a.looked_at for a in given]
        kernel(*given, **how)
        return [a.looked_at - b for a, b in zip(given, before, strict=True)] == [1, 1, 1]

    assert not looks(*arrays)
    assert not looks(*tensors(*SHAPES))  # other memory
    assert looks(*arrays, stream=5)  # the same stream, but nobody else is waited for
    assert looks(*arrays, stream=7)
    fake.current = 9
    assert looks(*arrays)
    assert launched(fake)[-1][0] == 9
    kernel.most_clusters = 3
    assert looks(*arrays)
    assert launched(fake)[-1][1] == (3, 1, 1)
    assert looks(*arrays, M=100)
    with pytest.raises(LaunchError, match="shape"):
        kernel(*arrays, M=99)
    A, x, y = arrays
    with pytest.raises(LaunchError, match="shape"):
        kernel(A, Tensor(x.array[:16]), y)
    with pytest.raises(LaunchError):
        kernel(A, Tensor(np.ascontiguousarray(x.array).view(np.int32)), y)
    with pytest.raises(LaunchError, match="dimensions"):
        kernel(A, x=y, y=x.array.reshape(4, 8))


def test_what_is_refused_is_refused_again(fake):
    kernel, (A, x, y) = kernel_of(gemv), tensors(*SHAPES)
    kernel(A, x, y)
    x.requires_grad = True
    for _ in range(2):
        with pytest.raises(LaunchError, match="gradient"):
            kernel(A, x, y)
    short = Tensor(aligned((99,)))
    for _ in range(2):
        with pytest.raises(LaunchError, match="shape"):
            kernel(A, *tensors((32,)), short)


def test_other_memory_is_put_into_the_arguments(fake):
    kernel = kernel_of(gemv)
    seen = []
    fake.on_launch = lambda function, grid, pointers: seen.append(
        {ctypes.cast(p, ctypes.POINTER(ctypes.c_uint64)).contents.value for p in list(pointers)}
    )
    one, two = tensors(*SHAPES), tensors(*SHAPES)
    for arrays in (one, two, one):
        kernel(*arrays)
    assert seen[0] == seen[2] != seen[1]
    assert {a.data_ptr() for a in two[1:]} <= seen[1]
    assert [a.looked_at for a in two] == [0, 0, 0]


def test_memory_of_another_place_is_filled(fake):
    kernel = kernel_of(gemm_splitk_sm90.make_gemm_splitk(1, 1, 128, 256, dependent=False))
    shapes = (1, 128, 2, 64), (1, 256, 2, 64), (1, 128, 256)
    one, two = tensors(*shapes), tensors(*shapes)
    kernel(*one)
    kernel(*two)
    _, second = fake.arguments("cuMemsetD8Async")
    assert second[0].value == two[2].data_ptr()
    moved = fake.arguments("cuTensorMapReplaceAddress")
    assert [address.value for _, address in moved] == [a.data_ptr() for a in two]


def test_what_does_not_fit_is_looked_at_and_refused(fake):
    """Memory that is shared, or begins at an odd place, though types and shapes are known."""
    kernel, (A, x, y) = kernel_of(gemv), tensors((32, 32), (32,), (32,))
    kernel(A, x, y)
    with pytest.raises(LaunchError, match="share memory"):
        kernel(A, x, x)
    with pytest.raises(LaunchError, match="share memory"):
        kernel(A, x, Tensor(A.array[3]))
    with pytest.raises(LaunchError, match="16 bytes"):
        kernel(A, Tensor(aligned((32,), offset=4)), y)
    kernel(A, Tensor(A.array[3]), y)  # two that are read


def test_names_count(fake):
    """Two arrays of one shape, given the other way round."""
    kernel, arrays = kernel_of(gemv), tensors((32, 32), (32,), (32,))
    A, x, y = arrays
    kernel(A, x=x, y=y)
    kernel(A, y=x, x=y)
    one, two = fake.arguments("cuLaunchKernelEx")
    assert bytes(one[2]) != bytes(two[2])


def test_other_arrays_are_never_kept(fake):
    kernel = kernel_of(gemv)
    arrays = [CudaArray(aligned(s)) for s in SHAPES]
    kernel(*arrays)
    assert not kernel._plans
    kernel(*(aligned(s) for s in SHAPES))
    assert not kernel._plans
    kernel(*tensors(*SHAPES[:2]), CudaArray(aligned(SHAPES[2])))
    assert not kernel._plans


def test_few_are_kept(fake):
    kernel = kernel_of(gemv)
    arrays = tensors(*SHAPES)
    for stream in range(1, 600):
        kernel(*arrays, stream=stream)
    assert 0 < len(kernel._plans) <= 256
