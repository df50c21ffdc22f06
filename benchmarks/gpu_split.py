"""Split-k by atomics and in two passes, on a GPU: right at random sizes, the same bits, times.

    python benchmarks/gpu_split.py build/split -o build/gpu-split [--sizes 100] [--runs 60]

The folder is what `exogpu compile exogpu.kernels.gemm_splitk_sum_sm90`, `gemm_splitk_sm90` and
`benchmarks/splitk_serial.py` wrote, with `--cubin`.  Times are beside cuBLAS, as in `gpu.py`; with
jax installed, `exogpu.kernels.gemm` is tried on its arrays too.  The exit status is 1 if anything
is wrong.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import sys
from itertools import product
from pathlib import Path
from typing import Final

import torch
from gpu import HALF_BIT, LIBRARIES, ROOT, RUNS, Problem, timed

sys.path.insert(0, str(ROOT))

from exogpu.codegen.runtime import Kernel

PANEL: Final = (
    *((n, n, 65536) for n in (256, 512, 1024, 2048)),
    (64, 4096, 4096),
    (64, 4096, 16384),
    (128, 1024, 16384),
)
"""Few tiles."""


def wrong(kernel: Kernel, deterministic: bool, chosen: random.Random) -> str:
    """Describes the fault at a random size; empty if there is none."""
    L, M, N = chosen.randint(1, 2), chosen.randint(1, 700), 4 * chosen.randint(1, 170)
    S, K = chosen.randint(1, 33), 8 * chosen.randint(1, 40)
    kind = next(p["dtype"] for p in kernel.manifest["parameters"] if p["name"] == "A")
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[kind]
    a = torch.randn(L, M, S, K, device="cuda", dtype=dtype)
    b = torch.randn(L, N, S, K, device="cuda", dtype=dtype)
    found = [torch.full((L, M, N), float("nan"), device="cuda", dtype=dtype) for _ in range(3)]
    for c in found:  # right behind each other: what one call frees the next one may get
        kernel(A=a, B=b, C=c)
    x, y = (t.view(L, -1, S * K).double() for t in (a, b))
    tf32 = (kind == "f32") * 2.0**-10 * 1.001
    limit = (x.abs() @ y.abs().mT) * (tf32 + (S * K + S) * 2.0**-23)
    limit += (x @ y.mT).abs() * HALF_BIT.get(kind, 0.0) * 1.001 + 2.0**-24
    size = f"{L=} {M=} {N=} {S=} {K=}"
    for c in found:
        error = float(((c.double() - x @ y.mT).abs() / limit).nan_to_num(9e9).max())
        if error > 1:
            return f"{size}: an error of {error:.2g} times its bound"
    if deterministic and not all(torch.equal(c, found[0]) for c in found):
        return f"{size}: three calls gave other bits"
    return ""


def with_jax() -> str:
    """Describes the fault with arrays of jax; empty if there is none."""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import numpy as np

    from exogpu.kernels import gemm

    step = jax.jit(lambda a: a * 0.5 + 1.0)
    for n in range(50):
        a = jax.random.normal(jax.random.key(n), (256, 4096))
        c = step(gemm(step(a), step(a)))  # nobody waits in between, and inputs go at once
        x = np.asarray(step(a), np.float64)
        wanted = x @ x.T * 0.5 + 1.0
        if np.abs(np.asarray(c) - wanted).max() > 4096 * 2.0**-9 * 4:
            return f"the result of call {n}"
    return ""


def main() -> int:
    """Check, time, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--sizes", type=int, default=100, help="random ones, a kernel")
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    failures = 0
    for path in sorted(options.folder.glob("*.json")):
        kernel, chosen = Kernel.from_folder(options.folder, path.stem), random.Random(1)
        found = [wrong(kernel, "_sum_" in path.stem, chosen) for _ in range(options.sizes)]
        bad = [one for one in found if one]
        failures += len(bad)
        print(
            f"{path.stem}: {len(found) - len(bad)} of {len(found)} sizes right",
            *bad[:3],
            sep="\n  ",
        )
    if importlib.util.find_spec("jax") is not None:
        said = with_jax()
        failures += bool(said)
        print("jax:", said or "right")
    options.output.mkdir(parents=True, exist_ok=True)
    with (options.output / "results.jsonl").open("w") as file:
        for (m, n, k), dtype in product(PANEL, ("f32", "bf16")):
            one = timed(options.folder, Problem("split", 1, m, n, k, dtype), options.runs, 1.3)
            failures += len(one["wrong"])
            file.write(json.dumps(one) + "\n")
            file.flush()
            seconds = {name: t["seconds"] for name, t in one["times"].items()}
            seconds |= one["far"]
            base = seconds["cuBLAS"]
            print(f"{dtype} {m} {n} {k}: cuBLAS {base * 1e6:.1f} us", *one["wrong"])
            for kind in ("_sum_", "_serial", "splitk_sm90"):
                ours = {
                    name: s
                    for name, s in seconds.items()
                    if name not in LIBRARIES
                    and kind in name
                    and ("_serial" in name) == (kind == "_serial")
                }
                best = min(ours, key=lambda name: ours[name], default=None)
                if best is not None:
                    print(f"  {best}: {ours[best] * 1e6:.1f} us, ratio {base / ours[best]:.3f}")
    return bool(failures)


if __name__ == "__main__":
    raise SystemExit(main())
