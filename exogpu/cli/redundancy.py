"""`exogpu check --redundant`: the synchronisation that a procedure does not need."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from exogpu.analysis.all_facts import facts_of
from exogpu.analysis.facts import Facts
from exogpu.api import Procedure
from exogpu.cli.files import Unit
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.diagnostics.verdict import Policy, Proof, Redundancy, Verdict
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir import nodes
from exogpu.ir.types import Sym
from exogpu.ir.walk import accesses, map_blocks, walk
from exogpu.machine import fast
from exogpu.report.obligation_rows import rows_of, uses_of
from exogpu.report.render_verdict import console
from exogpu.report.report_data import Mark, Place, Row, Use
from exogpu.report.source_view import source_of
from exogpu.report.theorem import badge
from exogpu.solvers.processes import Limits, Stopped, Tell, isolated, stage
from exogpu.symbolic.prove import prove
from exogpu.symbolic.search.redundant_synchronisation import NothingFound, Proved, redundant

# Compares emitted kernels with and without a synchronisation statement.

Code: TypeAlias = tuple[str, ...]
"""Lines of kernels, without comments."""


def ranked(procedure: Procedure, found: tuple[Redundancy, ...]) -> tuple[Redundancy, ...]:
    """Returns the changes that can be written down, those that save most first.

    A procedure without this statement, or with the weaker one, may be ill-formed, or have no
    lowering where the procedure itself has one.
    """
    proc = procedure.facts.proc
    before = _code(procedure.facts)
    judged = (_confirm_redundancy(proc, before, one) for one in found)
    known = [one for one in judged if one is not None]
    return tuple(sorted(known, key=lambda one: -len(one.saves or ())))


def _confirm_redundancy(
    proc: nodes.Proc, before: Code | None, one: Redundancy
) -> Redundancy | None:
    edited, _ = facts_of(_edited(proc, one))
    if edited is None:
        return None
    if before is None:
        return one
    after = _code(edited)
    if after is None:
        return None
    return replace(one, saves=_removed_lines(before, after))


def _removed_lines(before: Code, after: Code) -> tuple[str, ...]:
    """The lines that go, as many as there are fewer, calls first.

    Numbers are not compared, which move with the layout of memory.
    """
    left = Counter(map(_plain, after))
    gone: list[str] = []
    for line in before:
        left[_plain(line)] -= 1
        if left[_plain(line)] < 0:
            gone.append(line)
    gone.sort(key=lambda line: "(" not in line or line.endswith("{"))
    return tuple(gone[: max(0, len(before) - len(after))])


def _plain(line: str) -> str:
    return re.sub(r"\d+", "#", line)


# --- emitted code -------------------------------------------------------------------------------


def _code(facts: Facts) -> Code | None:
    """The kernels' lines; None where there is no kernel, or no lowering."""
    from exogpu.codegen.host_steps import emit

    for arch in ("sm_90a", "sm_80"):
        try:
            text = emit(facts, arch).source
        except ExoGpuError:
            continue
        _, kernel, body = text.partition('extern "C" __global__')
        lines = (re.sub(r"//.*", "", line).strip() for line in body.splitlines())
        return tuple(line for line in lines if line) if kernel else None
    return None


# --- the procedure with less synchronisation ----------------------------------------------------


def _edited(proc: nodes.Proc, one: Redundancy) -> nodes.Proc:
    """The procedure with the statements left out, or with the weaker timeline."""

    def change(stmt: nodes.Stmt) -> nodes.Stmt:
        if (
            not isinstance(stmt, nodes.Fence | nodes.Arrive | nodes.Await)
            or stmt.span not in one.spans
        ):
            return stmt
        return nodes.Pass(span=stmt.span) if one.kind == "delete" else _weaker(stmt, one)

    edited = _mapped(proc, change)
    unused = _barriers(proc) - _barriers(edited)

    def declared(stmt: nodes.Stmt) -> nodes.Stmt:
        match stmt:
            case nodes.BarrierAlloc() | nodes.Free() if stmt.name in unused:
                return nodes.Pass(span=stmt.span)
            case nodes.BarrierAlloc() if stmt.guard in unused:
                return replace(stmt, guard=None)
            case _:
                return stmt

    return _mapped(edited, declared) if unused else edited


def _mapped(proc: nodes.Proc, change: Callable[[nodes.Stmt], nodes.Stmt]) -> nodes.Proc:
    def block(body: nodes.Block) -> nodes.Block:
        return tuple(change(map_blocks(stmt, block)) for stmt in body)

    return replace(proc, body=block(proc.body))


def _weaker(stmt: nodes.Fence | nodes.Arrive | nodes.Await, one: Redundancy) -> nodes.Stmt:
    row = SYNC_TIMELINES[one.timeline]
    match stmt:
        case nodes.Fence():
            return replace(stmt, pre=row) if one.side == "pre" else replace(stmt, post=row)
        case nodes.Arrive() | nodes.Await():
            return replace(stmt, timeline=row)


def _barriers(proc: nodes.Proc) -> frozenset[Sym]:
    """The barrier variables that some statement signals or waits for."""
    used: set[Sym] = set()
    for stmt in walk(proc.body):
        if isinstance(stmt, nodes.Arrive | nodes.Await):
            used |= {access.name for access in accesses(stmt)}
        elif isinstance(stmt, nodes.CallInstr) and stmt.trailing is not None:
            used.add(stmt.trailing.name)
    return frozenset(used)


@dataclass(frozen=True, slots=True)
class Tried:
    """The number of statements looked at."""

    count: int
    of: int


def with_redundant(verdict: Verdict, procedure: Procedure, limits: Limits, bar: bool) -> Verdict:
    """The verdict with what can be left out or weakened, at its sizes or for all.

    Unchanged where the procedure itself is not found to be right, or the limits ran out.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}"))
    with ExitStack() as stack:
        shown = Progress(*columns, console=console(stderr=True), transient=True) if bar else None
        if shown is not None:
            stack.enter_context(shown)
            task = shown.add_task("redundant synchronisation", total=None)

        def show_progress(tried: object) -> None:
            if shown is not None and isinstance(tried, Tried):
                shown.update(task, completed=tried.count, total=tried.of)

        def work(tell: Tell) -> tuple[Redundancy, ...] | None:
            stage("looking for synchronisation that is not needed")
            program, proved = procedure.amir(verdict.policy), _question(verdict)
            if not proved(program):
                return None
            found = redundant(program, proved, lambda count, of: tell(Tried(count, of)))
            return ranked(procedure, found)

        found = isolated(work, limits, show_progress)
    return verdict if isinstance(found, Stopped) else replace(verdict, redundant=found)


def _question(verdict: Verdict) -> Proved:
    """Returns the test for a program with less synchronisation: it must satisfy as much as the
    verdict says."""
    sizes = verdict.sizes
    if sizes is not None:
        return lambda program: not fast.run(program, sizes, locate=False).violations
    if verdict.word == "proved":
        return NothingFound(lambda findings: isinstance(prove(findings), Proof))
    return NothingFound()


# Explains the need for a synchronisation statement: the obligations whose chains pass it.

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
        elif _is_at_line(unit, here, line):
            raise ExoGpuError(here)
        wrong += here
    if not found:
        raise ExoGpuError(wrong)
    return found


def _is_at_line(unit: Unit, wrong: tuple[Diagnostic, ...], line: int) -> bool:
    """Tests whether a line is one of an ill-formed procedure, as far as that could be read."""
    ir = None if unit.procedure is None else unit.procedure.ir
    whole = () if ir is None else (ir.span,)
    spans = (*whole, *(diagnostic.span for diagnostic in wrong))
    return any(span.line <= line <= span.end_line for span in spans)


def explain_lines(
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
        raise ExoGpuError([_no_statement(line, known)])


def _no_statement(line: int, known: set[int]) -> Diagnostic:
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
