"""The derivation of a procedure as a page of its own: start, steps, end, and the proof."""

from __future__ import annotations

from dataclasses import dataclass

from exogpu.diagnostics.verdict import Verdict
from exogpu.pipeline.stages import Stages
from exogpu.report.build import build, shown_path
from exogpu.report.derivation import Step, derivation_steps
from exogpu.report.report_data import Report
from exogpu.schedule.argument_types import Schedulable
from exogpu.schedule.derivations import chain, text


@dataclass(frozen=True, slots=True)
class History:
    """A chain of derivations."""

    name: str
    file: str
    start: str
    """The name of the procedure that was written, and its text."""
    before: str
    after: str
    seconds: float
    steps: tuple[Step, ...]
    report: Report
    """The last report: the proof of its synchronisation."""


def history(procedure: Stages, derived: Schedulable, verdict: Verdict) -> History:
    """Returns a page's history of a derived procedure, which `verdict` is on."""
    found = derivation_steps(derived)
    first = next((step.parent for _, step in reversed([*chain(derived)])), derived)
    assert first.ir is not None
    return History(
        name=derived.name,
        file=shown_path(first.ir.span.file),
        start=found.start,
        before=found.before,
        after=text(derived),
        seconds=found.seconds,
        steps=found.steps,
        report=build(procedure, verdict),
    )
