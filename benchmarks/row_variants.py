"""Kernels of rows in many shapes, which `gpu_row_variants.py` compares.

exogpu compile benchmarks/row_variants.py -o build/gpu/row-variants --cubin
"""

import sys
from pathlib import Path

from exogpu.kernels.norm_rows import make_layer_norm, make_rms_norm
from exogpu.kernels.row_layout import TYPES
from exogpu.kernels.softmax_rows import make_softmax
from exogpu.kernels.stencil_kernels import make_stencil, make_stencil_rows
from exogpu.kernels.topk_rows import make_topk
from exogpu.kernels.transpose_kernels import make_transpose, make_transpose_blocks

sys.path.insert(0, str(Path(__file__).parent))
from row_shapes import BLOCKS, SHAPES, STENCILS, TOPK

KERNELS = {
    kernel.name: kernel
    for make in (make_softmax, make_rms_norm, make_layer_norm)
    for kernel in map(make, SHAPES)
}
KERNELS |= {
    name: make_transpose_blocks(kind, of, name)
    for kind in TYPES
    for label, of in BLOCKS.items()
    for name in (f"transpose_{kind}_{label}",)
}
KERNELS |= {
    name: make_stencil_rows(*of, name)
    for label, of in STENCILS.items()
    for name in (f"stencil_{label}",)
}
KERNELS |= {f"transpose_{kind}": make_transpose(kind) for kind in TYPES}
KERNELS |= {"stencil": make_stencil()}
KERNELS |= {f"topk_i64_{shape}": make_topk(shape) for shapes in TOPK.values() for shape in shapes}
