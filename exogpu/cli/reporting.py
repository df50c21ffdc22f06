"""Writing the reports of a target: a folder for each procedure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from exogpu.cli.checker import check_all
from exogpu.cli.doctor import exogpu_version
from exogpu.cli.files import Unit
from exogpu.cli.guarded import NO_LIMITS
from exogpu.cli.outcome import Outcome
from exogpu.cli.places import Places
from exogpu.cli.render import draw_diagnostics, draw_verdict, shown_path
from exogpu.cli.to_sarif import sarif_text
from exogpu.ir.types import Policy
from exogpu.report.build import build
from exogpu.report.snapshot import Snapshot
from exogpu.report.write import write_report, write_text
from exogpu.solvers.workers import Limits
from exogpu.symbolic.certificate.write import remove_certificate, write_certificate, write_scripts

SHIPPED = "exogpu.kernels"
"""The target of `exogpu report --all`."""


@dataclass(frozen=True, slots=True)
class Written:
    """An outcome, and what to say about it on the terminal."""

    outcome: Outcome
    text: Text
    snapshot: Snapshot | None = None
    """What the report says; None where there is none."""


def unloaded(outcome: Outcome) -> Written:
    """Draws the result for a file that could not be loaded within the limits."""
    return Written(outcome, draw_verdict(outcome.verdict))


def report_all(
    units: tuple[Unit, ...],
    folder: Path,
    sizes: Mapping[str, int] | None,
    policy: Policy,
    *,
    limits: Limits = NO_LIMITS,
    bar: bool = False,
    scripts: Path | None = None,
) -> Iterator[Written]:
    """Checks the procedures and writes the report of each, with its certificate if it is proved;
    at the end `results.sarif` of all.  What solvers were asked is written to a folder a procedure
    in `scripts`.  Raises OSError where a file cannot be written.
    """
    places = Places()
    outcomes: list[Outcome] = []
    checked = check_all(units, sizes, policy, limits=limits, bar=bar)
    for unit, outcome in zip(units, checked, strict=False):
        outcomes.append(outcome)
        verdict = outcome.verdict
        if unit.procedure is None or not verdict.proc:
            yield Written(outcome, draw_diagnostics(verdict.diagnostics))
            continue
        name = places.name(unit.procedure.name)
        remove_certificate(folder / name)
        report = build(unit.procedure, verdict)
        snapshot = write_report(folder / name, report)
        if verdict.proof is not None and verdict.proof.complete:
            write_certificate(folder / name, unit.procedure, verdict)
            if scripts is not None:
                made = (one.obligation for one in verdict.proof.answered)
                write_scripts(scripts / name, ((one.name, one.smt) for one in made if one.smt))
        page = shown_path(str(folder / name / "report.html"))
        said = Text.assemble((verdict.proc, "bold"), f": {report.badge}, {page}\n")
        yield Written(outcome, said, snapshot)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "results.sarif", sarif_text(outcomes, exogpu_version()))
