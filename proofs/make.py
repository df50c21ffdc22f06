"""Makes this folder again: `make proofs`.

Reports and whole certificates of all shipped kernels go to build/proofs.  Here stay the lock, the
witness of each kernel, its report as text, and one kernel whole, as an example.
"""

from __future__ import annotations

import shutil
import sys
from importlib import metadata
from pathlib import Path

from rich.console import Console

from exogpu import Policy, Verdict
from exogpu.cli.loader import load
from exogpu.report.build import build
from exogpu.report.write import write_report
from exogpu.solvers.smt import z3_version
from exogpu.symbolic.certificate import lock
from exogpu.symbolic.certificate.sealing import WITNESS, Json, json_text
from exogpu.symbolic.certificate.write import write_certificate

HERE = Path(__file__).resolve().parent
PAGES = HERE.parent / "build" / "proofs"
KEPT = (WITNESS, "report.md")
EXAMPLE = "gemm_sm90_2x1_128x256"


def main() -> int:
    """1 if a kernel is not proved; then nothing here is changed."""
    proofs: dict[str, Json] = {}
    console = Console()
    for unit in load("exogpu.kernels"):
        assert unit.procedure is not None
        with console.status(f"{unit.name}: proving"):
            verdict: Verdict = unit.procedure.check(policy=Policy.PTX)
        console.print(f"{unit.name}: {verdict.word}", highlight=False)
        if verdict.proof is None or not verdict.proof.complete:
            return 1
        folder = PAGES / unit.name
        write_report(folder, build(unit.procedure, verdict))
        write_certificate(folder, unit.procedure, verdict)
        ir, program = unit.procedure.ir, unit.procedure.amir(verdict.policy)
        assert ir is not None
        proofs[unit.name] = lock.entry(ir, program, verdict, Path(ir.span.file))
    for old in HERE.iterdir():
        if old.is_dir():
            shutil.rmtree(old)
    for name in proofs:
        (HERE / name).mkdir()
        for file in (PAGES / name).iterdir():
            if file.name in KEPT or name == EXAMPLE:
                shutil.copy(file, HERE / name)
    made = {"exogpu": metadata.version("exogpu"), "z3": z3_version()}
    made["islpy"] = metadata.version("islpy")
    locked: dict[str, Json] = {"versions": {**made}, "proofs": proofs}
    (HERE / lock.LOCK).write_text(json_text(locked), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
