"""A table of the words of the language: the form of each, and its meaning in a sentence or two.

`exogpu explain WORD` prints a row; a test holds that every word of the language has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from exogpu.ir.scalar_functions import CALLED, FUNCTIONS
from exogpu.ir.types import DataType


@dataclass(frozen=True, slots=True)
class Word:
    """Describes one word: how it is written, what it means, and what CUDA calls it."""

    form: str
    meaning: str
    cuda: str = ""


STATEMENTS: Final[Mapping[str, Word]] = {
    "Fence": Word(
        "Fence(pre, post)",
        "All threads of the scope wait for each other. Accesses before it on the timelines of "
        "`pre` are ordered before accesses after it on those of `post`. On the CPU it takes "
        "cpu_in_order and cuda_stream_sync.",
        "__syncthreads() and __syncwarp(), with the fence.proxy instructions that `post` needs; "
        "wgmma.fence",
    ),
    "Arrive": Word(
        "Arrive(pre) >> z[...]",
        "The first half of a split barrier: it signals the barrier element that the accesses "
        "before it on `pre` are done. Several `>>` are a multicast to several CTAs.",
        "mbarrier.arrive, cp.async.commit_group, wgmma.commit_group, barrier.arrive",
    ),
    "Await": Word(
        "Await(z[...], post, n)",
        "The second half of a split barrier: it waits for an arrival. On an mbarrier, `~m` waits "
        "for Arrive number w - m at the w-th Await. On commit groups, `n` leaves the newest n "
        "groups unfinished. An Await of an mbarrier receives its own arrival alone.",
        "mbarrier.try_wait in a loop, cp.async.wait_group, wgmma.wait_group, barrier.sync",
    ),
    "uninit": Word(
        "uninit(x[lo:hi])",
        "Says that the values of these elements do not matter from here on: they may be read "
        "though nothing has written them.",
    ),
    "seq": Word(
        "for i in seq(lo, hi):",
        "A loop that each thread of the scope executes in order. It is empty where hi <= lo. "
        "After hi may stand unroll=True, unroll=False or unroll=4.",
        "for (int i = lo; i < hi; ++i)",
    ),
    "cuda_tasks": Word(
        "for m in cuda_tasks(lo, hi):",
        "Device tasks, directly inside a launch. One cluster executes an iteration of the "
        "innermost loop; nothing orders two tasks but what is resident.",
        "blockIdx, in a persistent loop",
    ),
    "cuda_threads": Word(
        "for t in cuda_threads(lo, hi, unit=cuda_thread):",
        "Divides the threads of the scope into pieces of the unit's shape. Each iteration is "
        "executed by one piece; threads that are left over idle.",
        "threadIdx, with a guard",
    ),
    "CudaDeviceFunction": Word(
        "with CudaDeviceFunction(blockDim=128, clusterDim=2):",
        "Launches a kernel. `warp_config` names groups of warps with their registers, in place "
        "of blockDim; `minBlocks` and `dependent` are those of CUDA.",
        "kernel<<<grid, block>>>",
    ),
    "CudaWarps": Word(
        'with CudaWarps(lo, hi, name="consumer"):',
        "Restricts the scope to warps lo to hi - 1 of a group: a role of a warp-specialised "
        "kernel. Without lo and hi it is the whole group.",
        "if (warp_id >= lo && warp_id < hi)",
    ),
    "CudaWarpConfig": Word(
        'CudaWarpConfig("producer", warps, dec, inc)',
        "A group of warps of a launch. `dec` lowers its registers a thread, `inc` raises them.",
        "setmaxnreg.dec, setmaxnreg.inc",
    ),
    "size": Word(
        "def p(M: size, ...):", "A parameter that is an integer of at least 0; sizes are symbolic."
    ),
    "index": Word("def p(i: index, ...):", "A parameter that is any integer, in control alone."),
    "barrier": Word(
        "z: barrier[2] @ CudaMbarrier",
        "Allocates barriers. `barrier(y)[2]` says that they take turns with `y`: the two form a "
        "ring, and its depth is 1 plus the sum of their skips `~m`.",
        "__shared__ uint64_t z[2] with mbarrier.init",
    ),
    "load_index": Word(
        "i = load_index(x[m], lo, hi)",
        "Reads an integer from memory to be used as an index. The proof holds for every value in "
        "lo to hi - 1; a contract of the caller promises the range.",
    ),
    "monotone": Word(
        "assert monotone(offsets)", "A contract of the caller: offsets[i] <= offsets[i + 1]."
    ),
    "injective": Word(
        "assert injective(rows)", "A contract of the caller: no two elements are equal."
    ),
    "slot": Word(
        "tile[slot(full), t]",
        "The place in a ring: how often the barrier has arrived or been awaited here, modulo the "
        "depth. Of a barrier that outlives a task it may index shared memory alone.",
    ),
}

MEMORIES: Final[Mapping[str, Word]] = {
    "DRAM": Word("x: f32[n] @ DRAM", "Memory of the CPU."),
    "CudaGmemLinear": Word("x: f32[n] @ CudaGmemLinear", "Global memory, row by row."),
    "CudaGridConstant": Word(
        "x: f32[4] @ CudaGridConstant",
        "An array that a launch takes by value.",
        "__grid_constant__",
    ),
    "CudaSmemLinear": Word(
        "x: f32[32] @ CudaSmemLinear", "Shared memory of a CTA, row by row.", "__shared__"
    ),
    "CudaSmemCluster": Word(
        "x: f32[2, 32] @ CudaSmemCluster",
        "Shared memory of a cluster: the first index is the CTA. Any thread of the cluster "
        "accesses it.",
        "distributed shared memory (mapa, ld.shared::cluster)",
    ),
    "CudaRmem": Word("x: f32 @ CudaRmem", "Registers of one thread."),
    "CudaBasicDeviceVisible": Word("in @instr", "Any memory that device code may access."),
    "CudaDeviceVisibleAtomicity16B": Word(
        "in @instr", "Any memory in which 16 adjacent bytes are accessed at once."
    ),
    "CudaDeviceVisibleLinear": Word("in @instr", "Any memory of the device that lies row by row."),
    "CudaBasicSmem": Word("in @instr", "Any shared memory."),
    "CudaSmemAtomicity16B": Word(
        "in @instr", "Any shared memory in which 16 adjacent bytes are accessed at once."
    ),
    "Sm80_RmemMatrixA": Word(
        "a: bf16[16, 16] @ Sm80_RmemMatrixA(16, 16)",
        "A register tile of a warp: operand A of mma.sync.",
    ),
    "Sm80_RmemMatrixB": Word(
        "b: bf16[8, 16] @ Sm80_RmemMatrixB(8, 16)",
        "A register tile of a warp: operand B of mma.sync.",
    ),
    "Sm80_RmemMatrixD": Word(
        "d: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)",
        "A register tile of a warp: the accumulator of mma.sync.",
    ),
    "Sm90_SmemSwizzled": Word(
        "x: bf16[64, 64] @ Sm90_SmemSwizzled(128)",
        "Shared memory in the layout that TMA and wgmma agree on, swizzled by 32, 64 or 128 bytes.",
    ),
    "Sm90_RmemMatrixA": Word(
        "a: bf16[64, 16] @ Sm90_RmemMatrixA(64)",
        "A register tile of a warpgroup: operand A of wgmma.",
    ),
    "Sm90_RmemMatrixD": Word(
        "d: f32[64, 256] @ Sm90_RmemMatrixD(64, 256)",
        "A register tile of a warpgroup: the accumulator of wgmma.",
    ),
    "Sm90_RmemRows": Word(
        "m: f32[64, 4] @ Sm90_RmemRows(64)",
        "A register tile of a warpgroup: one value a row of an accumulator, in four copies.",
    ),
    "Sm90_tensorMap": Word(
        "w = x[...] @ Sm90_tensorMap(128, 64, 64)",
        "A window that TMA copies from and to: the swizzle in bytes, then the box in elements.",
        "CUtensorMap",
    ),
    "Sm90_tensorMap_tf32": Word(
        "w = x[...] @ Sm90_tensorMap_tf32(128, 64, 32)",
        "A tensor map of f32 that is rounded to tf32 as it is loaded.",
        "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32",
    ),
    "CudaMbarrier": Word(
        "z: barrier[2] @ CudaMbarrier",
        "Barriers in shared memory. Any threads arrive, always as many; TMA copies complete on "
        "them. An Await names the arrival it waits for by `~m`.",
        "mbarrier",
    ),
    "CudaCommitGroup": Word(
        "z: barrier @ CudaCommitGroup",
        "Groups of asynchronous instructions of one kind: cp.async, wgmma or bulk copies.",
        "cp.async.commit_group, wgmma.commit_group, cp.async.bulk.commit_group",
    ),
    "CudaClusterSync": Word(
        "z: barrier @ CudaClusterSync",
        "The barrier of all threads of a cluster.",
        "barrier.cluster.arrive and wait",
    ),
    "CudaFlag": Word(
        "z: barrier[n] @ CudaFlag",
        "Counts in global memory, with which tasks of a launch wait for earlier tasks.",
        "red.release.gpu and ld.acquire.gpu in a loop",
    ),
    "CudaNamedBarrier": Word(
        "z: barrier @ CudaNamedBarrier",
        "One of a CTA's 16 barriers. Some whole warps arrive, others wait.",
        "barrier.arrive and barrier.sync, which are also called bar.arrive and bar.sync",
    ),
}

UNITS: Final[Mapping[str, Word]] = {
    "standalone_thread": Word("unit=standalone_thread", "One thread, of the CPU or in an @instr."),
    "cuda_thread": Word("unit=cuda_thread", "One thread of a CTA; `n * cuda_thread` is n of them."),
    "cuda_quadpair": Word("unit=cuda_quadpair", "Four threads of each half of a warp."),
    "cuda_warp": Word("unit=cuda_warp", "32 threads; `n * cuda_warp` is n warps side by side."),
    "cuda_warpgroup": Word("unit=cuda_warpgroup", "128 threads, as wgmma is executed by."),
    "cuda_threads_strided": Word(
        "unit=cuda_threads_strided(count, pitch)", "`count` adjacent threads out of every `pitch`."
    ),
    "cuda_warp_in_cluster": Word("unit=cuda_warp_in_cluster", "One warp in each CTA."),
    "cuda_cta_in_cluster": Word("unit=cuda_cta_in_cluster", "One CTA of a cluster."),
    "cuda_cluster": Word("unit=cuda_cluster", "All threads of a cluster."),
    "cuda_cta_in_cluster_strided": Word(
        "unit=cuda_cta_in_cluster_strided(pitch)", "Every `pitch`-th CTA of a cluster."
    ),
    "cuda_warp_in_cluster_strided": Word(
        "unit=cuda_warp_in_cluster_strided(pitch)", "One warp in every `pitch`-th CTA of a cluster."
    ),
    "cuda_agnostic_sub_cta": Word("in @instr", "Any threads of one CTA."),
    "cuda_agnostic_intact_cta": Word("in @instr", "Any number of whole CTAs."),
}

_TAKES: Final[Mapping[str, str]] = {
    **{"number": "numbers", "compared": "numbers", "float": "floating point", "f32": "an f32"},
    **{"integer": "integers", "word": "integers of 32 bits"},
}
_CUDA: Final[Mapping[str, str]] = {
    "popcount": "__popc and __popcll",
    "clz": "__clz and __clzll",
    "mul_hi": "__umulhi and __mulhi",
    "byte_perm": "prmt; __byte_perm has no signs",
    "lop3": "lop3.b32",
    "bits": "__float_as_uint, __double_as_longlong, __half_as_ushort",
    "from_bits": "__uint_as_float, __longlong_as_double, __ushort_as_half",
    "round": "rintf",
    "rcp": "__frcp_rn",
}


def _function(name: str) -> Word:
    """A function of data, by its row."""
    row, cuda = FUNCTIONS[name], _CUDA.get(name, "")
    meaning = f"A function of {_TAKES[row.takes[0]]}"
    if "`" in row.note:
        cuda = cuda or row.note.replace("`", "")
    elif row.note:
        meaning += f": {row.note}"
    return Word(f"{name}({', '.join('abcd'[: len(row.takes)])})", f"{meaning}.", cuda)


_CONVERSIONS: Final = {dtype.value for dtype in DataType}

FUNCTIONS_OF_DATA: Final[Mapping[str, Word]] = {
    **{
        name: _function(name)
        for name in CALLED
        if name in FUNCTIONS and name not in {*_CONVERSIONS, "bits"}
    },
    "bits": Word("bits(x)", "The unsigned integer that has the bits of a float.", _CUDA["bits"]),
    "from_bits": Word(
        "from_bits(n, f32)", "The float that has the bits of an integer.", _CUDA["from_bits"]
    ),
    **{
        name: Word(
            f"{name}(x)",
            "A data type, which converts where it is called. A float becomes an integer towards "
            "zero, or as a second argument says: rn, rz, rm, rp. What the type has not becomes its "
            "least or greatest number.",
            "a cast, and cvt with a rounding",
        )
        for name in sorted(_CONVERSIONS)
    },
}

WORDS: Final[Mapping[str, Word]] = {**STATEMENTS, **MEMORIES, **UNITS, **FUNCTIONS_OF_DATA}
"""All words, by name."""
