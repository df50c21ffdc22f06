"""Kernels of rows that a cluster has, in several shapes on a GPU: right, then beside a copy.

    exogpu compile benchmarks/long_row_variants.py -o build/gpu/long-rows --cubin
    python benchmarks/gpu_long_rows.py build/gpu/long-rows -o build/gpu-long-rows.json

Each kernel of `long_row_shapes.py` is checked against float64 at its longest rows and at shorter
ones, with poisoned results, then timed beside torch's copy.  Needs torch, and no compiler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import gpu_results
import torch
from gpu_results import Problem, copied, moved, ours, timed
from gpu_rows import ELEMENTS, NORMS, TYPES, given, theirs, wrong
from long_row_shapes import COLUMNS, shapes

from exogpu.codegen.runtime import Kernel

RUNS = 24
ROWS = (1, 7, 133)


def checked(kernel: Callable[..., None], name: str, kind: str, columns: int) -> Iterator[str]:
    """One text a check, at rows of so many columns and of fewer: empty, or what is wrong."""
    for N in (columns, columns - 8, columns // 2 + 8, 16392, 8):
        for M in ROWS:
            arrays, numbers = given(name, kind, M, N)
            kernel(**arrays, **numbers)
            found = wrong(arrays["y"], theirs(name, arrays, torch.float64), kind)
            yield found and f"{name} {kind} {M} x {N}: {found}"
    if name == "softmax":
        arrays, _ = given(name, kind, 3, columns)
        arrays["x"][0] = float("-inf")
        arrays["x"][1, 5] = float("inf")
        arrays["x"][2, 7] = float("-inf")
        kernel(**arrays)
        y = arrays["y"]
        right = y[:2].isnan().all() and y[2].isfinite().all()
        yield "" if right else f"{name} {kind} {columns}: infinities"


def main() -> int:
    options = gpu_results.options(__doc__, "gpu-long-rows")
    cases = [(kind, N, name) for kind in TYPES for N in COLUMNS for name in NORMS]

    def kernels(kind: str, N: int, name: str) -> dict[str, Kernel]:
        of = {str(shape): f"{name}_{shape}" for shape in shapes(kind, N)}
        return {shape: Kernel.from_folder(options.folder, one) for shape, one in of.items()}

    def problems() -> Iterator[Problem]:
        for kind, N, name in cases:
            arrays, numbers = given(name, kind, ELEMENTS // N, N)
            x, y = arrays["x"], arrays["y"]
            runs = {
                "copy": copied(x, y),
                **{of: ours(k, {**arrays, **numbers}) for of, k in kernels(kind, N, name).items()},
                "torch": lambda name=name, arrays=arrays: theirs(name, arrays),
            }
            yield f"{name} {kind}", f"{len(x)} x {N}", moved(x), runs

    found = [
        text
        for kind, N, name in cases
        for kernel in kernels(kind, N, name).values()
        for text in checked(kernel, name, kind, N)
    ]
    return gpu_results.keep(options.output, found, timed(problems(), RUNS))


if __name__ == "__main__":
    sys.exit(main())
