"""The lowering table: the synchronisation that is emitted, and why it suffices.

Code generation and docs/lowering.md (`exogpu.codegen.lowering_table`) are both made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from exogpu.codegen.arrival_rows import ARRIVALS, MBARRIER, Row, Scope, asm

_CLUSTER_BARRIER = (
    'asm volatile("barrier.cluster.arrive.release.aligned;\\n\\t"\n'
    '             "barrier.cluster.wait.acquire.aligned;" ::: "memory");'
)
_BULK = "Data Movement and Conversion Instructions: cp.async.bulk.{commit,wait}_group"
_SM80 = "Data Movement and Conversion Instructions: cp.async.{commit,wait}_group"
_WGMMA = "Asynchronous Warpgroup Level Matrix Instructions"

ROWS: Final[Mapping[str, Row]] = {
    "fence thread": Row(
        "Fence",
        Scope.THREAD.value,
        "generic to generic",
        "",
        "Memory Consistency Model: Program Order",
        "A thread sees its own generic accesses in program order.",
    ),
    "fence warp": Row(
        "Fence",
        Scope.WARP.value,
        "generic to generic",
        "__syncwarp();",
        "Parallel Synchronization and Communication Instructions: bar.warp.sync",
        "bar.warp.sync orders the memory accesses of the participating threads.",
    ),
    "fence lanes": Row(
        "Fence",
        Scope.LANES.value,
        "generic to generic",
        "__syncwarp({mask}u << lane / {lanes} * {lanes});",
        "Parallel Synchronization and Communication Instructions: bar.warp.sync",
        "bar.warp.sync joins the lanes of its mask and orders their memory accesses.",
    ),
    "fence some lanes": Row(
        "Fence",
        "part of a warp, of lanes that are not adjacent",
        "generic to generic",
        "__syncwarp({mask}u << {first});",
        "Parallel Synchronization and Communication Instructions: bar.warp.sync",
        "bar.warp.sync joins the lanes of its mask and orders their memory accesses.",
    ),
    "fence warps": Row(
        "Fence",
        Scope.WARPS.value,
        "generic to generic",
        'asm volatile("barrier.cta.sync.aligned %0, {threads};" :: "r"({id}) : "memory");',
        "Parallel Synchronization and Communication Instructions: barrier.cta",
        "A named barrier joins a subset of whole warps; it orders their memory accesses.",
    ),
    "fence cta": Row(
        "Fence",
        Scope.CTA.value,
        "generic to generic",
        "__syncthreads();",
        "Parallel Synchronization and Communication Instructions: barrier.cta",
        "barrier.cta.sync joins all warps of the CTA and orders their memory accesses.",
    ),
    "fence cta by role": Row(
        "Fence",
        "a CTA, on the path of one warp group",
        "generic to generic",
        asm("barrier.cta.sync 0;"),
        "Parallel Synchronization and Communication Instructions: barrier.cta",
        "Every warp group has a copy of the statement; without .aligned the copies may be "
        "different instructions.",
    ),
    "fence cluster": Row(
        "Fence",
        Scope.CLUSTER.value,
        "generic to generic",
        _CLUSTER_BARRIER,
        "Parallel Synchronization and Communication Instructions: barrier.cluster",
        "Release and acquire at cluster scope by all its threads; .aligned asks for one "
        "instruction a warp only.",
    ),
    "proxy fence": Row(
        "Fence, Await",
        "any",
        "generic, to a post side that is full in the async proxy",
        asm("fence.proxy.async{space};"),
        "Memory Consistency Model: Proxies; membar / fence",
        "Accesses through two proxies need a proxy fence on the path between them, of the state "
        "space in which they meet.  That is the CTA's shared memory, unless another CTA accesses "
        "the bytes, or stores by TMA what this one accesses by TMA.  The other direction needs "
        "none: completion of an asynchronous operation has one implied.",
    ),
    "proxy fence after others": Row(
        "Fence, Await",
        "a cluster, or a CTA that awaits a flag",
        "any, where the async proxy accesses global memory that other CTAs have accessed",
        asm("fence.proxy.async.global;"),
        "Memory Consistency Model: Proxies, Proxy-preserved Base Causality Order",
        "Accesses through the async proxy are ordered within a thread block alone.  So a proxy "
        "fence of another CTA does not order the copies of this one.",
    ),
    "proxy fence at free": Row(
        "end of a shared variable's lifetime",
        "any",
        "accesses of the generic proxy, to bytes that the async proxy may use next",
        asm("fence.proxy.async{space};"),
        "Memory Consistency Model: Proxies; membar / fence",
        "The check of the free orders the accesses before every thread of the cluster; the thread "
        "that next starts an asynchronous copy into the bytes has the proxy fence on the path.",
    ),
    "drain cp.async": Row(
        "Fence",
        "any",
        "a pre side that is full in Sm80",
        asm("cp.async.wait_all;"),
        _SM80,
        "The executing thread's copies have completed and are visible to it.",
    ),
    "drain bulk": Row(
        "Fence",
        "any",
        "a pre side that is full in tmaG",
        asm("cp.async.bulk.commit_group;") + "\n" + asm("cp.async.bulk.wait_group 0;"),
        _BULK,
        "The executing thread's bulk stores have completed, their writes included.",
    ),
    "drain bulk, sources": Row(
        "Fence",
        "any",
        "a pre side that is full in tmaR and not in tmaG, or where nothing else in the launch "
        "accesses what is stored",
        asm("cp.async.bulk.commit_group;") + "\n" + asm("cp.async.bulk.wait_group.read 0;"),
        _BULK,
        "The executing thread's bulk stores have read their sources; their writes are over when "
        "the kernel is.",
    ),
    "drain wgmma": Row(
        "Fence",
        "any",
        "a pre side that is full in wgD, wgA or wgS",
        asm("wgmma.commit_group.sync.aligned;") + "\n" + asm("wgmma.wait_group.sync.aligned 0;"),
        _WGMMA + ": wgmma.wait_group",
        "The warpgroup's matrix operations have completed.",
    ),
    "wgmma fence": Row(
        "Fence",
        "a warpgroup",
        "wgmma_fence_1 to wgmma_fence_2",
        asm("wgmma.fence.sync.aligned;"),
        _WGMMA + ": wgmma.fence",
        "Orders register accesses of the warpgroup before its next wgmma.mma_async.",
    ),
    "arrive cp.async": Row(
        "Arrive, CudaCommitGroup",
        "each thread",
        "Sm80",
        asm("cp.async.commit_group;"),
        _SM80,
        "The thread's copies since its last group make one more group.",
    ),
    "await cp.async": Row(
        "Await, CudaCommitGroup",
        "each thread",
        "Sm80",
        asm("cp.async.wait_group {n};"),
        _SM80,
        "All but the thread's newest n groups have completed and are visible to it.",
    ),
    "arrive bulk": Row(
        "Arrive, CudaCommitGroup",
        "each thread",
        "tmaG, tmaR",
        asm("cp.async.bulk.commit_group;"),
        _BULK,
        "The thread's bulk operations since its last group make one more group.",
    ),
    "await bulk": Row(
        "Await, CudaCommitGroup",
        "each thread",
        "tmaG, tmaR",
        asm("cp.async.bulk.wait_group {n};"),
        _BULK,
        "All but the thread's newest n groups have completed, their writes included.",
    ),
    "await bulk, sources": Row(
        "Await, CudaCommitGroup",
        "each thread",
        "tmaR alone, or tmaG where nothing else in the launch accesses what is stored",
        asm("cp.async.bulk.wait_group.read {n};"),
        _BULK,
        "All but the thread's newest n groups have read their sources; their writes are over when "
        "the kernel is.",
    ),
    "arrive wgmma": Row(
        "Arrive, CudaCommitGroup",
        "a warpgroup",
        "wgA, wgD, wgS",
        asm("wgmma.commit_group.sync.aligned;"),
        _WGMMA + ": wgmma.commit_group",
        "The warpgroup's matrix operations since its last group make one more group.",
    ),
    "await wgmma": Row(
        "Await, CudaCommitGroup",
        "a warpgroup",
        "wgA, wgD, wgS",
        asm("wgmma.wait_group.sync.aligned {n};"),
        _WGMMA + ": wgmma.wait_group",
        "All but the warpgroup's newest n groups have completed; their registers may be read.",
    ),
    "arrive named": Row(
        "Arrive, CudaNamedBarrier",
        "whole warps",
        "any",
        'asm volatile("barrier.cta.arrive.aligned %0, {threads};" :: "r"({id}) : "memory");',
        "Parallel Synchronization and Communication Instructions: barrier.cta",
        "Tells the barrier that the warp has come, and does not wait.  Its accesses before are "
        "performed for the threads that wait by barrier.cta.sync: a producer's stores, as in the "
        "section's example.",
    ),
    "await named": Row(
        "Await, CudaNamedBarrier",
        "whole warps",
        "any",
        'asm volatile("barrier.cta.sync.aligned %0, {threads};" :: "r"({id}) : "memory");',
        "Parallel Synchronization and Communication Instructions: barrier.cta",
        "Waits for all that arrive and all that wait; their number is the same in both.",
    ),
    **ARRIVALS,
    "arrive cluster": Row(
        "Arrive, CudaClusterSync",
        Scope.CLUSTER.value,
        "generic",
        asm("barrier.cluster.arrive.release.aligned;"),
        "Parallel Synchronization and Communication Instructions: barrier.cluster",
        "Releases, at cluster scope, what the thread did before.",
    ),
    "await cluster": Row(
        "Await, CudaClusterSync",
        Scope.CLUSTER.value,
        "any",
        asm("barrier.cluster.wait.acquire.aligned;"),
        "Parallel Synchronization and Communication Instructions: barrier.cluster",
        "Acquires, at cluster scope, what all threads of the cluster released by arriving.",
    ),
    "await mbarrier": Row(
        "Await, CudaMbarrier",
        "each thread",
        "any",
        "mbarrier_wait<{depth}>({ring}, {number});",
        MBARRIER + ": mbarrier.try_wait",
        "Acquires, at CTA scope, what was released or completed in the phase.",
    ),
    "await mbarrier of CTAs": Row(
        "Await, CudaMbarrier that other CTAs signal",
        "each thread",
        "any",
        "mbarrier_wait_cluster<{depth}>({ring}, {number});",
        MBARRIER + ": mbarrier.try_wait",
        "Acquires, at cluster scope, what was released or completed in the phase.",
    ),
    "arrive flag": Row(
        "Arrive, CudaFlag",
        "one thread, after the barrier of the Arrive's scope",
        "generic",
        "flag_arrive({flag});",
        "Memory Consistency Model: Release and Acquire Patterns, Observation Order",
        "The barrier orders the scope's accesses before the release at GPU scope, which is "
        "cumulative.  Each arrival is an atomic read-modify-write, so that whoever reads the "
        "count later observes all of them.",
    ),
    "await flag": Row(
        "Await, CudaFlag",
        "one thread, before the barrier of the Await's scope",
        "generic",
        "flag_await({flag}, {count});",
        "Memory Consistency Model: Release and Acquire Patterns, Observation Order",
        "Polls until all Arrives before it in program order have come, and acquires at GPU scope "
        "what they released.  No other Arrives exist.  The barrier orders that before what the "
        "scope does next.  The wait ends: the launch is cooperative, so all CTAs are on the "
        "device, and each takes its tasks in increasing order.  So the first waiting instance in "
        "program order waits for tasks that are over or go on.",
    ),
    "let dependents begin": Row(
        "start of a kernel that a dependent launch follows",
        "each thread",
        "",
        asm("griddepcontrol.launch_dependents;"),
        MBARRIER + ": griddepcontrol",
        "It orders nothing: what follows may begin once all CTAs are there, and waits by itself.",
    ),
    "await launch": Row(
        "Fence(cuda_stream_sync, ..) in a dependent launch; and at its end",
        "each thread",
        "any",
        asm("griddepcontrol.wait;"),
        MBARRIER + ": griddepcontrol",
        "The launch before has completed, and all its memory operations are visible to this grid.  "
        "So it has waited itself, if it was dependent: none ends without.",
    ),
    "await launch, for TMA": Row(
        "the same, where the second timeline is full in the async proxy",
        "each thread",
        "any",
        asm("griddepcontrol.wait;") + "\n" + asm("fence.proxy.async.global;"),
        MBARRIER + ": griddepcontrol; Memory Consistency Model: Proxies",
        "The accesses of the launch before were of the generic proxy, some that follow are not.",
    ),
    "meet CTAs": Row(
        "start of a kernel that has CudaSmemCluster",
        Scope.CLUSTER.value,
        "",
        _CLUSTER_BARRIER,
        "Parallel Synchronization and Communication Instructions: barrier.cluster; CUDA C++ "
        "Programming Guide: Distributed Shared Memory",
        "The shared memory of a CTA may be accessed by others once it has begun.  That none ends "
        "before the last access is what the check of the free asks of the program.",
    ),
    "init mbarrier": Row(
        "start of the kernel, CudaMbarrier",
        "one thread of each CTA",
        "",
        "mbarrier_init({ring}, {barriers}, {count});",
        MBARRIER + ": mbarrier.init",
        "Once: phases are carried on across tasks.",
    ),
    "publish mbarriers": Row(
        "start of the kernel, CudaMbarrier",
        "one thread of each CTA",
        "",
        asm("fence.mbarrier_init.release.cluster;")
        + "\n"
        + asm("fence.proxy.async.shared::cluster;"),
        "Memory Consistency Model; membar / fence: fence.mbarrier_init",
        "Other threads of the cluster, and TMA through the async proxy, signal the mbarriers after "
        "the barrier that follows.",
    ),
}
"""By the name that the code generator knows the row by."""
