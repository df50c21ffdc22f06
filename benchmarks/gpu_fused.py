"""Products with bias, activation and residual on a GPU: right at random sizes, and times.

    exogpu compile benchmarks/fused.py -o build/gpu/fused --cubin
    python benchmarks/gpu_fused.py build/gpu/fused [--sizes 100]

Beside them stands what torch has for them: `addmm`, whose epilogue cuBLASLt may fuse, followed by
the activation.  Times are those of `gpu.py`.  The exit status is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from gpu_results import Problem, ours, timed

from exogpu.codegen.runtime import Kernel

RUNS = 30
SIZES = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (8192, 11008, 4096))
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "silu": F.silu,
}


class Fused:
    """One kernel, and what it computes."""

    def __init__(self, folder: Path, name: str) -> None:
        self.kernel = Kernel.from_folder(folder, name)
        parameters = {p["name"]: p for p in self.kernel.manifest["parameters"]}
        self.dtype = TYPES[parameters["A"]["dtype"]]
        self.bias, self.residual = "bias" in parameters, "residual" in parameters
        words = [word for word in name.split("_") if word in ACTIVATIONS]
        self.activation = ACTIVATIONS[words[0]] if words else None

    def arrays(self, L: int, M: int, N: int, K: int) -> dict[str, torch.Tensor]:
        """Operands at random, and a C that says where nothing is written."""
        random_ = partial(torch.randn, device="cuda", dtype=self.dtype)
        found = {"A": random_(L, M, K), "B": random_(L, N, K)}
        if self.bias:
            found["bias"] = random_(N) * K**0.5
        if self.residual:
            found["residual"] = random_(L, M, N)
        return found | {"C": torch.full((L, M, N), float("nan"), device="cuda", dtype=self.dtype)}

    def followed(self, product: torch.Tensor, of: dict[str, torch.Tensor]) -> torch.Tensor:
        """Computes the expected C."""
        if self.bias:
            product = product + of["bias"]
        if self.activation is not None:
            product = self.activation(product)
        return product + of["residual"] if self.residual else product

    def wrong(self, L: int, M: int, N: int, K: int) -> float:
        """The greatest error, in units of what it may be."""
        of = self.arrays(L, M, N, K)
        self.kernel(**of)
        wide = {name: x.double() for name, x in of.items()}
        wanted = self.followed(wide["A"] @ wide["B"].mT, wide)
        size = wide["A"].abs() @ wide["B"].abs().mT
        tf32 = (self.dtype == torch.float32) * 2.0**-10 * 1.001
        half = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}.get(self.dtype, 0.0)
        # An activation's slope is at most 1.13, and f32 gives it to some units in the last place.
        limit = 1.13 * size * (tf32 + K * 2.0**-23) + 2.0**-18 * (wanted.abs() + 1)
        limit += half * 1.001 * wanted.abs()
        if self.residual:
            limit += half * wide["residual"].abs()
        return float(((wide["C"] - wanted).abs() / limit).nan_to_num(9e9).max())


def problems(fused: dict[str, Fused]) -> Iterator[Problem]:
    """Yields the problems to time: ours, torch's, and the product alone."""
    for m, n, k in SIZES:
        for name, one in fused.items():
            of = one.arrays(1, m, n, k)
            flat = {key: x[0] if x.dim() == 3 else x for key, x in of.items()}

            def library(one: Fused = one, flat: dict[str, torch.Tensor] = flat) -> torch.Tensor:
                if one.bias:
                    product = torch.addmm(flat["bias"], flat["A"], flat["B"].T)
                else:
                    product = flat["A"] @ flat["B"].T
                if one.activation is not None:
                    product = one.activation(product)
                return product + flat["residual"] if one.residual else product

            runs = {
                "exogpu": ours(one.kernel, of),
                "torch": library,
                "product": partial(torch.mm, flat["A"], flat["B"].T),
            }
            yield name, f"{m} x {n} x {k}", 2.0 * m * n * k, runs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", type=int, default=100, help="random ones, a kernel")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    names = sorted(path.stem for path in options.folder.glob("gemm_fused_*.json"))
    fused = {name: Fused(options.folder, name) for name in names}
    bad = 0
    for name, one in fused.items():
        chosen, worst = random.Random(1), 0.0
        for _ in range(options.sizes):
            sizes = (chosen.randint(1, 2), chosen.randint(1, 700), chosen.randint(1, 700))
            worst = max(worst, one.wrong(*sizes, 8 * chosen.randint(1, 80)))
        bad += worst > 1
        print(f"{name}: {options.sizes} sizes, the greatest error {worst:.2f} of its bound")
    list(timed(problems(fused), RUNS))
    return bool(bad)


if __name__ == "__main__":
    raise SystemExit(main())
