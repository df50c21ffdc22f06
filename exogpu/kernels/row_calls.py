"""Calls that compute on the rows of an array; each kernel is compiled on first use."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any, Final

import numpy as np

from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.kernels import scan_rows, topk_selection
from exogpu.kernels.array_arguments import (
    as_integer,
    by_rows,
    check,
    empty_array,
    flat,
    launch,
    number,
    rank_of,
    rows_of,
    scratch,
    type_of,
)
from exogpu.kernels.repeated_calls import remember_calls
from exogpu.kernels.row_layout import (
    SCAN_LONGEST,
    SCANNED,
    TYPES,
    LongShape,
    Shape,
    long_shape_of,
    scan_shape,
    shape_of,
)
from exogpu.kernels.topk_selection import LONGEST, MOST, TopkShape, topk_shape

# The greatest elements of rows of an array in one call; the kernel is compiled on first use.


@remember_calls
def topk(
    x: Any, k: int, out: Any = None, indices: Any = None, *, stream: object = None
) -> tuple[Any, Any]:
    """The k greatest elements of each row of x in falling order, and their columns:
    `torch.topk(x, k)`, with k up to 128.

    x is f32, bf16 or f16, of any shape, and contiguous.  Of equal elements that of the smaller
    column is first, 0 is greater than -0, and NaN greater than all others.  `indices` is i64, or
    i32 if such an array is given.  Arrays, the stream and errors are as for `gemm`.
    """
    kind, shape = rows_of("x", x, topk_selection.TYPES)
    by_rows("x", x)
    rows, columns = math.prod(shape[:-1]), int(shape[-1])
    count = as_integer(k)
    if not 1 <= count <= min(columns, MOST):
        said = repr(k) if isinstance(k, int | float | str | None) else f"a {type(k).__name__}"
        raise LaunchError(f"k is {said}", f"give a number from 1 to {min(columns, MOST)}")
    if columns > LONGEST:
        raise LaunchError(f"x has rows of {columns} elements", f"give at most {LONGEST}")
    results = (*shape[:-1], count)
    values = empty_array(x, results) if out is None else out
    check("out", values, results, kind)
    places = empty_array(x, results, "int64") if indices is None else indices
    place = type_of("indices", places, ("i32", "i64"))
    check("indices", places, results, place)
    ours = (rows, count)
    given = {"y": flat("out", values, ours), "indices": flat("indices", places, ours)}
    chosen = topk_kernel(topk_shape(kind, columns, count), place)
    launch(chosen, {"y": "out"}, stream=stream, x=flat("x", x, (rows, columns)), **given)
    return values, places


@cache
def topk_kernel(shape: TopkShape, place: str) -> Kernel:
    """The kernel of a shape, proved and compiled."""
    from exogpu.kernels.topk_rows import make_topk

    return make_topk(shape, place).compile()


# Sums of arrays in one call: of each element and those before it in its row, or of all.


def scan(x: Any, out: Any = None, *, stream: object = None) -> Any:
    """Inclusive sums along the last dimension of x: `torch.cumsum(x, -1, dtype=x.dtype)`.

    x is f32 or i32, of any shape, and contiguous; sums are of its type, those of i32 wrap, and the
    same in every call.  Arrays, the stream and errors are as for `gemm`; `out` is another array
    than x.
    """
    kind, shape = rows_of("x", x, tuple(scan_rows.TYPES))
    by_rows("x", x)
    result = empty_array(x, shape) if out is None else out
    check("out", result, shape, kind)
    rows = (math.prod(shape[:-1]), shape[-1])
    of_shape = scan_rows.shape_of(kind, int(shape[-1]))
    x, y = flat("x", x, rows), flat("out", result, rows)
    launch(_scan(of_shape), {"y": "out"}, stream=stream, x=x, y=y)
    return result


@remember_calls
def total(x: Any, out: Any = None, *, stream: object = None) -> Any:
    """The sum of all elements of x, f32 of any shape, and contiguous: `torch.sum(x)`.

    It is summed in the same order in every call.  As for `cumsum`; `out` is an array without
    dimensions.
    """
    type_of("x", x, ("f32",))
    result = empty_array(x, ()) if out is None else out
    check("out", result, (), "f32")
    count = math.prod(x.shape)
    given = flat("x", x, (count,))
    launch(_total(vectors=count % 4 == 0), {"y": "out"}, stream=stream, x=given, y=result)
    return result


@cache
def _scan(shape: scan_rows.Shape) -> Kernel:
    from exogpu.kernels.scan_waves import make_scan

    return make_scan(shape).compile()


@cache
def _total(*, vectors: bool) -> Kernel:
    from exogpu.kernels.total_f32 import make_total

    return make_total(vectors=vectors).compile()


MANY: Final = 264
"""Rows that keep an H200 busy with a CTA for each, however long they are."""

_OUT: Final = {"y": "out"}
"""Names of arguments that differ between calls and kernels."""


@remember_calls
def softmax(x: Any, out: Any = None, *, stream: object = None) -> Any:
    """The softmax of each row of x, along its last dimension: `torch.softmax(x, -1)`.

    x is f32 or bf16, of any shape, and contiguous; sums are f32.  Arrays, the stream and errors are
    as for `gemm`; `out` is another array than x.
    """
    return _of_rows("softmax", x, {}, out, stream)


@remember_calls
def rms_norm(
    x: Any, weight: Any, eps: float = 1e-6, out: Any = None, *, stream: object = None
) -> Any:
    """x / sqrt(mean of x^2 + eps) * weight of each row: `torch.nn.functional.rms_norm`.

    As for `softmax`; weight has as many elements as a row, of the type of x.
    """
    return _of_rows("rms_norm", x, {"weight": weight}, out, stream, eps)


@remember_calls
def layer_norm(
    x: Any, weight: Any, bias: Any, eps: float = 1e-5, out: Any = None, *, stream: object = None
) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias: `torch.nn.functional.layer_norm`.

    As for `rms_norm`, of each row.
    """
    return _of_rows("layer_norm", x, {"weight": weight, "bias": bias}, out, stream, eps)


@remember_calls
def cross_entropy(
    logits: Any, target: Any, lse: Any = None, out: Any = None, *, stream: object = None
) -> Any:
    """log(sum of exp(row)) - row[target] of each row, as `torch.nn.functional.cross_entropy` has it
    with `reduction="none"`.

    logits are f32 or bf16, of any shape, and contiguous; target has an element a row, of i32 or
    i64.  A row whose target is negative has the loss 0; one whose target is no column has NaN.  The
    losses are f32, and so are the logarithms, which `lse` takes if it is an array.
    """
    kind, shape = rows_of("logits", logits, TYPES)
    of_target = type_of("target", target, ("i32", "i64"))
    by_rows("logits", logits)
    result = empty_array(logits, shape[:-1], "float32") if out is None else out
    sums = scratch(logits, shape[:-1], "float32", stream) if lse is None else lse
    arrays = {"target": target, "out": result, "lse": sums}
    for of, array in arrays.items():
        type_of(of, array, (of_target if of == "target" else "f32",))
        if tuple(array.shape) != shape[:-1]:
            message = f"logits has rows of {shape[:-1]} and {of} is {tuple(array.shape)}"
            raise LaunchError(message, "give one element a row")
    rows = math.prod(shape[:-1])
    given = {of: flat(of, array, (rows,)) for of, array in arrays.items()}
    given["loss"] = given.pop("out")
    x = flat("logits", logits, (rows, shape[-1]))
    of_shape = shape_of(kind, int(shape[-1]))
    chosen = kernel(f"cross_entropy_{of_target}", of_shape)
    launch(chosen, {"x": "logits", "loss": "out"}, stream=stream, x=x, **given)
    return result


@remember_calls
def cumsum(x: Any, out: Any = None, *, stream: object = None) -> Any:
    """The sums of each row of x up to each of its elements: `torch.cumsum(x, -1)`.

    x is f32, or i32, whose sums wrap around; of any shape, and contiguous.
    """
    kind, shape = rows_of("x", x, SCANNED)
    by_rows("x", x)
    result = empty_array(x, shape) if out is None else out
    check("out", result, shape, kind)
    rows = (math.prod(shape[:-1]), shape[-1])
    if shape[-1] > SCAN_LONGEST and rows[0] < MANY:
        return scan(x, out, stream=stream)
    of_shape = scan_shape(kind, int(shape[-1]))
    y = flat("out", result, rows)
    launch(kernel("scan", of_shape), _OUT, stream=stream, x=flat("x", x, rows), y=y)
    return result


@remember_calls
def transpose(x: Any, out: Any = None, *, stream: object = None) -> Any:
    """A copy of x with its last two dimensions exchanged: x is (M, N) or (L, M, N), f32 or bf16."""
    batched = rank_of("x", x, (2, 3)) == 3
    kind = type_of("x", x, TYPES)
    by_rows("x", x)
    *batch, M, N = x.shape
    result = empty_array(x, (*batch, N, M)) if out is None else out
    check("out", result, (*batch, N, M), kind)
    x, y = (x, result) if batched else (x[None], result[None])
    blocks = kind == "bf16" and M % 8 == N % 8 == 0
    chosen = kernel(f"transpose_blocks_{kind}" if blocks else f"transpose_{kind}")
    launch(chosen, _OUT, stream=stream, x=x, y=y)
    return result


@remember_calls
def stencil(x: Any, weight: Any, out: Any = None, *, stream: object = None) -> Any:
    """Sums of 3 x 3 neighbours by weight, 0 outside: a convolution (correlation) of an f32 matrix.

    weight is three rows of three numbers, or an array of numpy of them, which the launch takes by
    value.
    """
    rank_of("x", x, (2,))
    type_of("x", x, ("f32",))
    by_rows("x", x)
    weight = _nine(weight)
    result = empty_array(x, tuple(x.shape)) if out is None else out
    check("out", result, tuple(x.shape), "f32")
    name = "stencil" if x.shape[1] % 4 else "stencil_rows"
    launch(kernel(name), _OUT, stream=stream, x=x, weight=weight, y=result)
    return result


def _nine(weight: Any) -> Any:
    """Numbers as an array of numpy of f32, 3 x 3."""
    try:
        found = np.asarray(weight, np.float32)
    except Exception:  # no numbers, or on a GPU: each library raises what it likes
        what = f"weight is a {type(weight).__name__}, and is taken by value"
        raise LaunchError(what, "give three rows of three numbers, or them in numpy") from None
    if found.shape != (3, 3):
        raise LaunchError(f"weight is {found.shape}", "give three rows of three numbers")
    return found


def _of_rows(
    name: str,
    x: Any,
    parameters: dict[str, Any],
    out: Any,
    stream: object,
    eps: float | None = None,
) -> Any:
    """The result of a kernel of rows."""
    kind, shape = rows_of("x", x, TYPES)
    for of, parameter in parameters.items():
        rank_of(of, parameter, (1,))
        if type_of(of, parameter, TYPES) != kind:
            raise LaunchError(f"x is {x.dtype} and {of} is {parameter.dtype}", "convert one")
        if parameter.shape[0] != shape[-1]:
            message = f"{of} has {parameter.shape[0]} elements, and rows have {shape[-1]}"
            raise LaunchError(message, "give one element a column")
        by_rows(of, parameter)
    by_rows("x", x)
    numbers = {"count": float(shape[-1]), "eps": number("eps", eps)} if parameters else {}
    result = empty_array(x, shape) if out is None else out
    check("out", result, shape, kind)
    arrays = {"x": x, "y": result}
    if len(shape) != 2:
        rows = (math.prod(shape[:-1]), shape[-1])
        arrays = {"x": flat("x", x, rows), "y": flat("out", result, rows)}
    chosen = kernel(name, row_shape_of(kind, int(shape[-1])))
    launch(chosen, _OUT, stream=stream, **arrays, **parameters, **numbers)
    return result


def row_shape_of(kind: str, columns: int) -> Shape | LongShape:
    """Chooses the owner of a row of so many columns: a warp, a CTA, a cluster, or a CTA that loops
    over it.

    >>> str(row_shape_of("f32", 65536)), str(row_shape_of("f32", 65537))
    ('f32_65536_2x32x1', 'f32_any_looped')
    """
    return long_shape_of(kind, columns) or shape_of(kind, columns)


@cache
def kernel(name: str, shape: Shape | LongShape | None = None) -> Kernel:
    """A kernel, proved and compiled: of a shape, or the one of that name."""
    from exogpu.kernels import long_rows, norm_rows, stencil_kernels, transpose_kernels
    from exogpu.kernels import softmax_rows as softmax_kernels

    if shape is None:
        modules = (transpose_kernels, transpose_kernels, stencil_kernels, stencil_kernels)
        return {of: made for each in modules for of, made in each.KERNELS.items()}[name].compile()
    if isinstance(shape, LongShape):
        return long_rows.LONG_MAKERS[name](shape).compile()
    makers = {
        "softmax": softmax_kernels.make_softmax,
        "rms_norm": norm_rows.make_rms_norm,
        "layer_norm": norm_rows.make_layer_norm,
        "cross_entropy_i32": partial(softmax_kernels.make_cross_entropy, index="i32"),
        "cross_entropy_i64": partial(softmax_kernels.make_cross_entropy, index="i64"),
        "scan": scan_rows.make_scan,
    }
    return makers[name](shape).compile()
