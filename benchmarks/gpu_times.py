"""Speed of emitted kernels beside torch, that is cuBLAS: tables of one run, in Markdown.

Kernels and library take turns in a shuffled order; the L2 cache is flushed before each run; a
time is the mean of the middle half.  Ratios are of one run, since absolute figures move.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType

import torch

RUNS = 24
SQUARES = (512, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
LONG = ((256, 65536), (512, 65536), (1024, 65536), (2048, 65536))
"""M = N, and K: where slices of K are tasks of their own."""
VECTORS = (1024, 2048, 4096, 8192, 16384)
SPLITS = (1, 2, 4, 8, 16, 32, 64)
"""Slices of K, where they have at least 128 columns."""

Run = Callable[[], object]


def tables(runtime: ModuleType, folder: Path, only: str) -> list[str]:
    """Lines of the tables of all kernels of a folder."""
    torch.backends.cuda.matmul.allow_tf32 = True
    kernels = {
        path.stem: runtime.Kernel.from_folder(folder, path.stem)
        for path in sorted(folder.glob("*.json"))
        if re.search(only, path.stem)
    }
    sizes = {name: _sizes(folder / f"{name}.json") for name in kernels}
    gemms = {n: k for n, k in kernels.items() if "x" not in sizes[n]}
    gemvs = {n: k for n, k in kernels.items() if "x" in sizes[n]}
    lines: list[str] = []
    if gemms:
        squares = {str(n): _gemm(gemms, sizes, n, n) for n in SQUARES}
        lines += _table("Square GEMMs, TFLOPS (ratio to cuBLAS)", squares)
        longs = {f"{n} {n} {k}": _gemm(gemms, sizes, n, k) for n, k in LONG}
        lines += ["", *_table("M N K, TFLOPS (ratio to cuBLAS)", longs)]
    if gemvs:
        vectors = {str(n): _gemv(gemvs, n) for n in VECTORS}
        lines += ["", *_table("Square GEMV, TB/s (ratio to cuBLAS)", vectors)]
    return lines


def _sizes(manifest: Path) -> tuple[str, ...]:
    return tuple(p["name"] for p in json.loads(manifest.read_text())["parameters"])


def _gemm(
    kernels: Mapping[str, Callable], sizes: Mapping[str, tuple[str, ...]], n: int, k: int
) -> Mapping[str, float]:
    """TFLOPS of the library and of each kernel; of split-k, the best number of slices."""
    a, b = torch.randn(n, k, device="cuda"), torch.randn(n, k, device="cuda")
    ours, theirs = torch.empty(n, n, device="cuda"), torch.empty(n, n, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    runs: dict[tuple[str, int], Run] = {("cuBLAS", 1): partial(torch.mm, a, b.T, out=theirs)}
    for name, kernel in kernels.items():
        on = partial(kernel, stream=stream)
        if "K_split" in sizes[name]:
            for slices in (s for s in SPLITS if s == 1 or k // s >= 128):
                views = (x.view(1, n, slices, k // slices) for x in (a, b))
                runs[name, slices] = partial(
                    on, **{"A": next(views), "B": next(views)}, C=ours.view(1, n, n)
                )
        elif "L" in sizes[name]:
            runs[name, 1] = partial(on, A=a[None], B=b[None], C=ours[None])
        else:
            runs[name, 1] = partial(on, A=a, B=b, C=ours)
    found: dict[str, float] = {}
    for (name, _), time in _seconds(runs).items():
        found[name] = max(found.get(name, 0.0), 2.0 * n * n * k / time / 1e12)
    return found


def _gemv(kernels: Mapping[str, Callable], n: int) -> Mapping[str, float]:
    """TB/s of the library and of each kernel: the matrix is read once."""
    a, x = torch.randn(n, n, device="cuda"), torch.randn(n, device="cuda")
    ours, theirs = torch.empty(n, device="cuda"), torch.empty(n, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    runs: dict[tuple[str, int], Run] = {("cuBLAS", 1): partial(torch.mv, a, x, out=theirs)}
    for name, kernel in kernels.items():
        runs[name, 1] = partial(kernel, stream=stream, A=a, x=x, y=ours)
    return {name: 4.0 * n * n / time / 1e12 for (name, _), time in _seconds(runs).items()}


def _seconds(runs: Mapping[tuple[str, int], Run]) -> Mapping[tuple[str, int], float]:
    flush = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
    times: dict[tuple[str, int], list[float]] = {key: [] for key in runs}
    for run in runs.values():
        run()
        run()
    torch.cuda.synchronize()
    order = list(runs)
    for _ in range(RUNS):
        random.shuffle(order)
        for key in order:
            flush.zero_()
            torch.cuda._sleep(1_000_000)  # the launch is enqueued before the clock starts
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            runs[key]()
            end.record()
            end.synchronize()
            times[key].append(start.elapsed_time(end) / 1e3)
    quarter = RUNS // 4
    return {k: sum(sorted(t)[quarter:-quarter]) / (RUNS - 2 * quarter) for k, t in times.items()}


def _table(title: str, columns: Mapping[str, Mapping[str, float]]) -> list[str]:
    """A row a kernel, the library's first, and the best of ours last."""
    names = list(next(iter(columns.values())))
    lines = [f"| {title} | {' | '.join(columns)} |", "| --- " * (len(columns) + 1) + "|"]
    for name in names:
        cells = [_cell(rates[name], rates["cuBLAS"]) for rates in columns.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    if len(names) > 2:
        best = [
            _cell(max(v for n, v in rates.items() if n != "cuBLAS"), rates["cuBLAS"])
            for rates in columns.values()
        ]
        lines.append(f"| best of ours | {' | '.join(best)} |")
    return lines


def _cell(rate: float, library: float) -> str:
    return f"{rate:.4g} ({rate / library:.2f})"
