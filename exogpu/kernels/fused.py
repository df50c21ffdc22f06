"""A product with what follows it in one call: bias, activation, residual; compiled on first use."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.errors import LaunchError
from exogpu.kernels.taken import (
    ACTIVATIONS,
    AT_ONCE,
    by_rows,
    check,
    empty,
    launch,
    rank_of,
    type_of,
    whole_vectors,
)

_TYPES: Final = ("bf16", "f16", "f32")


def gemm_fused(
    A: Any,
    B: Any,
    bias: Any = None,
    activation: str | None = None,
    residual: Any = None,
    out: Any = None,
    *,
    stream: object = None,
) -> Any:
    """C = f(A B^T + bias) + residual: A is (M, K) or (L, M, K), and B (N, K) or (L, N, K), by rows.

    `bias` has N elements, `residual` the shape of C; f is "relu", "gelu" (that of erf), "silu", or
    nothing.  All arrays are bf16, or all f16, or f32, which is multiplied as TF32;
    what follows the product is computed in f32 and rounded once.  Arrays, streams and errors are
    those of `gemm`.
    """
    batched = rank_of("A", A, (2, 3)) == 3
    rank_of("B", B, (3,) if batched else (2,))
    a, b = (A, B) if batched else (A[None], B[None])
    (L, M, K), (matrices, N, columns) = (tuple(map(int, x.shape)) for x in (a, b))
    if (matrices, columns) != (L, K):
        raise LaunchError(
            f"A is {tuple(A.shape)} and B is {tuple(B.shape)}",
            "both have K columns, and as many matrices: C = A B^T",
        )
    shape = (L, M, N) if batched else (M, N)
    dtype = type_of("A", A, _TYPES)
    by_rows("A", A)
    result = empty(A, shape) if out is None else out
    given = {"B": B, "bias": bias, "residual": residual, "out": result}
    for name, array in given.items():
        if array is not None and type_of(name, array, _TYPES) != dtype:
            raise LaunchError(f"A is {A.dtype} and {name} is {array.dtype}", "convert one of them")
    wanted = {"B": tuple(B.shape), "bias": (N,), "residual": shape, "out": shape}
    for name, array in given.items():
        if array is not None:
            check(name, array, wanted[name], dtype)
    whole_vectors(K, dtype)
    function = "" if activation is None else activation
    if not isinstance(function, str) or function not in ACTIVATIONS:
        said = repr(function) if isinstance(function, str) else f"a {type(function).__name__}"
        raise LaunchError(f"the activation is {said}", f"give one of {', '.join(ACTIVATIONS[1:])}")
    more = {"bias": bias} if bias is not None else {}
    if residual is not None:
        more["residual"] = residual if batched else residual[None]
    tiles = L * -(-M // 128) * -(-N // 256)
    columns = 256 if tiles >= AT_ONCE else 128
    c = result if batched else result[None]
    chosen = kernel(columns, dtype, bias is not None, function, residual is not None)
    launch(chosen, {"C": "out"}, stream=stream, A=a, B=b, **more, C=c)
    return result


@cache
def kernel(columns: int, dtype: str, bias: bool, activation: str, residual: bool) -> Kernel:
    """The kernel with tiles of so many columns, compiled; what does not ship is proved now."""
    from exogpu.ir.types import DataType
    from exogpu.kernels import gemm_fused_sm90 as shipped

    of = DataType(dtype)
    found = shipped.KERNELS.get(shipped.name_of(1, 1, 128, columns, of, bias, activation, residual))
    if found is None:
        found = shipped.make_gemm_fused(
            1,
            1,
            128,
            columns,
            shipped.RINGS[columns],
            dtype=of,
            bias=bias,
            activation=activation,
            residual=residual,
        )
    return found.compile()
