"""Attention of arrays in one call: the kernel is chosen by their shapes, compiled on first use."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.errors import LaunchError
from exogpu.hw.datatypes import bf16, f16
from exogpu.kernels.grouped import MOST_ROWS, TILE, where
from exogpu.kernels.taken import by_rows, check, empty, flat, launch, rank_of, scratch, type_of

_TYPES: Final = {"bf16": bf16, "f16": f16}
_THEIRS: Final = {"Q": "q", "K": "k", "V": "v", "Y": "out", "L": "lse"}
"""The caller's names, by the kernels'."""


def attention(
    q: Any,
    k: Any,
    v: Any,
    causal: bool = False,
    out: Any = None,
    lse: Any = None,
    stream: object = None,
) -> Any:
    """softmax(q k^T / sqrt(D)) v for each head: q is (B, H, S, D), k and v (B, G, S, D), by rows.

    H is a multiple of G: H / G heads of q share one of k and v.  D is 64 or 128; all are bf16, or
    all f16.  With `causal` a row of q looks at no later row of k.  `lse` is an array of f32,
    (B, H, S), for the logarithms of the rows' sums of exponentials.  Arrays, streams and errors are
    those of `gemm`.
    """
    for name, array in (("q", q), ("k", k), ("v", v)):
        rank_of(name, array, (4,))
    B, H, S, D = map(int, q.shape)
    batches, G, rows, columns = map(int, k.shape)
    if tuple(v.shape) != tuple(k.shape) or (batches, rows, columns) != (B, S, D):
        raise LaunchError(
            f"q is {tuple(q.shape)}, k is {tuple(k.shape)} and v is {tuple(v.shape)}",
            "all have as many rows and columns, and k and v as many heads",
        )
    dtype = _heads(q, k, v, H, G, D, causal)
    result, sums = _results(q, out, lse, (B, H, S, D), (B, H, S), dtype, stream)
    launch(
        kernel(D, bool(causal), H // G, dtype),
        _THEIRS,
        stream=stream,
        Q=flat("q", q, (B * H, S, D)),
        K=flat("k", k, (B * G, S, D)),
        V=flat("v", v, (B * G, S, D)),
        Y=flat("out", result, (B * H, S, D)),
        L=flat("lse", sums, (B * H, S)),
    )
    return result


def attention_varlen(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    causal: bool = False,
    out: Any = None,
    lse: Any = None,
    stream: object = None,
) -> Any:
    """`attention` of sequences one after the other: q is (T, H, D), k and v (N, G, D), by rows.

    Sequence b is rows `cu_seqlens_q[b]` to `cu_seqlens_q[b + 1]` of q, and those of k and v that
    cu_seqlens_k tells: both int32, begin with 0 and never decrease, which is not looked at, and
    nothing is copied to the CPU.  Rows of no sequence are left as they are.  With `causal` the last
    row of a sequence looks at all of its keys, and each row before at one less.  Rows that look at
    none are 0.  `lse` is (H, T), and -infinity for these.  All else is as for `attention`.
    """
    for name, array in (("q", q), ("k", k), ("v", v)):
        rank_of(name, array, (3,))
    T, H, D = map(int, q.shape)
    N, G, columns = map(int, k.shape)
    if tuple(v.shape) != tuple(k.shape) or columns != D:
        raise LaunchError(
            f"q is {tuple(q.shape)}, k is {tuple(k.shape)} and v is {tuple(v.shape)}",
            "all have as many columns, and k and v as many rows and heads",
        )
    dtype = _heads(q, k, v, H, G, D, causal)
    for name, array in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k)):
        rank_of(name, array, (1,))
        type_of(name, array, ("i32",))
    B = int(cu_seqlens_q.shape[0]) - 1
    if B < 1 or int(cu_seqlens_k.shape[0]) != B + 1:
        what = f"cu_seqlens_q has {B + 1} elements, and cu_seqlens_k {cu_seqlens_k.shape[0]}"
        raise LaunchError(what, "give where each sequence begins, and where the last one ends")
    if max(T, N) >= MOST_ROWS:
        raise LaunchError(f"q has {T} rows, and k {N}", f"give 1 to {MOST_ROWS - 1}")
    result, sums = _results(q, out, lse, (T, H, D), (H, T), dtype, stream)
    tiles = T // TILE + B
    cuts = scratch(q, (tiles + 1,), "int32", stream)
    group = scratch(q, (tiles,), "int32", stream)
    chosen = kernel(D, bool(causal), H // G, dtype, packed=True)
    where(TILE)(stream=stream, G=B, offsets=cu_seqlens_q, cuts=cuts, group=group)
    launch(
        chosen,
        _THEIRS,
        stream=stream,
        B=B,
        Q=q,
        K=k,
        V=v,
        cuts=cuts,
        group=group,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        Y=result,
        L=sums,
    )
    return result


def _heads(q: Any, k: Any, v: Any, H: int, G: int, D: int, causal: object) -> str:
    """The type of all three.  Raises LaunchError unless heads and types go together, and all lie by
    rows."""
    if G == 0 or H % G:
        raise LaunchError(f"q has {H} heads, and k {G}", "as many heads of q share each of k")
    if D not in (64, 128):
        raise LaunchError(f"heads have {D} columns", "give heads of 64 or 128: pad them with zeros")
    dtype = type_of("q", q, tuple(_TYPES))
    for name, array in (("k", k), ("v", v)):
        if type_of(name, array, tuple(_TYPES)) != dtype:
            raise LaunchError(f"q is {q.dtype} and {name} is {array.dtype}", "convert one of them")
    for name, array in (("q", q), ("k", k), ("v", v)):
        by_rows(name, array)
    if type(causal).__name__ not in ("bool", "bool_", "int"):
        what = f"causal is a {type(causal).__name__}"
        raise LaunchError(what, "give True or False, and out and lse by name")
    return dtype


def _results(
    q: Any,
    out: Any,
    lse: Any,
    rows: tuple[int, ...],
    numbers: tuple[int, ...],
    dtype: str,
    stream: object,
) -> tuple[Any, Any]:
    """What is written: given, or made.  Raises LaunchError for arrays of other shapes or types."""
    result = empty(q, rows) if out is None else out
    sums = scratch(q, numbers, "float32", stream) if lse is None else lse
    check("out", result, rows, dtype)
    check("lse", sums, numbers, "f32")
    return result, sums


@cache
def kernel(D: int, causal: bool, G: int, dtype: str = "bf16", *, packed: bool = False) -> Kernel:
    """The kernel, proved and compiled; with heads that share, or of f16, it is proved now."""
    from exogpu.kernels import attention_sm90 as shipped

    found = shipped.KERNELS.get(shipped.name_of(D, causal, G, _TYPES[dtype], packed))
    if found is None:
        found = shipped.make_attention(D, causal=causal, G=G, dtype=_TYPES[dtype], packed=packed)
    return found.compile()
