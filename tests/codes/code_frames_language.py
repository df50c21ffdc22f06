"""Frames of the codes of reading, types and scopes whose examples need more around them than what
their comments declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from code_frames import Frame, cpu, task

ALONE = Frame("HERE")
HOST = "x: f32[8] @ CudaGmemLinear, h: f32[8] @ DRAM"
MAPPED = "x_map = x[:, :] @ Sm90_tensorMap(128, 64, 32)\n"


def tma(body: str) -> Frame:
    """A warp that may start copies of x to a tile."""
    return cpu(
        f"{MAPPED}with CudaDeviceFunction(blockDim=128):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        tile: f32[64, 32] @ Sm90_SmemSwizzled(128)\n"
        "        z: barrier @ CudaMbarrier\n"
        "        cg: barrier @ CudaCommitGroup\n"
        "        for w in cuda_threads(0, 1, unit=cuda_warp):\n"
        f"            {body}",
        "x: f32[64, 32] @ CudaGmemLinear",
    )


def thread(declared: str, parameters: str = "x: f32[64, 32] @ CudaGmemLinear") -> Frame:
    """One thread, with what is declared for it."""
    return task(
        f"{declared}\nfor t in cuda_threads(0, 1, unit=cuda_thread):\n    r: f32[4]\n    HERE",
        parameters=parameters,
    )


def called(call: str) -> Frame:
    """An instruction is read where it is called."""
    body = thread("tile: f32[32] @ CudaSmemLinear", "x: f32[64] @ CudaGmemLinear").text
    return Frame("HERE\n\n\n" + body.replace("HERE", call))


READ: Mapping[str, Frame] = {
    "P110": ALONE,
    "P111": ALONE,
    "P118": cpu("HERE"),
    "P121": cpu("HERE"),
    "P130": replace(
        cpu("HERE", "x: f32[1] @ DRAM, y: f32[200] @ DRAM"),
        spelt=(("+ ...", " ".join(f"+ y[{i}]" for i in range(3, 200))),),
    ),
    "P132": cpu("HERE", "x: f32[40000] @ DRAM"),
    "P133": ALONE,
    "S301": cpu(
        f"{MAPPED}with CudaDeviceFunction(blockDim=128):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        for t in cuda_threads(0, 1, unit=cuda_thread):\n            HERE",
        "x: f32[64, 32] @ CudaGmemLinear, y: f32[1] @ CudaGmemLinear",
    ),
    "S302": cpu("HERE", HOST),
    "S303": cpu("HERE", HOST),
    "S305": called("load4(r[:], x[0:4])"),
    "S306": cpu("HERE", "n: size, x: f32[n] @ CudaGmemLinear"),
    "S308": Frame(
        "HERE\n\n\n" + task("tile: f32[32] @ CudaSmemLinear\nclear(tile[:])", "blockDim=32").text
    ),
    "S309": cpu("HERE"),
    "S319": cpu("HERE", "x: f32[64, 32] @ CudaGmemLinear"),
    "S321": cpu("HERE", "c: f32[4] @ CudaGridConstant"),
    "S324": called("load(r[0], x[0])"),
    "S311": cpu("HERE"),
    "S312": cpu("HERE", HOST),
    "S325": cpu("HERE", HOST),
    "T214": task("tile: f32[4] @ CudaSmemLinear\nHERE"),
    "T217": cpu("HERE", "x: f32[64, 32] @ CudaGmemLinear"),
    "T218": cpu("HERE", "x: f32[64, 32] @ CudaGmemLinear, h: f32[64, 32] @ DRAM"),
    "T224": Frame(
        "@instr(unit=cuda_thread, dst=CUDA_REGISTER, src=CUDA_MEMORY)\n"
        "def load(dst: f32[4, 32] @ CudaRmem, src: f32[4, 32] @ CudaGmemLinear):\n"
        "    for i in seq(0, 4):\n        for j in seq(0, 32):\n"
        "            dst[i, j] = src[i, j]\n\n\n"
        + thread("").text.replace("r: f32[4]", "tile: f32[4, 32]")
    ),
    "T221": thread("", "x: f32[64] @ CudaGmemLinear"),
    "T225": Frame(
        "".join(
            f"@proc\ndef {name}(n: size, x: {kind}[n] @ DRAM):\n    pass\n\n\n"
            for name, kind in (("copy", "f32"), ("copy_f16", "f16"))
        )
        + cpu("HERE", "n: size, x: f16[n] @ DRAM").text
    ),
    "T226": tma("HERE"),
    "T227": thread("tile: f32[64, 32] @ CudaSmemLinear"),
    "T228": tma("HERE"),
    "T229": thread("z: barrier @ CudaMbarrier"),
    "T230": tma("HERE"),
    "T231": cpu(
        "x_map = x[:, :] @ Sm90_tensorMap(128, 32, 32)\n"
        "with CudaDeviceFunction(clusterDim=2, blockDim=64):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        S: f32[2, 64, 32] @ Sm90_SmemSwizzled(128)\n"
        "        full: barrier[2] @ CudaMbarrier\n"
        "        with CudaWarps(0, 1):\n            HERE",
        "x: f32[64, 32] @ CudaGmemLinear",
    ),
    "T235": cpu(
        "with CudaDeviceFunction(\n    warp_config=(\n        HERE\n    )\n):\n"
        "    for task in cuda_tasks(0, 1):\n        pass"
    ),
    "T239": task("cg: barrier[2] @ CudaCommitGroup\nHERE", "blockDim=128"),
    "T240": task(
        "z: barrier[2] @ CudaCommitGroup\nfor t in cuda_threads(0, 2, unit=cuda_thread):\n    HERE"
    ),
    "T244": cpu("HERE", "x: f32[64, 64] @ CudaGmemLinear"),
    "T245": called("each(r[:], r[:])"),
    "T275": cpu(
        "ready: barrier @ CudaFlag\nwith CudaDeviceFunction(blockDim=32):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        for t in cuda_threads(0, 1, unit=cuda_thread):\n"
        "            stores: barrier @ CudaCommitGroup\n"
        "            Arrive(tma_to_gmem_async) >> stores\n"
        "            HERE",
        "",
    ),
    "T248": task("HERE", "blockDim=256"),
    "T250": task(
        "tile: f32[2, 32] @ CudaSmemLinear\nfull: barrier @ CudaMbarrier\n"
        "for k in seq(0, 4):\n    for t in cuda_threads(0, 32, unit=cuda_thread):\n        HERE",
        "blockDim=32",
        "x: f32[32] @ CudaGmemLinear",
    ),
    "T255": called("put(x[0], r[0])"),
    "T251": task(
        "for t in cuda_threads(0, 1, unit=cuda_thread):\n    HERE",
        parameters="rows: i32[8] @ CudaGmemLinear, z: f32[8] @ CudaGmemLinear",
    ),
    "T252": cpu("HERE", "x: f32[8] @ CudaGmemLinear, rows: i32[8] @ CudaGmemLinear"),
    "S332": task(
        "for t in cuda_threads(0, 1, unit=cuda_thread):\n    HERE",
        parameters="rows: i32[8] @ CudaGmemLinear, z: f32[8] @ CudaGmemLinear",
    ),
    "S331": task(
        "for t in cuda_threads(0, 128, unit=cuda_thread):\n    value: f32[1]\n    value[0] = 1.0\n"
        "    HERE",
        parameters="y: f32[128] @ CudaGmemLinear, z: f32[128] @ CudaGmemLinear",
    ),
    "S333": cpu(
        "HERE\nwith CudaDeviceFunction(blockDim=32):\n"
        "    for task in cuda_tasks(0, 1):\n"
        "        tile: f32[4, 32] @ CudaSmemLinear\n"
        "        z: barrier @ CudaMbarrier\n"
        "        Sm90_tma_load(\n"
        "            tile[:, :], x_map[0:4, :], rows=4, cols=32, box=(4, 32), swizzle=0\n"
        "        ) >> z\n"
        "        Arrive(cuda_in_order) >> z\n"
        "        Await(z, cuda_in_order, ~0)\n"
        "        Fence(cuda_in_order, cuda_in_order)",
        "x: f32[16, 32] @ CudaGmemLinear",
    ),
    "T247": cpu("for i in seq(0, 8):\n    HERE", "n: i32[8] @ DRAM"),
}
"""By code; these are found where the file is read."""
