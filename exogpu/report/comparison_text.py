"""A comparison as Markdown, for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from exogpu.report.comparison import (
    Change,
    ClaimChange,
    Comparison,
    ProcedureChange,
    SyncChange,
    without_same,
)
from exogpu.report.derivation import Line
from exogpu.report.markdown import code, escaped

CHANGES: Final[tuple[Change, ...]] = ("changed", "new", "gone")
MOST: Final = 12
"""Items of a list that are shown."""
MOST_LINES: Final = 120
"""The lines of a difference of sources, at most."""


def comparison_markdown(comparison: Comparison) -> str:
    """The comparison: a table of the procedures, then what changed in each."""
    return "\n".join(_comparison_lines(comparison)).rstrip() + "\n"


def headline(comparison: Comparison) -> str:
    """`2 changed, 1 new, 3 the same`"""
    counted = [f"{count} {change}" for change in CHANGES if (count := comparison.count(change))]
    same = comparison.count("same")
    return ", ".join([*counted, *([f"{same} the same"] if same or not counted else [])])


def _comparison_lines(comparison: Comparison) -> Iterator[str]:
    yield f"## exogpu: {headline(comparison)}"
    yield ""
    yield f"Against {code(comparison.against)}."
    yield ""
    shown = without_same(comparison).procedures
    if shown:
        yield "| procedure | before | now | obligations |"
        yield "| --- | --- | --- | --- |"
        for one in shown:
            now = escaped(one.badge_now) or "(gone)"
            if one.change == "changed" and one.badge_before != one.badge_now:
                now = f"**{now}**"
            cells = (code(one.name), escaped(one.badge_before) or "(new)", now, counts(one))
            yield f"| {' | '.join(cells)} |"
        yield ""
    for one in shown:
        if one.change == "changed" or one.claims:
            yield from _procedure(one)


def counts(one: ProcedureChange) -> str:
    """`2 new, 1 gone of 14`"""
    words = [f"{n} {change}" for change in CHANGES if (n := one.count(change))]
    if not words:
        return str(one.obligations)
    return f"{one.obligations}: {', '.join(words)}"


def _procedure(one: ProcedureChange) -> Iterator[str]:
    same = one.badge_before in ("", one.badge_now)
    became = "" if same else f", was {escaped(one.badge_before)}"
    yield f"### {code(one.name)}: {escaped(one.badge_now)}{became}"
    yield ""
    if not same and one.theorem:
        yield escaped(one.theorem)
        yield ""
    for label, before, now in one.under:
        yield f"- {label}: {escaped(before)} before, {escaped(now)} now"
    if one.under:
        yield ""
    if one.synchronising:
        yield "#### Statements whose reasons changed"
        yield ""
        for sync in one.synchronising:
            yield f"- {line_change(sync)}: {code(sync.text)}: {escaped(statement_text(sync))}"
            for title, said in (("now also", sync.more), ("no longer", sync.fewer)):
                if sync.change == "changed":
                    yield from _list_items(said, f"  - {title}: ")
        yield ""
    if one.unproved:
        yield unproved(one)
        yield ""
    if one.claims:
        yield "#### Obligations"
        yield ""
        yield from _list_items([claim_line(claim) for claim in one.claims], "- ")
        yield ""
    if not one.comparable:
        yield "Of the old side there is a certificate alone: chains and sources are not compared."
        yield ""
    if one.source:
        yield "#### Source"
        yield ""
        yield from _difference(one.source)
        yield ""


def unproved(one: ProcedureChange) -> str:
    """Explains why not all obligations are compared."""
    when = "There is no proof now" if one.unproved == "now" else "There was no proof before"
    return f"{when}: obligations that hold are not compared, nor what needs a statement."


def claim_line(claim: ClaimChange) -> str:
    """A changed obligation on one line."""
    match claim.change:
        case "new":
            return f"{claim.change}: {claim.kind}: {claim.now}"
        case "gone":
            return f"{claim.change}: {claim.kind}: {claim.before}"
        case _:
            if claim.answer_before != claim.answer_now:
                answers = f"{_WAS[claim.answer_before]}, now {claim.answer_now}"
            else:
                answers = "ordered otherwise"
            return f"{claim.kind}, {answers}: {claim.now} Before: {claim.before}"


_WAS: Final = {"holds": "held", "broken": "was broken", "open": "was open"}


def line_change(sync: SyncChange) -> str:
    """`line 12, was 10`"""
    if sync.change == "gone":
        return f"gone, was line {sync.line_before}"
    if sync.change == "new":
        return f"new, line {sync.line_now}"
    moved = f", was {sync.line_before}" if sync.line_before != sync.line_now else ""
    return f"line {sync.line_now}{moved}"


def statement_text(sync: SyncChange) -> str:
    """Describes the statement; one that is gone, by the obligations that needed it."""
    said = sync.said
    if sync.change == "gone":
        return said.replace("Needed by", "It was needed by", 1)
    return said


def _list_items(items: Sequence[str], before: str) -> Iterator[str]:
    for item in items[:MOST]:
        yield before + escaped(item)
    if items[MOST:]:
        indent = before[: len(before) - len(before.lstrip())]
        yield f"{indent}- and {len(items) - MOST} more"


def _difference(hunks: Iterable[tuple[Line, ...]]) -> Iterator[str]:
    """Fenced; a fence longer than any run of backticks in it."""
    lines = [f"{line.sign}{line.text}".rstrip() for hunk in hunks for line in (*hunk, Line("", ""))]
    shown = lines[:MOST_LINES]
    fence = "`" * max([3, *(1 + _run(line) for line in shown)])
    yield f"{fence}diff"
    yield from shown[:-1] if shown and not shown[-1] else shown
    yield fence
    if lines[MOST_LINES:]:
        yield f"and {len(lines) - MOST_LINES} more lines"


def _run(line: str) -> int:
    """The longest run of backticks of a line."""
    return max((len(run) for run in re.findall("`+", line)), default=0)
