"""The kernels that `gpu_rows.py` checks and times, to be compiled for a GPU.

exogpu compile benchmarks/rows.py -o build/gpu/rows --cubin
"""

import sys
from pathlib import Path

from exogpu.kernels import stencil_tiles, transpose_tiles
from exogpu.kernels.norm_rows import make_layer_norm, make_rms_norm
from exogpu.kernels.rows import shape_of
from exogpu.kernels.softmax_rows import make_softmax

sys.path.insert(0, str(Path(__file__).parent))
from row_sizes import COLUMNS

KERNELS = {
    f"{name}_{shape}": make(shape)
    for name, make in (
        ("softmax", make_softmax),
        ("rms_norm", make_rms_norm),
        ("layer_norm", make_layer_norm),
    )
    for shape in {shape_of(kind, n): 0 for kind, all_n in COLUMNS.items() for n in all_n}
}
KERNELS |= transpose_tiles.KERNELS | stencil_tiles.KERNELS
