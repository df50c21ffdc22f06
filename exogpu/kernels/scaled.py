"""Products of 8-bit floats in one call: the kernel is chosen by sizes, compiled on first use."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.errors import LaunchError
from exogpu.kernels.taken import empty, flat, rank_of, type_of

_TYPES: Final = ("f8e4m3", "f8e5m2")
_RESULTS: Final = ("bf16", "f32")
AT_ONCE: Final = 132
"""Multiprocessors: of tiles that fill fewer, half as many columns are taken."""


def gemm_fp8(A: Any, B: Any, scale: Any, out: Any = None, *, stream: object = None) -> Any:
    """C = scale A B^T: A is (M, K) or (L, M, K), and B (N, K) or (L, N, K), by rows.

    Both are float8_e4m3fn, or both float8_e5m2; `scale` is an array of one f32, the scale of A
    times that of B.  C is bf16, or f32 if `out` is.  Sums are those of the tensor cores, which keep
    some 14 bits.  Arrays, streams and errors are those of `gemm`.
    """
    batched = rank_of("A", A, (2, 3)) == 3
    rank_of("B", B, (3,) if batched else (2,))
    a, b = (A, B) if batched else (A[None], B[None])
    (L, M, K), (matrices, N, columns) = (tuple(map(int, x.shape)) for x in (a, b))
    if (matrices, columns) != (L, K):
        raise LaunchError(
            f"A is {tuple(A.shape)} and B is {tuple(B.shape)}",
            "both have K columns, and as many matrices: C = scale A B^T",
        )
    dtype = type_of("A", A, _TYPES)
    if type_of("B", B, _TYPES) != dtype:
        raise LaunchError(f"A is {A.dtype} and B is {B.dtype}", "convert one of them")
    if K % 16:
        raise LaunchError(
            f"K is {K}: TMA takes rows of a multiple of 16 bytes",
            "pad K to a multiple of 16 with zeros",
        )
    if tuple(scale.shape) not in ((), (1,)) or type_of("scale", scale, ("f32",)) != "f32":
        raise LaunchError(f"scale is {tuple(scale.shape)}", "give an array of one float32")
    shape = (L, M, N) if batched else (M, N)
    result = empty(A, shape, "bfloat16") if out is None else out
    rank_of("out", result, (len(shape),))
    kind = type_of("out", result, _RESULTS)
    tiles = L * -(-M // 128) * -(-N // 256)
    chosen = kernel(256 if tiles >= AT_ONCE else 128, dtype, kind)
    c = result if batched else result[None]
    chosen(stream=stream, A=a, B=b, scale=flat("scale", scale, (1,)), C=c)
    return result


@cache
def kernel(columns: int, dtype: str, result: str) -> Kernel:
    """The kernel with tiles of so many columns, proved and compiled."""
    from exogpu.ir.types import DataType
    from exogpu.kernels import gemm_fp8_sm90 as shipped

    types = DataType(dtype), DataType(result)
    found = shipped.KERNELS.get(shipped.name_of(1, 1, 128, columns, *types))
    if found is None:
        ring = 4 if columns == 256 else 6
        found = shipped.make_gemm_fp8(1, 1, 128, columns, ring, dtype=types[0], result=types[1])
    return found.compile()
