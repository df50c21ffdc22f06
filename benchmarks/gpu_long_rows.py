"""Kernels of rows that a cluster has, in several shapes on a GPU: right, then beside a copy.

    exogpu compile benchmarks/long_row_variants.py -o build/gpu/long-rows --cubin
    python benchmarks/gpu_long_rows.py build/gpu/long-rows -o build/gpu-long-rows.json

Each kernel of `long_row_shapes.py` is checked against float64 at its longest rows and at shorter
ones, with poisoned results, then timed relative to torch's copy.  Needs torch, and no compiler.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpu
import torch
from gpu_rows import ELEMENTS, NORMS, ROOT, TYPES, given, theirs, wrong

RUNS = 24
ROWS = (1, 7, 133)


def checked(kernel: Callable[..., None], name: str, kind: str, columns: int) -> list[str]:
    """What is wrong at rows of so many columns, and of fewer."""
    found = []
    for N in (columns, columns - 8, columns // 2 + 8, 16392, 8):
        for M in ROWS:
            arrays, numbers = given(name, kind, M, N)
            kernel(**arrays, **numbers)
            bad = wrong(arrays["y"], theirs(name, arrays, torch.float64), kind)
            found += [f"{name} {kind} {M} x {N}: {bad}"] if bad else []
    if name == "softmax":
        arrays, _ = given(name, kind, 3, columns)
        arrays["x"][0] = float("-inf")
        arrays["x"][1, 5] = float("inf")
        arrays["x"][2, 7] = float("-inf")
        kernel(**arrays)
        y = arrays["y"]
        if not (y[:2].isnan().all() and y[2].isfinite().all()):
            found.append(f"{name} {kind} {columns}: infinities")
    return found


def ways(
    kernels: dict[str, Callable[..., None]],
    name: str,
    arrays: dict[str, torch.Tensor],
    numbers: dict[str, float],
) -> dict[str, Callable[[], object]]:
    """What is timed."""

    def ours(kernel: Callable[..., None]) -> Callable[[], object]:
        return lambda: kernel(stream=torch.cuda.current_stream().cuda_stream, **arrays, **numbers)

    runs: dict[str, Callable[[], object]] = {of: ours(kernel) for of, kernel in kernels.items()}
    runs["torch"] = lambda: theirs(name, arrays)
    runs["copy"] = lambda: arrays["y"].view(-1).copy_(arrays["x"].view(-1))
    return runs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build/gpu-long-rows.json")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    of_folder = importlib.import_module("exogpu.codegen.runtime").Kernel.from_folder
    wanted = importlib.import_module("long_row_shapes")
    times: list[dict[str, Any]] = []
    bad: list[str] = []
    for kind in TYPES:
        for N in wanted.COLUMNS:
            for name in NORMS:
                kernels = {
                    str(shape): of_folder(options.folder, f"{name}_{shape}")
                    for shape in wanted.shapes(kind, N)
                }
                for kernel in kernels.values():
                    bad += checked(kernel, name, kind, N)
                runs = ways(kernels, name, *given(name, kind, ELEMENTS // N, N))
                seconds = {of: gpu.middle(each) for of, each in gpu.measured(runs, RUNS).items()}
                of_copy = {of: round(seconds["copy"] / s, 3) for of, s in seconds.items()}
                times.append({"name": f"{name} {kind}", "columns": N, "of copy": of_copy})
                print(f"{name} {kind} {N}: {of_copy}", flush=True)
    print(f"{len(bad)} wrong", *bad[:20], sep="\n  ")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"wrong": bad, "times": times}, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
