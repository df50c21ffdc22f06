"""Obligations on instances: each old one has one image, and lost results are not read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement

from exogpu.ir.nodes import BExpr
from exogpu.ir.walk import substitute_bool
from exogpu.symbolic.encode.formulas import TRUE, every, opposite, some
from exogpu.symbolic.steps.instances import (
    Instance,
    Question,
    earlier,
    element,
    happens,
    inside,
    is_one,
    is_same_access,
    moment,
    original,
    same_element,
)
from exogpu.symbolic.steps.record import Image
from exogpu.symbolic.steps.step import Draft, Step, named_instance
from exogpu.symbolic.steps.witness import At


def twice(step: Step) -> Iterator[Draft]:
    """No old instance has two images, and no new one is the image of two."""
    for old, images in step.by_old.items():
        for one, other in combinations_with_replacement(images, 2):
            ask = step.question()
            first = ask.instance(step.new, one.new, "first")
            second = ask.instance(step.new, other.new, "second")
            was, is_ = original(step.old, one, first), original(step.old, other, second)
            parts = [
                is_one(step.old, one, first),
                is_one(step.old, other, second),
                same_element(was.at, is_.at),
            ]
            if one.new == other.new:
                parts.append(opposite(same_element(first.at, second.at)))
            claim = f"No instance of {step.said('old', old)} runs twice."
            yield Draft("TWICE", (("old", old),), claim, ask.expose([every(parts)], claim))
    for new, images in step.by_new.items():
        for one, other in combinations(images, 2):
            ask = step.question()
            here = ask.instance(step.new, new, "here")
            parts = [is_one(step.old, one, here), is_one(step.old, other, here)]
            if one.old == other.old:
                was, is_ = original(step.old, one, here), original(step.old, other, here)
                parts.append(opposite(same_element(was.at, is_.at)))
            claim = f"No instance of {step.said('new', new)} stands for two."
            yield Draft("TWICE", (("new", new),), claim, ask.expose([every(parts)], claim))


def kept(step: Step) -> Iterator[Draft]:
    """Drafts the obligation that each old statement said to be kept is a new one."""
    for old, pieces in step.witness.kept.items():
        access = step.old.statements[old].write
        if not step.counts(access):
            continue
        for piece in pieces:
            ask = step.question()
            was = ask.instance(step.old, old, "old")
            now = named_instance(step.new, piece.at, was.values)
            ways = [_is_kept_by(step, image, now, was) for image in step.by_new[piece.at.statement]]
            parts = [
                happens(was, access),
                substitute_bool(piece.where, was.values),
                opposite(some(ways)),
            ]
            claim = (
                f"{step.said('old', old)} is {step.said('new', piece.at.statement)}, "
                "where it is said to be."
            )
            about = (("old", old), ("new", piece.at.statement))
            yield Draft("KEPT", about, claim, ask.expose([every(parts)], claim))


def _is_kept_by(step: Step, image: Image, now: Instance, was: Instance) -> BExpr:
    if image.old != was.number:
        return opposite(TRUE)
    write = now.statement.write
    there = original(step.old, image, now)
    return every([is_same_access(step.old, image, now, write), same_element(there.at, was.at)])


def _kept_where(step: Step, was: Instance) -> BExpr:
    """Returns the condition under which the witness keeps an old instance."""
    pieces = step.witness.kept.get(was.number, ())
    return some(substitute_bool(piece.where, was.values) for piece in pieces)


def lost(step: Step) -> Iterator[Draft]:
    """An old write that is not kept is overwritten by one that is, before it is read."""
    for number, statement in enumerate(step.old.statements):
        write = statement.write
        if not step.counts(write):
            continue
        said = step.said("old", number)
        over = step.witness.overwritten.get(number)
        if over is None:
            ask = step.question()
            claim = f"Every instance of {said} has an image."
            parts = _gone(step, ask, number)[1]
            yield Draft("LOST", (("old", number),), claim, ask.expose([every(parts)], claim))
            continue
        variable = step.old.by_name[write.cell.variable]
        for image in step.images:
            for access, was in step.pairs(image):
                if was.writes or was.cell.variable != variable.name:
                    continue
                ask = step.question()
                gone, parts = _gone(step, ask, number)
                now = ask.instance(step.new, image.new, "seen")
                seen = original(step.old, image, now)
                before, after = moment(gone, write), moment(seen, was)
                cell = element(gone, write.cell)
                parts += [
                    is_same_access(step.old, image, now, access),
                    same_element(cell, element(seen, was.cell)),
                    earlier(before, after),
                ]
                ways = [
                    every([way, earlier(moment(by, by.statement.write), after)])
                    for by, way in _overwriting(step, gone, over)
                ]
                claim = (
                    f"What {said} writes, where it is lost, {step.said('old', image.old)} "
                    "does not read."
                )
                fails = every([*parts, opposite(some(ways))])
                about = (("old", number), ("old", image.old))
                yield Draft("LOST", about, claim, ask.expose([fails], claim))
        if variable.is_param:
            ask = step.question()
            gone, parts = _gone(step, ask, number)
            ways = [way for _, way in _overwriting(step, gone, over)]
            claim = f"What {said} writes, where it is lost, is not left at the end."
            fails = every([*parts, opposite(some(ways))])
            yield Draft("LOST", (("old", number),), claim, ask.expose([fails], claim))


def _gone(step: Step, ask: Question, number: int) -> tuple[Instance, list[BExpr]]:
    gone = ask.instance(step.old, number, "lost")
    return gone, [happens(gone, gone.statement.write), opposite(_kept_where(step, gone))]


def _overwriting(
    step: Step, gone: Instance, over: tuple[At, ...]
) -> Iterator[tuple[Instance, BExpr]]:
    """Instances that write the element of another later, and are kept."""
    write = gone.statement.write
    for at in over:
        by = named_instance(step.old, at, gone.values)
        own = by.statement.write
        if by.statement.kind != "=" or own.cell.variable != write.cell.variable:
            continue
        yield (
            by,
            every(
                [
                    happens(by, own),
                    _kept_where(step, by),
                    same_element(element(gone, write.cell), element(by, own.cell)),
                    earlier(moment(gone, write), moment(by, own)),
                ]
            ),
        )


# --- accesses -----------------------------------------------------------------------------------


def clips(step: Step) -> Iterator[Draft]:
    """Drafts the obligation that reads outside of a clipped operand, now zero, were zero before."""
    for image in step.images:
        ask = step.question()
        now = ask.instance(step.new, image.new, "here")
        was = original(step.old, image, now)
        odd = []
        for access, before in step.pairs(image):
            if access.writes or not (access.cell.within or before.cell.within):
                continue
            new, old = now.holds(access.cell.within), was.holds(before.cell.within)
            odd += [every([new, opposite(old)]), every([old, opposite(new)])]
        if odd:
            known = is_one(step.old, image, now)
            claim = f"{step.said('new', image.new)} reads zero where it did."
            script = ask.expose([every([known, one]) for one in odd], claim)
            yield Draft("CLIP", (("new", image.new),), claim, script)


def bounds(step: Step) -> Iterator[Draft]:
    """Every element that is accessed lies inside its variable."""
    for number, statement in enumerate(step.new.statements):
        ask = step.question()
        here = ask.instance(step.new, number, "here")
        outside = []
        for access in statement.accesses:
            if step.counts(access):
                variable = step.new.by_name[access.cell.variable]
                within = inside(variable, element(here, access.cell), here.values)
                outside.append(every([happens(here, access), opposite(within)]))
        if outside:
            claim = f"Every element that {step.said('new', number)} accesses is in its variable."
            script = ask.expose(outside, claim)
            yield Draft("BOUNDS", (("new", number),), claim, script)
