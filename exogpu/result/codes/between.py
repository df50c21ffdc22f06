"""Codes of what orders roles, tasks and CTAs, and of what CTAs share."""

from __future__ import annotations

from typing import Final

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
