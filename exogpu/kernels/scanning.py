"""Sums of arrays in one call: of each element and those before it in its row, or of all."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from exogpu.codegen.runtime import Kernel
from exogpu.kernels.scan_shapes import TYPES, Shape, shape_of
from exogpu.kernels.taken import by_rows, check, empty, flat, launch, rows_of, type_of


def scan(x: Any, out: Any = None, *, stream: object = None) -> Any:
    """Inclusive sums along the last dimension of x: `torch.cumsum(x, -1, dtype=x.dtype)`.

    x is f32 or i32, of any shape, and contiguous; sums are of its type, those of i32 wrap, and the
    same in every call.  Arrays, the stream and errors are as for `gemm`; `out` is another array
    than x.
    """
    kind, shape = rows_of("x", x, tuple(TYPES))
    by_rows("x", x)
    result = empty(x, shape) if out is None else out
    check("out", result, shape, kind)
    rows = (math.prod(shape[:-1]), shape[-1])
    of_shape = shape_of(kind, int(shape[-1]))
    x, y = flat("x", x, rows), flat("out", result, rows)
    launch(_scan(of_shape), {"y": "out"}, stream=stream, x=x, y=y)
    return result


def total(x: Any, out: Any = None, *, stream: object = None) -> Any:
    """The sum of all elements of x, f32 of any shape, and contiguous: `torch.sum(x)`.

    It is summed in the same order in every call.  As for `cumsum`; `out` is an array without
    dimensions.
    """
    type_of("x", x, ("f32",))
    result = empty(x, ()) if out is None else out
    check("out", result, (), "f32")
    count = math.prod(x.shape)
    given = flat("x", x, (count,))
    launch(_total(vectors=count % 4 == 0), {"y": "out"}, stream=stream, x=given, y=result)
    return result


@cache
def _scan(shape: Shape) -> Kernel:
    from exogpu.kernels.scan_waves import make_scan

    return make_scan(shape).compile()


@cache
def _total(*, vectors: bool) -> Kernel:
    from exogpu.kernels.total_f32 import make_total

    return make_total(vectors=vectors).compile()
