"""`exogpu demo`: a kernel that comes with exogpu is proved, and its report written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.text import Text

from exogpu.cli.loader import load
from exogpu.cli.outcome import Outcome
from exogpu.cli.render import draw_verdict, shown_path
from exogpu.cli.reporting import report_all
from exogpu.ir.types import Policy

SHOWN: Final = "gemm_sm90_2x1_128x256"
"""A kernel with all that is hard to synchronise, whose proof takes a few seconds."""
INTRODUCED: Final = (
    "a matrix product for Hopper, TF32: two CTAs a cluster, TMA multicast into a ring of four "
    "slots, wgmma by two warpgroups"
)


def demo(folder: Path, *, bar: bool) -> Iterator[tuple[Text, Outcome | None]]:
    """Yields the text about the shipped kernel, before and after its proof, and about its report.

    Raises OSError where the report cannot be written.
    """
    yield Text.assemble((SHOWN, "bold"), f": {INTRODUCED}\n"), None
    units = load(f"exogpu.kernels.gemm_sm90::{SHOWN}")
    for written in report_all(units, folder, None, Policy.PTX, bar=bar):
        yield draw_verdict(written.outcome.verdict), written.outcome
    page = shown_path(str(folder / SHOWN / "report.html"))
    certificate = shown_path(str(folder))
    yield (
        Text(
            f"  its report opens in a browser: {page}\n"
            f"  a solver alone confirms it: exogpu recheck {certificate} --solver z3\n"
        ),
        None,
    )
