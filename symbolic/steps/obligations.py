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

Where both are compared by results, the obligations are those of `exogpu.symbolic.steps.sums`; where
statements are read as others, those of `exogpu.symbolic.steps.laws`.
"""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.ir.nodes import CVar, Int
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.steps.alike import is_copy, is_image
from exogpu.symbolic.steps.counts import bounds, clips, kept, lost, twice
from exogpu.symbolic.steps.divided import divided
from exogpu.symbolic.steps.elements import Elements
from exogpu.symbolic.steps.flows import flows, zeros
from exogpu.symbolic.steps.instances import was_access
from exogpu.symbolic.steps.laws import assumed_by_laws, laws, shape_of_laws
from exogpu.symbolic.steps.orders import orders
from exogpu.symbolic.steps.record import Formula, Nth, Program, Record, Value
from exogpu.symbolic.steps.repeats import repeated
from exogpu.symbolic.steps.step import Draft, Step
from exogpu.symbolic.steps.summed import Summed
from exogpu.symbolic.steps.sums import results
from exogpu.symbolic.steps.witness import EMPTY, Witness
from exogpu.symbolic.steps.witnesses import Found


def unlike(record: Record) -> str | None:
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
            was = was_access(old, image, access)
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


def _odd(program: Program) -> str | None:
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
        if after.setdefault(statement.time, "end") != "end" or _repeated(program, statement.time):
            return f"another statement is executed when `{statement.text}` is"
    return None


def _repeated(program: Program, time: tuple[object, ...]) -> bool:
    return sum(statement.time == time for statement in program.statements) > 1


def _reads(value: Value) -> Iterator[int]:
    match value:
        case Nth():
            yield value.read
        case Formula():
            for term in value.terms:
                yield from _reads(term)
        case _:
            return


def assumed(record: Record, found: Found) -> tuple[str, ...]:
    """Returns the assumptions of this step beside those of every one. Raises WitnessError."""
    return assumed_by_laws(record, found) if isinstance(found, Elements) else ()


def drafts(record: Record, found: Found) -> Iterator[Draft]:
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
    if not step.about:
        return
    for part in (bounds, clips, twice, kept, lost, orders, repeated, divided, zeros, flows):
        yield from part(step)
