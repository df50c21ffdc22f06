"""Explanations of what stands in the wrong place (S): title, explanation, bad, repaired."""

from __future__ import annotations

from typing import Final

_TASK = "with CudaDeviceFunction(blockDim=128):\n    for t in cuda_tasks(0, 1):\n        "

SCOPES: Final[dict[str, tuple[str, str, str, str]]] = {
    "S301": (
        "a special window is accessed directly",
        "A tensor map is a description for TMA instructions; only they read and write through it.",
        "y[0] = x_map[0, 0]  # x_map = x[:, :] @ Sm90_tensorMap(128, 64, 32)",
        "y[0] = x[0, 0]  # the variable under the map",
    ),
    "S302": (
        "CPU code accesses device memory",
        "Outside a launch only host memory and grid constants can be accessed element by element.",
        "x[0] = 0.0  # x @ CudaGmemLinear, at CPU scope",
        "h[0] = 0.0  # h @ DRAM, then a stream copy from h to x",
    ),
    "S303": (
        "CUDA code accesses host memory",
        "Inside a launch, variables in DRAM are out of reach.",
        (
            "with CudaDeviceFunction(blockDim=128):\n"
            "    for task in cuda_tasks(0, 1):\n"
            "        for t in cuda_threads(0, 1, unit=cuda_thread):\n"
            "            h[0] = 0.0  # h @ DRAM"
        ),
        (
            "with CudaDeviceFunction(blockDim=128):\n"
            "    for task in cuda_tasks(0, 1):\n"
            "        for t in cuda_threads(0, 1, unit=cuda_thread):\n"
            "            x[0] = 0.0  # x @ CudaGmemLinear, then a stream copy from x to h"
        ),
    ),
    "S304": (
        "a procedure is called inside a kernel",
        "Procedures are CPU code that may launch kernels; inside a kernel one calls instructions.",
        _TASK + "copy(n, x[:])  # @proc",
        "copy(n, x[:])  # before the launch",
    ),
    "S305": (
        "an instruction calls an instruction",
        "The body of an @instr is its whole meaning, written with loops and assignments.",
        (
            "@instr(unit=cuda_thread, dst=CUDA_REGISTER, src=CUDA_MEMORY)\n"
            "def load4(dst: f32[4] @ CudaRmem, src: f32[4] @ CudaGmemLinear):\n"
            "    cuda_load(dst[:], src[:])"
        ),
        (
            "@instr(unit=cuda_thread, dst=CUDA_REGISTER, src=CUDA_MEMORY)\n"
            "def load4(dst: f32[4] @ CudaRmem, src: f32[4] @ CudaGmemLinear):\n"
            "    for i in seq(0, 4):\n"
            "        dst[i] = src[i]"
        ),
    ),
    "S306": (
        "an instruction is called at the wrong scope",
        "An instruction belongs to CPU scope (stream copies, memset) or to CUDA scope.",
        (
            "with CudaDeviceFunction(blockDim=128):\n"
            "    for task in cuda_tasks(0, 1):\n"
            "        cuda_memset0_1d(n, x[:])"
        ),
        (
            "cuda_memset0_1d(n, x[:])  # before the launch\n"
            "with CudaDeviceFunction(blockDim=128):\n"
            "    for task in cuda_tasks(0, 1):\n"
            "        pass"
        ),
    ),
    "S307": (
        "a variable is freed by hand",
        "Lifetimes end by themselves: shared memory before the next allocation of its scope after "
        "its last use, barriers at the end of their scope, others after their last use.",
        "free(x)",
        "# nothing",
    ),
    "S308": (
        "an instruction's body has a parallel loop",
        "Who executes an instruction is said by its unit; its body has sequential loops.",
        (
            "@instr(unit=cuda_warp, x=CUDA_MEMORY)\n"
            "def clear(x: f32[32] @ CudaSmemLinear):\n"
            "    for i in cuda_threads(0, 32, unit=cuda_thread):\n"
            "        x[i] = 0.0"
        ),
        (
            "@instr(unit=cuda_warp, x=CUDA_MEMORY)\n"
            "def clear(x: f32[32] @ CudaSmemLinear):\n"
            "    for i in seq(0, 32):\n"
            "        x[i] = 0.0"
        ),
    ),
    "S309": (
        "a cuda_tasks loop stands in the wrong place",
        "The tasks of a launch are one nest of cuda_tasks loops directly inside it.",
        (
            "with CudaDeviceFunction(blockDim=128):\n"
            "    for t in cuda_tasks(0, 1):\n"
            "        for i in seq(0, 4):\n"
            "            for u in cuda_tasks(0, 2): ..."
        ),
        (
            "with CudaDeviceFunction(blockDim=128):\n"
            "    for t in cuda_tasks(0, 1):\n"
            "        for u in cuda_tasks(0, 2): ..."
        ),
    ),
    "S310": (
        "a cuda_threads loop stands outside a task",
        "Threads exist inside the tasks of a launch only.",
        "for i in cuda_threads(0, 32, unit=cuda_thread): ...  # at CPU scope",
        _TASK + "for i in cuda_threads(0, 32, unit=cuda_thread): ...",
    ),
    "S311": (
        "a launch stands inside a launch",
        "Kernels are launched from CPU scope, one after the other.",
        (
            "with CudaDeviceFunction(blockDim=128):\n"
            "    for task in cuda_tasks(0, 1):\n"
            "        with CudaDeviceFunction(blockDim=32): ..."
        ),
        (
            "with CudaDeviceFunction(blockDim=128):\n"
            "    for task in cuda_tasks(0, 1): ...\n"
            "with CudaDeviceFunction(blockDim=32):\n"
            "    for task in cuda_tasks(0, 1): ..."
        ),
    ),
    "S312": (
        "a launch is not a nest of tasks",
        "The only statement in a CudaDeviceFunction is a cuda_tasks loop, after declarations of "
        "what its tasks share.",
        ("with CudaDeviceFunction(blockDim=128):\n    x[0] = 0.0"),
        (
            "with CudaDeviceFunction(blockDim=128):\n"
            "    for task in cuda_tasks(0, 1):\n"
            "        for t in cuda_threads(0, 1, unit=cuda_thread):\n"
            "            x[0] = 0.0"
        ),
    ),
    "S313": (
        "CudaWarps stands outside a task",
        "Warps are chosen among those that execute a task.",
        "with CudaWarps(0, 1): ...  # at CPU scope",
        _TASK + "with CudaWarps(0, 1): ...",
    ),
    "S314": (
        "a warp group is not known",
        "The names of warp groups are those of the launch's warp_config; with several groups, "
        "CudaWarps says which.",
        'with CudaWarps(name="consumers"): ...',
        'with CudaWarps(name="consumer"): ...',
    ),
    "S315": (
        "registers are allocated outside a task",
        "Registers belong to a task.  Shared memory and mbarriers may be declared before the tasks "
        "and serve one after another.",
        "with CudaDeviceFunction(blockDim=128):\n    x: f32 @ CudaRmem\n"
        "    for t in cuda_tasks(0, 1): ...",
        _TASK + "x: f32 @ CudaRmem",
    ),
    "S316": (
        "a kernel allocates memory that is not its own",
        "Kernels allocate shared memory and registers.",
        _TASK + "x: f32[8] @ CudaGmemLinear",
        "x: f32[8] @ CudaGmemLinear  # before the launch",
    ),
    "S317": (
        "CPU code has a variable in a kernel's memory",
        "Shared memory and registers exist inside a kernel only.",
        "def f(x: f32[8] @ CudaSmemLinear): ...",
        "def f(x: f32[8] @ CudaGmemLinear): ...",
    ),
    "S318": (
        "a barrier stands outside a task",
        "A barrier variable belongs to one task of a kernel, and is fresh in each; an mbarrier may "
        "be declared between the launch and its tasks, and serves one after another.  A flag is "
        "declared before the launch, for all of its tasks.",
        "z: barrier @ CudaMbarrier  # at CPU scope",
        _TASK + "z: barrier @ CudaMbarrier",
    ),
    "S319": (
        "a tensor map is made inside a kernel",
        "Tensor maps are encoded by the driver, on the host, and passed to the kernel.",
        (
            "with CudaDeviceFunction(blockDim=128):\n"
            "    for task in cuda_tasks(0, 1):\n"
            "        m = x[:, :] @ Sm90_tensorMap(128, 64, 32)"
        ),
        (
            "m = x[:, :] @ Sm90_tensorMap(128, 64, 32)  # before the launch\n"
            "with CudaDeviceFunction(blockDim=128):\n"
            "    for task in cuda_tasks(0, 1):\n"
            "        pass"
        ),
    ),
    "S321": (
        "a grid constant is written in a kernel",
        "Grid constants are set at the launch and read-only inside it.",
        (
            "with CudaDeviceFunction(blockDim=128):\n"
            "    for task in cuda_tasks(0, 1):\n"
            "        for t in cuda_threads(0, 1, unit=cuda_thread):\n"
            "            c[0] = 1.0  # c @ CudaGridConstant"
        ),
        "c[0] = 1.0  # before the launch",
    ),
    "S322": (
        "a timeline of CUDA scope at CPU scope",
        "At CPU scope a Fence orders the host (cpu_in_order) and the stream (cuda_stream_sync).",
        "Fence(cuda_in_order, cuda_in_order)  # between two launches",
        "Fence(cuda_stream_sync, cpu_in_order)",
    ),
    "S323": (
        "a timeline of CPU scope in a kernel",
        "The host's timelines cannot be waited for inside a kernel; the stream's in a dependent "
        "launch alone, as the first timeline of a Fence.",
        _TASK + "Fence(cuda_stream_sync, cuda_in_order)",
        "Fence(cuda_in_order, cuda_in_order)",
    ),
    "S324": (
        "an instruction synchronises",
        "The body of an instruction computes; a barrier that it signals is written after >> at "
        "the call.",
        (
            "@instr(unit=cuda_thread, dst=CUDA_REGISTER, src=CUDA_MEMORY)\n"
            "def load(dst: f32 @ CudaRmem, src: f32 @ CudaGmemLinear):\n"
            "    dst = src\n"
            "    Arrive(cuda_in_order) >> z"
        ),
        (
            "@instr(unit=cuda_thread, dst=CUDA_REGISTER, src=CUDA_MEMORY)\n"
            "def load(dst: f32 @ CudaRmem, src: f32 @ CudaGmemLinear):\n"
            "    dst = src  # and at the call, Arrive(cuda_in_order) >> z"
        ),
    ),
    "S325": (
        "synchronisation stands outside a task",
        "Arrive and Await, and in a launch also Fence, are executed by the threads of a task.",
        "Arrive(cuda_stream_sync) >> z  # at CPU scope",
        (
            "with CudaDeviceFunction(blockDim=128):\n"
            "    for task in cuda_tasks(0, 1):\n"
            "        z: barrier @ CudaMbarrier\n"
            "        Arrive(cuda_in_order) >> z"
        ),
    ),
    "S332": (
        "an array of indices changes while the procedure runs",
        "What `load_index` reads is one value for all who read the element: a parameter that no "
        "statement of the procedure writes.  Indices that the procedure computes are loaded by "
        "another one, called after it.",
        "r = load_index(rows[0], 0, 8)\nrows[0] = 1",
        "r = load_index(rows[0], 0, 8)\nz[r] = 1.0",
    ),
    "S331": (
        "two kinds of atomic operations change one variable",
        "Atomic adds among themselves give the same in any order, and so do maxima; an add and a "
        "maximum do not.  Nothing orders the atomic operations of a kernel, so that all on one "
        "variable are of one kind.",
        "cuda_atomic_add(y[t], value[0])\ncuda_atomic_max(y[t], value[0])",
        "cuda_atomic_add(y[t], value[0])\ncuda_atomic_max(z[t], value[0])",
    ),
    "S333": (
        "a tensor map of a part of an array",
        "TMA reads as zero, and does not write, what lies outside of the array; it knows of no "
        "window of it.  So a map is of a whole array, in each of its dimensions or at one index of "
        "it, also where a procedure that makes the map is called with a window.",
        "x_map = x[0:8, :] @ Sm90_tensorMap(0, 4, 32)  # x: f32[16, 32] @ CudaGmemLinear",
        "x_map = x[:, :] @ Sm90_tensorMap(0, 4, 32)",
    ),
}
"""By code."""
