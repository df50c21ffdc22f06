"""Products of arrays in one call: the kernel is chosen by their sizes, compiled on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.arrays import is_jax
from exogpu.codegen.runtime.device_memory import Owned, View, forget_what_is_read, lent
from exogpu.codegen.runtime.driver import handle
from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.kernels import select
from exogpu.kernels.array_arguments import (
    ACTIVATIONS,
    AT_ONCE,
    by_rows,
    check,
    empty_array,
    flat,
    launch,
    rank_of,
    type_of,
    whole_vectors,
)
from exogpu.kernels.repeated_calls import remember_calls
from exogpu.kernels.select import Product, fastest

LONG_ROW = 8192
"""Columns from which a CTA has a row of a GEMV for itself."""
FEW_ROWS = 512
"""Rows up to which it has where a row has a quarter of `LONG_ROW` columns."""

_TYPES = ("f32", "bf16", "f16")


@remember_calls
def gemm(A: Any, B: Any, out: Any = None, *, stream: object = None) -> Any:
    """C = A B^T: A is (M, K) or (L, M, K), and B (N, K) or (L, N, K), by rows.

    All are f32, which is multiplied as TF32, or all bf16, or f16; sums are f32.  That is
    `torch.nn.functional.linear(A, B)`: B is kept as weights are, a row an output.  Arrays are those
    of torch, cupy, jax or numpy (which are copied), or of any library with `__dlpack__` if `out` is
    given, too.  Without a stream, the current one of the first array's library; of jax, which has
    none, the default stream, with which jax is ordered by DLPack in both directions.  Raises
    LaunchError for arrays that do not fit, rows of A that are no multiple of 16 bytes, or no GPU.
    """
    batched = rank_of("A", A, (2, 3)) == 3
    rank_of("B", B, (3,) if batched else (2,))
    if is_jax(A) or is_jax(B):
        return _lent(gemm, A, B, out, stream, lambda a, b: (*a.shape[:-1], b.shape[-2]))
    a, b = (A, B) if batched else (_single_batch(A), _single_batch(B))
    (L, M, K), (matrices, N, columns) = a.shape, b.shape
    if (matrices, columns) != (L, K):
        raise LaunchError(
            f"A is {tuple(A.shape)} and B is {tuple(B.shape)}",
            "both have K columns, and as many matrices: C = A B^T",
        )
    dtype = type_of("A", A, _TYPES)
    if type_of("B", B, _TYPES) != dtype:
        raise LaunchError(f"A is {A.dtype} and B is {B.dtype}", "convert one of them")
    whole_vectors(K, dtype)
    shape = (L, M, N) if batched else (M, N)
    result = empty_array(A, shape) if out is None else out
    for name, array, wanted in (("A", A, A.shape), ("B", B, B.shape), ("out", result, shape)):
        check(name, array, tuple(wanted), dtype)
    c = result if batched else _single_batch(result)
    product = Product(int(L), int(M), int(N), int(K), dtype)
    choice = select.choice(product) or fastest(product, select.current_gpu())
    if choice.slices:
        slices = (choice.slices, K // choice.slices)
        a, b = a.reshape((L, M, *slices)), b.reshape((L, N, *slices))
    launch(kernel(choice.name), {"C": "out"}, stream=stream, A=a, B=b, C=c)
    return result


@remember_calls
def gemv(A: Any, x: Any, out: Any = None, *, stream: object = None) -> Any:
    """y = A x in f32: A is (M, K) by rows, and x has K elements, as for `gemm`."""
    rank_of("A", A, (2,))
    rank_of("x", x, (1,))
    if is_jax(A) or is_jax(x):
        return _lent(gemv, A, x, out, stream, lambda a, b: a.shape[:1])
    M, K = A.shape
    type_of("A", A, ("f32",))
    if tuple(x.shape) != (K,):
        raise LaunchError(f"x has {x.shape[0]} elements, and A {K} columns", "give as many")
    whole_vectors(K, "f32")
    result = empty_array(A, (M,)) if out is None else out
    for name, array, wanted in (("A", A, (M, K)), ("x", x, (K,)), ("out", result, (M,))):
        check(name, array, wanted, "f32")
    choice = select.choice(Product(1, int(M), 0, int(K)))
    chosen = kernel(choice.name if choice else of_vector(M, K))
    launch(chosen, {"y": "out"}, stream=stream, A=A, x=x, y=result)
    return result


def _lent(
    compute: Callable[..., Any],
    A: Any,
    B: Any,
    out: Any,
    stream: object,
    shape: Callable[[View, View], tuple[int, ...]],
) -> Any:
    """A product of arrays of jax, which lends them and gets the result, by DLPack."""
    if out is not None:
        raise LaunchError("arrays of jax are never written", "leave `out` away")
    forget_what_is_read()
    on = 0 if stream is None else handle(stream)
    (a, device), (b, other) = lent("A", A, on), lent("B", B, on)
    if device != other:
        raise LaunchError(f"A is on GPU {device} and B on GPU {other}", "move them to one")
    made = Owned.make(shape(a, b), a.kind, device, on)
    try:
        compute(a, b, made.view, stream=on)
        made.computed(A, B)
        return importlib.import_module("jax.dlpack").from_dlpack(made)
    except BaseException:
        if not made.taken:
            made.free()
        raise


def _single_batch(matrix: Any) -> Any:
    """One matrix as an array of matrices."""
    return matrix.reshape((1, *matrix.shape)) if isinstance(matrix, View) else matrix[None]


def of_vector(M: int, K: int) -> str:
    """The kernel for a matrix of M x K and a vector: a CTA a row where rows are long or few."""
    few = M <= FEW_ROWS and 4 * K >= LONG_ROW
    return "gemv_rows" if few or K >= LONG_ROW else "gemv"


@cache
def kernel(name: str) -> Kernel:
    """A kernel that ships, proved and compiled."""
    from exogpu.kernels import (
        gemm_alternating_sm90,
        gemm_sm90,
        gemm_splitk_sm90,
        gemm_splitk_sum_sm90,
        gemm_staged_sm90,
        gemv_f32,
    )

    modules = (
        gemm_sm90,
        gemm_staged_sm90,
        gemm_splitk_sm90,
        gemm_splitk_sum_sm90,
        gemm_alternating_sm90,
        gemv_f32,
    )
    return next(m.KERNELS[name] for m in modules if name in m.KERNELS).compile()


# A product with what follows it in one call: bias, activation, residual; compiled on first use.

_FUSED_TYPES: Final = ("bf16", "f16", "f32")


@remember_calls
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
    dtype = type_of("A", A, _FUSED_TYPES)
    by_rows("A", A)
    result = empty_array(A, shape) if out is None else out
    given = {"B": B, "bias": bias, "residual": residual, "out": result}
    for name, array in given.items():
        if array is not None and type_of(name, array, _FUSED_TYPES) != dtype:
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
    chosen = fused_kernel(columns, dtype, bias is not None, function, residual is not None)
    launch(chosen, {"C": "out"}, stream=stream, A=a, B=b, **more, C=c)
    return result


@cache
def fused_kernel(columns: int, dtype: str, bias: bool, activation: str, residual: bool) -> Kernel:
    """The kernel with tiles of so many columns, compiled; what does not ship is proved now."""
    from exogpu.ir.types import DataType
    from exogpu.kernels import gemm_fused_sm90

    of = DataType(dtype)
    found = gemm_fused_sm90.KERNELS.get(
        gemm_fused_sm90.name_of(1, 1, 128, columns, of, bias, activation, residual)
    )
    if found is None:
        found = gemm_fused_sm90.make_gemm_fused(
            1,
            1,
            128,
            columns,
            gemm_fused_sm90.RINGS[columns],
            dtype=of,
            bias=bias,
            activation=activation,
            residual=residual,
        )
    return found.compile()


# Products of 8-bit floats in one call: the kernel is chosen by sizes, compiled on first use.

_FP8_TYPES: Final = ("f8e4m3", "f8e5m2")
_RESULTS: Final = ("bf16", "f32")


@remember_calls
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
    dtype = type_of("A", A, _FP8_TYPES)
    if type_of("B", B, _FP8_TYPES) != dtype:
        raise LaunchError(f"A is {A.dtype} and B is {B.dtype}", "convert one of them")
    whole_vectors(K, dtype)
    for name, array in (("A", A), ("B", B)):
        by_rows(name, array)
    scales = _scales(scale, batched, L, M, N, K)
    shape = (L, M, N) if batched else (M, N)
    result = empty_array(A, shape, "bfloat16") if out is None else out
    kind = type_of("out", result, _RESULTS)
    check("out", result, shape, kind)
    tiles = L * -(-M // 128) * -(-N // 256)
    columns = 0 if "A_scale" in scales else 256 if tiles >= AT_ONCE else 128
    if columns == 0 and dtype != "f8e4m3":
        raise LaunchError(f"A is {A.dtype}", "give a scale for all, or arrays of float8_e4m3fn")
    c = result if batched else result[None]
    launch(fp8_kernel(columns, dtype, kind), {"C": "out"}, stream=stream, A=a, B=b, **scales, C=c)
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
def fp8_kernel(columns: int, dtype: str, result: str) -> Kernel:
    """The kernel with tiles of so many columns, or for blocks; proved and compiled."""
    from exogpu.ir.types import DataType
    from exogpu.kernels import gemm_fp8_sm90
    from exogpu.kernels.gemm_fp8_blocks_sm90 import KERNELS

    types = DataType(dtype), DataType(result)
    if columns == 0:
        return KERNELS["gemm_fp8_blocks_sm90" + "_f32" * (result == "f32")].compile()
    found = gemm_fp8_sm90.KERNELS.get(gemm_fp8_sm90.name_of(1, 1, 128, columns, *types))
    if found is None:
        ring = 4 if columns == 256 else 6
        found = gemm_fp8_sm90.make_gemm_fp8(
            1, 1, 128, columns, ring, dtype=types[0], result=types[1]
        )
    return found.compile()
