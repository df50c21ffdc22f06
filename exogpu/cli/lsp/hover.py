"""Texts for the place where the pointer rests: the need for a synchronisation statement, the
threads of a scope, the meaning of an instruction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from exogpu.analysis.thread_names import executors
from exogpu.api import Procedure
from exogpu.cli.lsp.documents import summary
from exogpu.cli.lsp.protocol import Hover, Place, place_of
from exogpu.cli.redundancy import SHOWN, pair_text
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.verdict import Answered, Verdict
from exogpu.hw.access_names import CALLED
from exogpu.hw.timelines import SHORT_NAME
from exogpu.ir import nodes as ir
from exogpu.ir import render
from exogpu.ir.render import show
from exogpu.ir.types import AccessMode, Operand
from exogpu.ir.walk import walk
from exogpu.report.obligation_rows import ALONE, rows_of
from exogpu.report.report_data import Row
from exogpu.report.source_view import source_of

# An instruction's contract in Markdown: what it does, who executes it, what operands it takes.

_MODES: Final[Mapping[AccessMode, str]] = {
    AccessMode.READ: "read",
    AccessMode.WRITE: "written",
    AccessMode.READ_WRITE: "read and written",
}


def contract(instr: ir.Instr) -> str:
    """The contract of an instruction with its compile-time parameters."""
    names = ", ".join(param.name.name for param in instr.params)
    constants = ", ".join(f"{name}={_constant(value)}" for name, value in instr.constants)
    lines = [f"**{instr.name}**({names})" + (f" with {constants}" if constants else ""), ""]
    doc = instr.doc.strip().splitlines()
    lines += [*doc[:1], ""] if doc else []
    lines.append(f"- unit: `{instr.unit.name}`" if instr.cuda else "- at CPU scope")
    lines += _operands(instr)
    lines += [f"- requires `{_condition(one)}`" for one in instr.preconditions]
    if instr.trailing is not None:
        must = "must" if instr.trailing_required else "may"
        lines.append(f"- {must} signal a `{instr.trailing.value}` (`>> z[...]`)")
    if instr.arch:
        lines.append(f"- `{instr.arch}` alone")
    return "\n".join(lines)


def _condition(condition: ir.BExpr) -> str:
    return render.condition(condition, lambda name: name.name)


def _constant(value: object) -> str:
    return str(getattr(value, "value", value))


def _operands(instr: ir.Instr) -> Iterator[str]:
    modes = iter(instr.modes)
    for param in instr.params:
        if isinstance(param, ir.DataParam):
            mode = _MODES[next(modes)]
            shape = ", ".join(map(show, param.shape))
            kind = f"{param.dtype.value}[{shape}]" if shape else param.dtype.value
            facts = [f"`{param.name}: {kind} @ {param.memory.name}`", mode]
            facts += [] if param.operand is None else _ordering(param.operand)
            yield f"- {', '.join(facts)}"


def _ordering(operand: Operand) -> Iterator[str]:
    initial = operand.initial
    yield f"as {CALLED[initial].title} ({SHORT_NAME[initial]})"
    if operand.out_of_order:
        yield "in no order with others of its kind"
    place = operand.placement
    if place is not None and place.align > 1:
        yield f"at a multiple of {place.align} bytes"
    if operand.clipped:
        yield "clipped at the tensor's end"


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
            case ir.Fence() | ir.Arrive() | ir.Await():
                why = _purpose(stmt, needs.get(stmt.span, ()), verdict)
                yield Hover(place_of(stmt.span), f"{why}\n\nExecuted by {who}.")
            case ir.CallInstr():
                yield Hover(place_of(stmt.span), f"{contract(stmt.instr)}\n\nExecuted by {who}.")
            case ir.For() | ir.Warps() | ir.DeviceFunction():
                inner = facts.collective.inner.get(stmt)
                yield Hover(
                    _line(stmt.span), _scope(stmt, who if inner is None else executors(inner))
                )
            case _:
                pass


def _scope(stmt: ir.For | ir.Warps | ir.DeviceFunction, who: str) -> str:
    if isinstance(stmt, ir.For) and isinstance(stmt.mode, ir.CudaThreads):
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


def _purpose(stmt: ir.Fence | ir.Arrive | ir.Await, rows: tuple[Row, ...], verdict: Verdict) -> str:
    if rows:
        many = f"Needed by {len(rows)} obligation{'s' if len(rows) > 1 else ''}:"
        lines = [f"- **{row.kind}** {row.variable}: {pair_text(row)}. {row.plain}" for row in rows]
        left = [f"- and {len(rows) - SHOWN} more"] if len(rows) > SHOWN else []
        return "\n".join((many, "", *lines[:SHOWN], *left))
    if verdict.proof is None:
        return "Only a proof for all sizes tells what needs it."
    if isinstance(stmt, ir.Fence):
        return "Redundant: no obligation of the proof needs it."
    return "No obligation's chain passes it; it counts for the other uses of its barrier."
