"""Explanations of what the abstract machine finds (H)."""

from __future__ import annotations

from typing import Final

HAZARDS: Final[dict[str, tuple[str, str, str]]] = {
    "H701": (
        "a read may not see an earlier write (RAW)",
        "In program order the write comes first, but no Fence, Arrive and Await orders it before "
        "the read and makes it visible there: to all threads that read, on the timeline they read "
        "on.  Order alone (`temporal`) is not enough for a read.",
        "for t in cuda_threads(0, 64, unit=cuda_thread):\n"
        "    tile[t] = x[t]\n"
        "for t in cuda_threads(0, 64, unit=cuda_thread):\n"
        "    y[t] = tile[63 - t]  # another thread's element\n"
        "# repair: between the loops\n"
        "for t in cuda_threads(0, 64, unit=cuda_thread):\n"
        "    tile[t] = x[t]\n"
        "Fence(cuda_in_order, cuda_in_order)\n"
        "for t in cuda_threads(0, 64, unit=cuda_thread):\n"
        "    y[t] = tile[63 - t]",
    ),
    "H702": (
        "a write may overtake an earlier read (WAR)",
        "In program order the read comes first, but nothing makes the write wait for it.  Under "
        "policy ptx, an overwrite through the async proxy (TMA, wgmma's shared-memory operands) "
        "needs a proxy fence after an ordinary read: a post side of cuda_generic_and_async.",
        "for t in cuda_threads(0, 64, unit=cuda_thread):\n"
        "    y[t] = tile[63 - t]\n"
        "for t in cuda_threads(0, 64, unit=cuda_thread):\n"
        "    tile[t] = 0.0  # another thread may still read it\n"
        "# repair: between the loops; before TMA loads (cuda_in_order, cuda_generic_and_async)\n"
        "for t in cuda_threads(0, 64, unit=cuda_thread):\n"
        "    y[t] = tile[63 - t]\n"
        "Fence(cuda_in_order, cuda_in_order)\n"
        "for t in cuda_threads(0, 64, unit=cuda_thread):\n"
        "    tile[t] = 0.0",
    ),
    "H703": (
        "a write may overtake an earlier write (WAW)",
        "Two writes of one element are not ordered, so that either value may remain.  Atomic "
        "reductions on the same timeline are exempt.",
        "for t in cuda_threads(0, 64, unit=cuda_thread):\n"
        "    tile[t] = 0.0\n"
        "for t in cuda_threads(0, 64, unit=cuda_thread):\n"
        "    tile[63 - t] = 1.0  # another thread's element\n"
        "# repair: between the loops; after a TMA load, await the mbarrier that it signals\n"
        "for t in cuda_threads(0, 64, unit=cuda_thread):\n"
        "    tile[t] = 0.0\n"
        "Fence(cuda_in_order, cuda_in_order)\n"
        "for t in cuda_threads(0, 64, unit=cuda_thread):\n"
        "    tile[63 - t] = 1.0",
    ),
    "H704": (
        "memory may be reused while it is accessed",
        "A variable ends before the next shared-memory allocation of its scope, or at the end of "
        "the scope.  Its bytes are then free for another variable or for the next task, so that "
        "all accesses must be ordered before that point, for all threads of the cluster.  Memory "
        "of the host ends with its block too: before that the CPU waits for the stream that copies "
        "from or to it, by Fence(cuda_stream_sync, cpu_in_order).",
        "for m in cuda_tasks(0, M):\n"
        "    tile: f32[64] @ CudaSmemLinear\n"
        "    for t in cuda_threads(0, 64, unit=cuda_thread):\n"
        "        tile[t] = x[m, t]\n"
        "# repair: end the task with a fence, so that the next one may overwrite tile\n"
        "for m in cuda_tasks(0, M):\n"
        "    tile: f32[64] @ CudaSmemLinear\n"
        "    for t in cuda_threads(0, 64, unit=cuda_thread):\n"
        "        tile[t] = x[m, t]\n"
        "    Fence(cuda_in_order, cuda_in_order)",
    ),
    "H705": (
        "arrives and awaits do not balance",
        "When a barrier variable ends, every Arrive on each of its elements must have been "
        "awaited: an arrival that nobody awaits would be taken for one of the next task.",
        "Arrive(cuda_in_order) >> z\n"
        "# repair: await it, or remove the Arrive\n"
        "Arrive(cuda_in_order) >> z\n"
        "Await(z, cuda_in_order, ~0)",
    ),
    "H706": (
        "program order blocks at an Await (DEADLOCK)",
        "The Await needs an arrival that, in program order, comes after it: on some home element, "
        "multicast ones included, too few Arrives precede it.  Another order of the threads may "
        "run; where program order itself runs, no order can block.",
        "Await(z, cuda_in_order, ~0)\n"
        "Arrive(cuda_in_order) >> z\n"
        "# repair: arrive first, or skip the first phase with ~1\n"
        "Arrive(cuda_in_order) >> z\n"
        "Await(z, cuda_in_order, ~0)",
    ),
    "H707": (
        "an mbarrier may run a whole ring ahead, or a waiter may (PHASE)",
        "The hardware tells phases apart by one bit.  With a ring of depth d, the arrival d "
        "phases later must be ordered after somebody awaited this one, or a waiter may take the "
        "wrong phase for the right one.  And a thread that awaits an arrival must be ordered after "
        "an Await (its own, as a rule) for the one d before, or the mbarrier that both use, still "
        "in its old phase, lets it pass at once.  Guards of the barrier, barrier(guard), and skip "
        "counts ~m decide the depth.",
        "full: barrier @ CudaMbarrier\n"
        "for k in seq(0, K):\n"
        "    with CudaWarps(0, 1):\n"
        "        Arrive(cuda_in_order) >> full  # and never waits\n"
        "    with CudaWarps(1, 2):\n"
        "        Await(full, cuda_in_order, ~0)\n"
        "# repair: a second barrier, awaited by the producer, by which consumers release a slot\n"
        "full: barrier @ CudaMbarrier\n"
        "empty: barrier(full) @ CudaMbarrier\n"
        "for k in seq(0, K):\n"
        "    with CudaWarps(0, 1):\n"
        "        Await(empty, cuda_in_order, ~1)\n"
        "        Arrive(cuda_in_order) >> full\n"
        "    with CudaWarps(1, 2):\n"
        "        Await(full, cuda_in_order, ~0)\n"
        "        Arrive(cuda_in_order) >> empty",
    ),
    "H709": (
        "slots of one memory differ in another way in another task (SLOT)",
        "Slots of barriers that outlive a task begin a task where the cluster's tasks before have "
        "left them.  Those that index one memory must be equal then, so that what is filled and "
        "what is read meet as in every other task; and where an access names an element by itself, "
        "a slot of that memory is 0 as a task begins.  Here that holds at the smallest sizes, and "
        "not at these.",
        "# tile is filled by slot(full) and read by slot(done)\n"
        "Arrive(cuda_in_order) >> full\n"
        "Await(full, cuda_in_order, ~0)\n"
        "if k < 4:  # of five steps not the last one\n"
        "    Arrive(cuda_in_order) >> done\n"
        "    Await(done, cuda_in_order, ~0)\n"
        "# repair: as many Arrives on the one as on the other\n"
        "Arrive(cuda_in_order) >> full\n"
        "Await(full, cuda_in_order, ~0)\n"
        "Arrive(cuda_in_order) >> done\n"
        "Await(done, cuda_in_order, ~0)",
    ),
    "H708": (
        "a value passes from one task to the next (LEAK)",
        "Memory that is allocated between a launch and its cuda_tasks loops serves one task of a "
        "cluster after another.  Clusters choose their tasks while the kernel runs, in an order of "
        "their own, so that what a read finds must have been written in its own task.",
        "with CudaDeviceFunction(blockDim=32):\n"
        "    total: f32[32] @ CudaSmemLinear\n"
        "    for m in cuda_tasks(0, M):\n"
        "        for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "            total[t] += x[m, t]  # of which tasks?\n"
        "# repair: write it first\n"
        "with CudaDeviceFunction(blockDim=32):\n"
        "    total: f32[32] @ CudaSmemLinear\n"
        "    for m in cuda_tasks(0, M):\n"
        "        for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "            total[t] = 0.0\n"
        "            total[t] += x[m, t]",
    ),
    "H710": (
        "a read of what nothing has written (UNINIT)",
        "Each element that a statement reads has been written since its variable was allocated, by "
        "the sequential reading, element by element.  Parameters have values; a TMA load writes "
        "zeros outside of its tensor; an accumulator is written where it is zeroed; an instruction "
        "reads and writes what its body does, under the body's guards.  A last tile that is filled "
        "in part and read as a whole is the usual case, and a ring that is read at a slot nobody "
        "has filled.  uninit(x[lo:hi]) says that the values of elements do not matter.",
        "acc: f32 @ CudaRmem\n"
        "for k in seq(0, K):\n"
        "    acc += x[k]  # the first sum begins with what the register holds\n"
        "# repair\n"
        "acc: f32 @ CudaRmem\n"
        "acc = 0\n"
        "for k in seq(0, K):\n"
        "    acc += x[k]",
    ),
}
"""Title, explanation and example by code."""


# Codes of what orders roles, tasks and CTAs, and of what CTAs share.

BETWEEN: Final[dict[str, tuple[str, str, str]]] = {
    "D520": (
        "roles that share a phase disagree on whose element is whose",
        "Where several roles await a phase, each has an element of the mbarrier variable: every "
        "Arrive is on all of them, z[:], and each role awaits its own.  Where several arrive for a "
        "phase, each arrives on its own, and every Await is on z[:].  The extents are constants, "
        "and the elements no CTAs.",
        "Arrive(cuda_in_order) >> z[:]  # z: barrier[2] @ CudaMbarrier\n"
        "Await(z[0], cuda_in_order, ~0)\n"
        "Await(z[1], cuda_in_order, ~0)\n"
        "Arrive(cuda_in_order) >> z[0]\n"
        "# repair\n"
        "Arrive(cuda_in_order) >> z[:]\n"
        "Await(z[0], cuda_in_order, ~0)\n"
        "Await(z[1], cuda_in_order, ~0)",
    ),
    "D521": (
        "a named barrier is used by threads that it cannot count",
        "A phase of a named barrier is over when all that arrive and all that wait have come.  It "
        "counts whole warps of one CTA, and each of them once: threads that arrive on an element "
        "do not await it.",
        "Arrive(cuda_in_order) >> z  # z: barrier @ CudaNamedBarrier\n"
        "Await(z, cuda_in_order)\n"
        "# repair: one warp arrives, the other waits\n"
        "with CudaWarps(0, 1):\n"
        "    Arrive(cuda_in_order) >> z\n"
        "with CudaWarps(1, 2):\n"
        "    Await(z, cuda_in_order)",
    ),
    "D525": (
        "flags beside memory that serves task after task",
        "Of shared memory and mbarriers that are declared between a launch and its tasks a proof "
        "knows the tasks of one cluster, in any order.  Flags order the tasks of all clusters, in "
        "increasing order.  A procedure has the one or the other.",
        "ready: barrier @ CudaFlag\n"
        "with CudaDeviceFunction(blockDim=32):\n"
        "    tile: f32[32] @ CudaSmemLinear\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        Arrive(cuda_in_order) >> ready\n"
        "# repair\n"
        "ready: barrier @ CudaFlag\n"
        "with CudaDeviceFunction(blockDim=32):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        tile: f32[32] @ CudaSmemLinear\n"
        "        Arrive(cuda_in_order) >> ready",
    ),
    "D528": (
        "a slot of a cluster's own is used as a number",
        "A barrier that is declared between a launch and its tasks counts what its own cluster "
        "has done: `slot(b)` of it depends on which tasks the cluster has executed before.  So it "
        "is an index of shared memory that is declared there too, as a whole, and nothing else: no "
        "value, condition or bound, and no index of global memory or of memory of the task, where "
        "the result would depend on which cluster executes which task.",
        "with CudaDeviceFunction(blockDim=32):\n"
        "    full: barrier @ CudaMbarrier\n"
        "    for m in cuda_tasks(0, M):\n"
        "        for k in seq(0, 3):\n"
        "            for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "                y[m, slot(full), t] = x[m, t]\n"
        "            Arrive(cuda_in_order) >> full\n"
        "            Await(full, cuda_in_order, ~0)\n"
        "# repair\n"
        "with CudaDeviceFunction(blockDim=32):\n"
        "    full: barrier @ CudaMbarrier\n"
        "    for m in cuda_tasks(0, M):\n"
        "        for k in seq(0, 3):\n"
        "            for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "                y[m, k, t] = x[m, t]\n"
        "            Arrive(cuda_in_order) >> full\n"
        "            Await(full, cuda_in_order, ~0)",
    ),
    "D529": (
        "memory that outlives a task is indexed by a slot and otherwise",
        "Where a task begins in a ring that runs on depends on the tasks that the cluster has "
        "executed before.  What one access of the ring's memory is to another must not: all go "
        "through slots of barriers on which each task arrives equally often, or each task has a "
        "multiple of the ring's depth of Arrives.",
        "with CudaDeviceFunction(blockDim=32):\n"
        "    tile: f32[3, 32] @ CudaSmemLinear\n"
        "    full: barrier @ CudaMbarrier\n"
        "    for m in cuda_tasks(0, M):\n"
        "        for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "            tile[slot(full), t] = x[m, t]\n"
        "        for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "            y[m, t] = tile[0, t]\n"
        "        Arrive(cuda_in_order) >> full\n"
        "        Await(full, cuda_in_order, ~0)\n"
        "# repair\n"
        "with CudaDeviceFunction(blockDim=32):\n"
        "    tile: f32[3, 32] @ CudaSmemLinear\n"
        "    full: barrier @ CudaMbarrier\n"
        "    for m in cuda_tasks(0, M):\n"
        "        for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "            tile[slot(full), t] = x[m, t]\n"
        "        for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "            y[m, t] = tile[slot(full), t]\n"
        "        Arrive(cuda_in_order) >> full\n"
        "        Await(full, cuda_in_order, ~0)",
    ),
    "D526": (
        "memory of a cluster without a part for each CTA",
        "In CudaSmemCluster index i of the first dimension lies in CTA i, so that there are as "
        "many as the launch has CTAs in a cluster.",
        "part: f32[32] @ CudaSmemCluster\n"
        "for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):\n"
        "    for t in cuda_threads(0, 16, unit=cuda_thread):\n"
        "        part[16 * c + t] = 0.0\n"
        "# repair\n"
        "part: f32[2, 16] @ CudaSmemCluster\n"
        "for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):\n"
        "    for t in cuda_threads(0, 16, unit=cuda_thread):\n"
        "        part[c, t] = 0.0",
    ),
    "D527": (
        "a window over the parts of several CTAs",
        "The parts of a variable in CudaSmemCluster lie in the shared memory of different CTAs; an "
        "instruction takes the address of one of them.",
        "part: f32[2, 4] @ CudaSmemCluster\n"
        "for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):\n"
        "    for t in cuda_threads(0, 1, unit=cuda_thread):\n"
        "        v: f32[2]\n"
        "        cuda_load(v[:], part[0:2, c], n=2)\n"
        "# repair\n"
        "part: f32[2, 4] @ CudaSmemCluster\n"
        "for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):\n"
        "    for t in cuda_threads(0, 1, unit=cuda_thread):\n"
        "        v: f32[2]\n"
        "        cuda_load(v[:], part[1 - c, 0:2], n=2)",
    ),
}
