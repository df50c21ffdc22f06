"""Repairs of a read of what nothing has written: the slot that was filled in the place of another,
or zeros where the `if` around a write does not hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations, path_to
from exogpu.explain import edits
from exogpu.explain import insertion_points as points
from exogpu.explain.patch import reindexed_ring
from exogpu.explain.ring_repairs import with_accesses, with_index
from exogpu.ir import nodes as ir
from exogpu.ir.render import access as access_text
from exogpu.ir.render import control
from exogpu.ir.types import FLOATS, DataType, Sym
from exogpu.ir.walk import accesses, declarations
from exogpu.machine.observer import Violation

SLOTS: Final = 8
"""Slots of a ring of which another one is tried."""


def value_repairs(violation: Violation, program: amir.Program | None) -> tuple[edits.Repair, ...]:
    """Lists other slots for the reads and the writes of a ring, and the guarded writes that may
    fill the rest."""
    check = violation.check
    if program is None or not isinstance(check, amir.CheckInitialised):
        return ()
    writes = {
        op.origin.span: op
        for op in operations(program.body)
        if isinstance(op, amir.Record) and op.mutate and op.access.name is check.access.name
    }
    guarded = [op for op in writes.values() if _is_guarded(program, op)]
    fills = (edits.Repair("fill what a guard leaves out", edits.Filled(op)) for op in guarded)
    slots = (_other_slots(one) for one in (check.access, *(op.access for op in writes.values())))
    return tuple(dict.fromkeys((*(repair for some in slots for repair in some), *fills)))


def _is_guarded(program: amir.Program, op: amir.Record) -> bool:
    return any(isinstance(one, amir.Guard) for _, one in path_to(program.body, op))


def _other_slots(access: ir.Access) -> Iterator[edits.Repair]:
    """The other slots that an access may have, without a distance first."""
    for at, coord in enumerate(access.coords):
        match coord:
            case ir.Point(ir.Mod(divisor=slots)) if slots <= SLOTS:
                for shift in range(slots):
                    edit = edits.Reindexed(access.name, at, _text(coord.at), shift)
                    yield edits.Repair("another slot of the ring", edit)
            case _:
                pass


def _text(expr: ir.CExpr) -> str:
    return control(expr, lambda name: name.name)


# --- another slot -------------------------------------------------------------------------------


def reindexed_slots(proc: ir.Proc, edit: edits.Reindexed) -> Iterator[points.Rewritten]:
    """The accesses that have this index with another slot of the ring."""
    at, new = edit.dimension, ""
    anew: dict[int, tuple[ir.Stmt, ...]] = {}

    def change(access: ir.Access) -> ir.Access:
        nonlocal new
        slot = _shifted(access, edit)
        if slot is None:
            return access
        new = _text(slot)
        return with_index(access, at, slot)

    for path in points.paths(proc.body):
        if any(_shifted(access, edit) is not None for access in accesses(path[-1])):
            anew[id(path[-1])] = (with_accesses(path[-1], change),)
    declared = _declaration(proc, edit.name)
    if not new or new == edit.old or declared is None:
        return
    try:
        found = tuple(reindexed_ring(declared.span, edit.name.name, at, edit.old, new))
    except (ValueError, IndexError, SyntaxError):
        return
    if not found:
        return
    lines = sorted({one.span.line for one in found})
    where = f"line{'s' if lines[1:] else ''} {' and '.join(map(str, lines))}"
    text = (
        f"index {edit.name} by {new} at {where}, in the place of {edit.old}: what is read is then "
        "what was written"
    )
    yield points.Rewritten(points.rebuilt(proc, anew), text, (found,))


def _shifted(access: ir.Access, edit: edits.Reindexed) -> ir.Mod | None:
    """The other slot of an access; None if it does not have the index."""
    if access.name is not edit.name or edit.dimension >= len(access.coords):
        return None
    match access.coords[edit.dimension]:
        case ir.Point(ir.Mod(term, slots) as old) if _text(old) == edit.old:
            base = without_constant(term)
            moved = ir.Add(base, ir.Int(edit.shift)) if edit.shift else base
            return ir.Mod(moved, slots)
        case _:
            return None


def without_constant(term: ir.CExpr) -> ir.CExpr:
    match term:
        case ir.Add(rest, ir.Int()) | ir.Sub(rest, ir.Int()) | ir.Add(ir.Int(), rest):
            return rest
        case _:
            return term


def _declaration(proc: ir.Proc, name: Sym) -> ir.Alloc | None:
    stmts = (path[-1] for path in points.paths(proc.body))
    return next((s for s in stmts if isinstance(s, ir.Alloc) and s.name is name), None)


# --- what a guard leaves out --------------------------------------------------------------------


def filled(proc: ir.Proc, record: amir.Record) -> Iterator[points.Rewritten]:
    """Zeros in what a write leaves out, after the `if` around it."""
    found = points.paths_to(proc, record.origin.span)
    if len(found) != 1 or not isinstance(write := found[0][-1], ir.Assign):
        return
    at = next((n for n, s in reversed([*enumerate(found[0])]) if isinstance(s, ir.If)), None)
    if at is None or not isinstance(guard := found[0][at], ir.If) or guard.orelse:
        return
    if found[0][at + 1 : -1]:
        return  # a loop inside of it would have to be written once more
    zeros, target = zeros_for(proc, write)
    full = ir.If(guard.condition, guard.body, (zeros,), span=guard.span)
    gap = points.Gap(guard, True, found[0][:at])
    change = points.pasted(gap, "else:", f"    {target}")
    last = max(guard.span.line, guard.span.end_line)
    text = (
        f"fill what the `if` of line {guard.span.line} leaves out: add "
        f"`else: {target}` after line {last}, indented like line {guard.span.line} "
        f"({guard.span.column - 1} spaces), or another value that leaves the result as it is; or "
        "read under the same condition"
    )
    changes = () if change is None else ((change,),)
    yield points.Rewritten(points.rebuilt(proc, {id(guard): (full,)}), text, changes)


def zeros_for(proc: ir.Proc, write: ir.Assign) -> tuple[ir.Assign, str]:
    """The assignment of zero to what another writes, and its text."""
    declared = declarations(proc).get(write.target.name)
    integer = getattr(declared, "dtype", DataType.F32) not in FLOATS
    zeros = ir.Assign(write.target, ir.Const(0 if integer else 0.0), span=write.span)
    return zeros, f"{access_text(write.target, lambda name: name.name)} = {0 if integer else 0.0}"
