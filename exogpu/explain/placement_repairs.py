"""Repairs that put an Arrive or an Await where it belongs, and leave the pipeline as it is: an
Arrive that comes before the access, or stands with an Await where only some threads or steps do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations, path_to
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import HazardKind
from exogpu.explain import edits
from exogpu.explain import insertion_points as points
from exogpu.explain.patch import changes
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism
from exogpu.machine.observer import Violation

ORDERED: Final = frozenset({HazardKind.RAW, HazardKind.WAR, HazardKind.WAW, HazardKind.FREE})

MOST: Final = 6
"""Statements that are tried."""


def placement_repairs(
    violation: Violation, program: amir.Program | None
) -> tuple[edits.Repair, ...]:
    """Lists the Arrives that may come after the access, and the statements that more threads or
    steps may execute."""
    if program is None:
        return ()
    ops = {
        op.origin.span: op
        for op in operations(program.body)
        if isinstance(op, amir.Arrive | amir.Await)
    }
    later = tuple(_later_arrives(violation, program)) if violation.kind in ORDERED else ()
    groups = {v.name for v in program.variables if v.mechanism is BarrierMechanism.COMMIT_GROUP}
    drained = {op.barrier.name for op in ops.values() if isinstance(op, amir.Await) and op.n == 0}
    outward = tuple(
        edits.Repair(
            f"let more threads or steps execute line {span.line}",
            edits.Hoisted(op),
            # Further groups have to be waited for at the end, too.
            edits.Cost.DRAINED
            if isinstance(op, amir.Arrive) and op.home.name in groups - drained
            else None,
        )
        for span, op in ops.items()
    )
    return (*later[:MOST], *outward[:MOST])


def _later_arrives(violation: Violation, program: amir.Program) -> Iterator[edits.Repair]:
    """An Arrive that stands before the first access, after the outermost loop that is not around
    both."""
    record = violation.record
    if not isinstance(record, amir.Record):
        return
    there = path_to(program.body, record)
    for op in operations(program.body):
        if op is record:
            return
        if not isinstance(op, amir.Arrive):
            continue
        here = path_to(program.body, op)
        around = {id(outer) for _, outer in here}
        apart = [outer for _, outer in there if id(outer) not in around]
        if len(here) == 1 + len(there) - len(apart) and isinstance(apart[0], amir.Loop):
            text = f"move the Arrive of line {op.origin.span.line} after the access"
            yield edits.Repair(text, edits.Moved(op, apart[0]), edits.Cost.NOTHING)


def hoisted(
    proc: ir.Proc, op: amir.Arrive | amir.Await, repair: edits.Repair
) -> Iterator[points.Rewritten]:
    """An Arrive that ends an `if`, or a part of a role's warps, after it; an Await that begins one
    before it."""
    found = points.paths_to(proc, op.origin.span)
    if len(found) != 1 or len(found[0]) < 3:
        return
    *around, holder, sync = found[0]
    if not _narrows(holder, tuple(around)):
        return
    assert isinstance(holder, ir.If | ir.Warps)
    body = [stmt for stmt in holder.body if not isinstance(stmt, ir.Free)]
    after = isinstance(sync, ir.Arrive)
    if body[-1 if after else 0] is not sync:
        return
    rest = tuple(stmt for stmt in body if stmt is not sync)
    moved = replace(sync)
    held = (replace(holder, body=rest),) if rest else ()
    made = points.rebuilt(proc, {id(holder): (*held, moved) if after else (moved, *held)})
    text = (
        f"move the {type(op).__name__} of line {sync.span.line} out of {_holder_words(holder)}: "
        + (f"to before line {holder.span.line}, " if rest and not after else "")
        + f"indented like that line ({holder.span.column - 1} spaces)"
        + ("" if rest else f", and delete line {holder.span.line}, which then holds nothing")
    )
    yield points.Rewritten(made, text, changes(repair))


def _narrows(holder: ir.Stmt, around: points.Path) -> bool:
    """Returns whether a statement keeps out steps, or some warps of a role."""
    match holder:
        case ir.If():
            return not holder.orelse
        case ir.Warps():
            return any(isinstance(stmt, ir.Warps) for stmt in around)
        case _:
            return False


def _holder_words(holder: ir.Stmt) -> str:
    kind = "if" if isinstance(holder, ir.If) else _header(holder.span)
    return f"the `{kind}` of line {holder.span.line}"


def _header(span: Span) -> str:
    return span.text.strip().removesuffix(":")
