"""The host's time of a call: from Python's call to its return, on a GPU that has little to do.

    python benchmarks/host_time.py -o docs/host-time.json

Each public call of `exogpu.kernels` is made on small arrays in two ways: the same arrays and `out=`
again, and other arrays each time, with a new result.  torch's own products stand beside.  The
results of both ways are compared with those of a call that looks at all of its arguments.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from exogpu import kernels

SETS, CALLS, ROUNDS = 8, 100, 15
"""Sets of arrays, calls of a round, and rounds: the median of these counts."""

Arguments = dict[str, Any]
Result = torch.Tensor | tuple[torch.Tensor, ...]


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """An array of normal numbers."""
    return torch.randn(*shape, device="cuda").to(dtype)


def cases() -> Iterator[tuple[str, Callable[..., Any], Callable[[], Arguments]]]:
    """Names, functions, and what makes their arguments."""
    f32, f8 = torch.float32, torch.float8_e4m3fn
    ints = {"device": "cuda", "dtype": torch.int32}
    yield "torch.mm", torch.mm, lambda: {"input": normal(256, 256), "mat2": normal(256, 256)}
    yield (
        "torch.softmax",
        torch.softmax,
        lambda: {"input": normal(256, 1024), "dim": -1},
    )
    for dtype in (torch.bfloat16, f32):
        name = str(dtype).removeprefix("torch.")
        yield (
            f"gemm {name}",
            kernels.gemm,
            lambda dtype=dtype: {  # type: ignore[misc]
                "A": normal(256, 256, dtype=dtype),
                "B": normal(256, 256, dtype=dtype),
            },
        )
    yield (
        "gemm_fused",
        kernels.gemm_fused,
        lambda: {
            "A": normal(256, 256),
            "B": normal(256, 256),
            "bias": normal(256),
            "activation": "relu",
        },
    )
    yield (
        "gemm_fp8",
        kernels.gemm_fp8,
        lambda: {
            "A": normal(256, 256, dtype=f8),
            "B": normal(256, 256, dtype=f8),
            "scale": normal(1, dtype=f32),
        },
    )
    yield (
        "gemv",
        kernels.gemv,
        lambda: {"A": normal(256, 256, dtype=f32), "x": normal(256, dtype=f32)},
    )
    offsets = [0, 128, 256, 300, 512]
    yield (
        "grouped_gemm",
        kernels.grouped_gemm,
        lambda: {
            "A": normal(512, 256),
            "B": normal(4, 256, 256),
            "offsets": torch.tensor(offsets, **ints),
        },
    )
    yield (
        "attention",
        kernels.attention,
        lambda: {n: normal(1, 4, 256, 128) for n in ("q", "k", "v")},
    )
    yield (
        "attention_varlen",
        kernels.attention_varlen,
        lambda: {
            **{n: normal(256, 4, 128) for n in ("q", "k", "v")},
            **{n: torch.tensor([0, 100, 256], **ints) for n in ("cu_seqlens_q", "cu_seqlens_k")},
        },
    )
    yield "softmax", kernels.softmax, lambda: {"x": normal(256, 1024)}
    weight = {"weight": (1024,)}
    yield (
        "rms_norm",
        kernels.rms_norm,
        lambda: {"x": normal(256, 1024), "weight": normal(*weight["weight"]), "eps": 1e-5},
    )
    yield (
        "layer_norm",
        kernels.layer_norm,
        lambda: {"x": normal(256, 1024), "weight": normal(1024), "bias": normal(1024)},
    )
    yield (
        "cross_entropy",
        kernels.cross_entropy,
        lambda: {
            "logits": normal(256, 1024),
            "target": torch.randint(0, 1024, (256,), device="cuda"),
        },
    )
    yield "cumsum", kernels.cumsum, lambda: {"x": normal(256, 1024, dtype=f32)}
    yield "topk", kernels.topk, lambda: {"x": normal(256, 1024, dtype=f32), "k": 8}
    yield "total", kernels.total, lambda: {"x": normal(256, 1024, dtype=f32)}
    yield "transpose", kernels.transpose, lambda: {"x": normal(256, 1024)}
    index = {"low": 0, "high": 256, "size": (256,)}
    yield (
        "gather_rows",
        kernels.gather_rows,
        lambda: {"x": normal(256, 1024), "index": torch.randint(**index, **ints)},
    )
    yield (
        "histogram",
        kernels.histogram,
        lambda: {"x": torch.randint(0, 256, (4096,), **ints), "bins": 256},
    )


def seconds(call: Callable[[int], Any]) -> float:
    """The median over rounds of the mean seconds of a call, which gets its number."""
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for at in range(CALLS):
            call(at)
        rounds.append((time.perf_counter() - begin) / CALLS)
    return statistics.median(rounds)


def same(one: Result, other: Result) -> bool:
    """Tests whether two results are alike, bit by bit."""
    ones, others = (r if isinstance(r, tuple) else (r,) for r in (one, other))
    pairs = zip(ones, others, strict=True)
    return all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in pairs)


def measure(function: Callable[..., Any], make: Callable[[], Arguments]) -> dict[str, Any]:
    """Microseconds of both ways, and whether all results were right."""
    sets = [make() for _ in range(SETS)]
    looked = getattr(function, "__wrapped__", function)
    results = [looked(**arguments) for arguments in sets]
    atomic = function is kernels.total
    for _ in range(3):
        again = [function(**arguments) for arguments in sets]
    torch.cuda.synchronize()
    right = atomic or all(map(same, results, again))
    other = seconds(lambda at: function(**sets[at % SETS]))
    row: dict[str, Any] = {"other arrays": round(1e6 * other, 2), "right": right}
    try:
        out = {**sets[0], "out": again[0][0] if isinstance(again[0], tuple) else again[0]}
        if isinstance(again[0], tuple):
            out["indices"] = again[0][1]
        if looked is function and function is torch.mm:
            out["out"] = torch.empty_like(again[0])
        row["repeated"] = round(1e6 * seconds(lambda _: function(**out)), 2)
    except TypeError:
        row["repeated"] = None
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-o", type=Path, help="a file for the figures")
    parser.add_argument("--only", default="", help="calls whose names begin so")
    chosen = parser.parse_args()
    table = {}
    for name, function, make in cases():
        if name.startswith(chosen.only):
            table[name] = measure(function, make)
            print(f"{name:<20}{table[name]}", flush=True)
    if chosen.o:
        gpu = torch.cuda.get_device_name()
        text = json.dumps({"gpu": gpu, "microseconds": table}, indent=1)
        chosen.o.write_text(text + "\n")
    return 0 if all(row["right"] for row in table.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
