"""Obligations on integers that are divided: by zero the result is no value at all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from exogpu.ir.scalars import INTEGERS, Constant, Convert, Operation
from exogpu.symbolic.encode.formulas import every, opposite, some
from exogpu.symbolic.steps.alike import meaning
from exogpu.symbolic.steps.instances import exists, is_one
from exogpu.symbolic.steps.record import Program, Statement
from exogpu.symbolic.steps.step import Draft, Step


def divided(step: Step) -> Iterator[Draft]:
    """Integers are divided only where they were: each such instance is an old one."""
    for number, statement in enumerate(step.new.statements):
        if not any(map(step.counts, statement.accesses)) or not divides(step.new, statement):
            continue
        images = (*step.record.images, *step.record.again)
        ask = step.question()
        here = ask.instance(step.new, number, "here")
        ways = [is_one(step.old, image, here) for image in images if image.new == number]
        claim = f"Each instance of {step.said('new', number)}, which divides integers, was there."
        fails = every([exists(here), opposite(some(ways))])
        yield Draft("DIVIDED", (("new", number),), claim, ask.expose([fails], claim))


def divides(program: Program, statement: Statement) -> bool:
    """Tests whether a statement divides integers by an expression that may be zero."""
    return any(
        part.function == "/" and part.dtype in INTEGERS and not _is_nonzero(part.arguments[1])
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
