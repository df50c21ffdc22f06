"""Explanations of types, precisions, memories and calls (T): title, explanation, bad, repaired."""

from __future__ import annotations

from typing import Final

TYPES: Final[dict[str, tuple[str, str, str, str]]] = {
    "T201": (
        "control and data are confused",
        "Sizes, index arguments and iterators are control: they stand in indices, bounds and "
        "conditions.  Variables with a precision are data: they stand in values.",
        "x[i] = i",
        "x[i] = 1.0  # or pass the values in an array",
    ),
    "T202": (
        "an integer is expected",
        "This Python value must be an integer, and it is of another kind.",
        "CudaDeviceFunction(blockDim=128.0)",
        "CudaDeviceFunction(blockDim=128)",
    ),
    "T203": (
        "a division by something that is not positive",
        "Control expressions divide, and take remainders, by positive constants only.",
        "x[i / 0] = 1.0",
        "x[i / 2] = 1.0",
    ),
    "T204": (
        "an expression is not quasi-affine",
        "Control expressions are sums of variables times constants, with division and remainder "
        "by constants.  Only then can a check reason about all of their values.",
        "x[i * j] = 1.0  # x: f32[n]",
        "x[i, j] = 1.0  # x: f32[n, n]",
    ),
    "T205": (
        "the wrong number of coordinates",
        "An access gives one coordinate, a point or a range, for each dimension.",
        "x[i] = 1.0  # x: f32[4, 4]",
        "x[i, 0] = 1.0",
    ),
    "T206": (
        "a barrier is used as data",
        "Barrier variables are synchronised on: by Arrive, by Await, and after the >> of an "
        "instruction.  They hold no values.",
        "z[0] = 1.0  # z: barrier[2] @ CudaMbarrier",
        "Await(z[0], cuda_in_order, ~0)",
    ),
    "T207": (
        "a window stands where one element is needed",
        "Assignments and data expressions work on single elements; instructions take windows.",
        "y[0:4] = x[0:4]",
        "for i in seq(0, 4):\n    y[i] = x[i]",
    ),
    "T208": (
        "a constant is no number",
        "Constants of data expressions are integers and floating-point numbers.",
        "x[i] = 'zero'",
        "x[i] = 0.0",
    ),
    "T209": (
        "a data function has the wrong number of arguments",
        "min and max take two arguments, exp, sqrt and relu one, select four: select(a, b, x, y) "
        "is x if a < b else y.  Conversions to integers take a rounding too: i32(x, rm).",
        "y[i] = max(x[i])",
        "y[i] = max(x[i], 0.0)",
    ),
    "T210": (
        "precisions do not agree",
        "Integers and floating point are not mixed; nothing converts between them silently, and "
        "a type, called, does: f32(n), i32(x).",
        "n[i] = x[i] * 2  # n: i32[8], x: f32[8]",
        "n[i] = i32(x[i] * 2)",
    ),
    "T211": (
        "this is no data type",
        "The data types are those that the message lists.",
        "x: float[8] @ DRAM",
        "x: f32[8] @ DRAM",
    ),
    "T212": (
        "this is no data memory",
        "After @ stands the memory of a variable; barriers have a mechanism there instead.",
        "x: f32[8] @ CudaMbarrier",
        "x: f32[8] @ CudaSmemLinear",
    ),
    "T213": (
        "a negative extent",
        "A constant extent is 0 or more.",
        "x: f32[-4] @ DRAM",
        "x: f32[4] @ DRAM",
    ),
    "T214": (
        "a guard is no barrier",
        "barrier(full) declares a barrier that takes turns with `full`; the guard is a barrier "
        "variable declared before.",
        "empty: barrier(tile)[2] @ CudaMbarrier  # tile: f32[...]",
        "full: barrier[2] @ CudaMbarrier\nempty: barrier(full)[2] @ CudaMbarrier",
    ),
    "T215": (
        "a barrier has no mechanism",
        "CudaMbarrier, CudaNamedBarrier, CudaCommitGroup, CudaClusterSync or CudaFlag says what "
        "signals it.",
        "z: barrier[2]",
        "z: barrier[2] @ CudaMbarrier",
    ),
    "T216": (
        "a guard on a barrier that is no mbarrier",
        "Commit groups and cluster syncs have no phases that could be confused, and no guards.",
        "cg: barrier(full) @ CudaCommitGroup",
        "cg: barrier @ CudaCommitGroup",
    ),
    "T217": (
        "a special window is misplaced",
        "After the @ of a window stands a special window type, such as Sm90_tensorMap; procedures "
        "take the variable, and make the window themselves.",
        "w = x[:, :] @ CudaSmemLinear",
        "w = x[:, :] @ Sm90_tensorMap(128, 64, 32)",
    ),
    "T218": (
        "this variable cannot be windowed so",
        "Windows are of data variables, and tensor maps of variables in global memory.",
        "w = h[:, :] @ Sm90_tensorMap(128, 64, 32)  # h @ DRAM",
        "w = x[:, :] @ Sm90_tensorMap(128, 64, 32)  # x @ CudaGmemLinear",
    ),
    "T219": (
        "a cuda_threads loop has no collective unit",
        "The unit says what one iteration is executed by: a thread, a warp, a CTA of the cluster.",
        "for w in cuda_threads(0, 4): ...",
        "for w in cuda_threads(0, 4, unit=cuda_warp): ...",
    ),
    "T220": (
        "a procedure call signals a barrier",
        "Only instructions complete asynchronously and signal barriers.",
        "copy(n, x[:]) >> z  # @proc",
        "copy(n, x[:])",
    ),
    "T221": (
        "an instruction cannot be made",
        "The compile-time parameters of the instruction are missing, unknown, or refused by its "
        "definition; the notes say why.",
        "cuda_load(r[:], x[0:4], n=5)",
        "cuda_load(r[:], x[0:4], n=4)",
    ),
    "T222": (
        "the arguments do not fit the parameters",
        "Every parameter gets one argument, by position or by name.",
        "copy(n)  # copy(n: size, x: f32[n] @ DRAM)",
        "copy(n, x[:])",
    ),
    "T223": (
        "a parameter takes a window",
        "A data parameter takes a variable or a window of one, so that it can be written; a "
        "constant only where the parameter is a scalar that is read.",
        "copy(n, 3.0)",
        "copy(n, x[0:n])",
    ),
    "T224": (
        "a window has the wrong rank",
        "Ranges lo:hi of a window stay dimensions, points do not; as many must stay as the "
        "parameter has.",
        "load(tile[:, :], x[0, :])  # the second parameter is f32[4, 32]",
        "load(tile[:, :], x[0:4, :])",
    ),
    "T225": (
        "an argument has the wrong precision",
        "Variables are passed as they are; the precision must be the parameter's.",
        "copy(n, x[:])  # x: f16[n], the parameter is f32[n]",
        "copy_f16(n, x[:])",
    ),
    "T226": (
        "a parameter takes a special window",
        "This instruction reads or writes through a tensor map.",
        "Sm90_tma_load(tile[:, :], x[0:64, 0:32], rows=64, cols=32, box=(64, 32)) >> z",
        (
            "# before the launch, x_map = x[:, :] @ Sm90_tensorMap(128, 64, 32)\n"
            "Sm90_tma_load(tile[:, :], x_map[0:64, 0:32], rows=64, cols=32, box=(64, 32)) >> z"
        ),
    ),
    "T227": (
        "an argument is in the wrong memory",
        "An instruction works on operands in certain memories, of certain swizzles and tile sizes.",
        "cuda_load(tile[0, 0:4], x[0, 0:4])  # tile @ CudaSmemLinear",
        "cuda_load(r[:], x[0, 0:4])  # r: f32[4], in registers",
    ),
    "T228": (
        "an instruction must signal a barrier",
        "Nothing else tells when this asynchronous instruction has finished.",
        "Sm90_tma_load(tile[:, :], x_map[0:64, 0:32], rows=64, cols=32, box=(64, 32))",
        "Sm90_tma_load(tile[:, :], x_map[0:64, 0:32], rows=64, cols=32, box=(64, 32)) >> z",
    ),
    "T229": (
        "an instruction signals no barrier, or only one",
        "What follows >> must be what the instruction can signal: nothing, or one barrier.",
        "cuda_load(r[:], x[0, 0:4]) >> z",
        "cuda_load(r[:], x[0, 0:4])",
    ),
    "T230": (
        "an instruction signals another kind of barrier",
        "The barrier after >> must have the mechanism by which the instruction completes.",
        (
            "# cg @ CudaCommitGroup, z @ CudaMbarrier\n"
            "Sm90_tma_load(tile[:, :], x_map[0:64, 0:32], rows=64, cols=32, box=(64, 32)) >> cg"
        ),
        "Sm90_tma_load(tile[:, :], x_map[0:64, 0:32], rows=64, cols=32, box=(64, 32)) >> z",
    ),
    "T231": (
        "a trailing barrier has the wrong dimensions",
        "A multicast instruction signals one barrier a CTA: the dimension over the CTAs is a "
        "whole range, the others are points.",
        (
            "Sm90_tma_multicast(\n"
            "    S[:, :, :], x_map[0:64, 0:32], n=2, rows=64, cols=32, box=(32, 32)\n"
            ") >> full[0]"
        ),
        (
            "Sm90_tma_multicast(\n"
            "    S[:, :, :], x_map[0:64, 0:32], n=2, rows=64, cols=32, box=(32, 32)\n"
            ") >> full[:]"
        ),
    ),
    "T232": (
        "clusterDim is not positive",
        "A cluster has at least one CTA.",
        "CudaDeviceFunction(clusterDim=0, blockDim=128)",
        "CudaDeviceFunction(clusterDim=1, blockDim=128)",
    ),
    "T233": (
        "blockDim is not a multiple of a warp",
        "A CTA consists of whole warps of 32 threads.",
        "CudaDeviceFunction(blockDim=100)",
        "CudaDeviceFunction(blockDim=128)",
    ),
    "T234": (
        "warp_config is no list of warp groups",
        "warp_config is a list of CudaWarpConfig(name, warps, setmaxnreg_dec, setmaxnreg_inc).",
        'CudaDeviceFunction(warp_config={"producer": 1})',
        'CudaDeviceFunction(warp_config=[CudaWarpConfig("producer", 4, 40, 0)])',
    ),
    "T235": (
        "warp groups are alike or empty",
        "Groups are told apart by their names, and each has at least one warp.",
        '[CudaWarpConfig("w", 4), CudaWarpConfig("w", 4)]',
        '[CudaWarpConfig("producer", 4), CudaWarpConfig("consumer", 4)]',
    ),
    "T236": (
        "this memory is only a base of others",
        "Parameters may ask for a base memory, which several memories are kinds of; a variable "
        "is in one of them.",
        "x: f32[8] @ CudaDeviceVisibleLinear",
        "x: f32[8] @ CudaSmemLinear",
    ),
    "T237": (
        "an arrive count that is not 1",
        "Every Arrive counts once.",
        "Arrive(cuda_in_order, 2) >> z",
        "Arrive(cuda_in_order) >> z",
    ),
    "T238": (
        "an Arrive signals two barrier variables",
        "The targets of a multicast Arrive are elements of one barrier variable.",
        "Arrive(cuda_in_order) >> full >> empty",
        "Arrive(cuda_in_order) >> full\nArrive(cuda_in_order) >> empty",
    ),
    "T239": (
        "a multicast on a barrier that is no mbarrier",
        "Only mbarriers can be signalled in several CTAs at once.",
        "Arrive(wgmma_async) >> cg[0] >> cg[1]  # cg @ CudaCommitGroup",
        "Arrive(wgmma_async) >> cg[0]",
    ),
    "T240": (
        "an Await waits for several elements",
        "A thread waits for one barrier element at a time; on an mbarrier for those of all roles "
        "that arrive.",
        "Await(z[:], cuda_in_order, 0)  # z @ CudaCommitGroup",
        "Await(z[t], cuda_in_order, 0)",
    ),
    "T241": (
        "the count of an Await has the wrong sign",
        "On an mbarrier the count is ~m: the first m Awaits do not wait, and each later one is m "
        "phases behind; on a named barrier it is ~0.  On other barriers n >= 0 waits for all but "
        "the newest n arrives.",
        "Await(z, cuda_in_order, 0)  # z @ CudaMbarrier",
        "Await(z, cuda_in_order, ~0)",
    ),
    "T242": (
        "something is awaited or signalled that is no barrier",
        "Arrive and Await take barrier variables.",
        "Await(tile[0], cuda_in_order, ~0)  # tile: f32[64] @ CudaSmemLinear",
        "z: barrier @ CudaMbarrier\nAwait(z, cuda_in_order, ~0)",
    ),
    "T243": (
        "this is no sync timeline",
        "Fence, Arrive and Await take the sync timelines of the language, by name.",
        "Fence(cuda_warp, cuda_in_order)",
        "Fence(cuda_in_order, cuda_in_order)",
    ),
    "T244": (
        "TMA does not copy such a box",
        "A box has 1 to 256 elements in each dimension; its rows, the innermost dimension, are a "
        "multiple of 16 bytes, and not wider than the swizzle, if there is one.",
        "w = x[:, :] @ Sm90_tensorMap(128, 64, 64)  # x: f32[M, K]: rows of 256 bytes",
        "w = x[:, :] @ Sm90_tensorMap(128, 64, 32)",
    ),
    "T246": (
        "a constant does not fit its type",
        "A constant takes the type of the other operand, at last that of the variable that is "
        "assigned.  An integer must be one of that type; a fraction may be rounded, but not to 0 "
        "or to infinity.",
        "n[i] = n[i] + 5000000000  # n: i32[8]",
        "n[i] = n[i] + 5000000000  # n: i64[8]",
    ),
    "T247": (
        "an integer is divided by 0",
        "Floating point has infinities for such quotients, integers have nothing.",
        "n[i] = n[i] / 0",
        "n[i] = n[i] / 2",
    ),
    "T250": (
        "a slot stands where none may",
        "`slot(b)` is the number of Arrives on the mbarrier b so far, modulo the extent of the "
        "dimension that it indexes: the slot of a ring that runs on.  It is a whole index of "
        "shared or global memory, in a statement of a device task that reads or writes it.  "
        "Bounds, conditions, sums, indices of barriers and windows with a name have none.",
        "tile[slot(full) + 1, t] = x[t]",
        "tile[slot(full), t] = x[t]",
    ),
    "T248": (
        "a fragment of something that is not one whole register tile",
        "`fragment` goes over the elements of one tile of mma or wgmma, in the shape and type that "
        "these instructions know.",
        (
            "D: f32[2, 64, 128] @ Sm90_RmemMatrixD(64, 128)\n"
            "for wg in cuda_threads(0, 2, unit=cuda_warpgroup):\n"
            "    for m, n in fragment(D):\n"
            "        D[wg, m, n] = 0.0"
        ),
        (
            "D: f32[2, 64, 128] @ Sm90_RmemMatrixD(64, 128)\n"
            "for wg in cuda_threads(0, 2, unit=cuda_warpgroup):\n"
            "    for m, n in fragment(D[wg, :, :]):\n"
            "        D[wg, m, n] = 0.0"
        ),
    ),
    "T251": (
        "a value from memory is loaded where none may be",
        "`b = load_index(offsets[g], lo, hi)` is a statement of a device task.  It reads one "
        "element of a parameter of i32 or i64 in global memory, lo <= b < hi or the kernel traps, "
        "and gives it a new name, which the rest of the block uses in indices, conditions and "
        "bounds.",
        "z[load_index(rows[0], 0, 8)] = 0.0",
        "r = load_index(rows[0], 0, 8)\nz[r] = 0.0",
    ),
    "T252": (
        "this is no contract of an array",
        "`assert monotone(offsets)` says that no element is less than the one before it, "
        "`assert injective(perm)` that no two are equal.  With `where >= 0` behind the array it is "
        "said of elements that are at least 0.  Of a parameter of i32 or i64 in global memory, "
        "where indices are loaded from; an order is of one dimension.",
        "assert monotone(x)  # x: f32[8] @ CudaGmemLinear",
        "assert monotone(rows)  # rows: i32[8] @ CudaGmemLinear",
    ),
    "T255": (
        "an atomic operand is changed otherwise than by one operation",
        "Threads may execute atomic operations on one element in any order, and the "
        "result must be that of the sequential meaning.  So the body adds to the operand alone, or "
        "takes a maximum alone, or a minimum, of the operand and what it does not read of it.",
        (
            "@instr(unit=cuda_thread, dst=CUDA_ATOMIC, src=CUDA_REGISTER)\n"
            "def put(dst: f32 @ CudaDeviceVisibleLinear, src: f32 @ CudaRmem):\n"
            "    dst = src"
        ),
        (
            "@instr(unit=cuda_thread, dst=CUDA_ATOMIC, src=CUDA_REGISTER)\n"
            "def put(dst: f32 @ CudaDeviceVisibleLinear, src: f32 @ CudaRmem):\n"
            "    dst += src"
        ),
    ),
    "T275": (
        "a flag is signalled or awaited on another timeline than it orders",
        "A flag is a count in global memory: an Arrive releases ordinary accesses of its CTA, with "
        "what these have waited for, and an Await acquires them, for TMA too on "
        "`cuda_generic_and_async`.  What is asynchronous is waited for before, within the CTA.",
        "Arrive(tma_to_gmem_async) >> ready",
        "Await(stores, cuda_in_order, 0)  # the commit group of the TMA stores\n"
        "Arrive(cuda_in_order) >> ready",
    ),
    "T245": (
        "an instruction does not work in place",
        "The parameters that `in_place` names may be one and the same window.  They have the same "
        "extents, and the body is one statement, or one in each branch of an `if`, in loops over "
        "their elements: it takes all of them at the index of the loops' iterators.",
        (
            "@instr(unit=cuda_thread, dst=CUDA_REGISTER, src=CUDA_REGISTER, "
            'in_place=("dst", "src"))\n'
            "def each(dst: f32[4] @ CudaRmem, src: f32[4] @ CudaRmem):\n"
            "    for i in seq(0, 4):\n"
            "        dst[i] = src[3 - i]"
        ),
        (
            "@instr(unit=cuda_thread, dst=CUDA_REGISTER, src=CUDA_REGISTER, "
            'in_place=("dst", "src"))\n'
            "def each(dst: f32[4] @ CudaRmem, src: f32[4] @ CudaRmem):\n"
            "    for i in seq(0, 4):\n"
            "        dst[i] = relu(src[i])"
        ),
    ),
}
"""By code."""
