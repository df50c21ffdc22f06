"""Frames of the codes of bounds, collective units, distributed memory, hazards and lowering."""

from __future__ import annotations

from collections.abc import Mapping

from code_frames import Frame, cpu, task

GROUPS = 'warp_config=[CudaWarpConfig("producer", 4, 40, 0), CudaWarpConfig("consumer", 8, 0, 232)]'
ROW = "M: size, K: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear"
TILE = "x: f32[64] @ CudaGmemLinear, y: f32[64] @ CudaGmemLinear"
LOAD = "for t in cuda_threads(0, 64, unit=cuda_thread):\n    tile[t] = x[t]\n"
FENCE = "Fence(cuda_in_order, cuda_in_order)"
CTAS = "for m in cuda_threads(0, 2, unit=2 * cuda_cta_in_cluster):\n"
RING = """
tile: f32[2, 32] @ CudaSmemLinear
full: barrier @ CudaMbarrier
empty: barrier(full) @ CudaMbarrier
for k in seq(0, K):
    with CudaWarps(0, 1):
        Await(empty, cuda_in_order, ~2)
        for t in cuda_threads(0, 32, unit=cuda_thread):
            tile[slot(full), t] = x[k, t]
        Arrive(cuda_in_order) >> full
    with CudaWarps(1, 2):
        Await(full, cuda_in_order, ~0)
    HERE
    with CudaWarps(1, 2):
        Arrive(cuda_in_order) >> empty
"""

TURN = """
with CudaWarps(0, 1):
    Arrive(cuda_in_order) >> z[0]
with CudaWarps(1, 2):
    Await(z[0], cuda_in_order)
"""

KERNELS: Mapping[str, Frame] = {
    # --- bounds ---------------------------------------------------------------------------------
    "B601": cpu("HERE", "M: size, A: f32[M] @ DRAM"),
    "B602": cpu("HERE", "M: size"),
    "B603": Frame(
        "@proc\ndef copy(n: size, x: f32[n] @ DRAM):\n    pass\n\n\n"
        "@proc\ndef k(M: size, x: f32[M] @ DRAM):\n    HERE\n"
    ),
    "B604": cpu("HERE", "M: size"),
    "B605": task("a: f32[32]\nb: f32[32]\nHERE", "blockDim=32"),
    "B606": Frame(
        "@proc\ndef k(M: size, K: size, A: f32[M, K] @ CudaGmemLinear):\n"
        "    assert K >= 4\n"
        "    GOOD\n"
        "    with CudaDeviceFunction(blockDim=32):\n"
        "        for m in cuda_tasks(0, M):\n"
        "            for t in cuda_threads(0, 1, unit=cuda_thread):\n"
        "                r: f32[4]\n"
        "                BAD\n"
    ),
    "B607": Frame(
        "@proc\ndef k(K: size, x: f32[K] @ CudaGmemLinear, y: f32 @ CudaGmemLinear):\n"
        "    with CudaDeviceFunction(blockDim=32):\n"
        "        for task in cuda_tasks(0, 1):\n"
        "            for t in cuda_threads(0, 1, unit=cuda_thread):\n"
        "                HERE\n"
        "                y = acc\n"
    ),
    "T260": Frame(
        "@proc\ndef copy(n: size, x: f32[n] @ DRAM):\n    pass\n\n\n"
        "@proc\ndef k(n: size, x: f32[8] @ DRAM):\n    HERE\n"
    ),
    # --- collective units -----------------------------------------------------------------------
    "C401": cpu("HERE"),
    "C402": cpu("HERE"),
    "C403": cpu("HERE"),
    "C404": task("HERE", GROUPS),
    "C405": task("HERE", GROUPS),
    "C407": task("HERE", GROUPS),
    "C408": Frame(
        "@proc\ndef k(M: size, x: f32[M] @ CudaGmemLinear):\n"
        "    with CudaDeviceFunction(blockDim=128):\n"
        "        for task in cuda_tasks(0, (M + 127) / 128):\n"
        "            HERE\n"
    ),
    "C409": cpu(
        "with CudaDeviceFunction(\n    HERE\n):\n    for task in cuda_tasks(0, 1):\n        pass"
    ),
    "C410": task("D: f32[4, 16, 8] @ Sm80_RmemMatrixD(16, 8)\nHERE"),
    "C411": cpu("HERE"),
    "C412": cpu("HERE"),
    "C413": task(f"buf: f32[4] @ CudaSmemLinear\nHERE\n{FENCE}"),
    "C414": task(
        "D: f32[64, 256] @ Sm90_RmemMatrixD(64, 256)\nHERE",
        'warp_config=[CudaWarpConfig("producer", 1), CudaWarpConfig("consumer", 7)]',
    ),
    "C415": task("dst: f32[32]\nsrc: f32[32]\nHERE", "blockDim=32"),
    "C416": task("HERE"),
    "C417": cpu(
        "with CudaDeviceFunction(\n    HERE\n):\n    for task in cuda_tasks(0, 1):\n        pass"
    ),
    "C418": cpu("HERE", "x: f32[128] @ CudaGmemLinear"),
    "C419": task(
        f"s: f32[128] @ CudaSmemLinear\nHERE\n{FENCE}",
        parameters="x: f32[128] @ CudaGmemLinear, y: f32[128] @ CudaGmemLinear",
    ),
    # --- distributed memory ---------------------------------------------------------------------
    "D501": task("HERE", "blockDim=32", "A: f32[32] @ CudaGmemLinear, B: f32[32] @ CudaGmemLinear"),
    "D502": task("HERE"),
    "D503": task("HERE", "blockDim=32", "A: f32[32] @ CudaGmemLinear"),
    "D504": task("HERE"),
    "D505": task("HERE", "blockDim=256"),
    "D507": task(
        "z: barrier[2, 2] @ CudaMbarrier\n"
        f"{CTAS}    for n in cuda_threads(0, 2, unit=cuda_cta_in_cluster):\n        HERE\n"
        f"{CTAS}    for n in cuda_threads(0, 2, unit=cuda_cta_in_cluster):\n"
        f"        Await(z[m, n], cuda_temporal, ~0)\n{FENCE}",
        "clusterDim=4, blockDim=32",
    ),
    "D508": task(
        "full: barrier[2, 4] @ CudaMbarrier\n"
        "for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):\n    HERE\n"
        "for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):\n"
        f"    Await(full[cta, 0], cuda_in_order, ~0)\n{FENCE}",
        "clusterDim=2, blockDim=32",
    ),
    "D509": task(
        f"z: barrier @ CudaMbarrier\nHERE\n"
        f"Await(z, cuda_in_order, ~0)\nAwait(z, cuda_in_order, ~0)\n{FENCE}"
    ),
    "D520": task(f"z: barrier[2] @ CudaMbarrier\nHERE\n{FENCE}"),
    "D521": task(f"z: barrier @ CudaNamedBarrier\nHERE\n{FENCE}", "blockDim=64"),
    "D510": task(
        "a: barrier @ CudaCommitGroup\nb: barrier @ CudaCommitGroup\n"
        "for t in cuda_threads(0, 1, unit=cuda_thread):\n    HERE"
    ),
    "D511": task(
        "for t in cuda_threads(0, 1, unit=cuda_thread):\n    HERE\n    Await(cg, cuda_in_order, 0)"
    ),
    "D512": task("HERE", "clusterDim=2, blockDim=64"),
    "D513": task("HERE"),
    "D514": task(f"HERE\n{FENCE}"),
    "D515": cpu("HERE"),
    "D516": task(
        "HERE\nfor t in cuda_threads(0, 128, unit=cuda_thread):  # good\n"
        "    Await(cg[t], cuda_in_order, 0)  # good"
    ),
    "D525": cpu("HERE"),
    "D517": task(
        "s: f32[64, 32] @ CudaSmemLinear\n"
        f"for g in cuda_threads(0, 1, unit=cuda_warpgroup):\n    HERE\n{FENCE}"
    ),
    "D518": task(
        "D: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)\n"
        "for w in cuda_threads(0, 1, unit=cuda_warp):\n    HERE",
        "blockDim=32",
    ),
    "D528": cpu(
        "HERE", "M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 3, 32] @ CudaGmemLinear"
    ),
    "D529": cpu("HERE", "M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear"),
    "D526": task(f"HERE\n{FENCE}", "clusterDim=2, blockDim=32"),
    "D527": task(f"HERE\n{FENCE}", "clusterDim=2, blockDim=32"),
    "D519": task(
        "tile: f32[2, 2, 32] @ CudaSmemLinear\nfull: barrier[2] @ CudaMbarrier\n"
        "for k in seq(0, K):\n"
        "    for w in cuda_threads(0, 2, unit=cuda_warp):\n"
        "        for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "            tile[w, slot(full), t] = x[k, w, t]\n"
        f"    HERE\n{FENCE}",
        "blockDim=64",
        "K: size, x: f32[K, 2, 32] @ CudaGmemLinear",
    ),
    "H730": task(
        "cluster_sync: barrier @ CudaClusterSync\nHERE\nAwait(cluster_sync, cuda_in_order, 0)",
        "clusterDim=2, blockDim=64",
    ),
    # --- hazards --------------------------------------------------------------------------------
    "H701": task(f"tile: f32[64] @ CudaSmemLinear\nHERE\n{FENCE}", "blockDim=64", TILE),
    "H702": task(
        f"tile: f32[64] @ CudaSmemLinear\n{LOAD}{FENCE}\nHERE\n{FENCE}", "blockDim=64", TILE
    ),
    "H703": task(f"tile: f32[64] @ CudaSmemLinear\nHERE\n{FENCE}", "blockDim=64", TILE),
    "H704": cpu("with CudaDeviceFunction(blockDim=64):\n    HERE", ROW),
    "H705": task(f"z: barrier @ CudaMbarrier\nHERE\n{FENCE}"),
    "H706": task(f"z: barrier @ CudaMbarrier\nHERE\n{FENCE}"),
    "H707": task(f"HERE\n{FENCE}", "blockDim=64", "K: size"),
    "H708": cpu("HERE", "M: size, x: f32[M, 32] @ CudaGmemLinear"),
    "H709": cpu(
        "with CudaDeviceFunction(blockDim=32):\n"
        "    tile: f32[3, 32] @ CudaSmemLinear\n"
        "    full: barrier @ CudaMbarrier\n"
        "    done: barrier @ CudaMbarrier\n"
        "    for m in cuda_tasks(0, M):\n"
        "        for k in seq(0, K):\n"
        f"            {FENCE}\n"
        "            for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "                tile[slot(full), t] = x[m, k, t]\n"
        f"            {FENCE}\n"
        "            for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "                y[m, k, t] = tile[slot(done), 31 - t]\n"
        "            HERE",
        "M: size, K: size, x: f32[M, K, 32] @ CudaGmemLinear, y: f32[M, K, 32] @ CudaGmemLinear",
    ),
    # --- lowering -------------------------------------------------------------------------------
    "G801": cpu(
        "HERE\n"
        "with CudaDeviceFunction(blockDim=32):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        tile: f32[8, 32] @ Sm90_SmemSwizzled(128)\n"
        "        full: barrier @ CudaMbarrier\n"
        "        Sm90_tma_load(  # the same box as the map's\n"
        "            tile[:, :], x_map[0, :, :], rows=8, cols=32,\n"
        "            box=(8, 32),  # bad\n"
        "            box=(1, 8, 32),  # good\n"
        "        ) >> full\n"
        "        Arrive(cuda_temporal) >> full\n"
        "        Await(full, cuda_generic_and_async, ~0)",
        "x: f32[2, 8, 32] @ CudaGmemLinear",
        emitted=True,
    ),
    "G802": task(
        "HERE\nfor t in cuda_threads(0, 1, unit=cuda_thread):\n    A_smem[0] = 0.0",
        parameters="K: size",
        emitted=True,
    ),
    "G803": task("HERE", "blockDim=1024", emitted=True),
    "G804": Frame(
        "HERE\n\n\n@proc\ndef k(x: f32[32] @ CudaGmemLinear):\n"
        "    with CudaDeviceFunction(blockDim=32):\n"
        "        for task in cuda_tasks(0, 1):\n"
        "            r: f32[32]\n"
        "            for t in cuda_threads(0, 32, unit=cuda_thread):\n"
        "                r[t] = x[t]\n"
        "                add_one(r[t])\n",
        emitted=True,
    ),
    "G805": cpu("with CudaDeviceFunction(blockDim=32):\n    HERE", "M: size", emitted=True),
    "G806": cpu("HERE", "n: size, d: f32[n, n] @ CudaGmemLinear", emitted=True),
    "G807": task(
        "z: barrier @ CudaMbarrier\nArrive(cuda_in_order) >> z\nHERE", "blockDim=64", emitted=True
    ),
    "G809": task(
        "HERE\nfor t in cuda_threads(0, 1, unit=cuda_thread):\n    tile[0, 0] = 0.0", emitted=True
    ),
    "G811": cpu("with CudaDeviceFunction(blockDim=32):\n    HERE", "M: size", emitted=True),
    "G816": task(
        """
        for t in cuda_threads(0, 32, unit=cuda_thread):
            sums: f32[16]
            for j in seq(0, 16):
                sums[j] = 0.0
            HERE
            y[t] = 0.0
            for j in seq(0, 16):
                y[t] += sums[j]
        """,
        "blockDim=32",
        "K: size, x: f32[K] @ CudaGmemLinear, y: f32[32] @ CudaGmemLinear",
        compiled=True,
    ),
    "G817": task(
        """
        A_smem: f32[64, 8] @ Sm90_SmemSwizzled(32)
        B_smem: f32[64, 8] @ Sm90_SmemSwizzled(32)
        D: f32[2, 64, 64] @ Sm90_RmemMatrixD(64, 64)
        cg: barrier @ CudaCommitGroup
        for t in cuda_threads(0, 64, unit=cuda_thread):
            for i in seq(0, 8):
                A_smem[t, i] = x[t, i]
                B_smem[t, i] = x[t, i]
        for j in seq(0, 2):
            Sm90_zero_scale_d(D[j, :, :], M=64, N=64)
        Fence(cuda_in_order, cuda_generic_and_async)
        Fence(wgmma_fence_1, wgmma_fence_2)
        for k in seq(0, K):
            HERE
        Arrive(wgmma_async) >> cg
        Await(cg, cuda_in_order, 0)
        Sm90_store_D(64, 64, y[:, :], D[0, :, :], M=64, N=64)
        """,
        "blockDim=128",
        "K: size, x: f32[64, 8] @ CudaGmemLinear, y: f32[64, 64] @ CudaGmemLinear",
        compiled=True,
    ),
    "G815": task(f"HERE\n{TURN}\n{FENCE}", "blockDim=64", emitted=True),
    "G814": task(RING, "blockDim=64", ROW.replace("64]", "32]").replace("[M", "[K"), emitted=True),
}
