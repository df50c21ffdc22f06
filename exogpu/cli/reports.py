"""Writing the reports of a target: a folder for each procedure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.text import Text

from exogpu.cli.check_command import check_all
from exogpu.cli.doctor import exogpu_version
from exogpu.cli.exit_handler import Outcome
from exogpu.cli.files import Unit
from exogpu.cli.loader import load
from exogpu.cli.output_folders import Places
from exogpu.cli.output_formats import sarif_text
from exogpu.cli.process_guard import NO_LIMITS, guard
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.diagnostics.verdict import Policy
from exogpu.report.build import build
from exogpu.report.comparison import compared
from exogpu.report.comparison_text import comparison_markdown
from exogpu.report.page import comparison_html, write_report, write_text
from exogpu.report.render_verdict import draw_diagnostics, draw_verdict, shown_path
from exogpu.report.snapshot import Snapshot, saved, snapshot_of
from exogpu.solvers.processes import Limits
from exogpu.symbolic.certificate.write import remove_certificate, write_certificate, write_scripts

SHIPPED = "exogpu.kernels"
"""The target of `exogpu report --all`."""


@dataclass(frozen=True, slots=True)
class Written:
    """An outcome, and what to say about it on the terminal."""

    outcome: Outcome
    text: Text
    snapshot: Snapshot | None = None
    """The content of the report; None where there is none."""


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


# `exogpu report --against OLD`: what changed since, as a page and as Markdown.


def snapshots(
    old: str, sizes: Mapping[str, int] | None, policy: Policy, limits: Limits, *, bar: bool = False
) -> tuple[Snapshot, ...]:
    """Returns the snapshots of a folder of reports or certificates, or of a check of the target OLD
    now.

    Raises ExoGpuError where it is neither, or nothing is found in it.
    """
    folder = Path(old)
    if folder.is_dir():
        try:
            found = saved(folder)
        except (OSError, ValueError) as error:
            raise ExoGpuError([_no_report(str(error))]) from None
        if found:
            return found

    def work(units: tuple[Unit, ...]) -> Iterator[Snapshot | None]:
        checked = check_all(units, sizes, policy, limits=limits, bar=bar)
        for unit, outcome in zip(units, checked, strict=False):
            if unit.procedure is not None and outcome.verdict.proc:
                yield snapshot_of(build(unit.procedure, outcome.verdict))
            else:
                yield None

    def unloaded(outcome: Outcome) -> Snapshot | None:
        return None

    made = tuple(one for one in guard(old, limits, work, unloaded, policy) if one is not None)
    if not made:
        raise ExoGpuError([_no_report(f"{shown_path(old)} has no procedure that could be read")])
    return made


def select_procedures(
    old: Sequence[Snapshot], new: Sequence[Snapshot], target: str | None
) -> Sequence[Snapshot]:
    """Selects the procedures of the old side: if one procedure of the target was asked for, that
    one alone."""
    names = {one.name for one in new}
    return [one for one in old if one.name in names] if "::" in (target or "") else old


def write_comparison(
    folder: Path, old: Sequence[Snapshot], new: Sequence[Snapshot], against: str
) -> str:
    """Writes `comparison.html` and `comparison.md` to a folder; the Markdown.  Raises OSError."""
    found = compared(old, new, against)
    text = comparison_markdown(found)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "comparison.html").write_text(comparison_html(found), encoding="utf-8")
    (folder / "comparison.md").write_text(text, encoding="utf-8")
    return text


def _no_report(message: str) -> Diagnostic:
    remedy = "give a folder that `exogpu report` wrote, a certificate, or the older source"
    return Diagnostic("X983", message, NOWHERE, remedy)


# `exogpu demo`: a kernel that comes with exogpu is proved, and its report written.

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
