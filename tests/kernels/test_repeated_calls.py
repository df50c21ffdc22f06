"""A public call of known shapes launches its plans; what differs is checked and chosen again."""

from __future__ import annotations

import pytest

from exogpu.codegen.runtime import Kernel, LaunchError
from exogpu.kernels import array_arguments, gemm_calls, repeated_calls, row_calls
from exogpu.kernels.gemv_f32 import gemv
from exogpu.kernels.repeated_calls import remember_calls
from tests.codegen.fake_cuda import Tensor, aligned, torch_on


@pytest.fixture
def fake(monkeypatch):
    """The fake driver, and the one kernel for all products with a vector, without its proof."""
    kernel = Kernel(gemv.emit(unchecked=True)[1], b"cubin")
    monkeypatch.setattr(gemm_calls, "kernel", lambda name: kernel)
    repeated_calls.forget()
    with torch_on(monkeypatch) as driver:
        yield driver
    repeated_calls.forget()


def tensors(*shapes):
    return [Tensor(aligned(shape)) for shape in shapes]


def launches(fake):
    return len(fake.arguments("cuLaunchKernelEx"))


@pytest.fixture
def looks(monkeypatch):
    """The names of the arrays that were checked."""
    names = []
    plain = gemm_calls.rank_of
    monkeypatch.setattr(
        gemm_calls, "rank_of", lambda name, *rest: names.append(name) or plain(name, *rest)
    )
    return names


def test_a_call_of_known_shapes_is_not_checked_again(fake, looks):
    (A, x), (B, z) = tensors((64, 32), (32,)), tensors((64, 32), (32,))
    first = gemm_calls.gemv(A, x)
    second = gemm_calls.gemv(B, z)
    assert looks == ["A", "x"] and launches(fake) == 2
    assert first is not second and second.shape == (64,)
    (out,) = tensors((64,))
    assert gemm_calls.gemv(A, x, out) is out and looks == ["A", "x"] * 2
    (other,) = tensors((64,))
    assert gemm_calls.gemv(B, z, other) is other and looks == ["A", "x"] * 2
    assert gemm_calls.gemv(B, z, out=other) is other and looks == ["A", "x"] * 3  # by name


def test_other_shapes_streams_and_addresses_are_checked(fake, looks):
    A, x = tensors((64, 32), (32,))
    gemm_calls.gemv(A, x)
    gemm_calls.gemv(*tensors((64, 64), (64,)))
    assert len(looks) == 4
    gemm_calls.gemv(A, x, stream=7)
    assert len(looks) == 6
    fake.current = 9
    gemm_calls.gemv(A, x)
    assert len(looks) == 8
    with pytest.raises(LaunchError, match="16 bytes"):
        gemm_calls.gemv(A, Tensor(aligned((32,), offset=4)))
    with pytest.raises(LaunchError, match="share memory"):
        gemm_calls.gemv(*tensors((32, 32)), x, x)
    (square,) = tensors((32, 32))
    gemm_calls.gemv(square, x, *tensors((32,)))
    before = launches(fake)
    with pytest.raises(LaunchError, match="share memory"):
        gemm_calls.gemv(square, x, x)
    assert launches(fake) == before


def test_a_table_that_changes_is_looked_at(fake, looks):
    arrays = tensors((64, 32), (32,))
    gemm_calls.gemv(*arrays)
    repeated_calls.forget()
    gemm_calls.gemv(*arrays)
    assert len(looks) == 4


def kernel_calls(function):
    """A decorated function, and the number of times that it ran itself."""
    count = []

    def counted(*arguments, **named):
        count.append(1)
        return function(*arguments, **named)

    return remember_calls(counted), count


def test_numbers_that_are_equal_but_not_alike_are_told_apart(fake):
    def call(A, x, number):
        return gemm_calls.gemv.__wrapped__(A, x)

    function, count = kernel_calls(call)
    A, x = tensors((64, 32), (32,))
    for number in (0.0, -0.0, 0, False, None, "0", 1, True, 1.0, (1,), [1], (1, 1)):
        before = len(count)
        function(A, x, number)
        function(A, x, number)
        assert len(count) == before + 1, number
    for unknown in ({}, object(), 1j):
        function(A, x, unknown)
        function(A, x, unknown)
    assert len(count) == 12 + 6


def test_two_arrays_at_one_address_are_not_recorded(fake):
    """Which of them a kernel reads does not follow from its address."""

    def call(A, x, y):
        return gemm_calls.gemv.__wrapped__(A, y)

    function, count = kernel_calls(call)
    A, x, y = tensors((64, 32), (32,), (32,))
    for _ in range(2):
        function(A, x, x)
    assert len(count) == 2
    for _ in range(2):
        function(A, x, y)
    assert len(count) == 3


def test_arrays_made_on_a_stream_of_the_caller_are_made_there_again(fake, monkeypatch):
    def call(A, x, stream=None):
        made = array_arguments.scratch(A, (64,), "float32", stream)
        return gemm_calls.gemv.__wrapped__(A, x, made, stream=stream)

    function, count = kernel_calls(call)
    A, x = tensors((64, 32), (32,))
    for _ in range(2):
        function(A, x)
    assert len(count) == 1


def test_tuples_of_results_and_functions_without_kernels(fake):
    def call(A, x):
        y = gemm_calls.gemv.__wrapped__(A, x)
        return y, A

    function, count = kernel_calls(call)
    A, x = tensors((64, 32), (32,))
    function(A, x)
    y, again = function(A, x)
    assert again is A and y.shape == (64,) and len(count) == 1
    idle, count = kernel_calls(lambda A, x: x)
    assert idle(A, x) is idle(A, x) is x and len(count) == 2


def test_names_and_docstrings_stay():
    assert row_calls.rms_norm.__name__ == "rms_norm" and "weight" in row_calls.rms_norm.__doc__
