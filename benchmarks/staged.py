"""GEMMs whose results leave through shared memory, beside those that store from registers.

    exogpu compile benchmarks/staged.py -o build/gpu/staged --cubin
    python benchmarks/gpu_check.py build/gpu/staged --only staged
    python benchmarks/gpu.py build/gpu/staged -o build/staged-bench --panels square,uneven,bf16,f16
    python benchmarks/staged.py build/staged-bench         # ratios to cuBLAS, all kernels

A name ends with the steps of the ring, the buffers of a warpgroup, and how many of them are left
unread while the next is stored.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from exogpu.api import Procedure
from exogpu.hw.language import bf16, f16, f32
from exogpu.kernels.gemm_sm90 import make_resident
from exogpu.kernels.gemm_staged_sm90 import make_staged

SINGLES = (
    (1, 1, 128, 256, 4, 2, 1),
    (1, 1, 128, 256, 4, 2, 0),
    (1, 1, 128, 256, 3, 4, 2),
    (1, 1, 128, 192, 5, 1, 0),
    (1, 1, 128, 192, 4, 3, 1),
    (1, 1, 128, 192, 3, 6, 2),
    (2, 1, 128, 256, 4, 2, 1),
)
"""The shapes of tf32: cluster, rows, columns, ring, buffers, unread."""
HALVES = (
    (1, 1, 128, 256, 4, 2, 1),
    (1, 1, 128, 256, 4, 2, 0),
    (1, 1, 128, 256, 3, 4, 2),
    (2, 1, 128, 256, 4, 2, 1),
)
BESIDE = ((1, 1, 128, 256), (2, 1, 128, 256), (1, 2, 256, 192))
"""The shapes that store from registers."""


def _staged(one: tuple[int, ...], dtype: object) -> Procedure:
    return make_staged(*one, dtype=dtype, name="staged_" + "_".join(map(str, one[4:])))  # type: ignore[arg-type]


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        *(_staged(one, f32) for one in SINGLES),
        *(_staged(one, half) for half in (bf16, f16) for one in HALVES),
        *(make_resident(*one, dtype=dtype) for dtype in (f32, bf16, f16) for one in BESIDE),
        *(make_resident(clusters, 1, 128, 192) for clusters in (1, 2)),
    )
}
"""By name."""


def main(folder: Path) -> None:
    """The ratios to cuBLAS of each kernel at each size, the best one first."""
    for line in (folder / "results.jsonl").read_text().splitlines():
        one = json.loads(line)
        seconds = {name: time["seconds"] for name, time in one["times"].items()} | one["far"]
        print(*(one[n] for n in ("panel", "M", "N", "K")), *one["wrong"])
        for name, time in sorted(seconds.items(), key=lambda item: item[1]):
            print(f"    {seconds['cuBLAS'] / time:.3f} {name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
