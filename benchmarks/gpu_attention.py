"""Attention on a GPU beside what torch takes, by the method of `gpu.py`, in TFLOP/s.

    exogpu compile exogpu.kernels.attention_sm90 -o build/gpu/attention --cubin
    exogpu compile benchmarks/fragments.py -o build/gpu/fragments --cubin
    python benchmarks/gpu_attention.py build/gpu/attention build/gpu/fragments

The launch is enqueued before the clock starts, and the L2 cache is flushed.  Needs torch, and
neither the solvers nor a compiler.  Whether results are right is asked by `gpu_check.py`.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path

import gpu
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

ROOT = Path(__file__).resolve().parent.parent
RUNS = 30
SIZES = ((64, 1024), (32, 2048), (16, 4096), (16, 16384))
"""Heads, and rows of each."""
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}

Run = Callable[[], object]


def others(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> dict[str, Run]:
    """Returns torch's runs, by backend; those that refuse are left out."""
    found: dict[str, Run] = {}
    for name, backend in BACKENDS.items():

        def run(backend: SDPBackend = backend) -> object:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)

        try:
            run()
            found[name] = run
        except RuntimeError as error:
            print(f"  {name} refuses: {str(error).splitlines()[0]}")
    return found


def call(kernel: Callable[..., object], arrays: dict[str, torch.Tensor]) -> Run:
    """A run of our kernel."""
    return lambda: kernel(stream=torch.cuda.current_stream().cuda_stream, **arrays)


def main() -> int:
    sys.path.insert(0, str(ROOT))
    runtime = importlib.import_module("exogpu.codegen.runtime")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    found_in = [path for folder in sys.argv[1:] for path in Path(folder).glob("attention_*.json")]
    whole = [path for path in found_in if "varlen" not in path.stem and "paged" not in path.stem]
    for path in sorted(whole, key=lambda path: path.stem):
        kernel = runtime.Kernel.from_folder(path.parent, path.stem)
        dtype = torch.float16 if "f16" in path.stem else torch.bfloat16
        depth = int(re.findall(r"sm90_(\d+)", path.stem)[0])
        group = int((re.findall(r"sm90_\d+\w*_(\d+)$", path.stem) or ["1"])[0])
        causal = "causal" in path.stem
        for heads, rows in SIZES:

            def array(count: int, *shape: int, dtype: torch.dtype = dtype) -> torch.Tensor:
                return torch.randn((count, *shape), device="cuda").to(dtype)

            q, k, v = (array(n, rows, depth) for n in (heads, heads // group, heads // group))
            arrays = {"Q": q, "K": k, "V": v}
            arrays |= {"Y": torch.empty_like(q), "L": torch.empty((heads, rows), device="cuda")}

            wide = [x.repeat_interleave(group, 0) for x in (k, v)]
            runs = {"exogpu": call(kernel, arrays), **others(q, *wide, causal)}
            found = {name: gpu.middle(each) for name, each in gpu.measured(runs, RUNS).items()}
            work = 4 * heads * rows * rows * depth / (2 if causal else 1)
            rates = ", ".join(f"{n} {work / t / 1e12:.0f}" for n, t in found.items())
            best = min((t for n, t in found.items() if n != "exogpu"), default=float("nan"))
            ratio = best / found["exogpu"]
            print(f"{path.stem} {heads} x {rows}: {rates} TFLOP/s; {ratio:.3f} of the best")
    return 0


if __name__ == "__main__":
    sys.exit(main())
