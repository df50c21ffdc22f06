"""Kernels whose tasks wait for each other, on a GPU: right, again and again, then their speed.

    exogpu compile benchmarks/flags.py -o build/gpu/flags --cubin
    exogpu compile examples/splitk_fixup.py -o build/gpu/flags --cubin
    python benchmarks/gpu_flags.py build/gpu/flags -o build/gpu-flags.json
    python benchmarks/gpu_flags.py --write build/gpu-flags.json       # docs/kernels.md

Each kernel is checked against float64 at many sizes with poisoned results, and run again on the
same arrays: a race, or a flag that is awaited too early, is a difference between two runs.
Integers are compared exactly.  Also with fewer CTAs than the device holds.  Times are taken by the
method of `gpu.py`; the copy is torch's, of as many bytes as the kernel must read and write.  Needs
torch, and neither the solvers nor a compiler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache, partial

import gpu_results
import torch
from gpu_results import RATES, Problem, Run, copied, moved, ours, timed

from exogpu.codegen.runtime import Kernel
from exogpu.kernels.scan_rows import shape_of

RUNS = 40
AGAIN = 8
"""Times that each check is repeated."""
FEW = 5
"""CTAs of some of the runs."""
ROWS = (1, 2, 3, 133)
COLUMNS = (1, 3, 4, 100, 255, 256, 257, 1000, 1024, 1025, 4096, 8192, 8196, 30001, 65536, 100000)
LONG = ((1, 1 << 20), (1, (1 << 21) + 4), (1, (1 << 22) + 1), (2, 5_000_000), (1, 1 << 26))
SUMS = (1, 4, 1000, 16384, 16385, 1 << 20, (1 << 24) + 3, (1 << 26) + 4)
PRODUCTS = ((1, 1, 1, 1), (32, 32, 64, 2), (33, 65, 100, 3), (128, 64, 256, 7), (200, 300, 64, 16))
TIMED = (
    (1, 1 << 28),
    (1, 1 << 26),
    (1, 1 << 24),
    (64, 1 << 21),
    (8192, 1 << 14),
    (131072, 1 << 10),
)
TYPES = {"f32": torch.float32, "i32": torch.int32}


def wrong_scan(found: torch.Tensor, x: torch.Tensor) -> str:
    """By how much sums are out of what rounding explains; empty: they are right."""
    if x.dtype == torch.int32:
        bad = found != torch.cumsum(x, -1, dtype=torch.int32)
        return f"{int(bad.sum())} elements" if bad.any() else ""
    wanted = torch.cumsum(x.double(), -1)
    error = (found.double() - wanted).abs()
    bad = ~(error <= 1e-6 * torch.cumsum(x.double().abs(), -1))  # NaN is bad
    return f"{int(bad.sum())} elements, by {float(error[bad].max()):.3g}" if bad.any() else ""


def of_scans(kernels: Callable[[str], Kernel]) -> Iterator[str]:
    for kind, dtype in TYPES.items():
        for M, N in (*((M, N) for M in ROWS for N in COLUMNS), *LONG):
            x = torch.randn(M, N, device="cuda")
            x = x if kind == "f32" else (1000 * x).to(dtype)
            others = ("4x8", "8x4", "8x6", "16x4", "16x8") if kind == "f32" and N % 4 == 0 else ()
            for name in {str(shape_of(kind, N)): 0, **{f"f32_{one}": 0 for one in others}}:
                kernel = kernels(f"scan_{name}")
                yield from repeated(kernel, f"scan {name} {M} x {N}", {"x": x}, x, wrong_scan)


def of_sums(kernels: Callable[[str], Kernel]) -> Iterator[str]:
    def wrong(found: torch.Tensor, x: torch.Tensor) -> str:
        error = abs(float(found.double() - x.double().sum()))
        return "" if error <= 1e-6 * float(x.double().abs().sum()) else f"by {error}"

    for N in SUMS:
        x = torch.randn(N, device="cuda")
        kernel = kernels("total_f32" if N % 4 == 0 else "total_f32_any")
        yield from repeated(kernel, f"total {N}", {"x": x}, x, wrong, ())


def of_products(kernels: Callable[[str], Kernel]) -> Iterator[str]:
    for M, N, K, S in PRODUCTS:
        a, b = torch.randn(M, S, K, device="cuda"), torch.randn(N, S, K, device="cuda")
        wanted = a.double().reshape(M, -1) @ b.double().reshape(N, -1).T

        def wrong(found: torch.Tensor, _: torch.Tensor, wanted: torch.Tensor = wanted) -> str:
            error = float((found.double() - wanted).abs().max())
            return "" if error <= 1e-5 * (K * S) ** 0.5 * 4 else f"by {error}"  # noqa: B023

        name = f"splitk_fixup {M} x {N} x {S} * {K}"
        given = {"A": a, "B": b}
        yield from repeated(kernels("splitk_fixup"), name, given, a, wrong, (M, N), "C")


def repeated(
    kernel: Kernel,
    name: str,
    given: dict[str, torch.Tensor],
    x: torch.Tensor,
    wrong: Callable[[torch.Tensor, torch.Tensor], str],
    shape: tuple[int, ...] | None = None,
    out: str = "y",
) -> Iterator[str]:
    """One text a run: empty, or what is wrong; all runs have one result to the last bit."""
    first = None
    for run in range(AGAIN):
        y = torch.empty(x.shape if shape is None else shape, device="cuda", dtype=x.dtype)
        y.fill_(float("nan") if x.dtype.is_floating_point else -(1 << 31))
        kernel.most_clusters = FEW if run % 4 == 3 else None
        kernel(**given, **{out: y})
        if first is None:
            first = y
            found = wrong(y, x)
        else:
            found = "" if torch.equal(y, first) else "another result than the first run's"
        yield found and f"{name}, run {run}: {found}"
    kernel.most_clusters = None


def problems(kernels: Callable[[str], Kernel]) -> Iterator[Problem]:
    """Yields the problems to time."""
    for kind, dtype in TYPES.items():
        for M, N in TIMED:
            x = torch.randn(M, N, device="cuda").to(dtype)
            y = torch.empty_like(x)
            runs: dict[str, Run] = {
                "exogpu": ours(kernels(f"scan_{shape_of(kind, N)}"), {"x": x, "y": y}),
                "torch": lambda x=x, y=y: torch.cumsum(x, -1, dtype=x.dtype, out=y),
                "copy": copied(x, y),
            }
            if kind == "f32" and N >= 1 << 14:
                for other in ("4x8", "8x4", "8x6", "16x4", "16x8"):
                    runs[other] = ours(kernels(f"scan_f32_{other}"), {"x": x, "y": y})
            yield f"scan {kind}", f"{M} x {N}", moved(x), runs
    for N in (1 << 28, 1 << 24):
        x, y = torch.randn(N, device="cuda"), torch.empty((), device="cuda")
        half, other = x[: N // 2], torch.empty(N // 2, device="cuda")
        runs = {
            "exogpu": ours(kernels("total_f32"), {"x": x, "y": y}),
            "torch": lambda x=x, y=y: torch.sum(x, 0, out=y),
            "copy": copied(half, other),
        }
        yield "total f32", f"{N}", 4 * N, runs


def main() -> int:
    options = gpu_results.options(__doc__, "gpu-flags")
    if options.write:
        right = f"{{:,}} runs right against float64, or integers, and the same each time.  {RATES}"
        return gpu_results.write(__file__, options.write, right, gpu_results.rates)
    kernels = cache(partial(Kernel.from_folder, options.folder))
    found = [*of_scans(kernels), *of_sums(kernels), *of_products(kernels)]
    return gpu_results.keep(options.output, found, timed(problems(kernels), RUNS))


if __name__ == "__main__":
    sys.exit(main())
