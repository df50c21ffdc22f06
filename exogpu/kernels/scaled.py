"""Products of 8-bit floats in one call: the kernel is chosen by sizes, compiled on first use."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.errors import LaunchError
from exogpu.kernels.taken import (
    AT_ONCE,
    by_rows,
    check,
    empty,
    flat,
    launch,
    rank_of,
    type_of,
    whole_vectors,
)

_TYPES: Final = ("f8e4m3", "f8e5m2")
_RESULTS: Final = ("bf16", "f32")


def gemm_fp8(A: Any, B: Any, scale: Any, out: Any = None, *, stream: object = None) -> Any:
    """C = scale A B^T: A is (M, K) or (L, M, K), and B (N, K) or (L, N, K), by rows.

    Both are float8_e4m3fn, or both float8_e5m2; `scale` is an array of one f32, the scale of A
    times that of B, and sums are those of the tensor cores, which keep some 14 bits.  Or `scale` is
    a pair of arrays of f32: that of A has a row for each block of 128 columns, and at least M
    columns, a multiple of 4; that of B has an element for each 128 x 128 of it.  Then sums of more
    than a block are f32, and both are e4m3.  C is bf16, or f32 if `out` is.  Arrays, streams and
    errors are those of `gemm`.
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
    whole_vectors(K, dtype)
    for name, array in (("A", A), ("B", B)):
        by_rows(name, array)
    scales = _scales(scale, batched, L, M, N, K)
    shape = (L, M, N) if batched else (M, N)
    result = empty(A, shape, "bfloat16") if out is None else out
    kind = type_of("out", result, _RESULTS)
    check("out", result, shape, kind)
    tiles = L * -(-M // 128) * -(-N // 256)
    columns = 0 if "A_scale" in scales else 256 if tiles >= AT_ONCE else 128
    if columns == 0 and dtype != "f8e4m3":
        raise LaunchError(f"A is {A.dtype}", "give a scale for all, or arrays of float8_e4m3fn")
    c = result if batched else result[None]
    launch(kernel(columns, dtype, kind), {"C": "out"}, stream=stream, A=a, B=b, **scales, C=c)
    return result


def _scales(scale: Any, batched: bool, L: int, M: int, N: int, K: int) -> dict[str, Any]:
    """Returns the scales for the kernel: one scale, or those of blocks."""
    if isinstance(scale, list | tuple) and len(scale) != 2:
        what = f"scale has {len(scale)} arrays"
        raise LaunchError(what, "give one array, or that of A and that of B")
    if not isinstance(scale, list | tuple):
        type_of("scale", scale, ("f32",))
        if tuple(scale.shape) not in ((), (1,)):
            raise LaunchError(
                f"scale is {tuple(scale.shape)}", "give one number, or a pair of arrays"
            )
        return {"scale": flat("scale", scale, (1,))}
    found = {}
    of_b = (L, -(-N // 128), -(-K // 128))
    for name, one in zip(("A_scale", "B_scale"), scale, strict=True):
        rank_of(name, one, (3,) if batched else (2,))
        type_of(name, one, ("f32",))
        found[name] = one if batched else one[None]
    a, b = (tuple(map(int, one.shape)) for one in found.values())
    if b != of_b or a[:2] != (L, of_b[2]):
        raise LaunchError(
            f"A_scale is {a[not batched :]} and B_scale {b[not batched :]}",
            f"B_scale is {of_b[not batched :]}, and A_scale has {of_b[2]} rows",
        )
    for name, one in zip(found, scale, strict=True):
        by_rows(name, one)
    if a[2] < M or a[2] % 4:
        what = f"A_scale has {a[2]} columns, and A {M} rows"
        raise LaunchError(what, f"give {-(-M // 4) * 4}: at least {M}, and a multiple of 4")
    return found


@cache
def kernel(columns: int, dtype: str, result: str) -> Kernel:
    """The kernel with tiles of so many columns, or for blocks; proved and compiled."""
    from exogpu.ir.types import DataType
    from exogpu.kernels import gemm_fp8_sm90 as shipped
    from exogpu.kernels.gemm_fp8_blocks_sm90 import KERNELS

    types = DataType(dtype), DataType(result)
    if columns == 0:
        return KERNELS["gemm_fp8_blocks_sm90" + "_f32" * (result == "f32")].compile()
    found = shipped.KERNELS.get(shipped.name_of(1, 1, 128, columns, *types))
    if found is None:
        ring = 4 if columns == 256 else 6
        found = shipped.make_gemm_fp8(1, 1, 128, columns, ring, dtype=types[0], result=types[1])
    return found.compile()
