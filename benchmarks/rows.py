"""The kernels that `gpu_rows.py` checks and times, to be compiled for a GPU.

exogpu compile benchmarks/rows.py -o build/gpu/rows --cubin
"""

import sys
from pathlib import Path

from exogpu.kernels.long_rows import LONG_MAKERS
from exogpu.kernels.norm_rows import make_layer_norm, make_rms_norm
from exogpu.kernels.row_calls import row_shape_of
from exogpu.kernels.row_layout import SCANNED, TYPES, LongShape, scan_shape, shape_of
from exogpu.kernels.scan_rows import make_scan
from exogpu.kernels.softmax_rows import make_cross_entropy, make_softmax
from exogpu.kernels.stencil_kernels import make_stencil, make_stencil_rows
from exogpu.kernels.topk_rows import make_topk
from exogpu.kernels.topk_selection import topk_shape
from exogpu.kernels.transpose_kernels import make_transpose, make_transpose_blocks

sys.path.insert(0, str(Path(__file__).parent))
from row_sizes import COLUMNS, TOPK

KERNELS = {
    f"{name}_{shape}": (LONG_MAKERS[name] if isinstance(shape, LongShape) else make)(shape)
    for name, make in (
        ("softmax", make_softmax),
        ("rms_norm", make_rms_norm),
        ("layer_norm", make_layer_norm),
    )
    for shape in {row_shape_of(kind, n): 0 for kind, all_n in COLUMNS.items() for n in all_n}
}
KERNELS |= {
    f"cross_entropy_i64_{shape}": make_cross_entropy(shape)
    for shape in {shape_of(kind, n): 0 for kind, all_n in COLUMNS.items() for n in all_n}
}
KERNELS |= {
    f"scan_{shape}": make_scan(shape)
    for shape in {scan_shape(kind, n): 0 for kind in SCANNED for n in COLUMNS["f32"]}
}
KERNELS |= {
    f"topk_i64_{shape}": make_topk(shape)
    for shape in {topk_shape(kind, *of): 0 for kind in TYPES for of in TOPK}
}
KERNELS |= {f"transpose_{kind}": make_transpose(kind) for kind in TYPES}
KERNELS |= {"transpose_blocks_bf16": make_transpose_blocks("bf16")}
KERNELS |= {"stencil": make_stencil(), "stencil_rows": make_stencil_rows()}
