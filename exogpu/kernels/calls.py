"""Products of arrays in one call: the kernel is chosen by their sizes, compiled on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.arrays import is_jax
from exogpu.codegen.runtime.errors import LaunchError
from exogpu.codegen.runtime.owned import Owned, View, forget_what_is_read, lent
from exogpu.codegen.runtime.streams import handle
from exogpu.kernels import tuned
from exogpu.kernels.choice import Product, fastest
from exogpu.kernels.taken import check, empty, launch, rank_of, type_of, whole_vectors

LONG_ROW = 8192
"""Columns from which a CTA has a row of a GEMV for itself."""
FEW_ROWS = 512
"""Rows up to which it has where a row has a quarter of `LONG_ROW` columns."""

_TYPES = ("f32", "bf16", "f16")


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
    a, b = (A, B) if batched else (_alone(A), _alone(B))
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
    result = empty(A, shape) if out is None else out
    for name, array, wanted in (("A", A, A.shape), ("B", B, B.shape), ("out", result, shape)):
        check(name, array, tuple(wanted), dtype)
    c = result if batched else _alone(result)
    product = Product(int(L), int(M), int(N), int(K), dtype)
    choice = tuned.choice(product) or fastest(product, tuned.current_gpu())
    if choice.slices:
        slices = (choice.slices, K // choice.slices)
        a, b = a.reshape((L, M, *slices)), b.reshape((L, N, *slices))
    launch(kernel(choice.name), {"C": "out"}, stream=stream, A=a, B=b, C=c)
    return result


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
    result = empty(A, (M,)) if out is None else out
    for name, array, wanted in (("A", A, (M, K)), ("x", x, (K,)), ("out", result, (M,))):
        check(name, array, wanted, "f32")
    choice = tuned.choice(Product(1, int(M), 0, int(K)))
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


def _alone(matrix: Any) -> Any:
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
