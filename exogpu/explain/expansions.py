"""An edit of a statement that stands in the program several times: a macro that is read twice.

What changes the source there changes it in each place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from exogpu.amir.nodes import Arrive, Block, Guard, Loop, Op, Program
from exogpu.explain.edits import Between, Edit, Moved, NewAwait

Of = TypeVar("Of", bound=Op)


def each_place(program: Program, edit: Edit) -> tuple[Edit, ...]:
    """The edit in each place in which its statements stand; alone where they stand in one, or
    where it is not known which of them belong together."""
    match edit:
        case Moved(op, to, after):
            moved, places = alike(program, op), alike(program, to)
            if len(moved) == len(places) > 1:
                pairs = zip(moved, places, strict=True)
                return tuple(Moved(one, place, after) for one, place in pairs)
        case Between(violation) if violation.record is not None:
            checks, records = alike(program, violation.check), alike(program, violation.record)
            # Two readings of one statement are no pair of statements that is read twice.
            apart = violation.check.origin.span != violation.record.origin.span
            if apart and len(checks) == len(records) > 1:
                return tuple(
                    replace(edit, violation=replace(violation, check=check, record=record))
                    for check, record in zip(checks, records, strict=True)
                )
        case NewAwait(op, barrier) if isinstance(op, Arrive) and barrier is op.home:
            return tuple(replace(edit, op=one, barrier=one.home) for one in alike(program, op))
        case _:
            pass
    return (edit,)


def alike(program: Program, op: Of) -> list[Of]:
    """An operation of each statement that was written where this one was, in program order: of
    its own statement the operation itself, of others the first of its kind."""
    found: list[Of] = []

    def visit(block: Block) -> None:
        before: Op | None = None
        for one in block:
            starts = before is None or before.origin != one.origin
            if isinstance(one, type(op)) and one.origin.span == op.origin.span:
                if one is op and not starts and found and found[-1].origin == op.origin:
                    found[-1] = one
                elif starts or not found or found[-1].origin != one.origin:
                    found.append(one)
            if isinstance(one, Loop | Guard):
                visit(one.body)
            before = one

    visit(program.body)
    return found
