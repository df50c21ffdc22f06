"""Kernels of rows, transposes and stencils on a GPU: right, then beside torch and a copy.

    exogpu compile benchmarks/rows.py -o build/gpu/rows --cubin
    python benchmarks/gpu_rows.py build/gpu/rows -o build/gpu-rows.json
    python benchmarks/gpu_rows.py --write build/gpu-rows.json       # docs/kernels.md

Each kernel is checked against float64 at every number of rows and columns of `ROWS` and of
`row_sizes.COLUMNS`, with poisoned results.  Times are taken by the method of `gpu.py`; the copy is
torch's, of as many bytes as the kernel must read and write.  Needs torch, and no compiler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial

import gpu_results
import torch
from gpu_results import RATES, Problem, copied, moved, ours, timed
from row_sizes import COLUMNS, TOPK, TOPK_TIMED
from torch.nn import functional

from exogpu.codegen.runtime import Kernel
from exogpu.kernels.row_calls import row_shape_of
from exogpu.kernels.row_layout import scan_shape, shape_of
from exogpu.kernels.topk_selection import topk_shape

RUNS = 40
EPS = 1e-5
ROWS = (1, 7, 8, 133, 1000)
TIMED = (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
"""Columns of the rows that are timed."""
ELEMENTS = 1 << 27
"""The elements of the arrays that are timed: far more than the L2 cache has."""
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
ROUNDED = {"f32": 0.0, "bf16": 2.0**-8}
NORMS = ("softmax", "rms_norm", "layer_norm")
OF_ROWS = (*NORMS, "cross_entropy_i64")
SCANNED = {"f32": torch.float32, "i32": torch.int32}
TILED = ((1, 1, 1), (1, 64, 64), (3, 65, 127), (2, 1000, 33), (1, 4096, 4100), (2, 1000, 72))
"""Extents of transposes that are checked."""
TRANSPOSED = ((1, 8192, 16384), (1, 10000, 10000), (64, 1024, 2048))
STENCILLED = ((8192, 16384), (10000, 10000))
"""The arrays that are timed, and those of stencils."""

Tensors = dict[str, torch.Tensor]
Kernels = Callable[[str], Kernel]


def given(name: str, kind: str, M: int, N: int) -> tuple[Tensors, dict[str, float]]:
    """The arguments of a kernel of rows."""

    def array(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device="cuda").to(TYPES[kind])

    arrays = {"x": array(M, N)}
    if name == "cross_entropy_i64":
        arrays["target"] = torch.randint(N, (M,), device="cuda")
        nothing = torch.full((M,), float("nan"), device="cuda")
        return {**arrays, "loss": nothing, "lse": nothing.clone()}, {}
    if name != "softmax":
        arrays["weight"] = array(N)
    if name == "layer_norm":
        arrays["bias"] = array(N)
    arrays["y"] = torch.full_like(arrays["x"], float("nan"))
    return arrays, {} if name == "softmax" else {"count": float(N), "eps": EPS}


def theirs(name: str, a: Tensors, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Computes torch's result, of other types if one is given."""
    a = {
        of: each if of == "target" else each.to(dtype or each.dtype)
        for of, each in a.items()
        if of != "y"
    }
    N = (a["x"].shape[-1],)
    match name:
        case "softmax":
            return torch.softmax(a["x"], -1)
        case "rms_norm":
            return functional.rms_norm(a["x"], N, a["weight"], EPS)
        case "layer_norm":
            return functional.layer_norm(a["x"], N, a["weight"], a["bias"], EPS)
        case "cross_entropy_i64":
            return functional.cross_entropy(a["x"], a["target"], reduction="none")
    raise SystemExit(f"torch has no {name}")


def kernel_of(kernels: Kernels, name: str, kind: str, N: int) -> Kernel:
    """The kernel of rows of N elements: of cross entropy no cluster's."""
    shape = shape_of(kind, N) if name.startswith("cross_entropy") else row_shape_of(kind, N)
    return kernels(f"{name}_{shape}")


def transposing(kind: str, extents: tuple[int, ...]) -> str:
    """The kernel that `exogpu.kernels.transpose` takes."""
    blocks = kind == "bf16" and all(extent % 8 == 0 for extent in extents[1:])
    return f"transpose_blocks_{kind}" if blocks else f"transpose_{kind}"


def wrong(found: torch.Tensor, wanted: torch.Tensor, kind: str) -> str:
    """By how much a result is out of what rounding explains; empty: it is right."""
    error = (found.double() - wanted).abs()
    limit = 2e-5 * wanted.abs().amax(-1, keepdim=True) + ROUNDED[kind] * wanted.abs()
    bad = ~(error <= limit)  # NaN is bad
    return f"{int(bad.sum())} elements, by {float(error[bad].max()):.3g}" if bad.any() else ""


# --- each yields one text a check: empty, or what is wrong -----------------------------------


def of_rows(kernels: Kernels) -> Iterator[str]:
    for kind, columns in COLUMNS.items():
        for N in columns:
            for name in OF_ROWS:
                kernel = kernel_of(kernels, name, kind, N)
                for M in ROWS:
                    arrays, numbers = given(name, kind, M, N)
                    kernel(**arrays, **numbers)
                    y, of = (arrays["y"], kind) if "y" in arrays else (arrays["loss"], "f32")
                    found = wrong(y, theirs(name, arrays, torch.float64), of)
                    yield found and f"{name} {kind} {M} x {N}: {found}"


def of_transposes(kernels: Kernels) -> Iterator[str]:
    for kind, dtype in TYPES.items():
        for extents in TILED:
            x = torch.randn(extents, device="cuda").to(dtype)
            y = torch.full((extents[0], *extents[:0:-1]), float("nan"), device="cuda").to(dtype)
            kernels(transposing(kind, extents))(x=x, y=y)
            yield "" if torch.equal(y, x.transpose(1, 2)) else f"transpose {kind} {extents}"


def of_scans(kernels: Kernels) -> Iterator[str]:
    for kind, dtype in SCANNED.items():
        for N in COLUMNS["f32"]:
            kernel = kernels(f"scan_{scan_shape(kind, N)}")
            for M in ROWS:
                x = (100 * torch.randn(M, N, device="cuda")).to(dtype)
                y = torch.full_like(x, 77)
                kernel(x=x, y=y)
                wanted = x.double().cumsum(-1) if kind == "f32" else x.cumsum(-1, dtype=dtype)
                found = wrong(y, wanted, "f32")
                yield found and f"scan {kind} {M} x {N}: {found}"


def of_topk(kernels: Kernels) -> Iterator[str]:
    """Exactly; every other row has few numbers, each of them often."""
    for kind, dtype in TYPES.items():
        for N, k in TOPK:
            kernel = kernels(f"topk_i64_{topk_shape(kind, N, k)}")
            for M in ROWS:
                x = torch.randn(M, N, device="cuda")
                x[::2] = x[::2].round()
                x = x.masked_fill(x == 0, 0).to(dtype)
                y = torch.full((M, k), float("nan"), device="cuda", dtype=dtype)
                indices = torch.full((M, k), -1, device="cuda")
                kernel(x=x, y=y, indices=indices)
                wanted = torch.sort(x, dim=-1, descending=True, stable=True)
                right = torch.equal(y, wanted.values[:, :k])
                right = right and torch.equal(indices, wanted.indices[:, :k])
                yield "" if right else f"topk {kind} {M} x {N}, {k}"


def of_stencils(kernels: Kernels) -> Iterator[str]:
    for M, N in ((1, 1), (31, 129), (32, 128), (33, 127), (1000, 1001), (129, 260), (1, 4)):
        x, weight = torch.randn(M, N, device="cuda"), torch.randn(3, 3)
        y = torch.full_like(x, float("nan"))
        kernels("stencil" if N % 4 else "stencil_rows")(x=x, weight=weight.numpy(), y=y)
        there = weight.double().cuda()[None, None]
        found = wrong(y, functional.conv2d(x.double()[None, None], there, padding=1)[0, 0], "f32")
        yield found and f"stencil {M} x {N}: {found}"


# --- each yields what is timed ---------------------------------------------------------------


def timed_rows(kernels: Kernels) -> Iterator[Problem]:
    for kind in TYPES:
        for N in TIMED:
            for name in OF_ROWS:
                arrays, numbers = given(name, kind, ELEMENTS // N, N)
                x, y = arrays["x"], arrays.get("y")
                half = x.view(-1)[: x.numel() // 2]
                runs = {
                    "exogpu": ours(kernel_of(kernels, name, kind, N), {**arrays, **numbers}),
                    "torch": partial(theirs, name, arrays),
                    "copy": copied(half, torch.empty_like(half)) if y is None else copied(x, y),
                }
                work = moved(half if y is None else x)
                yield f"{name} {kind}", f"{ELEMENTS // N} x {N}", work, runs


def timed_transposes(kernels: Kernels) -> Iterator[Problem]:
    for kind, dtype in TYPES.items():
        for extents in TRANSPOSED:
            x = torch.randn(extents, device="cuda").to(dtype)
            y = torch.empty((extents[0], *extents[:0:-1]), device="cuda", dtype=dtype)
            runs = {
                "exogpu": ours(kernels(transposing(kind, extents)), {"x": x, "y": y}),
                "torch": partial(y.copy_, x.transpose(1, 2)),
                "copy": copied(x, y),
            }
            yield f"transpose {kind}", " x ".join(map(str, extents)), moved(x), runs


def timed_scans(kernels: Kernels) -> Iterator[Problem]:
    for kind, dtype in SCANNED.items():
        for N in TIMED:
            x = (100 * torch.randn(ELEMENTS // N, N, device="cuda")).to(dtype)
            y = torch.empty_like(x)
            runs = {
                "exogpu": ours(kernels(f"scan_{scan_shape(kind, N)}"), {"x": x, "y": y}),
                "torch": partial(torch.cumsum, x, -1, out=y),
                "copy": copied(x, y),
            }
            yield f"scan {kind}", f"{ELEMENTS // N} x {N}", moved(x), runs


def timed_topk(kernels: Kernels) -> Iterator[Problem]:
    """Beside a copy of half of x, which moves as many bytes as are read."""
    for kind, dtype in TYPES.items():
        for M, N, k in TOPK_TIMED:
            x = torch.randn(M, N, device="cuda").to(dtype)
            y = torch.empty(M, k, device="cuda", dtype=dtype)
            indices = torch.empty(M, k, device="cuda", dtype=torch.int64)
            half = x.view(-1)[: x.numel() // 2]
            kernel = kernels(f"topk_i64_{topk_shape(kind, N, k)}")
            runs = {
                "exogpu": ours(kernel, {"x": x, "y": y, "indices": indices}),
                "torch": partial(torch.topk, x, k, out=(y, indices)),
                "copy": copied(half, torch.empty_like(half)),
            }
            yield f"topk {k} {kind}", f"{M} x {N}", moved(half), runs


def timed_stencils(kernels: Kernels) -> Iterator[Problem]:
    for M, N in STENCILLED:
        x, weight = torch.randn(M, N, device="cuda"), torch.randn(3, 3)
        y, there = torch.empty_like(x), weight.cuda()[None, None]
        runs = {
            "exogpu": ours(kernels("stencil_rows"), {"x": x, "weight": weight.numpy(), "y": y}),
            "torch": partial(functional.conv2d, x[None, None], there, padding=1),
            "copy": copied(x, y),
        }
        yield "stencil f32", f"{M} x {N}", moved(x), runs


def main() -> int:
    options = gpu_results.options(__doc__, "gpu-rows")
    if options.write:
        right = f"right against float64 at {{:,}} sizes.  {RATES}"
        return gpu_results.write(__file__, options.write, right, gpu_results.rates)
    kernels = partial(Kernel.from_folder, options.folder)
    checks = (of_rows, of_transposes, of_scans, of_topk, of_stencils)
    problems = (timed_rows, timed_transposes, timed_scans, timed_topk, timed_stencils)
    found = [text for of in checks for text in of(kernels)]
    times = timed((one for of in problems for one in of(kernels)), RUNS)
    return gpu_results.keep(options.output, found, times)


if __name__ == "__main__":
    sys.exit(main())
