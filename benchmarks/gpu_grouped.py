"""Grouped products, gather, scatter and histogram on a GPU: right, then beside torch.

    for MODULE in grouped_tiles grouped_rounds gemm_grouped_sm90 rows_by_index histogram_bins; do
        exogpu compile exogpu.kernels.$MODULE -o build/gpu/grouped --cubin
    done
    python benchmarks/gpu_grouped.py build/gpu/grouped -o build/gpu-grouped.json
    python benchmarks/gpu_grouped.py --write build/gpu-grouped.json       # docs/kernels.md

Products are those of `exogpu.kernels.grouped_gemm`, which finds the tiles on the GPU; beside them
are a loop of `torch.mm`, which is given the offsets on the CPU, and `torch._grouped_mm` where it
is.  Each is checked against float64, with poisoned results; times are taken by the method of
`gpu.py`.  Needs torch, and neither the solvers nor a compiler.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate, pairwise
from typing import Any

import gpu_results
import torch
from gpu_results import Problem, Run, moved

from exogpu.codegen.runtime import Kernel
from exogpu.kernels import grouped_calls

RUNS = 40
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
ROUNDED = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-10}
"""By how much a result, or an operand that is TF32, is rounded at most, relative to it."""
SHAPES = ((256, 128), (264, 72), (1000, 520), (8, 8), (2048, 1024))
"""Columns of results and of operands that are checked."""
RIGHT = (
    "right against float64 at {:,} sizes.  Ratios are of the seconds of the others to ours: `loop` "
    "is `torch.mm` for each group, `torch` is `torch._grouped_mm`, `index_select`, `index_copy_` "
    "and `bincount`."
)


def mixes() -> Iterator[tuple[str, list[int]]]:
    """Rows of each group, of what is checked."""
    yield "one row", [1]
    yield "one tile", [128]
    yield "one row more", [129]
    yield "even", [128] * 5
    yield "none at the ends", [0, 130, 0, 0, 1, 255, 0]
    yield "one has all", [0, 0, 700, 0]
    yield "many small", [random.randrange(4) for _ in range(200)]
    yield "uneven", [random.randrange(300) for _ in range(9)]
    yield "large", [3000, 1, 0, 2047, 64]


def timed() -> Iterator[tuple[str, list[int], int, int]]:
    """Rows of each group, columns of results and of operands, of what is timed."""
    draw = random.Random(1)

    def shares(groups: int, rows: int, skew: float) -> list[int]:
        weights = [draw.expovariate(1.0) ** skew for _ in range(groups)]
        ends = [0, *(round(rows * s / sum(weights)) for s in accumulate(weights))]
        return [b - a for a, b in pairwise(ends)]

    for groups, rows, N, K in (
        (8, 8192, 4096, 4096),
        (8, 16384, 14336, 4096),
        (8, 16384, 4096, 14336),
        (64, 16384, 2048, 7168),
        (64, 65536, 4096, 2048),
    ):
        yield "even", [rows // groups] * groups, N, K
        yield "uneven", shares(groups, rows, 1.0), N, K
        yield "very uneven", shares(groups, rows, 3.0), N, K
    for groups, rows in ((64, 64), (128, 100), (256, 16)):
        yield "many small", [draw.randrange(1, 2 * rows) for _ in range(groups)], 2048, 4096


def arrays(counts: Sequence[int], N: int, K: int, kind: str) -> tuple[torch.Tensor, ...]:
    """A, B, the offsets, and where the result goes."""
    dtype = TYPES[kind]
    A = torch.randn(sum(counts), K, device="cuda").to(dtype)
    B = torch.randn(len(counts), N, K, device="cuda").to(dtype)
    offsets = torch.tensor([0, *accumulate(counts)], dtype=torch.int32, device="cuda")
    return A, B, offsets, torch.full((len(A), N), float("nan"), device="cuda", dtype=dtype)


def each(A: torch.Tensor, B: torch.Tensor, ends: Sequence[int], C: torch.Tensor) -> None:
    """A product a group, of those that have rows."""
    first = 0
    for g, end in enumerate(ends):
        if end > first:
            torch.mm(A[first:end], B[g].T, out=C[first:end])
        first = end


def wrong(
    A: torch.Tensor, B: torch.Tensor, counts: Sequence[int], C: torch.Tensor, kind: str
) -> str:
    """By how much a result is out of what rounding explains; empty: it is right."""
    wanted = torch.empty(C.shape, device="cuda", dtype=torch.float64)
    size = torch.empty_like(wanted)  # of what is added up
    for into, a, b in ((wanted, A, B), (size, A.abs(), B.abs())):
        each(a.double(), b.double(), list(accumulate(counts)), into)
    bits = ROUNDED[kind]
    limit = bits * wanted.abs() + (2.0**-10 if kind == "f32" else 2.0**-20) * size + 1e-6
    bad = ~((C.double() - wanted).abs() <= limit)  # NaN is bad
    return f"{int(bad.sum())} of {bad.numel()} elements" if bad.any() else ""


def checks() -> Iterator[str]:
    """One text a check: empty, or what is wrong."""
    for kind in TYPES:
        for name, counts in mixes():
            for N, K in SHAPES:
                A, B, offsets, C = arrays(counts, N, K, kind)
                grouped_calls.grouped_gemm(A, B, offsets, out=C)
                found = wrong(A, B, counts, C, kind)
                yield found and f"grouped {kind}, {name}, {N} x {K}: {found}"
        for M, L, N in ((1, 1, 1), (33, 7, 129), (1000, 4096, 512), (65, 100, 4100), (7, 9, 20000)):
            if kind == "f16" or (kind == "bf16" and N % 8):
                continue  # made when they are asked for
            x = torch.randn(L, N, device="cuda").to(TYPES[kind])
            index = torch.randint(L, (M,), device="cuda", dtype=torch.int32)
            y = torch.full((M, N), float("nan"), device="cuda", dtype=x.dtype)
            grouped_calls.gather_rows(x, index, out=y)
            yield "" if torch.equal(y, x[index.long()]) else f"gather {kind} {M} {L} {N}"
            index = torch.randperm(L + 3, device="cuda")[:L].int()
            y = torch.zeros(L + 3, N, device="cuda", dtype=x.dtype)
            wanted = y.clone()
            wanted[index.long()] = x
            grouped_calls.scatter_rows(x, index, y)
            yield "" if torch.equal(y, wanted) else f"scatter {kind} {L} {N}"
    for M in (1, 1000, 16384, 16385, 10**6):
        for bins in (1, 2, 255, 256, 257, 4096):
            x = torch.randint(bins, (M,), device="cuda", dtype=torch.int32)
            counts = torch.full((bins,), 7, device="cuda", dtype=torch.int32)
            grouped_calls.histogram(x, bins, out=counts)
            right = torch.equal(counts.long(), torch.bincount(x, minlength=bins))
            yield "" if right else f"histogram of {M} in {bins}"


def problems() -> Iterator[Problem]:
    """Yields the problems to time."""
    for mix, counts, N, K in timed():
        A, B, offsets, C = arrays(counts, N, K, "bf16")
        ends = list(accumulate(counts))
        runs: dict[str, Run] = {
            "exogpu": partial(grouped_calls.grouped_gemm, A, B, offsets, out=C),
            "loop": partial(each, A, B, ends, torch.empty_like(C)),
        }
        theirs = getattr(torch, "_grouped_mm", None)
        if theirs is not None:
            runs["torch"] = partial(theirs, A, B.transpose(1, 2), offs=offsets[1:])
            try:
                runs["torch"]()
            except RuntimeError as error:
                print(f"torch._grouped_mm: {str(error).splitlines()[0]}")
                del runs["torch"]
        size = f"{len(counts)} groups, {sum(counts)} x {N} x {K}"
        yield f"grouped bf16, {mix}", size, 2.0 * sum(counts) * N * K, runs
    for M, N in ((1 << 18, 1024), (1 << 16, 4096), (1 << 20, 64)):
        for kind in ("f32", "bf16"):
            x = torch.randn(M, N, device="cuda").to(TYPES[kind])
            index = torch.randperm(M, device="cuda").int()
            y = torch.empty_like(x)
            runs = {
                "exogpu": partial(grouped_calls.gather_rows, x, index, out=y),
                "torch": partial(torch.index_select, x, 0, index, out=y),
            }
            yield f"gather {kind}", f"{M} x {N}", moved(x), runs
            runs = {
                "exogpu": partial(grouped_calls.scatter_rows, x, index, y),
                "torch": partial(y.index_copy_, 0, index.long(), x),
            }
            yield f"scatter {kind}", f"{M} x {N}", moved(x), runs
    for bins in (256, 4096):
        x = torch.randint(bins, (1 << 26,), device="cuda", dtype=torch.int32)
        out = torch.empty(bins, device="cuda", dtype=torch.int32)
        runs = {
            "exogpu": partial(grouped_calls.histogram, x, bins, out=out),
            "torch": partial(torch.bincount, x, minlength=bins),
        }
        yield f"histogram, {bins} bins", str(x.numel()), 4.0 * x.numel(), runs


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """TFLOP/s of products, TB/s of others, and the others' seconds to ours."""
    lines = [
        "| kernel | size | TFLOP/s or TB/s | loop | torch |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        ratios = [f"{row[of] / row['exogpu']:.2f}" if of in row else "" for of in ("loop", "torch")]
        rate = row["work"] / row["exogpu"] / 1e12
        shown = f"{rate:.0f}" if "grouped" in row["name"] else f"{rate:.2f}"
        lines.append(f"| {row['name']} | {row['size']} | {shown} | {' | '.join(ratios)} |")
    return lines


def main() -> int:
    options = gpu_results.options(__doc__, "gpu-grouped")
    if options.write:
        return gpu_results.write(__file__, options.write, RIGHT, table)
    of = cache(partial(Kernel.from_folder, options.folder))
    grouped_calls.tile_divider = lambda rows: of(f"grouped_tiles_{rows}")
    grouped_calls.rounds = lambda rows: of(f"grouped_rounds_{rows}")
    grouped_calls.kernel = lambda kind, columns: of(grouped_calls.name_of(kind, columns))
    grouped_calls.rows = lambda name, kind, columns: of(
        grouped_calls.name_of_rows(name, kind, columns)
    )
    grouped_calls.counting_kernel = lambda most: of(f"histogram_{most}")
    random.seed(0)
    return gpu_results.keep(options.output, list(checks()), gpu_results.timed(problems(), RUNS))


if __name__ == "__main__":
    sys.exit(main())
