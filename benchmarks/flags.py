"""The kernels that `gpu_flags.py` checks and times, to be compiled for a GPU.

exogpu compile benchmarks/flags.py -o build/gpu/flags --cubin
"""

from exogpu.kernels.scan_rows import SHAPES, Shape
from exogpu.kernels.scan_waves import make_scan
from exogpu.kernels.total_f32 import make_total

OTHERS = ((4, 8), (8, 4), (8, 6), (16, 4), (16, 8))
"""Warps and loads of tiles that are timed beside the one that ships."""

KERNELS = {
    **{f"scan_{s}": make_scan(s) for s in (*SHAPES, *(Shape("f32", w, n) for w, n in OTHERS))},
    **{f"total_{vectors}": make_total(vectors=vectors) for vectors in (True, False)},
}
