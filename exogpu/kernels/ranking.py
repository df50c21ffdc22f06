"""The greatest elements of rows of an array in one call; the kernel is compiled on first use."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.errors import LaunchError
from exogpu.kernels.taken import by_rows, check, empty, flat, launch, rows_of, type_of, whole
from exogpu.kernels.topk_shapes import LONGEST, MOST, TYPES, TopkShape, topk_shape


def topk(
    x: Any, k: int, out: Any = None, indices: Any = None, *, stream: object = None
) -> tuple[Any, Any]:
    """The k greatest elements of each row of x in falling order, and their columns:
    `torch.topk(x, k)`, with k up to 128.

    x is f32, bf16 or f16, of any shape, and contiguous.  Of equal elements that of the smaller
    column is first, 0 is greater than -0, and NaN greater than all others.  `indices` is i64, or
    i32 if such an array is given.  Arrays, the stream and errors are as for `gemm`.
    """
    kind, shape = rows_of("x", x, TYPES)
    by_rows("x", x)
    rows, columns = math.prod(shape[:-1]), int(shape[-1])
    count = whole(k)
    if not 1 <= count <= min(columns, MOST):
        said = repr(k) if isinstance(k, int | float | str | None) else f"a {type(k).__name__}"
        raise LaunchError(f"k is {said}", f"give a number from 1 to {min(columns, MOST)}")
    if columns > LONGEST:
        raise LaunchError(f"x has rows of {columns} elements", f"give at most {LONGEST}")
    results = (*shape[:-1], count)
    values = empty(x, results) if out is None else out
    check("out", values, results, kind)
    places = empty(x, results, "int64") if indices is None else indices
    place = type_of("indices", places, ("i32", "i64"))
    check("indices", places, results, place)
    ours = (rows, count)
    given = {"y": flat("out", values, ours), "indices": flat("indices", places, ours)}
    chosen = kernel(topk_shape(kind, columns, count), place)
    launch(chosen, {"y": "out"}, stream=stream, x=flat("x", x, (rows, columns)), **given)
    return values, places


@cache
def kernel(shape: TopkShape, place: str) -> Kernel:
    """The kernel of a shape, proved and compiled."""
    from exogpu.kernels.topk_rows import make_topk

    return make_topk(shape, place).compile()
