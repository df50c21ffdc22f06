"""Checks the tutorials of Triton and TLX, from a checkout or an installed package.

    python -m campaigns.triton_gallery CHECKOUT -o gallery.md

Each row is a kernel, as its own tutorial launches it on Hopper: the verdict, how many obligations,
the seconds of import and check, what is assumed, or what stopped it.  No code of theirs is kept.
With `--tlx-python` TLX's tutorials are compiled by that Python, and checked too.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from subprocess import run
from tempfile import TemporaryDirectory
from typing import Final

from campaigns.tlx_texts import TUTORIALS
from exogpu.diagnostics.verdict import Verdict
from exogpu.imported import ImportedKernel, UnimportedKernel, from_file, from_source

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
    said: str = ""


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
            said=", causal" if stage == 3 else "",
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


def found(folder: Path, chosen: str) -> Iterator[Row]:
    """The rows of Triton's and Gluon's tutorials, as each is known."""
    for launch in LAUNCHES:
        path = folder / launch.file
        if chosen in f"{launch.file}::{launch.kernel}" and path.is_file():
            start = cpu()
            kernels = from_source(
                path,
                launch.kernel,
                launch.arguments,
                num_warps=launch.num_warps,
                num_stages=launch.num_stages,
                plain=True,
            )
            for kernel in kernels:
                name = f"{launch.file}, `{kernel.name}`, {launch.num_warps} warps{launch.said}"
                yield row(name, kernel, cpu() - start)


def found_of_tlx(python: str, checkout: Path, chosen: str) -> Iterator[Row]:
    """The rows of TLX's tutorials, which another Triton compiles."""
    with TemporaryDirectory() as folder:
        here = {"PYTHONPATH": str(Path(__file__).parents[1])}
        command = [python, "-m", "campaigns.tlx_texts", str(checkout), folder]
        run(command, env={**os.environ, **here}, check=True)
        for one in TUTORIALS:
            path = Path(folder) / f"{one.name}.ttgir"
            if chosen in f"{one.file}::{one.kernel}" and path.is_file():
                start = cpu()
                kernel = from_file(path)
                waits = ", with a wait for all copies after its last product" * one.drains
                groups = f", {one.name[-1]} groups" if one.name[-1].isdigit() else ""
                name = f"TLX {one.file}, `{one.kernel}`{groups}{waits}"
                yield row(name, kernel, cpu() - start)


def cpu() -> float:
    """Seconds of CPU of this process and of those that it waited for."""
    used = [getrusage(whose) for whose in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel's verdict, and seconds of CPU."""

    name: str
    verdict: Verdict
    sizes: str
    compiling: float
    checking: float

    def cells(self, number: Callable[[str], int], folder: str) -> str:
        """The row; assumptions are told by their numbers, and files without their folder."""
        said = self.verdict.reason.replace(f"{folder}/", "")
        if self.verdict.hazards:
            hazard = self.verdict.hazards[0]
            sites = [site.place for site in (hazard.first, hazard.second) if site is not None]
            said = f"{hazard.kind.value} of lines {' and '.join(str(p.line) for p in sites)}"
        proof = self.verdict.proof
        count = len(proof.answered) if proof is not None else ""
        assumed = " ".join(f"{number(one)}" for one in self.verdict.assumptions)
        cells = (self.name, self.verdict.word, self.sizes, count, f"{self.compiling:.1f}")
        cells = (*cells, f"{self.checking:.1f}", assumed, said.replace("|", "/"))
        return f"| {' | '.join(str(cell) for cell in cells)} |"


def row(name: str, kernel: ImportedKernel | UnimportedKernel, made: float) -> Row:
    """Checks one kernel."""
    start = cpu()
    verdict = kernel.check(timeout=120)
    sizes = "all" if verdict.word == "proved" else ""
    if verdict.hazards:
        sizes = ", ".join(f"{name}={n}" for name, n in verdict.hazards[0].sizes.items())
    return Row(name, verdict, sizes, made, cpu() - start)


HEAD: Final = """\
# A gallery of Triton's tutorials

Made by

    {command}

The tutorials of Triton, Gluon and TLX that run on Hopper, compiled for sm_90 as they launch
themselves.  No GPU was used.  Compile and check are seconds of CPU.  A refutation is told with its
two lines of the tutorial, and the smallest trip counts and grid at which it happens.  Rows of TLX
are of its own Triton.

{source}

| kernel | verdict | sizes | obligations | compile | check | assumes | what stopped it |
| --- | --- | --- | ---: | ---: | ---: | --- | --- |"""


def page(rows: Sequence[Row], command: str, source: str, folder: str) -> str:
    """The page of the gallery; `source` tells which tutorials they are."""
    numbers: dict[str, int] = {}

    def number(assumption: str) -> int:
        return numbers.setdefault(assumption, len(numbers) + 1)

    head = HEAD.format(command=command, source=source)
    lines = [head, *(one.cells(number, folder) for one in rows), ""]
    lines += ["What is assumed:", "", *(f"{at}. {text}" for text, at in numbers.items())]
    return "\n".join(lines) + "\n"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a checkout of Triton, or its tutorials")
    parser.add_argument("-o", "--output", type=Path, help="where the page is written, too")
    parser.add_argument("--only", default="", help="only kernels whose file::name has this in it")
    parser.add_argument("--tlx-python", default="", help="the Python of an environment with TLX")
    parser.add_argument("--tlx", type=Path, help="a checkout with TLX's tutorials, if another")
    parser.add_argument("--source", default="", help="which tutorials they are, for the page")
    given = parser.parse_args()
    below = given.checkout / "python" / "tutorials"
    rows: list[Row] = []
    made = found(below if below.is_dir() else given.checkout, given.only)
    if given.tlx_python:
        checkout = given.tlx or given.checkout
        made = itertools.chain(made, found_of_tlx(given.tlx_python, checkout, given.only))
    for one in made:
        rows.append(one)
        print(one.name, one.verdict.word, f"{one.compiling:.1f} + {one.checking:.1f} s", flush=True)
    command = "python -m campaigns.triton_gallery CHECKOUT"
    command += " --tlx-python PYTHON" * bool(given.tlx_python)
    text = page(rows, command, given.source, str(given.checkout))
    print(text)
    if given.output is not None:
        given.output.write_text(text)


if __name__ == "__main__":
    main()
