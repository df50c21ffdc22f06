"""Kernels of rows in several shapes on a GPU, side by side: right, then how fast each is.

    exogpu compile benchmarks/row_variants.py -o build/gpu/row-variants --cubin
    python benchmarks/gpu_row_variants.py build/gpu/row-variants -o build/gpu-row-variants.json

A line has the shapes of `row_shapes.py` that take such rows, and the rate of each beside that of
torch's copy.  Each is checked against float64 first, at its longest rows and at ones that half
of it would do for.  Needs torch, and no compiler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial

import gpu_results
import row_shapes as variants
import torch
from gpu_results import Problem, Run, copied, moved, ours, timed
from gpu_rows import (
    ELEMENTS,
    NORMS,
    STENCILLED,
    TIMED,
    TRANSPOSED,
    TYPES,
    given,
    theirs,
    wrong,
)
from torch.nn import functional

from exogpu.codegen.runtime import Kernel

RUNS = 24

Kernels = Callable[[str], Kernel]


def shapes_of(kind: str, N: int) -> list[str]:
    """The shapes that are compared at rows of N elements."""
    there = [s for s in variants.SHAPES if s.dtype == kind]
    longest = max(s.span for s in there)
    return [str(s) for s in there if (longest <= N if s.looped else s.span // 2 < N <= s.span)]


def checks(kernels: Kernels) -> Iterator[str]:
    """One text a check: empty, or what is wrong."""
    for shape in variants.SHAPES:
        for name in NORMS:
            kernel = kernels(f"{name}_{shape}")
            for N in (shape.span, shape.span // 2 + shape.vector, 3 * shape.span):
                if shape.most < N:
                    continue
                for M in (1, 7, 1000):
                    arrays, numbers = given(name, shape.dtype, M, N)
                    kernel(**arrays, **numbers)
                    found = wrong(arrays["y"], theirs(name, arrays, torch.float64), shape.dtype)
                    yield found and f"{name}_{shape} {M} x {N}: {found}"
    for kind in TYPES:
        for extents in ((1, 8, 8), (1, 64, 64), (3, 72, 136), (2, 1000, 40), (1, 4096, 4104)):
            x = torch.randn(extents, device="cuda").to(TYPES[kind])
            for label in variants.BLOCKS:
                y = torch.full((extents[0], *extents[:0:-1]), float("nan"), device="cuda")
                y = y.to(x.dtype)
                kernels(f"transpose_{kind}_{label}")(x=x, y=y)
                right = torch.equal(y, x.transpose(1, 2))
                yield "" if right else f"transpose_{kind}_{label} {extents}"
    for M, N in ((1, 4), (31, 132), (32, 128), (33, 124), (1000, 1004)):
        x, weight = torch.randn(M, N, device="cuda"), torch.randn(3, 3)
        there = weight.double().cuda()[None, None]
        wanted = functional.conv2d(x.double()[None, None], there, padding=1)[0, 0]
        for label in variants.STENCILS:
            y = torch.full_like(x, float("nan"))
            kernels(f"stencil_{label}")(x=x, weight=weight.numpy(), y=y)
            found = wrong(y, wanted, "f32")
            yield found and f"stencil_{label} {M} x {N}: {found}"


def problems(kernels: Kernels) -> Iterator[Problem]:
    """Yields the problems to time."""
    for kind in TYPES:
        for N in TIMED:
            for name in NORMS:
                arrays, numbers = given(name, kind, ELEMENTS // N, N)
                ways: dict[str, Run] = {
                    label: ours(kernels(f"{name}_{label}"), {**arrays, **numbers})
                    for label in shapes_of(kind, N)
                }
                ways["copy"] = copied(arrays["x"], arrays["y"])
                if len(ways) > 2:
                    yield f"{name} {kind}", f"{ELEMENTS // N} x {N}", moved(arrays["x"]), ways
        for extents in TRANSPOSED:
            x = torch.randn(extents, device="cuda").to(TYPES[kind])
            y = torch.empty((extents[0], *extents[:0:-1]), device="cuda", dtype=x.dtype)
            ways = {
                label or "tiles": ours(
                    kernels(f"transpose_{kind}" + f"_{label}" * bool(label)),
                    {"x": x, "y": y},
                )
                for label in ("", *variants.BLOCKS)
            }
            ways["copy"] = copied(x, y)
            yield f"transpose {kind}", " x ".join(map(str, extents)), moved(x), ways
    for (N, k), shapes in variants.TOPK.items():
        for M in (1, 8, 64):
            x = torch.randn(M, N, device="cuda")
            there = {"x": x, "y": x[:, :k].clone()}
            there["indices"] = torch.empty(M, k, device="cuda", dtype=torch.int64)
            ways = {str(of): ours(kernels(f"topk_i64_{of}"), there) for of in shapes}
            yield f"topk {k} f32", f"{M} x {N}", moved(x) // 2, ways
    for M, N in STENCILLED:
        x, weight = torch.randn(M, N, device="cuda"), torch.randn(3, 3)
        y = torch.empty_like(x)
        arguments = {"x": x, "weight": weight.numpy(), "y": y}
        ways = {
            label or "tiles": ours(kernels("stencil" + f"_{label}" * bool(label)), arguments)
            for label in ("", *variants.STENCILS)
        }
        ways["copy"] = copied(x, y)
        yield "stencil f32", f"{M} x {N}", moved(x), ways


def main() -> int:
    options = gpu_results.options(__doc__, "gpu-row-variants")
    kernels = partial(Kernel.from_folder, options.folder)
    return gpu_results.keep(options.output, list(checks(kernels)), timed(problems(kernels), RUNS))


if __name__ == "__main__":
    sys.exit(main())
