"""Kernels of rows in several shapes on a GPU, side by side: right, then how fast each is.

    exogpu compile benchmarks/row_variants.py -o build/gpu/row-variants --cubin
    python benchmarks/gpu_row_variants.py build/gpu/row-variants -o build/gpu-row-variants.json

A line has the shapes of `row_shapes.py` that take such rows, and the rate of each relative to
torch's copy.  Each is checked against float64 first, at its longest rows and at ones that half
of it would do for.  Needs torch, and no compiler.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gpu
import torch
from gpu_rows import ELEMENTS, NORMS, ROOT, TIMED, TYPES, given, theirs, wrong
from torch.nn import functional

RUNS = 24
TRANSPOSED = ((1, 8192, 16384), (1, 10000, 10000), (64, 1024, 2048))
STENCILLED = ((8192, 16384), (10000, 10000))

Run = Callable[[], object]


def kernel_in(folder: Path, name: str) -> Callable[..., Any]:
    """A compiled kernel."""
    return importlib.import_module("exogpu.codegen.runtime").Kernel.from_folder(folder, name)


def ours(kernel: Callable[..., None], arguments: dict[str, Any]) -> Run:
    return lambda: kernel(stream=torch.cuda.current_stream().cuda_stream, **arguments)


def copied(x: torch.Tensor, y: torch.Tensor) -> Run:
    return lambda: y.view(-1).copy_(x.view(-1))


def shapes_of(kind: str, N: int) -> list[str]:
    """The shapes that are compared at rows of N elements."""
    there = [s for s in importlib.import_module("row_shapes").SHAPES if s.dtype == kind]
    longest = max(s.span for s in there)
    return [str(s) for s in there if (longest <= N if s.looped else s.span // 2 < N <= s.span)]


def checks(folder: Path) -> Iterator[str]:
    """One text a check: empty, or what is wrong."""
    for shape in importlib.import_module("row_shapes").SHAPES:
        for name in NORMS:
            kernel = kernel_in(folder, f"{name}_{shape}")
            for N in (shape.span, shape.span // 2 + shape.vector, 3 * shape.span):
                if shape.most < N:
                    continue
                for M in (1, 7, 1000):
                    arrays, numbers = given(name, shape.dtype, M, N)
                    kernel(**arrays, **numbers)
                    found = wrong(arrays["y"], theirs(name, arrays, torch.float64), shape.dtype)
                    yield found and f"{name}_{shape} {M} x {N}: {found}"
    variants = importlib.import_module("row_shapes")
    for kind in TYPES:
        for extents in ((1, 8, 8), (1, 64, 64), (3, 72, 136), (2, 1000, 40), (1, 4096, 4104)):
            x = torch.randn(extents, device="cuda").to(TYPES[kind])
            for label in variants.BLOCKS:
                y = torch.full((extents[0], *extents[:0:-1]), float("nan"), device="cuda")
                y = y.to(x.dtype)
                kernel_in(folder, f"transpose_{kind}_{label}")(x=x, y=y)
                right = torch.equal(y, x.transpose(1, 2))
                yield "" if right else f"transpose_{kind}_{label} {extents}"
    for M, N in ((1, 4), (31, 132), (32, 128), (33, 124), (1000, 1004)):
        x, weight = torch.randn(M, N, device="cuda"), torch.randn(3, 3)
        there = weight.double().cuda()[None, None]
        wanted = functional.conv2d(x.double()[None, None], there, padding=1)[0, 0]
        for label in variants.STENCILS:
            y = torch.full_like(x, float("nan"))
            kernel_in(folder, f"stencil_{label}")(x=x, weight=weight.numpy(), y=y)
            found = wrong(y, wanted, "f32")
            yield found and f"stencil_{label} {M} x {N}: {found}"


def problems(folder: Path) -> Iterator[tuple[str, str, dict[str, Run]]]:
    """What is timed: its name, its size, and each way to do it."""
    variants = importlib.import_module("row_shapes")
    for kind in TYPES:
        for N in TIMED:
            M = ELEMENTS // N
            for name in NORMS:
                arrays, numbers = given(name, kind, M, N)
                ways: dict[str, Run] = {
                    label: ours(kernel_in(folder, f"{name}_{label}"), {**arrays, **numbers})
                    for label in shapes_of(kind, N)
                }
                ways["copy"] = copied(arrays["x"], arrays["y"])
                if len(ways) > 2:
                    yield f"{name} {kind}", f"{M} x {N}", ways
        for extents in TRANSPOSED:
            x = torch.randn(extents, device="cuda").to(TYPES[kind])
            y = torch.empty((extents[0], *extents[:0:-1]), device="cuda", dtype=x.dtype)
            ways = {
                label or "tiles": ours(
                    kernel_in(folder, f"transpose_{kind}" + f"_{label}" * bool(label)),
                    {"x": x, "y": y},
                )
                for label in ("", *variants.BLOCKS)
            }
            ways["copy"] = copied(x, y)
            yield f"transpose {kind}", " x ".join(map(str, extents)), ways
    for M, N in STENCILLED:
        x, weight = torch.randn(M, N, device="cuda"), torch.randn(3, 3)
        y = torch.empty_like(x)
        arguments = {"x": x, "weight": weight.numpy(), "y": y}
        ways = {
            label or "tiles": ours(
                kernel_in(folder, "stencil" + f"_{label}" * bool(label)), arguments
            )
            for label in ("", *variants.STENCILS)
        }
        ways["copy"] = copied(x, y)
        yield "stencil f32", f"{M} x {N}", ways


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build/gpu-row-variants.json")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    found = list(checks(options.folder))
    bad = list(filter(None, found))
    print(f"{len(found)} checks, {len(bad)} wrong", *bad[:20], sep="\n  ")
    times = []
    for name, size, ways in problems(options.folder):
        seconds = {of: gpu.middle(each) for of, each in gpu.measured(ways, RUNS).items()}
        copy = seconds.pop("copy")
        rates = {of: copy / each for of, each in seconds.items()}
        times.append({"name": name, "size": size, "copy": copy, "of_the_copy": rates})
        print(f"{name} {size}: " + ", ".join(f"{of} {rate:.3f}" for of, rate in rates.items()))
        sys.stdout.flush()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"checks": len(found), "wrong": bad, "times": times}))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
