"""Texts for the place where the pointer rests: the need for a synchronisation statement, the
threads of a scope, the meaning of an instruction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from exogpu.analysis.describe import executors
from exogpu.api import Procedure
from exogpu.cli.lsp.contracts import contract
from exogpu.cli.lsp.findings import summary
from exogpu.cli.lsp.records import Hover, Place, place_of
from exogpu.cli.why import SHOWN, pair_text
from exogpu.ir.nodes import (
    Arrive,
    Await,
    CallInstr,
    CudaThreads,
    DeviceFunction,
    Fence,
    For,
    Warps,
)
from exogpu.ir.walk import walk
from exogpu.report.model import Row
from exogpu.report.obligations import ALONE, rows_of
from exogpu.report.source import source_of
from exogpu.result.errors import Span
from exogpu.result.proof import Answered
from exogpu.result.verdict import Verdict

CPU: Final = "the CPU"


def hovers(procedure: Procedure, verdict: Verdict, path: str) -> Iterator[Hover]:
    """All that is said of places of a file, for one procedure that is well-formed."""
    facts = procedure.facts
    span = facts.proc.span
    if span.file == path:
        yield Hover(_line(span), f"**{procedure.name}**: {summary(verdict)}")
    needs = _needs(procedure, verdict)
    said: set[Span] = set()
    for stmt in walk(facts.proc.body):
        if stmt.span.file != path or not stmt.span.line or stmt.span in said:
            continue
        said.add(stmt.span)
        around = facts.collective.scope.get(stmt)
        who = CPU if around is None else executors(around)
        match stmt:
            case Fence() | Arrive() | Await():
                why = _why(stmt, needs.get(stmt.span, ()), verdict)
                yield Hover(place_of(stmt.span), f"{why}\n\nExecuted by {who}.")
            case CallInstr():
                yield Hover(place_of(stmt.span), f"{contract(stmt.instr)}\n\nExecuted by {who}.")
            case For() | Warps() | DeviceFunction():
                inner = facts.collective.inner.get(stmt)
                yield Hover(
                    _line(stmt.span), _scope(stmt, who if inner is None else executors(inner))
                )
            case _:
                pass


def _scope(stmt: For | Warps | DeviceFunction, who: str) -> str:
    if isinstance(stmt, For) and isinstance(stmt.mode, CudaThreads):
        return f"Divides the threads by `{stmt.mode.unit.name}`: an iteration is executed by {who}."
    return f"Executed by {who}."


def _line(span: Span) -> Place:
    """The first line of a block."""
    return span.line, span.column, span.line, len(span.text) + 1


# --- why a statement is needed ------------------------------------------------------------------


def _needs(procedure: Procedure, verdict: Verdict) -> Mapping[Span, tuple[Row, ...]]:
    """By statement, the obligations that hold because of it."""
    if verdict.proof is None:
        return {}
    source = source_of(procedure.facts.proc)
    found: dict[Span, dict[int, Row]] = {}
    rows = rows_of(verdict.proof, (), source)
    for row, answered in zip(rows, verdict.proof.answered, strict=True):
        if row.kind not in ALONE:
            for span in _spans_of(answered):
                found.setdefault(span, {})[row.number] = row
    return {span: tuple(one.values()) for span, one in found.items()}


def _spans_of(answered: Answered) -> Iterator[Span]:
    obligation = answered.obligation
    yield from (site.span for site in (obligation.first, obligation.second) if site is not None)
    yield from (link.span for chain in obligation.chains for link in chain)


def _why(stmt: Fence | Arrive | Await, rows: tuple[Row, ...], verdict: Verdict) -> str:
    if rows:
        many = f"Needed by {len(rows)} obligation{'s' if len(rows) > 1 else ''}:"
        lines = [f"- **{row.kind}** {row.variable}: {pair_text(row)}. {row.plain}" for row in rows]
        left = [f"- and {len(rows) - SHOWN} more"] if len(rows) > SHOWN else []
        return "\n".join((many, "", *lines[:SHOWN], *left))
    if verdict.proof is None:
        return "Only a proof for all sizes tells what needs it."
    if isinstance(stmt, Fence):
        return "Redundant: no obligation of the proof needs it."
    return "No obligation's chain passes it; it counts for the other uses of its barrier."
