"""Profiles the kernels that fall short of their bars: where their time goes.

    python benchmarks/gpu_profile.py build/gpu build/gpu/{rows,grouped,flags} -o profile.json

Each kernel is launched three times under Nsight Compute (`ncu`), with the clocks left alone; what
is kept is of the last launch: how much of the peak of memory, of the L2 cache, of shared memory and
of the tensor cores it has, of how many cycles something is issued in, and what warps wait for, in
cycles an instruction that is issued.  Needs torch, ncu, and a GPU.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import gpu_grouped
import torch
from gpu import ROOT

sys.path.insert(0, str(ROOT))

from exogpu.codegen.runtime import Kernel

LAUNCHES: Final = 3
SECTIONS: Final = (
    *("SpeedOfLight", "WarpStateStats", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis"),
    *("Occupancy", "LaunchStats"),
)
SHARES: Final = {
    "memory": r"(gpu__)?dram_+throughput\.\w+\.pct",
    "L2": r"lts__throughput\.avg\.pct",
    "L1 and shared": r"l1tex__throughput\.avg\.pct",
    "tensor cores": r"sm__(inst_executed_)?pipe_tensor\w*\.avg\.pct",
    "issued": r"sm(sp)?__(issue_active|inst_issued)\.avg\.pct",
    "warps": r"sm__warps_active\.avg\.pct",
}
"""The name of each share of a peak there."""
STALL: Final = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio")

Arrays = dict[str, Any]


def rows(kind: str, M: int, N: int, *more: str) -> Callable[[], Arrays]:
    """Makes the arrays of a kernel of rows."""

    def made() -> Arrays:
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[kind]
        found: Arrays = {"x": torch.randn(M, N, device="cuda").to(dtype)}
        found |= {name: torch.randn(N, device="cuda").to(dtype) for name in more}
        return {**found, "y": torch.empty_like(found["x"])}

    return made


def normalised(kind: str, M: int, N: int, *more: str) -> Callable[[], Arrays]:
    """Makes the arrays of a kernel that normalises rows."""
    return lambda: {**rows(kind, M, N, *more)(), "count": float(N), "eps": 1e-5}


def attention(D: int, heads: int, S: int) -> Callable[[], Arrays]:
    """Makes the arrays of a kernel of attention, as the call gives them."""

    def made() -> Arrays:
        q, k, v = (torch.randn(heads, S, D, device="cuda").to(torch.bfloat16) for _ in range(3))
        lse = torch.empty(heads, S, device="cuda")
        return {"Q": q, "K": k, "V": v, "Y": torch.empty_like(q), "L": lse}

    return made


def transposed(kind: str, M: int, N: int) -> Callable[[], Arrays]:
    """Makes the arrays of a transpose."""

    def made() -> Arrays:
        x = torch.randn(1, M, N, device="cuda").to({"f32": torch.float32}.get(kind, torch.bfloat16))
        return {"x": x, "y": torch.empty(1, N, M, device="cuda", dtype=x.dtype)}

    return made


def product(M: int, N: int, K: int, dtype: torch.dtype) -> Callable[[], Arrays]:
    """Makes the arrays of a GEMM."""

    def made() -> Arrays:
        a, b = (torch.randn(1, n, K, device="cuda").to(dtype) for n in (M, N))
        return {"A": a, "B": b, "C": torch.empty(1, M, N, device="cuda", dtype=dtype)}

    return made


def grouped(mix: str, rows: int, N: int, K: int) -> Callable[[], Arrays]:
    """Makes the arrays of a grouped product of 8 groups, its tiles found here."""

    def made() -> Arrays:
        wanted = (mix, rows, N, K)
        counts = next(c for m, c, *of in gpu_grouped.timed() if (m, sum(c), *of) == wanted)
        a, b, _, c = gpu_grouped.arrays(counts, N, K, "bf16")
        first = [0, *accumulate(counts)]
        tiles = [(at, g) for g, n in enumerate(counts) for at in range(first[g], first[g] + n, 128)]
        tiles += [(rows, 0)] * (rows // 128 + len(counts) - len(tiles))
        cuts = torch.tensor([*(at for at, _ in tiles), rows], dtype=torch.int32, device="cuda")
        group = torch.tensor([g for _, g in tiles], dtype=torch.int32, device="cuda")
        return {"A": a, "B": b, "cuts": cuts, "group": group, "C": c}

    return made


GROUPED: Final = "gemm_grouped_bf16_sm90_128x256"

CASES: Final[dict[str, tuple[str, Callable[[], Arrays]]]] = {
    "softmax bf16, 2048 x 65536": ("softmax_bf16_65536_2x32x1", rows("bf16", 2048, 65536)),
    "rms_norm bf16, 2048 x 65536": (
        "rms_norm_bf16_65536_2x32x1",
        normalised("bf16", 2048, 65536, "weight"),
    ),
    "layer_norm bf16, 2048 x 65536": (
        "layer_norm_bf16_65536_2x32x1",
        normalised("bf16", 2048, 65536, "weight", "bias"),
    ),
    "softmax f32, 1024 x 131072": ("softmax_f32_131072_8x16x2", rows("f32", 1024, 131072)),
    "scan f32, 1 x 268435456": ("scan_f32_16x8", rows("f32", 1, 1 << 28)),
    "scan f32, 64 x 2097152": ("scan_f32_16x8", rows("f32", 64, 1 << 21)),
    "transpose bf16, 10000 x 10000": ("transpose_blocks_bf16", transposed("bf16", 10000, 10000)),
    "attention, 64 columns, 16 x 16384, causal": (
        "attention_sm90_64_causal",
        attention(64, 16, 16384),
    ),
    "attention, 128 columns, 16 x 16384, causal": (
        "attention_sm90_128_causal",
        attention(128, 16, 16384),
    ),
    "gemm f32, 3000": (
        "gemm_sm90_2x1_128x192_resident",
        product(3000, 3000, 3000, torch.float32),
    ),
    "gemm f32, 3072": (
        "gemm_sm90_2x1_128x192_resident",
        product(3072, 3072, 3072, torch.float32),
    ),
    **{
        f"grouped bf16, 8 groups, {mix}, {rows} x {N} x {K}": (GROUPED, grouped(mix, rows, N, K))
        for mix in ("even", "uneven")
        for rows, N, K in ((8192, 4096, 4096), (16384, 14336, 4096), (16384, 4096, 14336))
    },
    "gemm bf16, 1024": ("gemm_bf16_sm90_1x1_128x64", product(1024, 1024, 1024, torch.bfloat16)),
}
"""By what is computed: the kernel, and its arrays."""


def launch(folders: list[Path], name: str) -> None:
    """Launch one kernel."""
    stem, made = CASES[name]
    folder = next(f for f in folders if (f / f"{stem}.json").exists())
    kernel, arrays = Kernel.from_folder(folder, stem), made()
    for _ in range(LAUNCHES):
        kernel(stream=torch.cuda.current_stream().cuda_stream, **arrays)
    torch.cuda.synchronize()


def profiled(ncu: str, folders: list[Path], name: str) -> dict[str, Any]:
    """Returns the profiler's results for the last launch."""
    stem, _ = CASES[name]
    sections = [word for one in SECTIONS for word in ("--section", one)]
    again = [sys.executable, __file__, *map(str, folders), "--launch", name]
    command = [ncu, "--clock-control", "none", "--csv", "--page", "raw", *sections]
    command += ["--kernel-name", f"regex:{stem}", *again]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    start = done.stdout.find('"ID"')
    if start < 0:
        return {"failed": (done.stdout + done.stderr)[-800:]}
    *_, last = csv.DictReader(io.StringIO(done.stdout[start:]))
    return {"kernel": stem, **dict(told(last))}


def told(row: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """The figures that are kept."""

    def number(text: str) -> float:
        return float(text.replace(",", "") or 0)

    for what, pattern in SHARES.items():
        found = [n for n in row if re.match(pattern, n) and row[n]]
        if found:
            yield f"{what}, % of its peak", round(max(number(row[n]) for n in found), 1)
    busy, all_ = row.get("sm__cycles_active.avg"), row.get("gpc__cycles_elapsed.max")
    if busy and all_:
        yield "multiprocessors busy, % of the time", round(100 * number(busy) / number(all_), 1)
    stalls = {m[1]: number(row[n]) for n in row if (m := STALL.match(n)) and row[n]}
    most = sorted(stalls, key=lambda one: -stalls[one])[:4]
    yield "waits, cycles an instruction", {one: round(stalls[one], 2) for one in most}
    for name in ("gpu__time_duration.sum", "launch__registers_per_thread", "launch__grid_size"):
        if row.get(name):
            yield name, number(row[name])


def main() -> int:
    """Profile every case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, default=Path("profile.json"))
    parser.add_argument("--only", default="", help="of cases whose name begins with this")
    parser.add_argument("--launch", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        launch(options.folders, options.launch)
        return 0
    ncu = shutil.which("ncu")
    if ncu is None:
        print("there is no ncu on this machine", file=sys.stderr)
        return 1
    found = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name in (name for name in CASES if name.startswith(options.only)):
        found[name] = profiled(ncu, options.folders, name)
        print(name, json.dumps(found[name]), flush=True)
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
