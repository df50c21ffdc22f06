"""What stands around the examples of codes that are Python: calls, and statements that are run."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent

MATRIX = "import numpy as np\na = np.zeros((4, 4), np.float32)\nc = np.zeros((4, 4), np.float32)\n"
COPY = (
    MATRIX + "@proc\ndef p(M: size, A: f32[M, 4] @ DRAM, C: f32[M, 4] @ DRAM):\n"
    "    for m in seq(0, M):\n        C[m, 0] = A[m, 0]\n"
)
ONE = (
    MATRIX + "@proc\ndef p(M: size, A: f32[M, 4] @ DRAM):\n    for m in seq(0, M):\n"
    "        A[m, 0] = 1.0\n"
)
GEMM = (
    "from exogpu.schedule import *\n"
    "@proc\ndef gemm(M: size, N: size, K: size, A: f32[M, K] @ DRAM, B: f32[K, N] @ DRAM, "
    "C: f32[M, N] @ DRAM):\n"
    "    for i in seq(0, M):\n        for j in seq(0, N):\n            C[i, j] = 0.0\n"
    "            for k in seq(0, K):\n                C[i, j] += A[i, k] * B[k, j]\n"
)
TILES = (
    "from exogpu.codegen.task_order import Grouped\n"
    "@proc\ndef gemm(x: f32[8] @ CudaGmemLinear, y: f32[8] @ CudaGmemLinear, "
    "z: f32[8, 8] @ CudaGmemLinear):\n"
    "    with CudaDeviceFunction(blockDim=32):\n"
    "        for tm in cuda_tasks(0, 8):\n            for tn in cuda_tasks(0, 8):\n"
    "                for t in cuda_threads(0, 1, unit=cuda_thread):\n"
    "                    z[tm, tn] = x[tm] + y[tn]\n"
)


def ring(name: str, index: str, arrives: str = "") -> str:
    """A warp that fills a ring which another empties."""
    body = f"""\
with CudaWarps(0, 1):
    Await(empty, cuda_in_order, ~4)
    for t in cuda_threads(0, 32, unit=cuda_thread):
        tile[{index.replace("BAR", "full")}, t] = x[k, t]
    Arrive(cuda_in_order) >> full
with CudaWarps(1, 2):
    Await(full, cuda_in_order, ~0)
    for t in cuda_threads(0, 32, unit=cuda_thread):
        y[k, t] = tile[{index.replace("BAR", "empty")}, t]
    Arrive(cuda_in_order) >> empty
"""
    guarded = f"if {arrives}:\n{indent(body, '    ')}" if arrives else body
    return f"""\
@proc
def {name}(K: size, x: f32[K, 32] @ CudaGmemLinear, y: f32[K, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            tile: f32[4, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            for k in seq(0, K):
{indent(guarded, " " * 16)}
            Fence(cuda_in_order, cuda_in_order)
"""


SLOTS = (
    "from exogpu.schedule import *\n"
    + ring("kernel", "slot(BAR)")
    + "\n\n"
    + ring("without_slots", "k % 4")
)
LOADED = """\
from exogpu.schedule import *
@proc
def gather(x: f32[8] @ CudaGmemLinear, perm: i32[8] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                for i in seq(0, 8):
                    j = load_index(perm[i], 0, 8)
                    x[j] = 0.0
@proc
def without_loads(x: f32[8] @ CudaGmemLinear, j: index):
    assert j >= 0 and j < 8
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                for i in seq(0, 8):
                    x[j] = 0.0
"""
LOADS = """\
import numpy as np
z = np.zeros(4, np.float32)
@proc
def p(rows: i32[2] @ CudaGmemLinear, z: f32[4] @ CudaGmemLinear):
    assert injective(rows)
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                r = load_index(rows[0], 0, 4)
                z[r] = 1.0
"""
UNEVEN = (
    "import numpy as np\nx = np.zeros((4, 32), np.float32)\ny = np.zeros((4, 32), np.float32)\n"
    + ring("p", "slot(BAR)", "k < 3")
)

CALLS: Mapping[str, str] = {
    "X905": ONE,
    "X906": ONE,
    "X907": ONE,
    "X908": ONE,
    "X920": ONE,
    "X921": COPY,
    "X922": ONE,
    "X923": MATRIX + "@proc\ndef p(M: size, K: size, A: f32[M, K] @ DRAM, x: f32[K] @ DRAM):\n"
    "    x[0] = A[0, 0]\n",
    "X924": MATRIX + "a += 1 / 3\n@proc\ndef p(A: bf16[4, 4] @ DRAM, B: bf16[4, 4] @ DRAM):\n"
    "    B[0, 0] = A[0, 0]\n\nimport functools\n"
    "class p:\n    run = functools.partial(p.run, B=c)\n",
    "X925": MATRIX + "@proc\ndef p(s: f32 @ DRAM):\n    s = 1.0\n",
    "X926": COPY,
    "X931": UNEVEN,
    "X932": LOADS,
    "X933": LOADS,
    "X990": GEMM,
    "X991": GEMM,
    "X992": GEMM,
    "X993": GEMM,
    "X994": SLOTS,
    "X995": LOADED,
    "G808": TILES,
}
"""What stands before the calls, by code."""

BODIES: Mapping[str, tuple[str, str]] = {
    "X927": (
        "@proc\ndef p(x: f32[8] @ DRAM, at: i32[1] @ DRAM):\n    HERE\n",
        "p.run(x=np.zeros(8, np.float32), at=np.zeros(1, np.int32))",
    ),
    "X928": (
        # A procedure's own run refuses it before: for all sizes, under T260 or B603.
        "from exogpu.interpreter import run\n@proc\ndef scale(x: f32[4] @ DRAM):\n    x[0] = 1.0\n"
        "@proc\ndef p(n: size, x: f32[8] @ DRAM):\n    HERE\n",
        "run(p.ir, {'n': 3, 'x': np.zeros(8, np.float32)})",
    ),
    "X929": (
        "@proc\ndef p(n: i32[1] @ DRAM, m: i32[2] @ DRAM):\n    HERE\n",
        "p.run(n=np.zeros(1, np.int32), m=np.array([7, 0], np.int32))",
    ),
    "X930": (
        "@proc\ndef p(y: f32[7] @ DRAM):\n    for i in seq(0, 20):\n        HERE\n",
        "p.run(y=np.zeros(7, np.float32))",
    ),
    "G812": (
        "@proc\ndef p(HERE, y: f32[1] @ CudaGmemLinear):\n"
        "    with CudaDeviceFunction(blockDim=32):\n        for task in cuda_tasks(0, 1):\n"
        "            for t in cuda_threads(0, 1, unit=cuda_thread):\n"
        "                y[0] = table[0]\n",
        "p.emit(unchecked=True)",
    ),
}
"""Examples that are statements of a procedure, and the call that runs into them."""
