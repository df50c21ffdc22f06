"""Measures how TMA rounds to tf32, bit by bit, and the f32 GEMMs' errors beside cuBLAS.

    exogpu compile benchmarks/rounding.py -o build/gpu --cubin
    python benchmarks/gpu_rounding.py build/gpu [--gemm gemm_sm90_1x1_128x192_resident]

Every pattern of the 14 lowest bits with exponents at both ends and between, and a million random
ones, are copied and compared with the nearest number of tf32, found in float64.  Errors are of
products of normal random numbers, against float64: their root mean square, and their mean towards
zero (what cutting off would leave), in units of the root mean square of the result.  Needs torch,
and neither the solvers nor a compiler.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

TOPS: Final = (0, 0x4000, 0x800000, 0x7FC000, 0x3F800000, 0x3FFFC000, 0x7F7FC000)
"""Bits above the 14 lowest: subnormal numbers, the least and the greatest, and ones between."""

NANS: Final = (0x7F800000, 0x7FC00000, 0x7FBFC000)
SIZES: Final = ((512, 16384), (1024, 4096), (4096, 4096))
"""Rows and columns, and K."""
NAN: Final = 0x7FFFE000
"""The bits of every NaN."""


def patterns() -> np.ndarray[Any, Any]:
    """The bits that are rounded, in whole rows of 32."""
    import numpy as np

    low = np.arange(1 << 14, dtype=np.uint32)
    tops = np.array([top | sign for top in (*TOPS, *NANS) for sign in (0, 1 << 31)], np.uint32)
    edges = (tops[:, None] | low).reshape(-1)
    some = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, np.uint32)
    return np.concatenate([edges, some])


def nearest(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bits of the nearest number with 10 bits after the point, the even one of two."""
    import numpy as np

    wide = x.astype(np.float64)
    exponent = np.maximum(np.frexp(wide)[1] - 1, -126)  # that of subnormal numbers is the least
    unit = np.ldexp(1.0, exponent - 10)
    with np.errstate(over="ignore", invalid="ignore"):
        near = (np.rint(wide / unit) * unit).astype(np.float32)
    near = np.where(np.isinf(x), x, near)
    return np.where(np.isnan(x), np.uint32(NAN), np.copysign(near, x).view(np.uint32))


def misrounded(folder: Path) -> list[str]:
    """The first of the patterns that are rounded otherwise."""
    import numpy as np
    import torch

    from exogpu.codegen.runtime import Kernel

    bits = patterns()
    x = torch.from_numpy(bits.view(np.float32).copy()).reshape(-1, 32).cuda()
    y = torch.zeros_like(x)
    Kernel.from_folder(folder, "rounding")(x=x, y=y)
    found = y.cpu().numpy().reshape(-1).view(np.uint32)
    wanted = nearest(bits.view(np.float32))
    print(f"{len(bits)} patterns, {np.count_nonzero(found != wanted)} rounded otherwise")
    wrong = np.flatnonzero(found != wanted)[:8]
    return [f"{bits[i]:#x} became {found[i]:#x}, not {wanted[i]:#x}" for i in wrong]


def errors(folder: Path, name: str) -> list[dict[str, Any]]:
    """Measures the errors of the kernel and of cuBLAS, at each size."""
    import torch

    from exogpu.codegen.runtime import Kernel

    torch.backends.cuda.matmul.allow_tf32 = True
    kernel, found = Kernel.from_folder(folder, name), []
    for n, k in SIZES:
        a, b = (torch.randn(1, n, k, device="cuda") for _ in range(2))
        c = torch.empty(1, n, n, device="cuda")
        wanted = a[0, :256].double() @ b[0].double().T
        scale = wanted.square().mean().sqrt()
        for who in ("cuBLAS", name):
            c.fill_(float("nan"))
            if who == name:
                kernel(A=a, B=b, C=c)
            else:
                torch.mm(a[0], b[0].T, out=c[0])
            error = c[0, :256].double() - wanted
            rms = (error.square().mean().sqrt() / scale).item()
            bias = (-(error * wanted.sign()).mean() / scale).item()
            found.append({"size": [n, n, k], "of": who, "rms": rms, "towards zero": bias})
            print(f"{n} x {n} x {k} {who}: rms {rms:.3e}, towards zero {bias:.3e}")
    return found


def main() -> int:
    """Round, multiply, tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gemm", default="gemm_sm90_1x1_128x192_resident")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    wrong = misrounded(options.folder)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    found = errors(options.folder, options.gemm)
    if options.output is not None:
        options.output.write_text(json.dumps({"misrounded": wrong, "errors": found}, indent=1))
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
