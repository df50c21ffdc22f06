"""Kernels of several warp roles on a GPU: proxy fences where they are proved enough, phases that
several roles share, named barriers.

    exogpu compile examples/museum/flashkda_24_roles.py::fix -o build/gpu/roles/fix --cubin
    for k in two_consumers_3 two_by_two_2 handed_over in_turns; do
        exogpu compile benchmarks/shared_phases.py::$k -o build/gpu/roles/$k --cubin; done
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


def two_consumers(k: int) -> tuple[Arrays, str, torch.Tensor, float]:
    """Two roles that read each slot of a ring; what the one of two warps writes."""
    x = torch.randn((5, k, 32), device="cuda")
    y, z = torch.empty((5, k, 32), device="cuda"), torch.empty((5, k, 64), device="cuda")
    wanted = 2.0 * x.double().repeat_interleave(2, dim=2)
    return {"x": x, "y": y, "z": z}, "z", wanted, 0.0


def two_by_two(k: int) -> tuple[Arrays, str, torch.Tensor, float]:
    """The same of slots that two roles fill."""
    x = torch.randn((k, 64), device="cuda")
    y, z = torch.empty((k, 32), device="cuda"), torch.empty((k, 64), device="cuda")
    return {"x": x, "y": y, "z": z}, "z", 2.0 * x.double().flip(1), 0.0


def handed_over(k: int) -> tuple[Arrays, str, torch.Tensor, float]:
    """A place that goes from one role to the other and back."""
    x = torch.randn((300, k, 32), device="cuda")
    y = torch.empty((300, k, 32), device="cuda")
    return {"x": x, "y": y}, "y", (x.flip(2) + 1.0).double(), 0.0


def in_turns(k: int) -> tuple[Arrays, str, torch.Tensor, float]:
    """Two warps that add to one sum: whole numbers, of which each is doubled so often that another
    order would show."""
    x = torch.randint(-1, 2, (300, k, 64), device="cuda").float()
    x[:, 8:] = 0.0
    plain = x.double().sum(1).view(300, 2, 32).sum(1)
    doubled = torch.zeros((300, 32), device="cuda", dtype=torch.float64)
    for step in range(k):
        for half in (0, 32):
            doubled = doubled * 2.0 + x[:, step, half : half + 32].double()
    wanted = torch.cat((doubled, plain), 1)
    return {"x": x, "y": torch.empty((300, 64), device="cuda")}, "y", wanted, 0.0


CASES: Mapping[str, tuple[Callable[[int], tuple[Arrays, str, torch.Tensor, float]], str]] = {
    "fix": (epilogue, "M"),
    "fix_async_alone": (epilogue, "M"),
    "suspected": (attention, "Q"),
    "two_consumers_3": (two_consumers, "K"),
    "two_by_two_2": (two_by_two, "K"),
    "handed_over": (handed_over, "K"),
    "in_turns": (in_turns, "K"),
}


def main() -> int:
    sys.path.insert(0, str(ROOT))
    runtime = importlib.import_module("exogpu.codegen.runtime")
    failed = 0
    for manifest in sorted(Path(sys.argv[1]).glob("*/*.json")):
        make, size = CASES[manifest.stem]
        kernel = runtime.Kernel.from_folder(manifest.parent, manifest.stem)
        wrong = runs = 0
        for number in (1, 2, 3, 7, 32) if manifest.stem == "in_turns" else (1, 2, 3, 7, 64, 1000):
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
