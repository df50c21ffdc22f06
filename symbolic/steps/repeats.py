"""Obligations on what is computed once more: it was computed before, and has not changed since."""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.ir.nodes import BExpr
from exogpu.ir.walk import substitute_bool
from exogpu.symbolic.encode.formulas import every, opposite, some
from exogpu.symbolic.steps.instances import (
    Instance,
    Question,
    earlier,
    element,
    is_one,
    is_same_access,
    moment,
    original,
    same_element,
    was_access,
)
from exogpu.symbolic.steps.record import Image
from exogpu.symbolic.steps.step import Draft, Step, named_instance


def repeated(step: Step) -> Iterator[Draft]:
    """The old statement's image, which is where the witness keeps it, ran before; and no image has
    written since what that one accessed."""
    for image in step.record.again:
        about = (("new", image.new), ("old", image.old))
        said = step.said("new", image.new)
        ask = step.question()
        here = ask.instance(step.new, image.new, "again")
        was = original(step.old, image, here)
        time = moment(here, here.statement.write)
        ways = [
            every([where, earlier(moment(by, by.statement.write), time)])
            for where, by in _new_places(step, image, was)
        ]
        claim = f"What {said} computes was computed before."
        fails = every([is_one(step.old, image, here), opposite(some(ways))])
        yield Draft("AGAIN", about, claim, ask.expose([fails], claim))
        ask = step.question()
        claim = f"What {said} computes has not changed since."
        yield Draft("AGAIN", about, claim, ask.expose([*_changed(step, image, ask)], claim))


def _new_places(step: Step, image: Image, was: Instance) -> Iterator[tuple[BExpr, Instance]]:
    """Yields the new places of an old instance, in pieces."""
    for piece in step.witness.kept.get(image.old, ()):
        by = named_instance(step.new, piece.at, was.values)
        yield substitute_bool(piece.where, was.values), by


def _changed(step: Step, image: Image, ask: Question) -> Iterator[BExpr]:
    here = ask.instance(step.new, image.new, "again")
    was = original(step.old, image, here)
    for access in here.statement.accesses:
        before = was_access(step.old, image, access)
        for at, (number, other, write) in enumerate(step.originals(before.cell.variable)):
            by = ask.instance(step.new, number, f"other{access.number}_{at}")
            written = was_access(step.old, other, write).cell
            time = moment(by, write)
            since = [
                every([where, earlier(moment(first, before), time)])
                for where, first in _new_places(step, image, was)
            ]
            yield every(
                [
                    is_one(step.old, image, here),
                    is_same_access(step.old, other, by, write),
                    same_element(
                        element(original(step.old, other, by), written), element(was, before.cell)
                    ),
                    some(since),
                    earlier(time, moment(here, access)),
                ]
            )
