"""GEMMs whose results leave through shared memory, beside those that store from registers.

    exogpu compile benchmarks/staged.py -o build/gpu/staged --cubin
    python benchmarks/gpu_check.py build/gpu/staged --only staged
    python benchmarks/gpu.py build/gpu/staged -o build/staged-bench \\
        --panels square,small,uneven,bf16,f16

A name ends with the steps of the ring, the buffers of a warpgroup, and how many of them are left
unread while the next is stored.
"""

from __future__ import annotations

from exogpu.api import Procedure
from exogpu.hw.datatypes import bf16, f16, f32
from exogpu.kernels import gemm_sm90
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
"""Of tf32: cluster, rows, columns, ring, buffers, unread."""
HALVES = (
    (1, 1, 128, 256, 4, 2, 1),
    (1, 1, 128, 256, 4, 2, 0),
    (1, 1, 128, 256, 3, 4, 2),
    (2, 1, 128, 256, 4, 2, 1),
)
BESIDE = ("1x1_128x256_resident", "2x1_128x256_resident", "1x2_256x192_resident")


def _staged(one: tuple[int, ...], dtype: object) -> Procedure:
    return make_staged(*one, dtype=dtype, name="staged_" + "_".join(map(str, one[4:])))  # type: ignore[arg-type]


KERNELS: dict[str, Procedure] = {
    kernel.name: kernel
    for kernel in (
        *(_staged(one, f32) for one in SINGLES),
        *(_staged(one, half) for half in (bf16, f16) for one in HALVES),
        *(
            gemm_sm90.KERNELS[f"{gemm_sm90.family(dtype)}_{name}"]
            for dtype in (f32, bf16, f16)
            for name in BESIDE
        ),
        *(gemm_sm90.KERNELS[f"gemm_sm90_{m}x1_128x192_resident"] for m in (1, 2)),
    )
}
"""By name."""
