"""The kernels of long rows that `gpu_long_rows.py` checks and times, to be compiled for a GPU.

exogpu compile benchmarks/long_row_variants.py -o build/gpu/long-rows --cubin
"""

import sys
from pathlib import Path

from exogpu.kernels.long_rows import LONG_MAKERS

sys.path.insert(0, str(Path(__file__).parent))
from long_row_shapes import COLUMNS, shapes

KERNELS = {
    f"{name}_{shape}": make(shape)
    for name, make in LONG_MAKERS.items()
    for shape in {s: 0 for kind in ("f32", "bf16") for n in COLUMNS for s in shapes(kind, n)}
}
