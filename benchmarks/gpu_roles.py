"""Epilogues and refills between warp roles on a GPU: proxy fences where they are proved enough.

    exogpu compile examples/museum/flashkda_24_roles.py::fix -o build/gpu/roles/fix --cubin
    python benchmarks/gpu_roles.py build/gpu/roles

Takes a folder for each kernel; needs torch, and neither the solvers nor a compiler.  Every kernel
runs many times at some sizes, on poisoned outputs, against float64.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
TIMES = 50

Arrays = dict[str, torch.Tensor]


def epilogue(m: int) -> tuple[Arrays, str, torch.Tensor, float]:
    """Inputs, the output's name, what it has to be, and how far it may be from that."""
    x = torch.randn((m, 4, 32), device="cuda")
    y = torch.empty((4 * m, 32), device="cuda")
    return {"x": x, "y": y}, "y", x.view(4 * m, 32).double(), 0.0


def attention(q: int) -> tuple[Arrays, str, torch.Tensor, float]:
    """The same of a step of attention's backward pass."""
    s, lse = torch.randn((64, 32 * q), device="cuda"), torch.randn((1, 32 * q), device="cuda")
    d_o = torch.randn((32, 32 * q), device="cuda")
    arrays = {"S": s, "lse": lse, "dO": d_o, "dV": torch.empty((64, 32), device="cuda")}
    arrays["saved"] = torch.empty(32 * q, device="cuda")
    wanted = (s.double() - lse.double()).exp() @ d_o.double().T
    return arrays, "dV", wanted, 2.0**-8 * float(((s - lse).exp() @ d_o.abs().T).max())


CASES: Mapping[str, tuple[Callable[[int], tuple[Arrays, str, torch.Tensor, float]], str]] = {
    "fix": (epilogue, "M"),
    "fix_async_alone": (epilogue, "M"),
    "suspected": (attention, "Q"),
}


def main() -> int:
    sys.path.insert(0, str(ROOT))
    runtime = importlib.import_module("exogpu.codegen.runtime")
    failed = 0
    for manifest in sorted(Path(sys.argv[1]).glob("*/*.json")):
        make, size = CASES[manifest.stem]
        kernel = runtime.Kernel.from_folder(manifest.parent, manifest.stem)
        wrong = runs = 0
        for number in (1, 2, 3, 7, 64, 1000):
            arrays, output, wanted, limit = make(number)
            for _ in range(TIMES):
                arrays[output].fill_(float("nan"))
                kernel(stream=torch.cuda.current_stream().cuda_stream, **arrays)
                torch.cuda.synchronize()
                error = (arrays[output].double() - wanted).abs().max()
                wrong += not bool(error <= limit)
                runs += 1
        failed += wrong
        print(f"{manifest.parent.name}: {runs} runs over {size}, {wrong} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
