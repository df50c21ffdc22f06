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
from exogpu.explain.balance_repairs import multicast_targets
from exogpu.explain.patch import changes
from exogpu.ir import nodes as ir
from exogpu.ir.render import access as access_text
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
    later: tuple[edits.Repair, ...] = ()
    if violation.kind in ORDERED and isinstance(violation.record, amir.Record):
        later = tuple(_later_arrives(violation.record, program))
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
    further = tuple(_multicasts(program)) if violation.kind is not HazardKind.BARRIER else ()
    return (*later[:MOST], *outward[:MOST], *further[:MOST])


def _multicasts(program: amir.Program) -> Iterator[edits.Repair]:
    """The Arrives of one CTA of a cluster that may be for all of them."""
    for op in operations(program.body):
        if not isinstance(op, amir.Arrive) or len(op.targets) > 1 or op.origin.threads is None:
            continue
        variable = next(v for v in program.variables if v.name is op.home.name)
        mbarrier = variable.mechanism is BarrierMechanism.MBARRIER
        targets = multicast_targets(program, op.home)
        if op.origin.threads.cluster_dim > 1 and mbarrier and targets:
            text = f"let the Arrive at line {op.origin.span.line} signal every CTA's element"
            said = "".join(f" >> {access_text(one, lambda name: name.name)}" for one in targets)
            yield edits.Repair(f"{text}:{said}", edits.MulticastTo(op, targets))


def late_arrives(violation: Violation, program: amir.Program | None) -> tuple[edits.Repair, ...]:
    """Lists the Arrives that may come after what they are for: where a read finds no value, after
    a write of the variable, or after the read itself."""
    if program is None or not isinstance(violation.check, amir.CheckInitialised):
        return ()
    name = violation.check.access.name
    accesses = {
        op.origin.span: op
        for op in operations(program.body)
        if isinstance(op, amir.Record) and op.access.name is name
    }
    found = (repair for op in accesses.values() for repair in _later_arrives(op, program))
    return tuple(dict.fromkeys(found))[:MOST]


def _later_arrives(record: amir.Record, program: amir.Program) -> Iterator[edits.Repair]:
    """An Arrive that stands before an access, after the outermost loop that is not around both."""
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
            alone = all(stmt is holder.body[0] or isinstance(stmt, ir.Free) for stmt in holder.body)
            return alone or any(isinstance(stmt, ir.Warps) for stmt in around)
        case _:
            return False


def _holder_words(holder: ir.Stmt) -> str:
    kind = "if" if isinstance(holder, ir.If) else _header(holder.span)
    return f"the `{kind}` of line {holder.span.line}"


def _header(span: Span) -> str:
    return span.text.strip().removesuffix(":")
