"""Products of arrays in one call: the kernel is chosen by their sizes, compiled on first use."""

from __future__ import annotations

from functools import cache
from typing import Any

from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.arrays import ITEM_SIZE
from exogpu.codegen.runtime.errors import LaunchError
from exogpu.kernels import tuned
from exogpu.kernels.choice import Product, fastest
from exogpu.kernels.given import empty_like, rank_of, type_of

LONG_ROW = 8192
"""Columns from which a CTA has a row of a GEMV for itself."""
FEW_ROWS = 512
"""Rows up to which it has where a row has a quarter of `LONG_ROW` columns."""

TYPES = ("f32", "bf16", "f16")
"""Of the elements that are multiplied."""


def gemm(A: Any, B: Any, out: Any = None, *, stream: object = None) -> Any:
    """C = A B^T: A is (M, K) or (L, M, K), and B (N, K) or (L, N, K), by rows.

    All are f32, which is multiplied as TF32, or all bf16, or f16; sums are f32.  That is
    `torch.nn.functional.linear(A, B)`: B is kept as weights are, a row an output.  Arrays are those
    of torch, cupy or numpy (which are copied), or of any library with `__dlpack__` if `out` is
    given, too.  Without a stream, the current one of the first array's library.  Raises LaunchError
    for arrays that do not fit, rows of A that are no multiple of 16 bytes, or no GPU.
    """
    batched = rank_of("A", A, (2, 3)) == 3
    rank_of("B", B, (3,) if batched else (2,))
    a, b = (A, B) if batched else (A[None], B[None])
    (L, M, K), (matrices, N, columns) = a.shape, b.shape
    if (matrices, columns) != (L, K):
        raise LaunchError(
            f"A is {tuple(A.shape)} and B is {tuple(B.shape)}",
            "both have K columns, and as many matrices: C = A B^T",
        )
    dtype = type_of("A", A, TYPES)
    if type_of("B", B, TYPES) != dtype:
        raise LaunchError(f"A is {A.dtype} and B is {B.dtype}", "convert one of them")
    size = ITEM_SIZE[dtype]
    if size * K % 16:
        raise LaunchError(
            f"K is {K}: rows of {size * K} bytes, and TMA takes multiples of 16",
            f"pad K to a multiple of {16 // size} with zeros",
        )
    shape = (L, M, N) if batched else (M, N)
    result = empty_like(A, shape) if out is None else out
    rank_of("out", result, (len(shape),))
    c = result if batched else result[None]
    product = Product(int(L), int(M), int(N), int(K), dtype)
    choice = tuned.choice(product) or fastest(product)
    if choice.slices:
        slices = (choice.slices, K // choice.slices)
        a, b = a.reshape((L, M, *slices)), b.reshape((L, N, *slices))
    kernel(choice.name)(stream=stream, A=a, B=b, C=c)
    return result


def gemv(A: Any, x: Any, out: Any = None, *, stream: object = None) -> Any:
    """y = A x in f32: A is (M, K) by rows, and x has K elements, as for `gemm`."""
    rank_of("A", A, (2,))
    rank_of("x", x, (1,))
    M, K = A.shape
    result = empty_like(A, (M,)) if out is None else out
    choice = tuned.choice(Product(1, int(M), 0, int(K)))
    kernel(choice.name if choice else of_vector(M, K))(stream=stream, A=A, x=x, y=result)
    return result


def of_vector(M: int, K: int) -> str:
    """The kernel for a matrix of M x K and a vector: a CTA a row where rows are long or few."""
    few = M <= FEW_ROWS and 4 * K >= LONG_ROW
    return "gemv_rows" if few or K >= LONG_ROW else "gemv"


@cache
def kernel(name: str) -> Kernel:
    """A kernel that ships, proved and compiled."""
    from exogpu.kernels import gemm_sm90, gemm_splitk_sm90, gemv_f32

    return {**gemm_sm90.KERNELS, **gemm_splitk_sm90.KERNELS, **gemv_f32.KERNELS}[name].compile()
