"""Explains the need for a synchronisation statement: the obligations whose chains pass it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from rich.text import Text

from exogpu.api import Procedure
from exogpu.cli.files import Unit
from exogpu.ir.types import Policy
from exogpu.report.model import Mark, Place, Row, Use
from exogpu.report.obligations import rows_of, uses_of
from exogpu.report.source import source_of
from exogpu.report.theorem import badge
from exogpu.result.errors import NOWHERE, Diagnostic, ExoGpuError

SHOWN: Final = 6
"""Obligations that are listed."""

_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(::(?P<proc>.+))?")


def parse_place(text: str) -> tuple[str, int]:
    """The target and the line of `FILE:LINE` or `FILE:LINE::PROC`.  Raises ExoGpuError."""
    match = _PLACE.fullmatch(text)
    if match is None:
        remedy = "write exogpu why FILE:LINE"
        raise ExoGpuError([Diagnostic("X981", f"{text} is no FILE:LINE", NOWHERE, remedy)])
    proc = match["proc"]
    return match["file"] + (f"::{proc}" if proc else ""), int(match["line"])


def well_formed(units: Iterable[Unit], line: int) -> list[Procedure]:
    """The procedures of a target that can be explained, whatever is wrong with others.

    Raises ExoGpuError where the line is in one that is ill-formed, or where there is no other.
    """
    wrong, found = list[Diagnostic](), list[Procedure]()
    for unit in units:
        here = unit.diagnostics if unit.procedure is None else unit.procedure.diagnostics
        if unit.procedure is not None and not here:
            found.append(unit.procedure)
        elif _asked(unit, here, line):
            raise ExoGpuError(here)
        wrong += here
    if not found:
        raise ExoGpuError(wrong)
    return found


def _asked(unit: Unit, wrong: tuple[Diagnostic, ...], line: int) -> bool:
    """Tests whether a line is one of an ill-formed procedure, as far as that could be read."""
    ir = None if unit.procedure is None else unit.procedure.ir
    whole = () if ir is None else (ir.span,)
    spans = (*whole, *(diagnostic.span for diagnostic in wrong))
    return any(span.line <= line <= span.end_line for span in spans)


def why(
    procedures: list[Procedure], line: int, policy: Policy, *, formal: bool = False
) -> Iterator[Text]:
    """Yields the explanation of each procedure with marked places on a line.

    Raises ExoGpuError where none has any.
    """
    known: set[int] = set()
    found = False
    for procedure in procedures:
        source = source_of(procedure.facts.proc)
        known |= {mark.line for mark in source.marks if mark.synchronises}
        here = source.on_line(line)
        if not here:
            continue
        found = True
        verdict = procedure.check(policy=policy)
        proof = verdict.proof
        rows = rows_of(proof, verdict.hazards, source)
        certified = proof is not None and proof.complete and verdict.word == "proved"
        uses = {u.mark: u for u in uses_of(rows, source, certified, verdict.redundant)}
        text = Text.assemble((procedure.name, "bold"), f": {badge(verdict)}\n")
        for mark in here:
            text.append(_mark(mark, uses.get(mark.number), rows, formal))
        yield text
    if not found:
        raise ExoGpuError([_nothing(line, known)])


def _nothing(line: int, known: set[int]) -> Diagnostic:
    near = sorted(sorted(known, key=lambda other: abs(other - line))[:3])
    remedy = "there is no synchronisation in this target"
    if near:
        remedy = f"the nearest synchronisation is on line {', '.join(map(str, near))}"
    message = f"line {line} has no synchronisation statement and no access"
    return Diagnostic("X982", message, NOWHERE, remedy)


def _mark(mark: Mark, use: Use | None, rows: tuple[Row, ...], formal: bool) -> Text:
    text = Text.assemble(f"  line {mark.line}: ", (mark.text, "cyan"), "\n")
    if use is not None:
        text.append(f"    {use.why}\n", "yellow" if use.redundant else "")
        needed = [rows[number] for number in use.rows]
    else:
        text.append(f"    {mark.kind} of {mark.variable}\n")
        ends = ((row, (row.first, row.second)) for row in rows)
        needed = [r for r, both in ends if any(p and p.mark == mark.number for p in both)]
    for row in needed[:SHOWN]:
        broken = row.answer != "holds"
        text.append(f"    {row.kind}", "bold red" if broken else "bold")
        text.append(f" {row.variable}: {pair_text(row)}\n")
        text.append(f"      {row.plain}\n", "dim")
        if formal:
            text.append(f"      formally: {row.claim}\n", "dim")
    if len(needed) > SHOWN:
        text.append(f"    and {len(needed) - SHOWN} more\n", "dim")
    return text


def pair_text(row: Row) -> str:
    """The two statements that an obligation is about, with their lines."""
    shown = [_place(place) for place in (row.first, row.second) if place is not None]
    return ", then ".join(shown)


def _place(place: Place) -> str:
    return f"{place.text} (line {place.line})" if place.line else place.text
