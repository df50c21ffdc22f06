"""Emitted kernels on a GPU: against float64, poisoned outputs, repeatability, and speed.

Takes a folder made by `python -m exogpu.codegen.emit -o build/gpu`; needs torch alone.

    python benchmarks/gpu_check.py build/gpu [--only REGEX] [--times]
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import torch

ROOT = Path(__file__).resolve().parent.parent
PAD = 1024
"""Elements around each output that a kernel must not write."""


def load_runtime() -> ModuleType:
    """codegen/runtime.py by its path: the rest of the package need not be importable here."""
    spec = importlib.util.spec_from_file_location("runtime", ROOT / "codegen" / "runtime.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["runtime"] = module
    spec.loader.exec_module(module)
    return module


def shapes_of(names: tuple[str, ...]) -> Iterator[dict[str, int]]:
    """Even, uneven, tiny and larger sizes for a kernel with these control parameters."""
    match names:
        case ("M", "K"):
            for m, k in itertools.product(
                (1, 3, 31, 32, 33, 257, 1000, 4096), (4, 28, 32, 36, 1000, 4096)
            ):
                yield {"M": m, "K": k}
        case ("M", "N", "K"):
            for m, n, k in itertools.product(
                (1, 63, 64, 65, 200, 512), (1, 64, 127, 384), (4, 12, 16, 20, 100, 512)
            ):
                yield {"M": m, "N": n, "K": k}
            yield {"M": 2000, "N": 1999, "K": 2048}
        case ("L", "M", "N", "cluster_K"):
            for batch, m, n, k in itertools.product(
                (1, 3),
                (1, 127, 256, 300, 1024),
                (1, 4, 250, 512, 769),
                (4, 28, 32, 36, 128, 132, 520),
            ):
                yield {"L": batch, "M": m, "N": n, "cluster_K": k}
            yield {"L": 2, "M": 4096, "N": 3072, "cluster_K": 1024}
            yield {"L": 1, "M": 2000, "N": 1999, "cluster_K": 4096}
        case ("L", "M", "N", "K_split", "cluster_K"):
            for batch, m, n, s, k in itertools.product(
                (1, 2), (1, 127, 300, 1024), (4, 252, 512), (1, 3), (4, 32, 36, 128, 132, 520)
            ):
                yield {"L": batch, "M": m, "N": n, "K_split": s, "cluster_K": k}
            yield {"L": 1, "M": 512, "N": 512, "K_split": 16, "cluster_K": 4096}
        case _:
            raise SystemExit(f"no sizes are known for a kernel over {names}")


def inputs(kind: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Small integers, whose products and sums are exact in f32 and tf32, or normal numbers."""
    if kind == "integers":
        return torch.randint(-3, 4, shape, device="cuda").float()
    return torch.randn(shape, device="cuda")


def reference(arrays: dict[str, torch.Tensor]) -> torch.Tensor:
    """The product in float64."""
    a = arrays["A"].double()
    if "x" in arrays:
        return a @ arrays["x"].double()
    b = arrays["B"].double()
    match a.dim():
        case 2:
            return a @ b.T
        case 3:
            return torch.einsum("lmk,lnk->lmn", a, b)
        case _:
            return torch.einsum("lmsk,lnsk->lmn", a, b)


class Case:
    """A kernel's arrays at one size; the output lies between guards."""

    def __init__(
        self, runtime: ModuleType, manifest: dict, sizes: dict[str, int], kind: str
    ) -> None:
        data = [p for p in manifest["parameters"] if p["kind"] == "data"]
        self.output = data[-1]["name"]
        self.arrays: dict[str, torch.Tensor] = {}
        for p in data:
            shape = tuple(runtime.evaluate(e, sizes) for e in p["shape"])
            if p["name"] == self.output:
                count = torch.Size(shape).numel()
                self.whole = torch.empty(count + 2 * PAD, device="cuda")
                self.arrays[self.output] = self.whole[PAD : PAD + count].view(shape)
            else:
                self.arrays[p["name"]] = inputs(kind, shape)

    def poison(self) -> None:
        self.whole.fill_(float("nan"))

    def intact(self) -> bool:
        return bool(self.whole[:PAD].isnan().all() and self.whole[-PAD:].isnan().all())


def check(
    runtime: ModuleType, kernel: Callable, manifest: dict, sizes: dict[str, int]
) -> list[str]:
    """What is wrong at one size; nothing if all is well."""
    wrong = []
    k_total = 1
    for name in ("K", "K_split", "cluster_K"):
        k_total *= sizes.get(name, 1)
    stream = torch.cuda.current_stream().cuda_stream
    for kind in ("integers", "normal"):
        case = Case(runtime, manifest, sizes, kind)
        out = case.arrays[case.output]
        case.poison()
        kernel(stream=stream, **case.arrays)
        torch.cuda.synchronize()
        want = reference(case.arrays)
        error = (out.double() - want).abs()
        worst = float(error.max()) if not out.isnan().any() else float("nan")
        # tf32 has 10 explicit bits: truncated operands err by 2**-10 each, relative to each
        # product; sums of f32 by 2**-23 a term, truncated as tensor cores do.
        magnitude = reference({n: x.abs() for n, x in case.arrays.items() if n != case.output})
        limit = magnitude * (0.0 if kind == "integers" else 2.0**-9 * 1.001 + k_total * 2.0**-23)
        if not bool((error <= limit).all()):
            bad = (~(error <= limit)).nonzero()
            at = tuple(bad[0].tolist())
            wrong.append(
                f"{kind}: error {worst:.3e}, too large at {len(bad)} of {error.numel()} elements,"
                f" first {at}: {float(out[at])} for {float(want[at])}"
            )
        if not case.intact():
            wrong.append(f"{kind}: wrote outside of the output")
    return wrong


def repeat(runtime: ModuleType, kernel: Callable, manifest: dict, sizes: dict[str, int]) -> str:
    """Whether ten runs give the same bits, and the relative error."""
    case = Case(runtime, manifest, sizes, "normal")
    out, results = case.arrays[case.output], []
    stream = torch.cuda.current_stream().cuda_stream
    for _ in range(10):
        case.poison()
        kernel(stream=stream, **case.arrays)
        results.append(out.clone())
    same = all(torch.equal(results[0], r) for r in results)
    want = reference(case.arrays)
    error = float((out.double() - want).norm() / want.norm())
    return f"ten runs {'identical' if same else 'DIFFER'}, relative error {error:.2e}"


def seconds(run: Callable[[], None], flush: torch.Tensor) -> list[float]:
    """Times of twenty runs, the L2 cache flushed before each."""
    for _ in range(3):
        run()
    times = []
    for _ in range(20):
        flush.zero_()
        torch.cuda._sleep(1_000_000)  # so that the launch is enqueued before the clock starts
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return sorted(times)


def time_kernel(
    runtime: ModuleType, kernel: Callable, manifest: dict, names: tuple[str, ...]
) -> None:
    """TFLOPS (GEMM) or TB/s (GEMV) beside torch, from one run."""
    torch.backends.cuda.matmul.allow_tf32 = True
    flush = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    for n in (1024, 2048, 4096, 8192):
        sizes = {name: n for name in names}
        sizes |= {name: 1 for name in ("L", "K_split") if name in names}
        case = Case(runtime, manifest, sizes, "normal")
        theirs = library(case, n)
        if "x" in case.arrays:
            work, unit = 4.0 * n * n, "TB/s"
        else:
            work, unit = 2.0 * n**3, "TFLOPS"
        torch_rate = work / mean(seconds(theirs, flush)) / 1e12
        ours = partial(kernel, stream=stream, **case.arrays)
        rate = work / mean(seconds(ours, flush)) / 1e12
        print(
            f"    {n}: torch {torch_rate:.2f}, exogpu {rate:.2f} {unit}, "
            f"ratio {rate / torch_rate:.2f}",
            flush=True,
        )


def library(case: Case, n: int) -> Callable[[], object]:
    """The same product by torch, that is cuBLAS."""
    a, out = case.arrays["A"].view(n, n), case.arrays[case.output]
    if "x" in case.arrays:
        return partial(torch.mv, a, case.arrays["x"], out=out)
    return partial(torch.mm, a, case.arrays["B"].view(n, n).T, out=out.view(n, n))


def mean(times: list[float]) -> float:
    """Of the middle half."""
    middle = times[len(times) // 4 : -(len(times) // 4)]
    return sum(middle) / len(middle)


def main() -> int:
    """Check, repeat, and time every kernel of the folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--times", action="store_true")
    options = parser.parse_args()
    runtime = load_runtime()
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    status = 0
    for path in sorted(options.folder.glob("*.json")):
        if not re.search(options.only, path.stem):
            continue
        manifest = json.loads(path.read_text())
        kernel = runtime.Kernel.from_folder(options.folder, path.stem)
        names = tuple(p["name"] for p in manifest["parameters"] if p["kind"] != "data")
        failed = count = 0
        try:
            for sizes in shapes_of(names):
                wrong = check(runtime, kernel, manifest, sizes)
                count += 1
                failed += bool(wrong)
                if wrong and failed <= 8:
                    print(f"  {path.stem} {sizes}: {'; '.join(wrong)}", flush=True)
            again = repeat(runtime, kernel, manifest, sizes)
            print(f"{path.stem}: {count - failed} of {count} sizes right; {again}", flush=True)
            if options.times and not failed:
                time_kernel(runtime, kernel, manifest, names)
        except Exception:
            traceback.print_exc()
            print(f"{path.stem}: stopped at {sizes}", flush=True)
            failed += 1
            if "CUDA error" in traceback.format_exc():
                return 1  # the context is lost
        status |= failed > 0
    return status


if __name__ == "__main__":
    sys.exit(main())
