"""Explanations of the codes of collective tiling (C), distributed memory (D) and divergence."""

from __future__ import annotations

from typing import Final

COLLECTIVE: Final[dict[str, tuple[str, str, str]]] = {
    "C401": (
        "the collective unit is ambiguous",
        "A cuda_threads loop divides one dimension of the threads that execute it.  This unit is "
        "smaller than its scope in two, so it does not say which of them the loop goes over.",
        "with CudaDeviceFunction(clusterDim=2, blockDim=128):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        for w in cuda_threads(0, 4, unit=cuda_warp):  # warps of which CTA?\n"
        "            pass\n"
        "# repair\n"
        "with CudaDeviceFunction(clusterDim=2, blockDim=128):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):\n"
        "            for w in cuda_threads(0, 4, unit=cuda_warp):\n"
        "                pass",
    ),
    "C402": (
        "not enough threads",
        "The iterations of a cuda_threads loop take one tile of the unit each, and the scope has "
        "fewer tiles than the loop has iterations.",
        "with CudaDeviceFunction(blockDim=128):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        for w in cuda_threads(0, 8, unit=cuda_warp):  # 128 threads are 4 warps\n"
        "            pass\n"
        "# repair: launch more threads, or iterate 4 times\n"
        "with CudaDeviceFunction(blockDim=256):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        for w in cuda_threads(0, 8, unit=cuda_warp):\n"
        "            pass",
    ),
    "C403": (
        "the unit does not divide the scope",
        "The domain of the unit and that of the scope cannot be split so that they have the same "
        "dimensions: an extent of one does not divide an extent of the other.",
        "with CudaDeviceFunction(blockDim=96):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        for i in cuda_threads(0, 1, unit=2 * cuda_threads_strided(32, 64)):\n"
        "            pass\n"
        "# repair: launch whole pairs of warps\n"
        "with CudaDeviceFunction(blockDim=128):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        for i in cuda_threads(0, 1, unit=2 * cuda_threads_strided(32, 64)):\n"
        "            pass",
    ),
    "C404": (
        "CudaWarps under a loop that divided the CTA",
        "CudaWarps counts warps of the CTA.  Inside a cuda_threads loop over warps or threads "
        "there is no whole CTA left to count in.",
        "for w in cuda_threads(0, 4, unit=cuda_warp):\n"
        '    with CudaWarps(0, 1, name="producer"):\n'
        "        pass\n"
        "# repair: the other way round, and loops over CTAs may stay outside\n"
        'with CudaWarps(0, 4, name="consumer"):\n'
        "    for w in cuda_threads(0, 4, unit=cuda_warp):\n"
        "        pass",
    ),
    "C405": (
        "a nested CudaWarps changes the name",
        "The threads of one warp group are never in another, so the inner block would have none.",
        'with CudaWarps(0, 4, name="consumer"):\n'
        '    with CudaWarps(0, 1, name="producer"):\n'
        "        pass\n"
        "# repair: put the two blocks one after the other\n"
        'with CudaWarps(0, 4, name="consumer"):\n'
        "    pass\n"
        'with CudaWarps(0, 1, name="producer"):\n'
        "    pass",
    ),
    "C407": (
        "a range of warps is outside of its group",
        "CudaWarps(lo, hi) counts the warps of its group from 0; inside another CudaWarps the "
        "range must lie in the outer one.",
        'with CudaWarps(4, 12, name="consumer"):  # of CudaWarpConfig("consumer", 8)\n'
        "    pass\n"
        "# repair\n"
        'with CudaWarps(4, 8, name="consumer"):\n'
        "    pass",
    ),
    "C408": (
        "the bounds of a cuda_threads loop are not constant",
        "How many threads a kernel has is fixed when it is compiled, so thread loops have "
        "constant bounds.",
        "for t in cuda_threads(0, M, unit=cuda_thread):\n"
        "    x[t] = 0.0\n"
        "# repair: a fixed number of threads, and a guard\n"
        "for t in cuda_threads(0, 128, unit=cuda_thread):\n"
        "    if 128 * task + t < M:\n"
        "        x[128 * task + t] = 0.0",
    ),
    "C409": (
        "a register change that the hardware does not have",
        "setmaxnreg is executed by all four warps of a warpgroup together, with a multiple of 8 "
        "from 24 to 256.  Groups without a register change occupy warps too.",
        'warp_config=[CudaWarpConfig("producer", 1, 40, 0),\n'
        '             CudaWarpConfig("consumer", 8, 0, 232)]\n'
        "# repair: three unused warps complete the producer's warpgroup\n"
        'warp_config=[CudaWarpConfig("producer", 1, 40, 0), CudaWarpConfig("unused", 3, 40, 0),\n'
        '             CudaWarpConfig("consumer", 8, 0, 232)]',
    ),
    "C410": (
        "an instruction is called at the wrong scope",
        "A CUDA instruction is executed by one collective unit, such as a warp.  Here more "
        "threads execute the call, or threads that are no such unit at all.",
        "Sm80_zero_D(D[0, :, :])  # at CTA scope\n"
        "# repair\n"
        "for w in cuda_threads(0, 4, unit=cuda_warp):\n"
        "    Sm80_zero_D(D[w, :, :])",
    ),
    "C411": (
        "a CTA has too many threads",
        "CUDA launches at most 1024 threads a CTA.",
        "with CudaDeviceFunction(blockDim=2048):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        pass\n"
        "# repair\n"
        "with CudaDeviceFunction(blockDim=1024):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        pass",
    ),
    "C412": (
        "a cluster has too many CTAs",
        "sm_90 launches at most 16 CTAs a cluster, more than 8 only on request.",
        "with CudaDeviceFunction(clusterDim=32, blockDim=128):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        pass\n"
        "# repair\n"
        "with CudaDeviceFunction(clusterDim=8, blockDim=128):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        pass",
    ),
    "C413": (
        "a scalar statement is executed by several threads",
        "A scalar assignment or reduction at CUDA scope stands where exactly one thread executes "
        "it; several threads write by instructions only.",
        "buf[0] = 0  # at CTA scope\n"
        "# repair\n"
        "for t in cuda_threads(0, 1, unit=cuda_thread):\n"
        "    buf[0] = 0",
    ),
    "C414": (
        "a unit is not aligned",
        "A warpgroup begins at a multiple of 4 warps of the CTA, and the threads of a warp at a "
        "multiple of 32.",
        '# warp_config=[CudaWarpConfig("producer", 1), CudaWarpConfig("consumer", 7)]\n'
        'with CudaWarps(0, 4, name="consumer"):  # warps 1 to 4 of the CTA\n'
        "    Sm90_zero_scale_d(D[:, :])\n"
        "# repair: take the warps 4 to 7, or pad the producers to 4 warps\n"
        'with CudaWarps(3, 7, name="consumer"):\n'
        "    Sm90_zero_scale_d(D[:, :])",
    ),
    "C415": (
        "a distributed operand has no constant extent",
        "An operand that is distributed over threads has one index a thread, so the extent of "
        "its window in that dimension is constant.",
        "cuda_shfl_xor(dst[0:M], src[0:M], mask=1)\n"
        "# repair\n"
        "cuda_shfl_xor(dst[0:32], src[0:32], mask=1)",
    ),
    "C416": (
        "a fence by threads that no barrier can name",
        "Inside a CTA the hardware synchronises whole warps, or threads of one warp.",
        "for i in cuda_threads(0, 2, unit=16 * cuda_threads_strided(4, 8)):\n"
        "    Fence(cuda_in_order, cuda_in_order)\n"
        "# repair: fence at warp or CTA scope\n"
        "Fence(cuda_in_order, cuda_in_order)",
    ),
    "C418": (
        "a dependent launch without a launch before it",
        "A dependent launch may begin before the launch right before it has ended, and waits for "
        "that one.  Between them stands nothing that the CPU or the stream does.",
        "cuda_memset0_1d(128, x[:])\n"
        "with CudaDeviceFunction(blockDim=128, dependent=True):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        pass\n"
        "# repair: leave out dependent=True\n"
        "cuda_memset0_1d(128, x[:])\n"
        "with CudaDeviceFunction(blockDim=128):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        pass",
    ),
    "C419": (
        "a Fence that joins one thread (a warning)",
        "A loop over single threads gives each an iteration of its own, in which a Fence joins the "
        "thread with itself: nothing is emitted, and nobody waits for others.  In CUDA a thread is "
        "a program, in which __syncthreads() stands; here a loop over threads ends where its "
        "threads meet.  A Fence by one thread that waits for its copies, or fences proxies, stays.",
        "for t in cuda_threads(0, 128, unit=cuda_thread):\n"
        "    s[t] = x[t]\n"
        "    Fence(cuda_in_order, cuda_in_order)\n"
        "    y[t] = s[127 - t]\n"
        "# repair\n"
        "for t in cuda_threads(0, 128, unit=cuda_thread):\n"
        "    s[t] = x[t]\n"
        "Fence(cuda_in_order, cuda_in_order)\n"
        "for t in cuda_threads(0, 128, unit=cuda_thread):\n"
        "    y[t] = s[127 - t]",
    ),
    "C417": (
        "registers that the CTA does not have",
        "setmaxnreg.inc waits until the pool of the CTA has the registers, and setmaxnreg.dec puts "
        "them there.  What all groups keep must fit what the CTA is launched with: 65536 registers "
        "at most, the same multiple of 8 for each thread.",
        'warp_config=[CudaWarpConfig("producer", 4, 40, 0),\n'
        '             CudaWarpConfig("consumer", 8, 0, 248)]  # 128 * 40 + 256 * 248 > 384 * 168\n'
        "# repair\n"
        'warp_config=[CudaWarpConfig("producer", 4, 40, 0),\n'
        '             CudaWarpConfig("consumer", 8, 0, 232)]',
    ),
    "D501": (
        "two uses disagree on who owns an element",
        "Registers belong to threads and shared memory to CTAs.  Which element belongs to whom "
        "follows from the uses of a variable, and all of them must say the same.",
        "tmp: f32[32]\n"
        "for i in cuda_threads(0, 32, unit=cuda_thread):\n"
        "    tmp[i] = A[i]\n"
        "for i in cuda_threads(0, 32, unit=cuda_thread):\n"
        "    B[i] = tmp[31 - i]  # in another thread's registers\n"
        "# repair: go through shared memory, or a warp shuffle\n"
        "tmp: f32[32] @ CudaSmemLinear\n"
        "for i in cuda_threads(0, 32, unit=cuda_thread):\n"
        "    tmp[i] = A[i]\n"
        "Fence(cuda_in_order, cuda_in_order)\n"
        "for i in cuda_threads(0, 32, unit=cuda_thread):\n"
        "    B[i] = tmp[31 - i]\n"
        "Fence(cuda_in_order, cuda_in_order)",
    ),
    "D502": (
        "one owner has several elements of a distributed dimension",
        "A distributed dimension gives each owner one index; what an owner has several of is a "
        "dimension of its own, with an index that does not depend on the thread.",
        "cg: barrier[2] @ CudaCommitGroup\n"
        "for t in cuda_threads(0, 1, unit=cuda_thread):\n"
        "    for k in seq(0, 8):\n"
        "        Arrive(Sm80_cp_async) >> cg[k % 2]  # a thread has one commit group\n"
        "        Await(cg[k % 2], cuda_in_order, 0)\n"
        "# repair\n"
        "cg: barrier @ CudaCommitGroup\n"
        "for t in cuda_threads(0, 1, unit=cuda_thread):\n"
        "    for k in seq(0, 8):\n"
        "        Arrive(Sm80_cp_async) >> cg\n"
        "        Await(cg, cuda_in_order, 0)",
    ),
    "D503": (
        "an element does not belong to one unit",
        "An element of a register variable belongs to one thread, warp or warpgroup, and an "
        "element of shared memory to one CTA.  Here several access it, or a part of one.  What "
        "CTAs of a cluster exchange is in CudaSmemCluster.",
        "tmp: f32\n"
        "for i in cuda_threads(0, 32, unit=cuda_thread):\n"
        "    tmp = A[i]\n"
        "# repair: a register for each thread\n"
        "tmp: f32[32]\n"
        "for i in cuda_threads(0, 32, unit=cuda_thread):\n"
        "    tmp[i] = A[i]",
    ),
    "D504": (
        "an index within a thread's own registers depends on the thread",
        "Registers cannot be indexed by the number of the thread; only the distributed "
        "dimensions, which say whose register it is, may be.",
        "acc: f32[128, 4]\n"
        "for t in cuda_threads(0, 128, unit=cuda_thread):\n"
        "    for k in seq(0, 4):\n"
        "        acc[t, (t + k) % 4] = 0\n"
        "# repair\n"
        "acc: f32[128, 4]\n"
        "for t in cuda_threads(0, 128, unit=cuda_thread):\n"
        "    for k in seq(0, 4):\n"
        "        acc[t, k] = 0",
    ),
    "D505": (
        "a register tile has the wrong shape",
        "A tile memory says how many elements its trailing dimensions have.",
        "D: f32[2, 64, 128] @ Sm90_RmemMatrixD(64, 256)\n"
        "# repair\n"
        "D: f32[2, 64, 256] @ Sm90_RmemMatrixD(64, 256)",
    ),
    "D507": (
        "an Arrive has no home barrier",
        "The home of an Arrive is the one element common to all its targets; each dimension is a "
        "point in at least one of them.",
        "Arrive(cuda_temporal) >> z[:, n]\n"
        "# repair: say whose arrive counts\n"
        "Arrive(cuda_temporal) >> z[m, n] >> z[:, n]",
    ),
    "D508": (
        "a multicast goes over something else than CTAs",
        "A multicast signals the same barrier in every CTA along whole dimensions that are "
        "distributed over CTAs.",
        "Arrive(cuda_in_order) >> full[cta, 0] >> full[cta, :]  # dimension 1 is a ring\n"
        "# repair\n"
        "Arrive(cuda_in_order) >> full[cta, 0] >> full[:, 0]",
    ),
    "D509": (
        "Arrives on one mbarrier differ in their number of threads",
        "An mbarrier completes a phase after a number of arrivals that is fixed when it is "
        "initialised: threads of the Arrive, times the CTAs that signal an element.",
        "for t in cuda_threads(0, 1, unit=cuda_thread):\n"
        "    Arrive(cuda_in_order) >> z\n"
        "for w in cuda_threads(0, 1, unit=cuda_warp):\n"
        "    Arrive(cuda_in_order) >> z\n"
        "# repair: arrive at the same scope, or use two barriers\n"
        "for w in cuda_threads(0, 1, unit=cuda_warp):\n"
        "    Arrive(cuda_in_order) >> z\n"
        "for w in cuda_threads(0, 1, unit=cuda_warp):\n"
        "    Arrive(cuda_in_order) >> z",
    ),
    "D510": (
        "two solitary barriers are used in turns",
        "A thread has one counter for all its commit groups of a kind, and a cluster has one "
        "barrier.cluster; waiting for one variable would also wait for the other.",
        "Arrive(Sm80_cp_async) >> a\n"
        "Arrive(Sm80_cp_async) >> b\n"
        "Await(a, cuda_in_order, 0)\n"
        "Await(b, cuda_in_order, 0)\n"
        "# repair: one variable\n"
        "Arrive(Sm80_cp_async) >> a\n"
        "Arrive(Sm80_cp_async) >> a\n"
        "Await(a, cuda_in_order, 1)\n"
        "Await(a, cuda_in_order, 0)",
    ),
    "D511": (
        "an Arrive does not end a commit group of its variable's kind",
        "Commit groups are of wgmma, of bulk copies or of cp.async, told by the timeline of the "
        "Arrive; a variable has one kind.",
        "cg: barrier @ CudaCommitGroup\n"
        "Arrive(cuda_in_order) >> cg\n"
        "# repair\n"
        "cg: barrier @ CudaCommitGroup\n"
        "Arrive(Sm80_cp_async) >> cg",
    ),
    "D512": (
        "a cluster sync has several elements",
        "A cluster has one barrier.cluster.",
        "cs: barrier[2] @ CudaClusterSync\n# repair\ncs: barrier @ CudaClusterSync",
    ),
    "D513": (
        "a guard that is no mbarrier",
        "`barrier(guard)` says that two mbarriers take turns.",
        "cg: barrier @ CudaCommitGroup\n"
        "empty: barrier(cg) @ CudaMbarrier\n"
        "# repair\n"
        "full: barrier @ CudaMbarrier\n"
        "empty: barrier(full) @ CudaMbarrier",
    ),
    "D514": (
        "a variable is allocated by less than its owner",
        "Memory is allocated once for its owner.  Under a loop that divides the owner, the "
        "iterations would share that one allocation.",
        "for w in cuda_threads(0, 4, unit=cuda_warp):\n"
        "    buf: f32[32] @ CudaSmemLinear  # one for each warp?\n"
        "    for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "        buf[t] = 0\n"
        "# repair\n"
        "buf: f32[4, 32] @ CudaSmemLinear\n"
        "for w in cuda_threads(0, 4, unit=cuda_warp):\n"
        "    for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "        buf[w, t] = 0",
    ),
    "D515": (
        "the launch has no unit that could own the memory",
        "A register tile belongs to a warp or a warpgroup, and the CTA is smaller than that.",
        "with CudaDeviceFunction(blockDim=64):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        D: f32[64, 256] @ Sm90_RmemMatrixD(64, 256)\n"
        "# repair\n"
        "with CudaDeviceFunction(blockDim=128):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        D: f32[64, 256] @ Sm90_RmemMatrixD(64, 256)",
    ),
    "D516": (
        "a commit group at the wrong scope",
        "A wgmma group belongs to one warpgroup; a group of cp.async or bulk copies to one "
        "thread, or to the threads of one warp.",
        "cg: barrier @ CudaCommitGroup\n"
        "Arrive(Sm80_cp_async) >> cg  # at CTA scope\n"
        "# repair\n"
        "cg: barrier[128] @ CudaCommitGroup\n"
        "for t in cuda_threads(0, 128, unit=cuda_thread):\n"
        "    Arrive(Sm80_cp_async) >> cg[t]",
    ),
    "D519": (
        "the elements of a barrier have no common number of Arrives",
        "`slot(b)` of an array of mbarriers is the number of Arrives on each of its elements, "
        "which has to be one number.  So each Arrive on b reaches every element once: the indices "
        "of its home are the iterators of cuda_threads loops over the whole dimensions, on which "
        "no condition or bound inside depends, and the slot stands outside of these loops.",
        "for w in cuda_threads(0, 1, unit=cuda_warp):  # full: barrier[2]\n"
        "    Arrive(cuda_in_order) >> full[w]\n"
        "    Await(full[w], cuda_in_order, ~0)\n"
        "# repair\n"
        "for w in cuda_threads(0, 2, unit=cuda_warp):\n"
        "    Arrive(cuda_in_order) >> full[w]\n"
        "    Await(full[w], cuda_in_order, ~0)",
    ),
    "D517": (
        "a part of a register tile",
        "The elements of a tile lie in the registers of its threads as the matrix instructions "
        "want them; an instruction takes all of them, or the tile of another index.",
        "A: f32[64, 32] @ Sm90_RmemMatrixA(64)\n"
        "for k in seq(0, 4):\n"
        "    Sm90_load_A(A[:, 8 * k : 8 * k + 8], s[:, 8 * k : 8 * k + 8])\n"
        "# repair\n"
        "A: f32[4, 64, 8] @ Sm90_RmemMatrixA(64)\n"
        "for k in seq(0, 4):\n"
        "    Sm90_load_A(A[k, :, :], s[:, 8 * k : 8 * k + 8])",
    ),
    "D518": (
        "an element of a register tile is accessed by a thread that does not hold it",
        "Which thread holds an element of a tile, and in which register, is fixed by the matrix "
        "instructions.  A loop over the fragment gives each thread its own elements; another "
        "thread's can only be had by an instruction, or through shared memory.",
        "for m, n in fragment(D):\n"
        "    D[m, n] = D[m, (n + 2) % 8]\n"
        "# repair: of other elements take what the thread holds, or stage the tile\n"
        "for m, n in fragment(D):\n"
        "    D[m, n] = 2.0 * D[m, n]",
    ),
    "H730": (
        "DIVERGENCE: not all threads of a mechanism's unit reach it",
        "The hardware waits for every thread of the unit, and some have other work: a cluster "
        "barrier under a role or a CTA loop, a wgmma below a warpgroup.",
        "with CudaWarps(0, 1):\n"
        "    Arrive(cuda_in_order) >> cluster_sync\n"
        "# repair: at cluster scope\n"
        "Arrive(cuda_in_order) >> cluster_sync",
    ),
}
"""By code: title, explanation, example with its repair."""
