"""Every obligation of a step, made from the record and from what was found about it.

The statements of the new procedure that are images of old ones make a program of their own: the old
statements in the new order.  That program does what the old one did if

1. each image is the old statement (`unlike`, decided on the record);
2. every old instance has exactly one image, but for those whose results nobody reads (TWICE, KEPT,
   LOST);
3. no dependence of the old program, on its own variables, is reversed (ORDER).

The new procedure does what that program does if

4. each access finds what it stands for (FLOW, with CLIP for operands that are clipped and ZERO for
   sums that add zero), in its variable (BOUNDS);
5. what is computed once more was computed before, and has not changed since (AGAIN);
6. integers are divided, maybe by zero, only where they were (DIVIDED).

Where both are compared by results, the obligations are those of
`exogpu.symbolic.steps.result_sums`; where statements are read as others, those of
`exogpu.symbolic.steps.replacement_laws`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TypeAlias

from exogpu.ir.nodes import BExpr, CVar, Int
from exogpu.ir.walk import substitute_bool
from exogpu.symbolic.encode.formulas import FALSE, conjunction_of, disjunction_of, opposite
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.steps import record as steps_record
from exogpu.symbolic.steps.flows import flows, zeros
from exogpu.symbolic.steps.instance_counts import (
    bounds,
    clips,
    draft_divisions,
    draft_exact_images,
    lost,
    twice,
)
from exogpu.symbolic.steps.replacement_laws import assumed_by_laws, laws, shape_of_laws
from exogpu.symbolic.steps.result_sums import results
from exogpu.symbolic.steps.same_value import is_copy, is_image
from exogpu.symbolic.steps.step import Draft, Step, named_instance
from exogpu.symbolic.steps.step_witness import EMPTY, Elements, Summed, Witness
from exogpu.symbolic.steps.sums_json import Found

# Obligations on order: no dependence of the old procedure is reversed; two `+=` have none.

Both: TypeAlias = tuple[steps_record.Access, steps_record.Access]
"""An access of a new statement, and of the old one that it is."""


def orders(step: Step) -> Iterator[Draft]:
    """Drafts the obligation that two dependent images stay in order."""
    for sooner, later in product(step.images, repeat=2):
        pairs = list(product(step.pairs(sooner), step.pairs(later)))
        depending = [(a, b) for a, b in pairs if _depends(a[1], b[1])]
        if not depending:
            continue
        ask = step.question()
        one = ask.instance(step.new, sooner.new, "sooner")
        other = ask.instance(step.new, later.new, "later")
        ends = (sooner, one), (later, other)
        fails = [_reversed(step, ends, a, b) for a, b in depending]
        fails = [one for one in fails if one != FALSE]
        if not fails:
            continue
        claim = (
            f"What {step.describe('old', later.old)} has to wait for, "
            f"{step.describe('old', sooner.old)} does before it, still."
        )
        about = (("old", sooner.old), ("old", later.old))
        yield Draft("ORDER", about, claim, ask.expose(fails, claim))


def _depends(one: steps_record.Access, other: steps_record.Access) -> bool:
    """Tests whether the order of two accesses of one element counts."""
    if one.cell.variable != other.cell.variable or (one.reduces and other.reduces):
        return False
    return one.writes or other.writes


def _reversed(
    step: Step,
    ends: tuple[
        tuple[steps_record.Image, steps_record.Instance],
        tuple[steps_record.Image, steps_record.Instance],
    ],
    first: Both,
    second: Both,
) -> BExpr:
    (sooner, one), (later, other) = ends
    was, is_ = (
        steps_record.original(step.old, sooner, one),
        steps_record.original(step.old, later, other),
    )
    order = steps_record.earlier(
        steps_record.moment(was, first[1]), steps_record.moment(is_, second[1])
    )
    now = steps_record.earlier(
        steps_record.moment(other, second[0]), steps_record.moment(one, first[0]), or_same=True
    )
    if FALSE in (order, now):
        return FALSE
    return conjunction_of(
        [
            steps_record.is_same_access(step.old, sooner, one, first[0]),
            steps_record.is_same_access(step.old, later, other, second[0]),
            steps_record.same_element(
                steps_record.element(was, first[1].cell), steps_record.element(is_, second[1].cell)
            ),
            order,
            now,
        ]
    )


# Obligations on what is computed once more: it was computed before, and has not changed since.


def draft_repeats(step: Step) -> Iterator[Draft]:
    """The old statement's image, which is where the witness keeps it, ran before; and no image has
    written since what that one accessed."""
    for image in step.record.again:
        about = (("new", image.new), ("old", image.old))
        said = step.describe("new", image.new)
        ask = step.question()
        here = ask.instance(step.new, image.new, "again")
        was = steps_record.original(step.old, image, here)
        time = steps_record.moment(here, here.statement.write)
        ways = [
            conjunction_of(
                [where, steps_record.earlier(steps_record.moment(by, by.statement.write), time)]
            )
            for where, by in _new_places(step, image, was)
        ]
        claim = f"What {said} computes was computed before."
        fails = conjunction_of(
            [steps_record.is_one(step.old, image, here), opposite(disjunction_of(ways))]
        )
        yield Draft("AGAIN", about, claim, ask.expose([fails], claim))
        ask = step.question()
        claim = f"What {said} computes has not changed since."
        yield Draft(
            "AGAIN", about, claim, ask.expose([*_change_conditions(step, image, ask)], claim)
        )


def _new_places(
    step: Step, image: steps_record.Image, was: steps_record.Instance
) -> Iterator[tuple[BExpr, steps_record.Instance]]:
    """Yields the new places of an old instance, in pieces."""
    for piece in step.witness.kept.get(image.old, ()):
        by = named_instance(step.new, piece.at, was.values)
        yield substitute_bool(piece.where, was.values), by


def _change_conditions(
    step: Step, image: steps_record.Image, ask: steps_record.Question
) -> Iterator[BExpr]:
    here = ask.instance(step.new, image.new, "again")
    was = steps_record.original(step.old, image, here)
    for access in here.statement.accesses:
        before = steps_record.was_access(step.old, image, access)
        for at, (number, other, write) in enumerate(step.originals(before.cell.variable)):
            by = ask.instance(step.new, number, f"other{access.number}_{at}")
            written = steps_record.was_access(step.old, other, write).cell
            time = steps_record.moment(by, write)
            since = [
                conjunction_of(
                    [where, steps_record.earlier(steps_record.moment(first, before), time)]
                )
                for where, first in _new_places(step, image, was)
            ]
            yield conjunction_of(
                [
                    steps_record.is_one(step.old, image, here),
                    steps_record.is_same_access(step.old, other, by, write),
                    steps_record.same_element(
                        steps_record.element(steps_record.original(step.old, other, by), written),
                        steps_record.element(was, before.cell),
                    ),
                    disjunction_of(since),
                    steps_record.earlier(time, steps_record.moment(here, access)),
                ]
            )


def unlike(record: steps_record.Record) -> str | None:
    """Returns a fault of the map that holds whatever the sizes, in words."""
    old, new = record.old, record.new
    for program in (old, new):
        if (why := _odd(program)) is not None:
            return why
    given = [[v for v in program.variables if v.is_param] for program in (old, new)]
    if (old.params, old.preconditions, given[0]) != (new.params, new.preconditions, given[1]):
        return "the parameters or preconditions are others"
    if record.compared.endswith(("whole", "parts")):
        return shape_of_laws(record)
    stated = [copy.new for copy in record.copies] + [image.new for image in record.again]
    if len(set(stated)) < len(stated) or any(one.new in stated for one in record.images):
        return "a copy stands for something else, too"
    for image in record.again:
        both = new.statements[image.new], old.statements[image.old]
        if image.only or any(access.cell.within for one in both for access in one.accesses):
            return f"`{both[0].text}` reads a clipped operand once more"
        if both[1].kind != "=":
            return f"`{both[0].text}` adds once more"
    for image in (*record.images, *record.again):
        text = new.statements[image.new].text
        if len(image.at) != len(old.statements[image.old].iterators):
            return f"`{text}` stands for a statement of other iterators"
        if not is_image(old, new, image):
            return f"`{text}` computes something else than `{old.statements[image.old].text}`"
        for access in new.statements[image.new].accesses:
            was = steps_record.was_access(old, image, access)
            types = new.by_name[access.cell.variable].dtype, old.by_name[was.cell.variable].dtype
            if types[0] is not types[1]:
                return f"`{text}` works in another type"
    for copy in record.copies:
        statement = new.statements[copy.new]
        types = (
            new.by_name[statement.target.variable].dtype,
            old.by_name[copy.cell.variable].dtype,
        )
        if not is_copy(new, statement) or types[0] is not types[1]:
            return f"`{statement.text}` is no copy"
    return None


def _odd(program: steps_record.Program) -> str | None:
    """Returns a fault that no procedure has: reads out of order, two statements at one time."""
    after: dict[tuple[object, ...], object] = {}
    for statement in program.statements:
        if [*_reads(statement.value)] != [*range(len(statement.reads))]:
            return f"the reads of `{statement.text}` stand in another order"
        loops = [part for part in statement.time if isinstance(part, CVar)]
        if tuple(part.name for part in loops) != statement.iterators:
            return f"the time of `{statement.text}` is not told by its loops"
        for at, part in enumerate(statement.time):
            # What follows a beginning are constants, or the iterator of one loop.
            kind = "constant" if isinstance(part, Int) else part
            if after.setdefault(statement.time[:at], kind) != kind:
                return f"the time of `{statement.text}` is not told by its loops"
        if after.setdefault(statement.time, "end") != "end" or _is_time_shared(
            program, statement.time
        ):
            return f"another statement is executed when `{statement.text}` is"
    return None


def _is_time_shared(program: steps_record.Program, time: tuple[object, ...]) -> bool:
    return sum(statement.time == time for statement in program.statements) > 1


def _reads(value: steps_record.Value) -> Iterator[int]:
    match value:
        case steps_record.Nth():
            yield value.read
        case steps_record.Formula():
            for term in value.terms:
                yield from _reads(term)
        case _:
            return


def assumed(record: steps_record.Record, found: Found) -> tuple[str, ...]:
    """Returns the assumptions of this step beside those of every one. Raises WitnessError."""
    return assumed_by_laws(record, found) if isinstance(found, Elements) else ()


def drafts(record: steps_record.Record, found: Found) -> Iterator[Draft]:
    """Every obligation of a step.

    Whatever was found, the obligations are those that the record has, and each is a claim about it
    alone: what was found can make it fail, and nothing else.  Raises WitnessError where what was
    found does not fit the record.
    """
    kinds = {"statements": Witness, "results": Summed}
    if not isinstance(found, kinds.get(record.compared, Elements)):
        raise WitnessError("what was found is about another kind of step")
    if isinstance(found, Summed):
        yield from results(Step(record, EMPTY), found)
        return
    if isinstance(found, Elements):
        yield from laws(Step(record, EMPTY), found)
        return
    step = Step(record, found)
    if not step.changed_variables:
        return
    for part in (
        bounds,
        clips,
        twice,
        draft_exact_images,
        lost,
        orders,
        draft_repeats,
        draft_divisions,
        zeros,
        flows,
    ):
        yield from part(step)
