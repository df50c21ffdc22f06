"""`exogpu report --against OLD`: what changed since, as a page and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from exogpu.cli.checker import check_all
from exogpu.cli.files import Unit
from exogpu.cli.guarded import guarded
from exogpu.cli.outcome import Outcome
from exogpu.cli.render import shown_path
from exogpu.ir.types import Policy
from exogpu.report.build import build
from exogpu.report.comparison import compared
from exogpu.report.comparison_text import comparison_markdown
from exogpu.report.html import comparison_html
from exogpu.report.snapshot import Snapshot, saved, snapshot_of
from exogpu.result.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.solvers.workers import Limits


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
            raise ExoGpuError([_nothing(str(error))]) from None
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

    made = tuple(one for one in guarded(old, limits, work, unloaded, policy) if one is not None)
    if not made:
        raise ExoGpuError([_nothing(f"{shown_path(old)} has no procedure that could be read")])
    return made


def asked(
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


def _nothing(message: str) -> Diagnostic:
    remedy = "give a folder that `exogpu report` wrote, a certificate, or the older source"
    return Diagnostic("X983", message, NOWHERE, remedy)
