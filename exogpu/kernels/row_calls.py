"""What is computed of the rows of an array in one call; its kernel is compiled on first use."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.arrays import array_of, check_layout
from exogpu.codegen.runtime.errors import LaunchError
from exogpu.kernels.rows import TYPES, Shape, shape_of
from exogpu.kernels.taken import empty, rank_of, type_of


def softmax(x: Any, out: Any = None, *, stream: object = None) -> Any:
    """The softmax of each row of x, along its last dimension: `torch.softmax(x, -1)`.

    x is f32 or bf16, of any shape, and contiguous; sums are f32.  Arrays, the stream and errors are
    as for `gemm`; `out` is another array than x.
    """
    return _of_rows("softmax", x, {}, out, stream)


def rms_norm(
    x: Any, weight: Any, eps: float = 1e-6, out: Any = None, *, stream: object = None
) -> Any:
    """x / sqrt(mean of x^2 + eps) * weight of each row: `torch.nn.functional.rms_norm`.

    As for `softmax`; weight has as many elements as a row, of the type of x.
    """
    return _of_rows("rms_norm", x, {"weight": weight}, out, stream, eps)


def layer_norm(
    x: Any, weight: Any, bias: Any, eps: float = 1e-5, out: Any = None, *, stream: object = None
) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias: `torch.nn.functional.layer_norm`.

    As for `rms_norm`, of each row.
    """
    return _of_rows("layer_norm", x, {"weight": weight, "bias": bias}, out, stream, eps)


def transpose(x: Any, out: Any = None, *, stream: object = None) -> Any:
    """A copy of x with its last two dimensions exchanged: x is (M, N) or (L, M, N), f32 or bf16."""
    batched = rank_of("x", x, (2, 3)) == 3
    kind = type_of("x", x, TYPES)
    *batch, M, N = x.shape
    result = empty(x, (*batch, N, M)) if out is None else out
    rank_of("out", result, (2 + batched,))
    x, y = (x, result) if batched else (x[None], result[None])
    kernel(f"transpose_{kind}")(stream=stream, x=x, y=y)
    return result


def stencil(x: Any, weight: Any, out: Any = None, *, stream: object = None) -> Any:
    """Sums of 3 x 3 neighbours by weight, 0 outside: a convolution (correlation) of an f32 matrix.

    weight is nine numbers, or an array of numpy of 3 x 3, which the launch takes by value.
    """
    rank_of("x", x, (2,))
    type_of("x", x, ("f32",))
    result = empty(x, tuple(x.shape)) if out is None else out
    kernel("stencil")(stream=stream, x=x, weight=weight, y=result)
    return result


def _of_rows(
    name: str,
    x: Any,
    parameters: dict[str, Any],
    out: Any,
    stream: object,
    eps: float | None = None,
) -> Any:
    """The result of a kernel of rows."""
    kind = type_of("x", x, TYPES)
    shape = tuple(x.shape)
    if not shape:
        raise LaunchError("x has 0 dimensions", "give an array with rows: its last dimension")
    for of, parameter in parameters.items():
        rank_of(of, parameter, (1,))
        if type_of(of, parameter, TYPES) != kind:
            raise LaunchError(f"x is {x.dtype} and {of} is {parameter.dtype}", "convert one")
        if parameter.shape[0] != shape[-1]:
            message = f"{of} has {parameter.shape[0]} elements, and rows have {shape[-1]}"
            raise LaunchError(message, "give one element a column")
    result = empty(x, shape) if out is None else out
    if tuple(result.shape) != shape:
        raise LaunchError(f"x is {shape} and out is {tuple(result.shape)}", "give them one shape")
    arrays = {"x": x, "y": result}
    if len(shape) != 2:
        flat = (math.prod(shape[:-1]), shape[-1])
        for of, array in arrays.items():
            check_layout(
                "out" if of == "y" else of, array_of(of, array, 0)
            )  # else it would be copied
        arrays = {of: array.reshape(flat) for of, array in arrays.items()}
    numbers = {} if eps is None else {"count": float(shape[-1]), "eps": float(eps)}
    of_shape = shape_of(kind, int(shape[-1]))
    kernel(name, of_shape)(stream=stream, **arrays, **parameters, **numbers)
    return result


@cache
def kernel(name: str, shape: Shape | None = None) -> Kernel:
    """A kernel, proved and compiled: of a shape, or the one of that name."""
    from exogpu.kernels import norm_rows, softmax_rows, stencil_tiles, transpose_tiles

    if shape is None:
        return {**transpose_tiles.KERNELS, **stencil_tiles.KERNELS}[name].compile()
    makers = {
        "softmax": softmax_rows.make_softmax,
        "rms_norm": norm_rows.make_rms_norm,
        "layer_norm": norm_rows.make_layer_norm,
    }
    return makers[name](shape).compile()
