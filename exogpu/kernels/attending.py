"""Attention of arrays in one call: the kernel is chosen by their shapes, compiled on first use."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.errors import LaunchError
from exogpu.hw.datatypes import bf16, f16
from exogpu.kernels.taken import by_rows, check, empty, flat, launch, rank_of, scratch, type_of

_TYPES: Final = {"bf16": bf16, "f16": f16}


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
    result = empty(q, (B, H, S, D)) if out is None else out
    sums = scratch(q, (B, H, S), "float32", stream) if lse is None else lse
    check("out", result, (B, H, S, D), dtype)
    check("lse", sums, (B, H, S), "f32")
    launch(
        kernel(D, bool(causal), H // G, dtype),
        {"Q": "q", "K": "k", "V": "v", "Y": "out", "L": "lse"},
        stream=stream,
        Q=flat("q", q, (B * H, S, D)),
        K=flat("k", k, (B * G, S, D)),
        V=flat("v", v, (B * G, S, D)),
        Y=flat("out", result, (B * H, S, D)),
        L=flat("lse", sums, (B * H, S)),
    )
    return result


@cache
def kernel(D: int, causal: bool, G: int, dtype: str = "bf16") -> Kernel:
    """The kernel, proved and compiled; with heads that share, or of f16, it is proved now."""
    from exogpu.kernels import attention_sm90 as shipped

    found = shipped.KERNELS.get(shipped.name_of(D, causal, G, _TYPES[dtype]))
    if found is None:
        found = shipped.make_attention(D, causal=causal, G=G, dtype=_TYPES[dtype])
    return found.compile()
