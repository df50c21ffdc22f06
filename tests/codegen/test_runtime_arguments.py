"""Calls that do not fit are refused before the driver is asked for anything."""

from __future__ import annotations

import numpy as np
import pytest
from fake_cuda import CudaArray, Packed, aligned

from exogpu.codegen.runtime import Kernel, LaunchError
from exogpu.codegen.runtime.arrays import Array, check_writes
from exogpu.codegen.runtime.manifest import expression_text
from exogpu.kernels.gemv_f32 import gemv

M, K = 8, 12


@pytest.fixture(scope="module")
def kernel():
    return Kernel(gemv.emit(unchecked=True)[1], b"")


def a(dtype=np.float32, shape=(M, K), **changes):
    return CudaArray(aligned(shape, dtype), **changes)


def x(shape=(K,)):
    return CudaArray(aligned(shape))


def y(**changes):
    return CudaArray(aligned((M,)), **changes)


def fortran():
    return CudaArray(np.asfortranarray(aligned((M, K))))


OVER = aligned((M * K,))

REFUSED = {
    "too many": (lambda: (a(), x(), y(), y()), {}, "has 3 arrays, and 4 are given"),
    "missing": (lambda: (a(), x()), {}, "no array is given for y"),
    "unknown": (lambda: (a(), x(), y()), {"N": 1}, "has no parameter N"),
    "close name": (lambda: (a(), x(), y()), {"MM": 8}, "did you mean M"),
    "twice": (lambda: (a(), x(), y()), {"A": 1}, "A is given twice"),
    "no integer": (lambda: (a(), x(), y()), {"M": 8.0}, "M is a float"),
    "no array": (lambda: ([1.0], x(), y()), {}, "A is a list, and no array"),
    "on the CPU": (lambda: (Packed(aligned((M, K)), device=1), x(), y()), {}, "not on a GPU"),
    "dtype": (lambda: (a(np.float64), x(), y()), {}, "A holds <f8, not <f4"),
    "rank": (lambda: (a(), a(), y()), {}, "x has 2 dimensions, not 1"),
    "shape": (lambda: (a(), x((K + 4,)), y()), {}, "x has the shape (16,), not (12,) at K = 12"),
    "size": (lambda: (a(), x(), y()), {"M": 9}, "A has the shape (8, 12), not (9, 12)"),
    "precondition": (lambda: (a(shape=(M, 14)), x((14,)), y()), {}, "K % 4 == 0 at K = 14"),
    "least": (
        lambda: (a(shape=(0, K)), x(), CudaArray(aligned((0,)))),
        {},
        "M is 0, and at least 1",
    ),
    "32 bits": (lambda: (a(), x(), y()), {"M": 1 << 31}, "more than 32 bits"),
    "layout": (lambda: (fortran(), x(), y()), {}, "contiguous by rows"),
    "rows apart": (lambda: (a(strides=(64, 4)), x(), y()), {}, "A has strides of (64, 4)"),
    "alignment": (
        lambda: (CudaArray(aligned((M, K), offset=4)), x(), y()),
        {},
        "A does not start at a multiple of 16",
    ),
    "read-only": (lambda: (a(), x(), y(data=(aligned((M,)).ctypes.data, True))), {}, "read-only"),
    "overlap": (
        lambda: (CudaArray(OVER.reshape(M, K)), x(), CudaArray(OVER[4 : 4 + M])),
        {},
        "A and y share memory, and y is written",
    ),
    "numpy read-only": (lambda: (a(), x(), frozen()), {}, "y is written, and read-only"),
    "bad stream": (lambda: (a(), x(), y()), {"stream": "first"}, "str is no stream"),
}


def frozen():
    array = aligned((M,))
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("case", REFUSED)
def test_refused(kernel, case):
    arrays, sizes, expected = REFUSED[case]
    with pytest.raises(LaunchError) as refused:
        kernel(*arrays(), **sizes)
    assert expected in str(refused.value)
    # Every refusal says what to do, but for a number that no kernel can take.
    assert refused.value.remedy or case == "32 bits"


@pytest.mark.parametrize("make", [CudaArray, Packed, lambda a: Packed(a, versioned=False)])
def test_what_fits_is_refused_only_for_want_of_a_driver(kernel, make, monkeypatch):
    """Also a size that an array has already, arrays by name, and one array for two inputs."""
    from exogpu.codegen.runtime import driver

    def nothing(name):
        raise OSError(name)

    monkeypatch.setattr(driver.ctypes, "CDLL", nothing)
    driver._driver.cache_clear()
    same = make(aligned((K, K)))
    for arrays, named in (
        ((make(aligned((M, K))), make(aligned((K,))), make(aligned((M,)))), {}),
        ((make(aligned((M, K))),), {"y": make(aligned((M,))), "x": make(aligned((K,))), "K": K}),
        ((same, make(same.array[0]), make(aligned((K,)))), {}),
    ):
        with pytest.raises(LaunchError, match="there is no CUDA driver"):
            kernel(*arrays, **named)


def test_extents_of_one_may_have_any_stride(kernel):
    """Libraries give such dimensions strides that mean nothing."""
    row = CudaArray(aligned((1, K)), strides=(4, 4))
    with pytest.raises(LaunchError, match=r"CUDA|GPU"):
        kernel(row, x(), CudaArray(aligned((1,))))


def test_overlaps_behind_a_large_array_are_found():
    """The array that ends last may not be the neighbour."""
    spans = {"A": (0, 100), "B": (10, 20), "C": (50, 60), "D": (100, 110)}
    arrays = {
        name: Array(begin, (end - begin,), (1,), "|i1", False, None, host=False)
        for name, (begin, end) in spans.items()
    }
    check_writes(arrays, [])
    check_writes(arrays, ["D"])
    for written in (["A"], ["B"], ["C"], ["A", "D"]):
        with pytest.raises(LaunchError, match="share memory"):
            check_writes(arrays, written)


def test_conditions_are_shown_as_in_python():
    expr = ["and", ["==", ["%", ["-", "M", ["-", "N", 1]], 4], 0], ["not", ["<", "M", "N"]]]
    assert expression_text(expr) == "(M - (N - 1)) % 4 == 0 and not M < N"


def test_a_folder_without_a_cubin_is_told(tmp_path):
    with pytest.raises(LaunchError, match=r"gemv\.json cannot be read.*exogpu compile --cubin"):
        Kernel.from_folder(tmp_path, "gemv")


def test_a_manifest_of_something_else_is_told():
    with pytest.raises(LaunchError, match="no manifest of exogpu"):
        Kernel({"name": "x"}, b"")
