"""Obligations on instances: each old one has one image, and lost results are not read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, count

from exogpu.ir.nodes import BExpr
from exogpu.ir.scalars import DIVISIONS, INTEGERS, Constant, Convert, Operation
from exogpu.ir.walk import substitute_bool
from exogpu.symbolic.encode.formulas import TRUE, conjunction_of, disjunction_of, opposite
from exogpu.symbolic.steps import record
from exogpu.symbolic.steps.same_value import meaning
from exogpu.symbolic.steps.step import Draft, Step, named_instance
from exogpu.symbolic.steps.step_witness import At


def twice(step: Step) -> Iterator[Draft]:
    """No old instance has two images, and no new one is the image of two."""
    for old, images in step.by_old.items():
        for one, other in combinations_with_replacement(images, 2):
            ask = step.question()
            first = ask.instance(step.new, one.new, "first")
            second = ask.instance(step.new, other.new, "second")
            was, is_ = (
                record.original(step.old, one, first),
                record.original(step.old, other, second),
            )
            parts = [
                record.is_one(step.old, one, first),
                record.is_one(step.old, other, second),
                record.same_element(was.iterator_values, is_.iterator_values),
            ]
            if one.new == other.new:
                parts.append(
                    opposite(record.same_element(first.iterator_values, second.iterator_values))
                )
            claim = f"No instance of {step.describe('old', old)} runs twice."
            yield Draft("TWICE", (("old", old),), claim, ask.expose([conjunction_of(parts)], claim))
    for new, images in step.by_new.items():
        for one, other in combinations(images, 2):
            ask = step.question()
            here = ask.instance(step.new, new, "here")
            parts = [record.is_one(step.old, one, here), record.is_one(step.old, other, here)]
            if one.old == other.old:
                was, is_ = (
                    record.original(step.old, one, here),
                    record.original(step.old, other, here),
                )
                parts.append(
                    opposite(record.same_element(was.iterator_values, is_.iterator_values))
                )
            claim = f"No instance of {step.describe('new', new)} stands for two."
            yield Draft("TWICE", (("new", new),), claim, ask.expose([conjunction_of(parts)], claim))


def draft_exact_images(step: Step) -> Iterator[Draft]:
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
                record.happens(was, access),
                substitute_bool(piece.where, was.values),
                opposite(disjunction_of(ways)),
            ]
            claim = (
                f"{step.describe('old', old)} is {step.describe('new', piece.at.statement)}, "
                "where it is said to be."
            )
            about = (("old", old), ("new", piece.at.statement))
            yield Draft("KEPT", about, claim, ask.expose([conjunction_of(parts)], claim))


def _is_kept_by(
    step: Step, image: record.Image, now: record.Instance, was: record.Instance
) -> BExpr:
    if image.old != was.number:
        return opposite(TRUE)
    write = now.statement.write
    there = record.original(step.old, image, now)
    return conjunction_of(
        [
            record.is_same_access(step.old, image, now, write),
            record.same_element(there.iterator_values, was.iterator_values),
        ]
    )


def _kept_where(step: Step, was: record.Instance) -> BExpr:
    """Returns the condition under which the witness keeps an old instance."""
    pieces = step.witness.kept.get(was.number, ())
    return disjunction_of(substitute_bool(piece.where, was.values) for piece in pieces)


def lost(step: Step) -> Iterator[Draft]:
    """An old write that is not kept is overwritten by one that is, before it is read."""
    for number, statement in enumerate(step.old.statements):
        write = statement.write
        if not step.counts(write):
            continue
        said = step.describe("old", number)
        over = step.witness.overwritten.get(number)
        if over is None:
            ask = step.question()
            claim = f"Every instance of {said} has an image."
            parts = _lost_instance(step, ask, number)[1]
            yield Draft(
                "LOST", (("old", number),), claim, ask.expose([conjunction_of(parts)], claim)
            )
            continue
        variable = step.old.by_name[write.cell.variable]
        for image in step.images:
            for access, was in step.pairs(image):
                if was.writes or was.cell.variable != variable.name:
                    continue
                ask = step.question()
                gone, parts = _lost_instance(step, ask, number)
                now = ask.instance(step.new, image.new, "seen")
                seen = record.original(step.old, image, now)
                before, after = record.moment(gone, write), record.moment(seen, was)
                cell = record.element(gone, write.cell)
                parts += [
                    record.is_same_access(step.old, image, now, access),
                    record.same_element(cell, record.element(seen, was.cell)),
                    record.earlier(before, after),
                ]
                ways = [
                    conjunction_of(
                        [way, record.earlier(record.moment(by, by.statement.write), after)]
                    )
                    for by, way in _overwriting(step, gone, over)
                ]
                claim = (
                    f"What {said} writes, where it is lost, {step.describe('old', image.old)} "
                    "does not read."
                )
                fails = conjunction_of([*parts, opposite(disjunction_of(ways))])
                about = (("old", number), ("old", image.old))
                yield Draft("LOST", about, claim, ask.expose([fails], claim))
        if variable.is_param:
            ask = step.question()
            gone, parts = _lost_instance(step, ask, number)
            ways = [way for _, way in _overwriting(step, gone, over)]
            claim = f"What {said} writes, where it is lost, is not left at the end."
            fails = conjunction_of([*parts, opposite(disjunction_of(ways))])
            yield Draft("LOST", (("old", number),), claim, ask.expose([fails], claim))


def _lost_instance(
    step: Step, ask: record.Question, number: int
) -> tuple[record.Instance, list[BExpr]]:
    gone = ask.instance(step.old, number, "lost")
    return gone, [record.happens(gone, gone.statement.write), opposite(_kept_where(step, gone))]


def _overwriting(
    step: Step, gone: record.Instance, over: tuple[At, ...]
) -> Iterator[tuple[record.Instance, BExpr]]:
    """Instances that write the element of another later, and are kept."""
    write = gone.statement.write
    for at in over:
        by = named_instance(step.old, at, gone.values)
        own = by.statement.write
        if by.statement.kind != "=" or own.cell.variable != write.cell.variable:
            continue
        yield (
            by,
            conjunction_of(
                [
                    record.happens(by, own),
                    _kept_where(step, by),
                    record.same_element(
                        record.element(gone, write.cell), record.element(by, own.cell)
                    ),
                    record.earlier(record.moment(gone, write), record.moment(by, own)),
                ]
            ),
        )


# --- accesses -----------------------------------------------------------------------------------


def clips(step: Step) -> Iterator[Draft]:
    """Drafts the obligation that reads outside of a clipped operand, now zero, were zero before."""
    for image in step.images:
        ask = step.question()
        now = ask.instance(step.new, image.new, "here")
        was = record.original(step.old, image, now)
        odd = []
        for access, before in step.pairs(image):
            if access.writes or not (access.cell.within or before.cell.within):
                continue
            new, old = now.holds(access.cell.within), was.holds(before.cell.within)
            odd += [conjunction_of([new, opposite(old)]), conjunction_of([old, opposite(new)])]
        if odd:
            known = record.is_one(step.old, image, now)
            claim = f"{step.describe('new', image.new)} reads zero where it did."
            script = ask.expose([conjunction_of([known, one]) for one in odd], claim)
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
                within = record.lies_in_variable(
                    variable, record.element(here, access.cell), here.values
                )
                outside.append(conjunction_of([record.happens(here, access), opposite(within)]))
        if outside:
            claim = (
                f"Every element that {step.describe('new', number)} accesses is in its variable."
            )
            script = ask.expose(outside, claim)
            yield Draft("BOUNDS", (("new", number),), claim, script)


# Obligations on integers that are divided: by zero the result is no value at all.


def draft_divisions(step: Step) -> Iterator[Draft]:
    """Integers are divided only where they were: each such instance is an old one."""
    for number, statement in enumerate(step.new.statements):
        if not any(map(step.counts, statement.accesses)) or not divides(step.new, statement):
            continue
        images = (*step.record.images, *step.record.again)
        ask = step.question()
        here = ask.instance(step.new, number, "here")
        ways = [record.is_one(step.old, image, here) for image in images if image.new == number]
        claim = (
            f"Each instance of {step.describe('new', number)}, which divides integers, was there."
        )
        fails = conjunction_of([record.exists(here), opposite(disjunction_of(ways))])
        yield Draft("DIVIDED", (("new", number),), claim, ask.expose([fails], claim))


def divides(program: record.Program, statement: record.Statement) -> bool:
    """Tests whether a statement divides integers by an expression that may be zero."""
    return any(
        part.function in DIVISIONS and part.dtype in INTEGERS and not _is_nonzero(part.arguments[1])
        for part in _operations(meaning(program, statement, count()))
    )


def _operations(term: object) -> Iterator[Operation]:
    match term:
        case Operation():
            yield term
            for argument in term.arguments:
                yield from _operations(argument)
        case Convert():
            yield from _operations(term.term)


def _is_nonzero(term: object) -> bool:
    match term:
        case Constant():
            return term.value != 0
        case Convert():
            return _is_nonzero(term.term)
        case _:
            return False
