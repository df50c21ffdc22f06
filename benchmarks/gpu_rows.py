"""Kernels of rows, transposes and stencils on a GPU: right, then beside torch and a copy.

    exogpu compile benchmarks/rows.py -o build/gpu/rows --cubin
    python benchmarks/gpu_rows.py build/gpu/rows -o build/gpu-rows.json
    python benchmarks/gpu_rows.py --write build/gpu-rows.json       # docs/kernels.md

Each kernel is checked against float64 at every number of rows and columns of `ROWS` and of
`row_sizes.COLUMNS`, with poisoned results.  Times are taken by the method of `gpu.py`; the copy is
torch's, of as many bytes as the kernel must read and write.  Needs torch, and no compiler.
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
from row_sizes import COLUMNS
from torch.nn import functional

ROOT = Path(__file__).resolve().parent.parent
MARK = "<!-- What follows is written by benchmarks/gpu_rows.py. -->"
RUNS = 40
EPS = 1e-5
ROWS = (1, 7, 8, 133, 1000)
TIMED = (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
"""Columns of the rows that are timed."""
ELEMENTS = 1 << 27
"""Of the arrays that are timed: far more than the L2 cache has."""
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
ROUNDED = {"f32": 0.0, "bf16": 2.0**-8}
NORMS = ("softmax", "rms_norm", "layer_norm")
OF_ROWS = (*NORMS, "cross_entropy_i64")
SCANNED = {"f32": torch.float32, "i32": torch.int32}
TILED = ((1, 1, 1), (1, 64, 64), (3, 65, 127), (2, 1000, 33), (1, 4096, 4100), (2, 1000, 72))
"""Extents of transposes that are checked."""

Tensors = dict[str, torch.Tensor]
Run = Callable[[], object]


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
    """What torch computes, of other types if one is given."""
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


def shape_for(name: str, kind: str, N: int, choose: Callable[[str, int], object]) -> object:
    """Who has a row: of cross entropy no cluster."""
    if name.startswith("cross_entropy"):
        return importlib.import_module("exogpu.kernels.rows").shape_of(kind, N)
    return choose(kind, N)


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


def checks(
    folder: Path, columns: dict[str, tuple[int, ...]], choose: Callable[[str, int], object]
) -> Iterator[str]:
    """One text a check: empty, or what is wrong."""
    kernels = importlib.import_module("exogpu.codegen.runtime").Kernel.from_folder
    for kind, all_n in columns.items():
        for N in all_n:
            for name in OF_ROWS:
                kernel = kernels(folder, f"{name}_{shape_for(name, kind, N, choose)}")
                for M in ROWS:
                    arrays, numbers = given(name, kind, M, N)
                    kernel(**arrays, **numbers)
                    y, of = (arrays["y"], kind) if "y" in arrays else (arrays["loss"], "f32")
                    found = wrong(y, theirs(name, arrays, torch.float64), of)
                    yield found and f"{name} {kind} {M} x {N}: {found}"
        for extents in TILED:
            kernel = kernels(folder, transposing(kind, extents))
            x = torch.randn(extents, device="cuda").to(TYPES[kind])
            y = torch.full((extents[0], *extents[:0:-1]), float("nan"), device="cuda").to(x.dtype)
            kernel(x=x, y=y)
            yield "" if torch.equal(y, x.transpose(1, 2)) else f"transpose {kind} {extents}"
    scan_shape = importlib.import_module("exogpu.kernels.scan_rows").scan_shape
    for kind, dtype in SCANNED.items():
        for N in columns["f32"]:
            kernel = kernels(folder, f"scan_{scan_shape(kind, N)}")
            for M in ROWS:
                x = (100 * torch.randn(M, N, device="cuda")).to(dtype)
                y = torch.full_like(x, 77)
                kernel(x=x, y=y)
                wanted = x.double().cumsum(-1) if kind == "f32" else x.cumsum(-1, dtype=dtype)
                found = wrong(y, wanted, "f32")
                yield found and f"scan {kind} {M} x {N}: {found}"
    for M, N in ((1, 1), (31, 129), (32, 128), (33, 127), (1000, 1001), (129, 260), (1, 4)):
        kernel = kernels(folder, "stencil" if N % 4 else "stencil_rows")
        x, weight = torch.randn(M, N, device="cuda"), torch.randn(3, 3)
        y = torch.full_like(x, float("nan"))
        kernel(x=x, weight=weight.numpy(), y=y)
        wanted = functional.conv2d(
            x.double()[None, None], weight.double().cuda()[None, None], padding=1
        )
        found = wrong(y, wanted[0, 0], "f32")
        yield found and f"stencil {M} x {N}: {found}"


def problems(
    folder: Path, choose: Callable[[str, int], object]
) -> Iterator[tuple[str, str, dict[str, Run]]]:
    """What is timed: its name, its size, and each way to do it."""
    kernels = importlib.import_module("exogpu.codegen.runtime").Kernel.from_folder

    def ours(kernel: Callable[..., None], arguments: dict[str, Any]) -> Run:
        return lambda: kernel(stream=torch.cuda.current_stream().cuda_stream, **arguments)

    def copied(x: torch.Tensor, y: torch.Tensor) -> Run:
        return lambda: y.view(-1).copy_(x.view(-1))

    for kind in TYPES:
        for N in TIMED:
            M = ELEMENTS // N
            for name in OF_ROWS:
                arrays, numbers = given(name, kind, M, N)
                kernel = kernels(folder, f"{name}_{shape_for(name, kind, N, choose)}")
                half = arrays["x"].view(-1)[: arrays["x"].numel() // 2]
                yield (
                    f"{name} {kind}",
                    f"{M} x {N}",
                    {
                        "exogpu": ours(kernel, {**arrays, **numbers}),
                        "torch": lambda name=name, arrays=arrays: theirs(name, arrays),
                        "copy": copied(arrays["x"], arrays["y"])
                        if "y" in arrays
                        else copied(half, torch.empty_like(half)),
                    },
                )
        for extents in ((1, 8192, 16384), (1, 10000, 10000), (64, 1024, 2048)):
            x = torch.randn(extents, device="cuda").to(TYPES[kind])
            y = torch.empty((extents[0], *extents[:0:-1]), device="cuda", dtype=x.dtype)
            yield (
                f"transpose {kind}",
                " x ".join(map(str, extents)),
                {
                    "exogpu": ours(kernels(folder, transposing(kind, extents)), {"x": x, "y": y}),
                    "torch": lambda x=x, y=y: y.copy_(x.transpose(1, 2)),
                    "copy": copied(x, y),
                },
            )
    scan_shape = importlib.import_module("exogpu.kernels.scan_rows").scan_shape
    for kind, dtype in SCANNED.items():
        for N in TIMED:
            x = (100 * torch.randn(ELEMENTS // N, N, device="cuda")).to(dtype)
            y = torch.empty_like(x)
            yield (
                f"scan {kind}",
                f"{ELEMENTS // N} x {N}",
                {
                    "exogpu": ours(
                        kernels(folder, f"scan_{scan_shape(kind, N)}"), {"x": x, "y": y}
                    ),
                    "torch": lambda x=x, y=y: torch.cumsum(x, -1, out=y),
                    "copy": copied(x, y),
                },
            )
    for M, N in ((8192, 16384), (10000, 10000)):
        x, weight = torch.randn(M, N, device="cuda"), torch.randn(3, 3)
        y, there = torch.empty_like(x), weight.cuda()[None, None]
        arguments = {"x": x, "weight": weight.numpy(), "y": y}
        yield (
            "stencil f32",
            f"{M} x {N}",
            {
                "exogpu": ours(kernels(folder, "stencil_rows"), arguments),
                "torch": lambda x=x, there=there: functional.conv2d(
                    x[None, None], there, padding=1
                ),
                "copy": copied(x, y),
            },
        )


def written(path: Path) -> None:
    """The table of docs/kernels.md."""
    read = json.loads(path.read_text())
    lines = [
        f"On one {read['device']}, torch {read['torch']}; right against float64 at "
        f"{read['checks']:,} sizes.  Rates are of the bytes that must be read and written once; "
        "`copy` is torch's copy of as many.",
        "",
        "| kernel | size | TB/s | of the copy | of torch |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in read["times"]:
        lines.append(
            f"| {row['name']} | {row['size']} | {row['bytes'] / row['exogpu'] / 1e12:.2f} | "
            f"{row['copy'] / row['exogpu']:.2f} | {row['torch'] / row['exogpu']:.2f} |"
        )
    page = ROOT / "docs/kernels.md"
    kept = page.read_text().partition(MARK)[0]
    page.write_text(kept + MARK + "\n\n" + "\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build/gpu-rows.json")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    if options.write:
        written(options.write)
        return 0
    sys.path.insert(0, str(ROOT))
    choose = importlib.import_module("exogpu.kernels.row_calls").row_shape_of
    found = list(checks(options.folder, COLUMNS, choose))
    bad = list(filter(None, found))
    print(f"{len(found)} checks, {len(bad)} wrong", *bad[:20], sep="\n  ")
    times = []
    for name, size, runs in problems(options.folder, choose):
        seconds = {of: gpu.middle(each) for of, each in gpu.measured(runs, RUNS).items()}
        count = 1
        for extent in size.split(" x "):
            count *= int(extent)
        moved = (1 if "entropy" in name else 2) * count * (2 if "bf16" in name else 4)
        times.append({"name": name, "size": size, "bytes": moved, **seconds})
        print(
            f"{name} {size}: {moved / seconds['exogpu'] / 1e12:.2f} TB/s, "
            f"{seconds['copy'] / seconds['exogpu']:.3f} of the copy, "
            f"{seconds['torch'] / seconds['exogpu']:.3f} of torch"
        )
        sys.stdout.flush()
    result = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "checks": len(found),
        "wrong": bad,
        "times": times,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
