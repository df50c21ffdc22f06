"""The kernels of this folder with their arguments, and their TTGIR in `ttgir/`.

python -m tests.importing.made [NAME ...]    # with Triton 3.9: writes the files anew
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
TILE: Final = "fp32[1024, 2048]:desc(32, 64)"
A: Final = "fp16[2048, 2048]:desc(128, 64)"
B: Final = "fp16[2048, 2048]:desc(64, 128)"
C: Final = "fp16[2048, 2048]:desc(128, 128)"
HALF: Final = "fp16[2048, 2048]"


@dataclass(frozen=True)
class Made:
    """A kernel, and how it is launched."""

    file: str
    kernel: str
    arguments: str
    num_warps: int = 4

    @property
    def path(self) -> Path:
        """Its TTGIR."""
        return HERE / "ttgir" / f"{self.kernel}.ttgir"

    @property
    def text(self) -> str:
        """The TTGIR."""
        return self.path.read_text()

    @property
    def ptx(self) -> str:
        """What Triton lowered it to."""
        return self.path.with_suffix(".ptx").read_text()


KERNELS: Final = (
    Made(
        "copies.py",
        "scale_rows",
        "fp32[1024, 2048], fp32[1024, 2048], 2048, 2048, ROWS=4, WIDTH=32, DEPTH=3",
    ),
    Made("copies.py", "negate_tiles", f"{TILE}, {TILE}, 2048, DEPTH=2"),
    Made("roles.py", "square_tiles", f"{TILE}, {TILE}, 2048, DEPTH=2"),
    Made("products.py", "multiply", f"{A}, {B}, {C}, num_warps=4, DEPTH=3"),
    Made("products.py", "multiply_persistent", f"{A}, {B}, {C}, 4, num_warps=8, DEPTH=3", 8),
    Made("plain.py", "matmul", f"{HALF}, {HALF}, {HALF}, 2048, 2048, 2048, M=128, N=128, K=64"),
    Made(
        "plain.py",
        "add_products",
        f"{HALF}:desc(64, 64), {HALF}:desc(64, 64), {HALF}:desc(64, 64), 2048, M=64, N=64",
    ),
    Made("roles.py", "halve_first_ahead", f"{TILE}, {TILE}, 2048, DEPTH=2"),
    Made("roles.py", "halve_last_after", f"{TILE}, {TILE}, 2048, DEPTH=2"),
    Made(
        "plain.py",
        "all_products",
        f"{A}, {A}, {C}, 2048, 2048, 2048, M=128, N=128, K=64, PROGRAMS=132",
    ),
)

FURTHER: Final = (
    Made("copies.py", "negate_while", f"{TILE}, {TILE}, 2048, DEPTH=2"),
    Made("flat.py", "multiply_flat", f"{A}, {B}, {C}, 4, 64, num_warps=4, DEPTH=3"),
    Made("flat.py", "scale_some_rows", "fp32[65536], fp32[64], fp32[65536], 2048, WIDTH=128"),
    Made("flat.py", "multiply_tiles", f"{A}, {A}, {C}, 16, 2048, TILE=128, STEP=64, PROGRAMS=132"),
)
"""Kernels that the campaign of mutants leaves out."""


def write(*names: str) -> None:
    """Compiles all, or those with these names, and writes their TTGIR without their folder."""
    from exogpu.importing.kernel_arguments import parse_call
    from exogpu.importing.triton_compiler import Compiled, compile_all

    for one in (*KERNELS, *FURTHER):
        if names and one.kernel not in names:
            continue
        path = HERE / "kernels" / one.file
        options = {"num_warps": one.num_warps, "num_stages": 3}
        ((_, made),) = compile_all(path, one.kernel, parse_call(one.arguments), options, 90)
        assert isinstance(made, Compiled), made
        one.path.parent.mkdir(exist_ok=True)
        for suffix, text in ((".ttgir", made.ttgir), (".ptx", made.ptx)):
            text = re.sub(r'"/[^"]*/site-packages/', '"', text.replace(f"{HERE}/", ""))
            kept = [line for line in text.split("\n") if suffix == ".ttgir" or _tells(line)]
            one.path.with_suffix(suffix).write_text("\n".join(kept))


def _tells(line: str) -> bool:
    """Whether a line of PTX is of its skeleton: the rest is left out, to keep the files small."""
    line = line.strip()
    words = (".loc", ".file", "bar", "mbarrier", "wgmma", "cp.async", "fence", "// begin", "// end")
    words = (*words, "$L", "bra")
    predicated = line.partition(" ")[2] if line.startswith("@") else ""
    return line.startswith(words) or predicated.startswith(words)


if __name__ == "__main__":
    write(*sys.argv[1:])
