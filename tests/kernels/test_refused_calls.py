"""Calls that cannot be: each is refused before a kernel is compiled, by the argument's own name.

Arrays are those of a device by their interface alone: there is no GPU, and none is asked for.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from exogpu import kernels
from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.kernels import attention_calls, gemm_calls, grouped_calls, row_calls
from tests.kernels.devices import TYPESTR, b, e, f, i


@pytest.fixture(autouse=True)
def _no_kernel(monkeypatch):
    def compiled(*_, **__):
        raise AssertionError("a kernel was compiled")

    for module in (
        attention_calls,
        gemm_calls,
        gemm_calls,
        row_calls,
        row_calls,
        gemm_calls,
        grouped_calls,
    ):
        monkeypatch.setattr(module, "kernel", compiled)
    for module, name in (
        (grouped_calls, "tile_divider"),
        (grouped_calls, "rows"),
        (grouped_calls, "counting_kernel"),
    ):
        monkeypatch.setattr(module, name, compiled)
    for name in ("_scan", "_total"):
        monkeypatch.setattr(row_calls, name, compiled)
    names = SimpleNamespace(**{name: name for name in TYPESTR})
    monkeypatch.setitem(sys.modules, "torch", names)


GAPS = {"strides": (64, 4)}
Q = b(1, 2, 64, 64)
ROWS, CACHE = b(8, 2, 64), b(4, 16, 2, 64)
PAGED = i(1, 3), i(2), i(1)  # block_table, cu_seqlens_q and seqlens_k
NINE = np.zeros((3, 3))

REFUSED = [
    # What is no array at all.
    (lambda: kernels.gemm([[1.0]], f(8, 8)), "A is a list, and no array"),
    (lambda: kernels.gemm(f(8, 8), None), "B is nothing, and no array"),
    (lambda: kernels.gemm(f(8, 8), f(8, 8), 3), "out is an int, and no array"),
    (lambda: kernels.grouped_gemm(b(8, 8), b(2, 8, 8), [0, 8, 8]), "offsets is a list"),
    (lambda: kernels.grouped_gemm(b(8, 8), b(2, 8, 8), i(3), 3), "out is an int"),
    (lambda: kernels.gather_rows(f(8, 8), i(3), 3), "out is an int"),
    (lambda: kernels.scatter_rows(f(3, 8), i(3), None), "out is nothing"),
    (lambda: kernels.cross_entropy(f(4, 8), i(4), out=3), "out is an int"),
    (lambda: kernels.cross_entropy(f(4, 8), i(4), lse=[1]), "lse is a list"),
    (lambda: kernels.cumsum(f(4, 8), 3), "out is an int"),
    (lambda: kernels.softmax(f(4, 8), 3), "out is an int"),
    (lambda: kernels.topk([1.0], 1), "x is a list, and no array"),
    (lambda: kernels.topk(f(4, 8), 2, 3), "out is an int"),
    (lambda: kernels.topk(f(4, 8), 2, indices=3), "indices is an int"),
    (lambda: kernels.total(f(4), 3), "out is an int"),
    (lambda: kernels.attention(Q, Q, Q, out=3), "out is an int"),
    (lambda: kernels.attention(Q, Q, Q, lse=3), "lse is an int"),
    (lambda: kernels.attention_paged(ROWS, CACHE, [1], *PAGED), "v_cache is a list"),
    (
        lambda: kernels.attention_paged(ROWS, CACHE, CACHE, None, i(2), i(1)),
        "block_table is nothing",
    ),
    (lambda: kernels.attention_paged(ROWS, CACHE, CACHE, *PAGED, lse=3), "lse is an int"),
    (lambda: kernels.stencil(f(4, 8), NINE, 3), "out is an int"),
    (lambda: kernels.layer_norm(f(4, 8), f(8), None), "bias is nothing"),
    # The type.
    (lambda: kernels.gemv(b(8, 8), b(8)), r"A is bfloat16 \(give arrays of float32\)"),
    (lambda: kernels.gemv(f(8, 8), b(8)), "x is bfloat16"),
    (
        lambda: kernels.gemm(f(8, 8), f(8, 8), b(8, 8)),
        r"out is bfloat16 \(give arrays of float32\)",
    ),
    (lambda: kernels.grouped_gemm(b(8, 8), b(2, 8, 8), i(3), f(8, 8)), "out is float32"),
    (lambda: kernels.gather_rows(f(8, 8), i(3), b(3, 8)), "out is bfloat16"),
    (lambda: kernels.scatter_rows(f(3, 8), i(3), b(9, 8)), "out is bfloat16"),
    (lambda: kernels.histogram(i(9), 8, f(8)), "out is float32"),
    (lambda: kernels.cumsum(f(4, 8), i(4, 8)), "out is int32"),
    (lambda: kernels.softmax(f(4, 8), b(4, 8)), "out is bfloat16"),
    (lambda: kernels.transpose(f(4, 8), b(8, 4)), "out is bfloat16"),
    (lambda: kernels.topk(i(4, 8), 2), "x is int32"),
    (lambda: kernels.topk(f(4, 8), 2, b(4, 2)), "out is bfloat16"),
    (lambda: kernels.topk(f(4, 8), 2, indices=f(4, 2)), "indices is float32.*int32, int64"),
    (lambda: kernels.total(f(4), i()), "out is int32"),
    (lambda: kernels.stencil(f(4, 8), NINE, b(4, 8)), "out is bfloat16"),
    (lambda: kernels.attention(Q, Q, Q, out=f(1, 2, 64, 64)), "out is float32"),
    (lambda: kernels.attention(Q, Q, Q, lse=b(1, 2, 64)), "lse is bfloat16"),
    (lambda: kernels.attention_paged(ROWS, CACHE, f(4, 16, 2, 64), *PAGED), "v_cache is float32"),
    (
        lambda: kernels.attention_paged(ROWS, CACHE, CACHE, i(1, 3), i(2), f(1)),
        "seqlens_k is float32",
    ),
    # The shape.
    (
        lambda: kernels.gemm(f(8, 8), f(8, 8), f(8, 9)),
        r"out is \(8, 9\) \(give an array of \(8, 8\)\)",
    ),
    (
        lambda: kernels.gemv(f(8, 7), f(7)),
        r"K is 7: rows of 28 bytes, read by 16 \(pad K to a multiple of 4",
    ),
    (lambda: kernels.gemv(f(8, 8), f(9)), "x has 9 elements, and A 8 columns"),
    (lambda: kernels.gemv(f(8, 8), f(8), f(9)), r"out is \(9,\)"),
    (lambda: kernels.transpose(f(4, 8), f(4, 8)), r"out is \(4, 8\) \(give an array of \(8, 4\)\)"),
    (lambda: kernels.stencil(f(4, 8), NINE, f(4, 9)), r"out is \(4, 9\)"),
    (lambda: kernels.gemm_fp8(e(16, 16), e(16, 16), f(1), b(16, 17)), r"out is \(16, 17\)"),
    (lambda: kernels.gemm_fp8(e(16, 16), e(16, 16), (f(1, 15), f(1, 1))), "A_scale has 15 columns"),
    (lambda: kernels.gemm_fp8(e(16, 16), e(16, 16), (f(1, 12), f(1, 1))), "give 16: at least 16"),
    (lambda: kernels.topk(f(4, 8), 2, f(4, 8)), r"out is \(4, 8\) \(give an array of \(4, 2\)\)"),
    (lambda: kernels.topk(f(4, 8), 2, indices=i(2, 4)), r"indices is \(2, 4\)"),
    (
        lambda: kernels.attention_paged(ROWS, CACHE, CACHE, i(3, 1), i(2), i(1)),
        "block_table has 3 rows",
    ),
    (
        lambda: kernels.attention_paged(ROWS, b(4, 8, 2, 64), b(4, 8, 2, 64), *PAGED),
        "pages of 8 rows",
    ),
    # No elements.
    (lambda: kernels.gemm(f(0, 8), f(8, 8)), r"A has no elements: its shape is \(0, 8\)"),
    (lambda: kernels.gemm(f(8, 0), f(8, 0)), "A has no elements"),
    (lambda: kernels.gemm(f(8, 8), f(0, 8)), "B has no elements"),
    (lambda: kernels.gemv(f(0, 8), f(8)), "A has no elements"),
    (lambda: kernels.gemm_fused(b(8, 8), b(0, 8)), "B has no elements"),
    (lambda: kernels.gemm_fp8(e(16, 0), e(16, 0), f(1)), "A has no elements"),
    (lambda: kernels.grouped_gemm(b(0, 8), b(2, 8, 8), i(3)), "A has no elements"),
    (lambda: kernels.grouped_gemm(b(8, 8), b(0, 8, 8), i(1)), "B has no elements"),
    (lambda: kernels.gather_rows(f(8, 8), i(0)), "index has no elements"),
    (lambda: kernels.histogram(i(0), 8), "x has no elements"),
    (lambda: kernels.cross_entropy(f(0, 8), i(0)), "logits has no elements"),
    (lambda: kernels.cumsum(f(4, 0)), "x has no elements"),
    (lambda: kernels.softmax(f(0, 8)), "x has no elements"),
    (lambda: kernels.transpose(f(0, 8)), "x has no elements"),
    (lambda: kernels.stencil(f(0, 8), NINE), "x has no elements"),
    (lambda: kernels.topk(f(4, 0), 0), "x has no elements"),
    (lambda: kernels.total(f(0)), "x has no elements"),
    (
        lambda: kernels.attention(b(1, 2, 0, 64), b(1, 2, 0, 64), b(1, 2, 0, 64)),
        "q has no elements",
    ),
    # Gaps between rows, or between elements.
    (
        lambda: kernels.gemm(f(8, 8, **GAPS), f(8, 8)),
        r"A has strides of \(64, 4\) bytes, not \(32, 4\)",
    ),
    (lambda: kernels.gemm(f(8, 8), f(8, 8, strides=(4, 32))), "B has strides"),
    (lambda: kernels.gemm(f(8, 8), f(8, 8), f(8, 8, **GAPS)), "out has strides"),
    (lambda: kernels.gemm(f(8, 8, at=4), f(8, 8)), "A does not start at a multiple of 16 bytes"),
    (lambda: kernels.gemv(f(8, 8, **GAPS), f(8)), "A has strides"),
    (
        lambda: kernels.gemm_fused(b(8, 8), b(8, 8), residual=b(8, 8, **GAPS)),
        "residual has strides",
    ),
    (lambda: kernels.gemm_fused(b(8, 8), b(8, 8), out=b(8, 8, **GAPS)), "out has strides"),
    (lambda: kernels.grouped_gemm(b(8, 8), b(2, 8, 8), i(3, strides=(8,))), "offsets has strides"),
    (lambda: kernels.gather_rows(f(8, 8), i(3, strides=(8,))), "index has strides"),
    (lambda: kernels.gather_rows(f(8, 8), i(3), f(3, 8, **GAPS)), "out has strides"),
    (lambda: kernels.scatter_rows(f(3, 8), i(3), f(9, 8, **GAPS)), "out has strides"),
    (lambda: kernels.histogram(i(9), 8, i(8, strides=(8,))), "out has strides"),
    (lambda: kernels.cross_entropy(f(4, 8, **GAPS), i(4)), "logits has strides"),
    (lambda: kernels.cross_entropy(f(4, 8), i(4, strides=(8,)), f(4), f(4)), "target has strides"),
    (lambda: kernels.cumsum(f(4, 8), f(4, 8, **GAPS)), "out has strides"),
    (lambda: kernels.softmax(f(4, 8, **GAPS)), "x has strides"),
    (lambda: kernels.rms_norm(f(4, 8), f(8, strides=(8,))), "weight has strides"),
    (lambda: kernels.transpose(f(4, 8), f(8, 4, **GAPS)), "out has strides"),
    (lambda: kernels.topk(f(4, 8, **GAPS), 2), "x has strides"),
    (lambda: kernels.topk(f(4, 8), 2, f(4, 2, **GAPS)), "out has strides"),
    (lambda: kernels.topk(f(4, 8), 2, indices=i(4, 2, **GAPS)), "indices has strides"),
    (lambda: kernels.total(f(4, 8, **GAPS)), "x has strides"),
    (lambda: kernels.attention(Q, Q, b(1, 2, 64, 64, strides=(1, 2, 3, 4))), "v has strides"),
    (
        lambda: kernels.attention_paged(ROWS, CACHE, b(4, 16, 2, 64, strides=(1, 2, 3, 4)), *PAGED),
        "v_cache has strides",
    ),
    (
        lambda: kernels.attention_paged(ROWS, CACHE, CACHE, i(1, 3, strides=(32, 8)), i(2), i(1)),
        "block_table has strides",
    ),
    # What is no array, and wrong.
    (lambda: kernels.histogram(i(9), 2.5), "bins is 2.5"),
    (lambda: kernels.histogram(i(9), "8"), "bins is '8'"),
    (lambda: kernels.histogram(i(9), 0), r"bins is 0 \(give a number from 1 to 4096\)"),
    (lambda: kernels.histogram(i(9), np.array([8, 9])), "bins is a ndarray"),
    (lambda: kernels.topk(f(4, 8), 9), r"k is 9 \(give a number from 1 to 8\)"),
    (lambda: kernels.topk(f(4, 800), 0), r"k is 0 \(give a number from 1 to 128\)"),
    (lambda: kernels.topk(f(4, 8), 2.0), "k is 2.0"),
    (lambda: kernels.topk(f(4, 8), "a"), "k is 'a'"),
    (lambda: kernels.topk(f(4, 8), None), "k is None"),
    (lambda: kernels.topk(f(4, 8), f(2)), "k is a Device"),
    (lambda: kernels.topk(f(4, 8), np.array([1, 2])), "k is a ndarray"),
    (lambda: kernels.topk(f(4, 8), int), "k is a type"),
    (lambda: kernels.topk(f(4, 8), True), "k is True"),
    (lambda: kernels.topk(f(1, 2**31), 2), "x has rows of 2147483648 elements"),
    (lambda: kernels.rms_norm(f(4, 8), f(8), "a"), "eps is 'a', and no number"),
    (lambda: kernels.rms_norm(f(4, 8), f(8), None), "eps is None"),
    (lambda: kernels.rms_norm(f(4, 8), f(8), f(4, 8)), "eps is 'Device'"),
    (lambda: kernels.rms_norm(f(4, 8), f(8), float("nan")), "eps is nan"),
    (
        lambda: kernels.attention(Q, Q, Q, f(1, 2, 64, 64)),
        "causal is a Device.*out and lse by name",
    ),
    (lambda: kernels.attention_paged(ROWS, CACHE, CACHE, *PAGED, ROWS), "causal is a Device"),
    (lambda: kernels.stencil(f(4, 8), 3.0), r"weight is \(\) \(give three rows of three numbers\)"),
    (lambda: kernels.stencil(f(4, 8), [1.0] * 9), r"weight is \(9,\)"),
    (lambda: kernels.stencil(f(4, 8), f(3, 3)), "weight is a Device, and is taken by value"),
]


@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_a_call_that_cannot_be(call, said):
    with pytest.raises(LaunchError, match=said) as refused:
        call()
    assert refused.value.remedy


@pytest.mark.parametrize("weight", [NINE, NINE.tolist()], ids=["f64", "rows"])
def test_a_stencil_takes_numbers(monkeypatch, weight):
    given = []
    run = lambda **arguments: given.append(arguments["weight"])  # noqa: E731
    monkeypatch.setattr(row_calls, "kernel", lambda _: run)
    kernels.stencil(f(4, 8), weight)
    assert given[0].dtype == np.float32 and given[0].shape == (3, 3)


@pytest.mark.parametrize(
    ("out", "said"),
    [
        (f(3, 8, at=1 << 34, readonly=True), "out is written, and read-only"),
        (f(3, 8), "out and x share memory, and out is written"),
    ],
    ids=["readonly", "shared"],
)
def test_what_the_kernel_says_has_the_names_of_the_call(monkeypatch, out, said):
    """The kernel itself looks at these, and calls its result y."""
    from exogpu.codegen.runtime.arrays import array_of
    from exogpu.codegen.runtime.arrays import check_writes as checked

    def run(stream, **arrays):
        found = {name: array_of(name, array, 0) for name, array in arrays.items()}
        checked(found, ["y"])

    monkeypatch.setattr(grouped_calls, "rows", lambda *_: run)
    with pytest.raises(LaunchError, match=said):
        kernels.gather_rows(f(8, 8), i(3, at=1 << 35), out)
