"""Codes of code generation: what has no lowering to CUDA yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CODEGEN: Final[Mapping[str, tuple[str, str, str]]] = {
    "G801": (
        "a statement has no lowering",
        "The kernel can be checked, but code generation does not know how to emit this "
        "statement.  Nothing is emitted in its place.",
        "x_map = x[:, :, :] @ Sm90_tensorMap(128, 8, 32)  # a box of 2 dimensions, of 3\n"
        "# repair: of a box, an extent for each dimension\n"
        "x_map = x[:, :, :] @ Sm90_tensorMap(128, 1, 8, 32)",
    ),
    "G802": (
        "an extent in a kernel depends on sizes",
        "Registers and shared memory are laid out when the kernel is compiled.",
        "A_smem: f32[K] @ CudaSmemLinear\n# repair\nA_smem: f32[128] @ CudaSmemLinear",
    ),
    "G803": (
        "a synchronisation has no lowering",
        "No row of the lowering table serves this mechanism, scope and pair of timelines.",
        "for w in cuda_threads(0, 16, unit=2 * cuda_warp):  # there are 15 such barriers\n"
        "    Fence(cuda_in_order, cuda_in_order)\n"
        "# repair: fence at warp or CTA scope\n"
        "Fence(cuda_in_order, cuda_in_order)",
    ),
    "G804": (
        "an instruction has no emitted text",
        "The instruction's definition says what it means, and not yet what it is in CUDA C++.",
        "@instr(unit=cuda_thread, x=CUDA_REGISTER)\n"
        "def add_one(x: f32 @ CudaRmem):\n"
        "    x += 1.0\n"
        "# repair: a template\n"
        '@instr(unit=cuda_thread, x=CUDA_REGISTER, template="{x} += 1.0f;")\n'
        "def add_one(x: f32 @ CudaRmem):\n"
        "    x += 1.0",
    ),
    "G805": (
        "tasks do not form a rectangle",
        "A kernel is a sequence of cuda_tasks nests; the bounds of a nest do not depend on its "
        "own iterators, and nothing stands outside of it.",
        "for i in cuda_tasks(0, M):\n"
        "    for j in cuda_tasks(0, i):\n"
        "        pass\n"
        "# repair\n"
        "for i in cuda_tasks(0, M):\n"
        "    for j in cuda_tasks(0, M):\n"
        "        if j < i:\n"
        "            pass",
    ),
    "G806": (
        "a statement of the CPU part has no lowering",
        "The CPU part of a procedure becomes a C++ function: loops, conditions, scalar statements "
        "on host memory, memset and memcpy of adjacent elements, and launches, in order.",
        "cuda_memset0_1d(n, d[:, 0])  # a column: elements with gaps between them\n"
        "# repair\nfor i in seq(0, n):\n    cuda_memset0_1d(n, d[i, :])",
    ),
    "G807": (
        "an mbarrier has no lowering",
        "Each thread counts the Arrives and the Awaits that it executes, to know which mbarrier "
        "of a ring comes next: one collective must execute all Arrives on an element, and one "
        "all Awaits, with one skip.  Where several roles do, each phase one of them, all threads "
        "count what each does: of a variable with one element a CTA, whose depth `barrier(guard)` "
        "or a proof tells, and on whose Arrives no copy trails.",
        "for w in cuda_threads(0, 2, unit=cuda_warp):\n    Await(z, cuda_in_order, ~0)\n"
        "# repair: one Await by all\nAwait(z, cuda_in_order, ~0)",
    ),
    "G808": (
        "a task order finds no two loops to walk together",
        "Grouped and Hilbert orders walk two cuda_tasks loops together.  Without names they are "
        "the first two such that some global data depend on one of them alone, and some on the "
        "other.",
        'gemm.emit(task_order=Grouped(8, loops=("tm", "tx")))  # there is no loop over tx\n'
        "# repair\n"
        'gemm.emit(task_order=Grouped(8, loops=("tm", "tn")))',
    ),
    "G809": (
        "a kernel takes more shared memory than there is",
        "One CTA can have 232448 bytes on sm_90a, 166912 on sm_80 and sm_87, 101376 on sm_86 and "
        "sm_89.  Variables share bytes where one is freed before the next is allocated; the "
        "rings of mbarriers count too.",
        "tile: f32[256, 256] @ CudaSmemLinear  # 262144 bytes\n"
        "# repair\ntile: f32[128, 256] @ CudaSmemLinear",
    ),
    "G810": (
        "the architecture lacks what the kernel uses",
        "wgmma, TMA and what synchronises them, mbarriers, clusters and setmaxnreg need sm_90a.",
        "exogpu compile ring.py -o build --arch sm_80\n"
        "# repair\n"
        "exogpu compile ring.py -o build --arch sm_90a",
    ),
    "G811": (
        "index arithmetic does not fit the type in which it is computed",
        "Kernels compute indices, bounds and task numbers in 32 bits, the CPU part in 64.  What "
        "may not fit for some sizes is found by the launch, which then returns EXOGPU_TOO_LARGE "
        "or raises LaunchError; what fits for none is refused where it stands.",
        "for i in cuda_tasks(0, 3000000000):\n"
        "    pass\n"
        "# repair\n"
        "for i in cuda_tasks(0, 3):\n"
        "    for j in cuda_tasks(0, 1000000000):\n"
        "        pass",
    ),
    "G812": (
        "a kernel has too many bytes of parameters",
        "What is @ CudaGridConstant is copied into the parameters of the kernel, of which there "
        "are 4096 bytes.",
        "table: f32[2048] @ CudaGridConstant\n# repair\ntable: f32[2048] @ CudaGmemLinear",
    ),
    "G813": (
        "code generation fails",
        "A mistake of exogpu: the procedure is proved, and no kernel is made of it.  With "
        "EXOGPU_DEBUG=1 `exogpu compile` shows where.",
        "exogpu check gemm.py  # warning G813\n"
        "# repair: report what this prints\n"
        "EXOGPU_DEBUG=1 exogpu compile gemm.py -o build",
    ),
    "G814": (
        "a thread does not count what its slot is",
        "A thread that uses `slot(b)` counts the Arrives on b that it executes, in a register.  So "
        "it has to execute all of them: the producer counts what it fills, the consumer what it "
        "empties.",
        "with CudaWarps(1, 2):\n"
        "    for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "        y[k, t] = tile[slot(full), t]  # the other warp arrives on full\n"
        "# repair\n"
        "with CudaWarps(1, 2):\n"
        "    for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "        y[k, t] = tile[slot(empty), t]",
    ),
    "G815": (
        "a kernel has too many named barriers",
        "A CTA has 16 named barriers, the first of which is the CTA's own.  Fences of some of its "
        "warps take some, too.",
        "z: barrier[16] @ CudaNamedBarrier\n# repair\nz: barrier[2] @ CudaNamedBarrier",
    ),
    "G816": (
        "a variable of registers lies in local memory",
        "Registers have no addresses: which one is meant has to be known when the kernel is "
        "compiled.  Loops from one constant to another are unrolled where they index registers.  "
        "What is indexed at run time ptxas puts into local memory, with a load and a store an "
        "access.  The kernel is right: this is a warning.",
        "for k in seq(0, K):\n"
        "    sums[k % 16] += x[k]  # sums: f32[16] @ CudaRmem\n"
        "# repair\n"
        "for k in seq(0, K / 16):\n"
        "    for j in seq(0, 16):\n"
        "        sums[j] += x[16 * k + j]",
    ),
    "G817": (
        "ptxas makes wgmma wait",
        "Products run on by themselves only where ptxas sees which registers each of them has "
        "until it is waited for.  Where it does not, it adds waits, and they no longer overlap.  "
        "What it says stands in the message, with its number.  The kernel is right: this is a "
        "warning.",
        "Sm90_wgmma_tf32(D[k % 2, :, :], A_smem[:, :], B_smem[:, :], M=64, N=64, swizzle=32)\n"
        "# repair\n"
        "Sm90_wgmma_tf32(D[0, :, :], A_smem[:, :], B_smem[:, :], M=64, N=64, swizzle=32)",
    ),
}
"""By code: title, explanation, example."""
