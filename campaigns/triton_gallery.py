"""Checks the tutorials of Triton and TLX, from a checkout or an installed package.

    python -m campaigns.triton_gallery CHECKOUT -o gallery.md

Each row is a kernel, as its own tutorial launches it on Hopper: the verdict, how many obligations,
the seconds of import and check, what is assumed, or what stopped it.  No code of theirs is kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

from exogpu.imported import ImportedKernel, UnimportedKernel, from_source
from exogpu.result.verdict import Verdict

ADD: Final = "fp32[1024, 2048]"
TILE: Final = "fp32[1024, 2048]:desc(32, 64)"
HALF: Final = "fp16[2048, 2048]"
A: Final = f"{HALF}:desc(128, 64)"
B: Final = f"{HALF}:desc(64, 128)"
C: Final = f"{HALF}:desc(128, 128)"
FLAT: Final = "gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[1, 0])"
STRIDES: Final = "2048, 1, 2048, 1, 2048, 1"
ROWS: Final = "fp16[32768, 128]"


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel of a file, its arguments and options."""

    file: str
    kernel: str
    arguments: str
    num_warps: int = 4
    num_stages: int = 3


LAUNCHES: Final = (
    Launch(
        "gluon/03-async-copy.py",
        "elementwise_add_cpasync_kernel",
        f"{ADD}, {ADD}, {ADD}, 1024, 2048, {STRIDES}, 32, 64, {FLAT}",
    ),
    Launch(
        "gluon/03-async-copy.py",
        "elementwise_add_pipelined_kernel",
        f"{ADD}, {ADD}, {ADD}, 1024, 2048, {STRIDES}, 32, 64, {FLAT}, 3",
    ),
    Launch(
        "gluon/04-tma.py",
        "elementwise_add_tma_kernel",
        f"{TILE}, {TILE}, {TILE}, 1024, 2048, 32, 64, 2",
    ),
    Launch("gluon/05-wgmma.py", "blocked_matmul_kernel", f"{A}, {B}, {C}, False, num_warps=4"),
    Launch("gluon/05-wgmma.py", "blocked_matmul_pipelined_kernel", f"{A}, {B}, {C}, num_warps=4"),
    Launch(
        "gluon/07-persistence.py",
        "matmul_pipelined_kernel",
        f"{A}, {HALF}:desc(64, 256), {HALF}:desc(128, 256), WGMMA, 3, num_warps=8",
        8,
    ),
    *(
        Launch(
            "gluon/07-persistence.py",
            "persistent_matmul_kernel",
            f"{A}, {B}, {C}, WGMMA, PersistentTileScheduler, 3, num_warps={warps}",
            warps,
        )
        for warps in (4, 8)
    ),
    Launch(
        "gluon/08-warp-specialization.py",
        "elementwise_add_warp_specialized_kernel",
        f"{TILE}, {TILE}, {TILE}, 1024, 2048, 32, 64, 2, 2, num_warps=4",
    ),
    Launch(
        "03-matrix-multiplication.py",
        "matmul_kernel",
        f"{HALF}, {HALF}, {HALF}, 2048, 2048, 2048, {STRIDES}, 128, 128, 64, 8, ACTIVATION=''",
    ),
    Launch(
        "05-layer-norm.py",
        "_layer_norm_fwd_fused",
        f"{HALF}, {HALF}, {HALF}, {HALF}, fp32[2048], fp32[2048], 2048, 2048, 1e-5, 1024",
    ),
    *(
        Launch(
            "06-fused-attention.py",
            "_attn_fwd",
            f"0.5, fp32[32768], 4, 8, {ROWS}:desc(128, 128), {ROWS}:desc(64, 128), "
            f"{ROWS}:desc(64, 128), {ROWS}:desc(128, 128), 1024, HEAD_DIM=128, BLOCK_M=128, "
            f"BLOCK_N=64, FP8_OUTPUT=False, STAGE={stage}, warp_specialize=False, IS_HOPPER=True",
        )
        for stage in (1, 3)
    ),
    Launch(
        "09-persistent-matmul.py",
        "matmul_kernel",
        f"{HALF}, {HALF}, {HALF}, 2048, 2048, 2048, {STRIDES}, BLOCK_SIZE_M=128, "
        "BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, GROUP_SIZE_M=8",
    ),
    Launch(
        "09-persistent-matmul.py",
        "matmul_kernel_tma",
        f"{A}, {A}, {C}, 2048, 2048, 2048, BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, "
        "GROUP_SIZE_M=8, FP8_OUTPUT=False, WARP_SPECIALIZE=False",
    ),
    Launch(
        "09-persistent-matmul.py",
        "matmul_kernel_tma_persistent",
        f"{A}, {A}, {C}, 2048, 2048, 2048, BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, "
        "GROUP_SIZE_M=8, FP8_OUTPUT=False, EPILOGUE_SUBTILE=False, NUM_SMS=132, "
        "WARP_SPECIALIZE=False",
    ),
)
"""As Triton 3.9 has them; paths are below `python/tutorials`."""


def rows(folder: Path, chosen: str) -> Iterator[str]:
    """The rows of the table, as each is known."""
    for launch in LAUNCHES:
        path = folder / launch.file
        if chosen in f"{launch.file}::{launch.kernel}" and path.is_file():
            start = perf_counter()
            kernels = from_source(
                path,
                launch.kernel,
                launch.arguments,
                num_warps=launch.num_warps,
                num_stages=launch.num_stages,
                plain=True,
            )
            for kernel in kernels:
                made = perf_counter() - start
                yield row(launch, kernel, kernel.check(timeout=120), made)


def row(
    launch: Launch, kernel: ImportedKernel | UnimportedKernel, verdict: Verdict, made: float
) -> str:
    """One kernel."""
    count = len(verdict.proof.answered) if verdict.proof is not None else ""
    said = "; ".join(verdict.assumptions) or verdict.reason
    if verdict.hazards:
        hazard = verdict.hazards[0]
        lines = [site.place.line for site in (hazard.first, hazard.second) if site is not None]
        said = f"{hazard.kind.value} of lines {' and '.join(map(str, lines))}"
    cells = (
        f"{launch.file}, `{kernel.name}`, {launch.num_warps} warps",
        verdict.word,
        count,
        f"{made:.1f}",
        f"{verdict.seconds:.1f}",
        said,
    )
    return "| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a checkout of Triton, or its tutorials")
    parser.add_argument("-o", "--output", type=Path, help="where the table is written, too")
    parser.add_argument("--only", default="", help="only kernels whose file::name has this in it")
    given = parser.parse_args()
    below = given.checkout / "python" / "tutorials"
    head = [
        "| kernel | verdict | obligations | compile s | check s | assumed, or what stopped it |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    lines = list(head)
    print(*head, sep="\n", flush=True)
    for line in rows(below if below.is_dir() else given.checkout, given.only):
        print(line, flush=True)
        lines.append(line)
    if given.output is not None:
        given.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
