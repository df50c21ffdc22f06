"""Compiles tutorials of TLX with the Triton that has it, and keeps TTGIR and PTX as its cache does.

    PYTHON_WITH_TLX -m campaigns.tlx_texts CHECKOUT FOLDER

TLX comes with a Triton of its own, older than 3.9, which places barriers only on the way to LLVM.
`campaigns.triton_gallery` runs this, and then has Triton 3.9 place them.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from exogpu.importing.kernel_arguments import parse_call
from exogpu.importing.triton_compiler import Compiled, compile_all

HALF: Final = "fp16[2048, 2048]"
ROWS: Final = "fp16[32768, 128]"


@dataclass(frozen=True, slots=True)
class Tutorial:
    """A kernel of TLX, its arguments, and what is changed in it first."""

    name: str
    file: str
    kernel: str
    arguments: str
    num_warps: int = 4
    drains: bool = False
    """True if all copies are waited for after the last product."""


def _attention(groups: int) -> Tutorial:
    tiles = ", ".join(f"{ROWS}:desc({rows}, 128)" for rows in (64, 128, 128, 64))
    return Tutorial(
        f"fa_ws_{groups}",
        "hopper_fa_ws.py",
        "_attn_fwd_ws",
        f"0.5, fp32[32768], 4, 8, {tiles}, 1024, 128, {64 * groups}, 128, False, 2, {4 * groups}, "
        f"{groups}",
    )


_PRODUCT: Final = f"{HALF}, {HALF}, {HALF}, 2048, 2048, 2048, 2048, 1, 2048, 1, 2048, 1, 128, 256, "

TUTORIALS: Final = (
    _attention(1),
    _attention(2),
    *(
        Tutorial(
            f"gemm_pipelined{'_drained' * drains}",
            "hopper_gemm_pipelined.py",
            "matmul_kernel_pipelined_hopper",
            f"{_PRODUCT}64, 8, 3",
            8,
            drains,
        )
        for drains in (False, True)
    ),
)
"""The checked kernels, by their names in the folder."""


def drained(source: str) -> str:
    """A kernel's source that waits for all of its copies after its last product."""
    lines = source.splitlines()
    at = max(n for n, line in enumerate(lines) if re.search(r"async_dot_wait\(0\b", line))
    indent = re.match(r"\s*", lines[at])
    wait = f"{indent[0] if indent else ''}tlx.async_load_wait_group(0)"
    return "\n".join([*lines[: at + 1], wait, *lines[at + 1 :]])


def keep(checkout: Path, folder: Path) -> None:
    """Compiles all, and writes TTGIR and PTX, or what stopped Triton."""
    tutorials = next((p for p in _below(checkout) if p.is_dir()), checkout)
    for one in TUTORIALS:
        path = tutorials / one.file
        with TemporaryDirectory() as own:
            if one.drains:
                path = Path(own) / one.file
                path.write_text(drained((tutorials / one.file).read_text()))
            call, options = parse_call(one.arguments), {"num_warps": one.num_warps}
            ((_, made),) = compile_all(
                path, one.kernel, call, options, 90, plain=True, barriers=False
            )
        if isinstance(made, Compiled):
            (folder / f"{one.name}.ttgir").write_text(made.ttgir)
            (folder / f"{one.name}.ptx").write_text(made.ptx)
        else:
            print(f"{one.name}: {made}", file=sys.stderr)


def _below(checkout: Path) -> tuple[Path, ...]:
    return (checkout / "third_party" / "tlx" / "tutorials", checkout / "tlx" / "tutorials")


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
