"""Products of 8-bit floats on a GPU beside cuBLASLt, by the method of `gpu.py`, in TFLOP/s.

    exogpu compile exogpu.kernels.gemm_fp8_sm90 -o build/gpu/fp8 --cubin
    exogpu compile exogpu.kernels.gemm_fp8_blocks_sm90 -o build/gpu/fp8 --cubin
    python benchmarks/gpu_fp8.py build/gpu/fp8

cuBLASLt is `torch._scaled_mm`, with sums as tensor cores keep them (`fast`), and with sums of f32.
Needs torch, and neither the solvers nor a compiler.  Whether results are right is asked by
`gpu_check.py`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import gpu
import torch

ROOT = Path(__file__).resolve().parent.parent
RUNS = 30
SQUARE = tuple((n, n, n) for n in (1024, 2048, 4096, 8192))
SIZES = (*SQUARE, (4096, 11008, 4096), (8192, 2048, 7168))
"""Rows of A, rows of B, columns."""


def main() -> int:
    sys.path.insert(0, str(ROOT))
    runtime = importlib.import_module("exogpu.codegen.runtime")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    folder = Path(sys.argv[1])
    names = sorted(p.stem for p in folder.glob("gemm_fp8_*.json") if "e5m2" not in p.stem)
    kernels = {name: runtime.Kernel.from_folder(folder, name) for name in names}
    for m, n, k in SIZES:
        a, b = (torch.randn(r, k, device="cuda").to(torch.float8_e4m3fn) for r in (m, n))
        one = torch.ones(1, device="cuda")
        runs: dict[str, Callable[[], object]] = {}
        for fast in (True, False):
            runs["cuBLASLt" + " fast" * fast] = partial(
                torch._scaled_mm,
                a,
                b.T,
                scale_a=one,
                scale_b=one,
                out_dtype=torch.bfloat16,
                use_fast_accum=fast,
            )
        for name, kernel in kernels.items():
            kind = torch.float32 if name.endswith("_f32") else torch.bfloat16
            out = torch.empty((1, m, n), device="cuda", dtype=kind)
            more = {"A_scale", "B_scale"} & set(runtime_names(kernel))
            scales = {"scale": one}
            if more:
                scales = {
                    "A_scale": torch.ones((1, k // 128, m), device="cuda"),
                    "B_scale": torch.ones((1, n // 128, k // 128), device="cuda"),
                }
            stream = torch.cuda.current_stream().cuda_stream
            runs[name] = partial(kernel, stream=stream, A=a[None], B=b[None], C=out, **scales)
        found = {name: gpu.middle(each) for name, each in gpu.measured(runs, RUNS).items()}
        work = 2.0 * m * n * k
        print(f"{m} x {n} x {k}:")
        for name, seconds in sorted(found.items(), key=lambda item: item[1]):
            ratio = found["cuBLASLt fast"] / seconds
            print(f"  {name}: {work / seconds / 1e12:.0f} TFLOP/s, {ratio:.3f} of cuBLASLt fast")
    return 0


def runtime_names(kernel: object) -> list[str]:
    """The parameters of a kernel."""
    return [p["name"] for p in kernel.manifest["parameters"]]  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(main())
