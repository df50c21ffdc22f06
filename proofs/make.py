"""Makes this folder again: `make proofs`.

Reports and certificates of all shipped kernels go to build/proofs.  Here stay the lock, which has
every kernel, and the whole proofs of a few exemplars.
"""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console

from exogpu import Policy, Verdict
from exogpu.cli.loader import load
from exogpu.report.build import build
from exogpu.report.page import write_report
from exogpu.solvers.smt import z3_version
from exogpu.symbolic.certificate import write
from exogpu.symbolic.certificate.strict_json import Json, json_text
from exogpu.symbolic.certificate.write import write_certificate

HERE = Path(__file__).resolve().parent
PAGES = HERE.parent / "build" / "proofs"
EXEMPLARS = (
    "gather_rows_bf16",
    "transpose_f32",
    "histogram_256",
    "gemm_bf16_sm80",
    "gemm_sm90_2x1_128x256",
    "gemm_splitk_sum_sm90_1x1_128x256",
)
"""The kernels whose whole proofs are here, from the simplest on: rows by a table, a tile in shared
memory, atomics, a ring of asynchronous copies, two roles in clusters, flags between clusters."""
UNITS = tuple(load("exogpu.kernels"))
"""All shipped kernels, which the processes that prove them have, too."""


def prove(at: int) -> Json | None:
    """Proves a kernel, writes its pages, and returns its entry of the lock; None if undecided."""
    procedure = UNITS[at].procedure
    assert procedure is not None
    verdict: Verdict = procedure.check(policy=Policy.PTX)
    if verdict.proof is None or not verdict.proof.complete:
        return None
    folder = PAGES / procedure.name
    write_report(folder, build(procedure, verdict))
    write_certificate(folder, procedure, verdict)
    ir, program = procedure.ir, procedure.amir(verdict.policy)
    assert ir is not None
    return write.entry(ir, program, verdict, Path(ir.span.file))


def main() -> int:
    """Proves all kernels.  Returns 1 if one is not proved, and then changes nothing here."""
    proofs: dict[str, Json] = {}
    console = Console()
    os.environ.setdefault("EXOGPU_JOBS", "2")
    workers = max(1, (os.cpu_count() or 1) // 2)
    with ProcessPoolExecutor(workers, get_context("fork")) as pool:
        for unit, entry in zip(UNITS, pool.map(prove, range(len(UNITS))), strict=True):
            word = "not proved" if entry is None else "proved"
            console.print(f"{unit.name}: {word}", highlight=False)
            if entry is None:
                pool.shutdown(cancel_futures=True)
                return 1
            proofs[unit.name] = entry
    for old in HERE.iterdir():
        if old.is_dir():
            shutil.rmtree(old)
    for name in EXEMPLARS:
        shutil.copytree(PAGES / name, HERE / name)
    versions: dict[str, Json] = {"exogpu": metadata.version("exogpu"), "z3": z3_version()}
    versions["islpy"] = metadata.version("islpy")
    locked: dict[str, Json] = {"versions": versions, "proofs": proofs}
    (HERE / write.LOCK).write_text(json_text(locked), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
