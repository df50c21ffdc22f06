"""Attention of arrays in one call: the kernel is chosen by their shapes, compiled on first use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.hw.language import bf16, f16
from exogpu.kernels.array_arguments import (
    by_rows,
    check,
    empty_array,
    flat,
    launch,
    rank_of,
    scratch,
    type_of,
)
from exogpu.kernels.grouped_calls import MOST_ROWS, TILE, tile_divider
from exogpu.kernels.repeated_calls import remember_calls

_TYPES: Final = {"bf16": bf16, "f16": f16}
_THEIRS: Final = {"Q": "q", "K": "k", "V": "v", "Y": "out", "L": "lse"}
"""The caller's names, by the kernels'."""
_OF_PAGES: Final = _THEIRS | {"K": "k_cache", "V": "v_cache"}
_PAGES: Final = (16, 32, 64, 128, 256)
"""The numbers of keys that a page may have."""


@remember_calls
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
    dtype = _heads({"q": q, "k": k, "v": v}, H, G, D, causal)
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


@remember_calls
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
    dtype = _heads({"q": q, "k": k, "v": v}, H, G, D, causal)
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
    chosen = kernel(D, bool(causal), H // G, dtype, packed=True)
    cuts, group = _tiles(q, cu_seqlens_q, stream)
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


@remember_calls
def attention_paged(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    block_table: Any,
    cu_seqlens_q: Any,
    seqlens_k: Any,
    causal: bool = False,
    out: Any = None,
    lse: Any = None,
    stream: object = None,
) -> Any:
    """`attention_varlen` with keys and values in pages: q is (T, H, D), caches (pages, P, G, D).

    P is 16, 32, 64, 128 or 256.  The keys of sequence b are the first `seqlens_k[b]` rows of the
    pages `block_table[b, 0]`, `block_table[b, 1]`, ...: both int32, block_table (B, most pages of a
    sequence).  What stands behind the last page of a sequence in the table, or behind its last row
    in a page, may be anything.  A page that there is not, or more keys than the table has pages
    for, stop the kernel.  All else is as for `attention_varlen`.
    """
    caches = {"k_cache": k_cache, "v_cache": v_cache}
    rank_of("q", q, (3,))
    for name, array in caches.items():
        rank_of(name, array, (4,))
    T, H, D = map(int, q.shape)
    _, P, G, columns = map(int, k_cache.shape)
    if tuple(v_cache.shape) != tuple(k_cache.shape) or columns != D:
        shapes = f"k_cache is {tuple(k_cache.shape)} and v_cache is {tuple(v_cache.shape)}"
        raise LaunchError(
            f"q is {tuple(q.shape)}, {shapes}",
            "all have as many columns, and the caches as many pages, rows and heads",
        )
    dtype = _heads({"q": q, **caches}, H, G, D, causal)
    if P not in _PAGES:
        what = f"k_cache has pages of {P} rows"
        raise LaunchError(what, f"give pages of {', '.join(map(str, _PAGES))}")
    indices = {"block_table": block_table, "cu_seqlens_q": cu_seqlens_q, "seqlens_k": seqlens_k}
    for name, array in indices.items():
        rank_of(name, array, (2 if array is block_table else 1,))
        type_of(name, array, ("i32",))
        by_rows(name, array)
    B = int(cu_seqlens_q.shape[0]) - 1
    if B < 1:
        what = f"cu_seqlens_q has {B + 1} elements"
        raise LaunchError(what, "give where each sequence begins, and where the last one ends")
    if int(block_table.shape[0]) != B or int(seqlens_k.shape[0]) != B:
        counts = f"block_table has {block_table.shape[0]} rows, seqlens_k {seqlens_k.shape[0]}"
        raise LaunchError(
            f"cu_seqlens_q has {B + 1} elements, {counts}",
            "give a row of pages and a number of keys for each sequence",
        )
    if T >= MOST_ROWS:
        raise LaunchError(f"q has {T} rows", f"give 1 to {MOST_ROWS - 1}")
    result, sums = _results(q, out, lse, (T, H, D), (H, T), dtype, stream)
    chosen = kernel(D, bool(causal), H // G, dtype, page=P)
    cuts, group = _tiles(q, cu_seqlens_q, stream)
    launch(
        chosen,
        _OF_PAGES,
        stream=stream,
        Q=q,
        K=k_cache,
        V=v_cache,
        cuts=cuts,
        group=group,
        Y=result,
        L=sums,
        **indices,
    )
    return result


def _tiles(q: Any, cu_seqlens_q: Any, stream: object) -> tuple[Any, Any]:
    """Returns the cuts between the tiles of all sequences, and the sequence of each."""
    B = int(cu_seqlens_q.shape[0]) - 1
    tiles = int(q.shape[0]) // TILE + B
    cuts = scratch(q, (tiles + 1,), "int32", stream)
    group = scratch(q, (tiles,), "int32", stream)
    theirs = {"offsets": "cu_seqlens_q"}
    launch(
        tile_divider(TILE), theirs, stream=stream, G=B, offsets=cu_seqlens_q, cuts=cuts, group=group
    )
    return cuts, group


def _heads(arrays: Mapping[str, Any], H: int, G: int, D: int, causal: object) -> str:
    """The type of all three, queries, keys and values by name.  Raises LaunchError unless heads and
    types go together, and all lie by rows."""
    q, k, v = arrays
    if G == 0 or H % G:
        raise LaunchError(f"{q} has {H} heads, and {k} {G}", "as many heads of q share each of k")
    if D not in (64, 128):
        raise LaunchError(f"heads have {D} columns", "give heads of 64 or 128: pad them with zeros")
    dtype = type_of(q, arrays[q], tuple(_TYPES))
    for name in (k, v):
        if type_of(name, arrays[name], tuple(_TYPES)) != dtype:
            what = f"{q} is {arrays[q].dtype} and {name} is {arrays[name].dtype}"
            raise LaunchError(what, "convert one of them")
    for name, array in arrays.items():
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
    """Returns the arrays to write: given, or made. Raises LaunchError for arrays of other shapes or
    types."""
    result = empty_array(q, rows) if out is None else out
    sums = scratch(q, numbers, "float32", stream) if lse is None else lse
    check("out", result, rows, dtype)
    check("lse", sums, numbers, "f32")
    return result, sums


@cache
def kernel(
    D: int,
    causal: bool,
    G: int,
    dtype: str = "bf16",
    *,
    packed: bool = False,
    page: int | None = None,
) -> Kernel:
    """The kernel, proved and compiled; with heads that share, or of f16, it is proved now."""
    from exogpu.kernels import attention_sm90

    found = attention_sm90.KERNELS.get(
        attention_sm90.name_of(D, causal, G, _TYPES[dtype], packed, page)
    )
    if found is None:
        found = attention_sm90.make_attention(
            D, causal=causal, G=G, dtype=_TYPES[dtype], packed=packed, page=page
        )
    return found.compile()
