"""A report as Markdown, for a pull request: the facts of the page, without its drawings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from exogpu.report.report_data import Place, Report, Row

_COLUMNS: Final = (
    *("obligation", "kind", "variable", "statements"),
    *("what holds, and why", "answer", "solver", "seconds"),
)
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def markdown(report: Report) -> str:
    """The report; names and messages are escaped, so that they appear as text."""
    return "\n".join(_lines(report)).rstrip() + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"# {escaped(report.name)}: {escaped(report.badge)}"
    yield ""
    yield escaped(report.theorem)
    yield ""
    if report.formula is not None:
        yield f"It computes {code(report.formula.text)} ({escaped(report.formula.evidence)})."
        yield ""
    if report.doc:
        yield escaped(report.doc)
        yield ""
    yield from (f"- {escaped(label)}: {escaped(value)}" for label, value in report.facts)
    yield ""
    for title, items in (
        ("Assumed", report.assumptions),
        ("To be trusted", report.trusted),
        ("Not covered", report.uncovered),
    ):
        if items:
            yield f"## {title}"
            yield ""
            yield from (f"- {escaped(item)}" for item in items)
            yield ""
    if report.problems:
        yield "## What is wrong"
        yield ""
        yield from (f"- {escaped(problem)}" for problem in report.problems)
        yield ""
    for hazard in report.hazards:
        yield f"## {escaped(hazard.title)}"
        yield ""
        for place, role in (
            (hazard.first, hazard.first_role),
            (hazard.second, hazard.second_role),
        ):
            if place is not None:
                facts = [f"by {place.threads}"] if place.threads else []
                detail = "".join(f", {escaped(fact)}" for fact in (*facts, place.detail) if fact)
                yield f"- {role}: {_place(place)}{detail}"
        yield f"- missing: {escaped(hazard.missing)}"
        if hazard.repair:
            yield f"- repair: {escaped(hazard.repair)}"
        if hazard.replayed:
            yield "- replayed on the abstract machine at these sizes"
        yield ""
    yield from _synchronisation(report)
    yield from _obligations(report)
    yield from _threads(report)


def _synchronisation(report: Report) -> Iterator[str]:
    if not report.certified:
        return
    marks = {mark.number: mark for mark in report.marks}
    yield "## Synchronisation"
    yield ""
    for use in report.uses:
        mark = marks[use.mark]
        yield f"- line {mark.line}: {code(mark.text)}: {escaped(use.why)}"
    yield ""


def _obligations(report: Report) -> Iterator[str]:
    if not report.rows:
        return
    yield "## Obligations"
    yield ""
    yield "| " + " | ".join(_COLUMNS) + " |"
    yield "| --- " * len(_COLUMNS) + "|"
    for row in report.rows:
        yield "| " + " | ".join(_cells(row)) + " |"
    yield ""


def _cells(row: Row) -> Iterator[str]:
    yield escaped(row.name)
    yield row.kind
    yield code(row.variable) if row.variable else ""
    places = [place for place in (row.first, row.second) if place is not None]
    yield " then ".join(f"line {place.line}" for place in places)
    yield escaped(row.plain)
    yield row.answer
    yield escaped(row.solver or "by the rules")
    yield "" if row.seconds is None else f"{row.seconds:.3f}"


def _threads(report: Report) -> Iterator[str]:
    for cluster in report.clusters:
        plural = "s" if cluster.ctas > 1 else ""
        yield f"## Threads of line {cluster.line}"
        yield ""
        yield f"{cluster.ctas} CTA{plural} of {cluster.block_dim} threads a cluster."
        yield ""
        yield "| lines | scope | threads |"
        yield "| --- | --- | --- |"
        for scope in cluster.scopes:
            lines = ", ".join(map(str, scope.lines))
            yield f"| {lines} | {code(scope.opens)} | {escaped(scope.executors)} |"
        yield ""


def _place(place: Place) -> str:
    return f"line {place.line}: {code(place.text)}" if place.line else code(place.text)


def escaped(text: str) -> str:
    """Plain text: what Markdown or HTML would take for markup is escaped."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """A code span, with as many backticks as it needs; a table's bar is escaped."""
    plain = " ".join(text.split()).replace("|", "\\|")
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", plain)), default=0))
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{ticks}{pad}{plain}{pad}{ticks}"
