"""Obligations on statements that are read as others: what they do in their place is the same.

    x = b + c    reads as    x = b;  x += c        sums of several writes
    x = x + e    reads as    x += e
    y = f(e)     reads as    v = e;  y = f(v)      an expression in a variable of its own
    x = g        reads as    x = h                 where g and h are the same number

On the record itself it is decided that both procedures are the same but for these statements; that
the parts stand where the whole does, at the same instances, with nothing in between; that they
write what the whole writes, and else variables that nothing else uses; and that the value is the
same (`exogpu.symbolic.steps.normal_form`), with each element known by the number that the witness
gives it.  Of these numbers are the obligations: accesses of one number are of one element (SAME),
and one that reads where a part has written another is of another (APART).  What new statements
access is in its variable (BOUNDS).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from exogpu.ir.nodes import Int
from exogpu.ir.scalars import COMPUTES, Constant, Convert, Operation
from exogpu.symbolic.encode.formulas import conjunction_of, opposite
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.steps import record as steps_record
from exogpu.symbolic.steps.normal_form import Leaf, Stored, Tree, as_numbers, exactly
from exogpu.symbolic.steps.same_value import Numbered, Term, is_scaled, meaning, scaled_assumes
from exogpu.symbolic.steps.step import Draft, Step
from exogpu.symbolic.steps.step_witness import Classes, Elements

REALS: Final = "floating-point numbers are taken as real ones: other roundings"


def _sides(record: steps_record.Record) -> tuple[steps_record.Program, steps_record.Program]:
    """The procedure that has the whole, and that which has the parts."""
    if record.compared == "whole to parts":
        return record.old, record.new
    return record.new, record.old


# --- on the record ------------------------------------------------------------------------------


def shape_of_laws(record: steps_record.Record) -> str | None:
    """Returns the fault in the shape of a record's laws, in words; None if there is none."""
    whole, parts = _sides(record)
    numbers = [
        [n for law in record.laws for n in law.whole],
        [n for law in record.laws for n in law.parts],
    ]
    if any(len(set(of)) < len(of) for of in numbers):
        return "a statement is read as others twice"
    rest = [
        [s for n, s in enumerate(program.statements) if n not in of]
        for program, of in zip((whole, parts), numbers, strict=True)
    ]
    if rest[0] != rest[1]:
        return "statements of which no law is known have changed"
    made = parts.by_name.keys() - whole.by_name.keys()
    kept = {name: v for name, v in parts.by_name.items() if name not in made}
    if kept != dict(whole.by_name) or any(parts.by_name[name].is_param for name in made):
        return "the variables are others"
    users: dict[str, int] = {}
    for at, law in enumerate(record.laws):
        if (why := _shape(whole, parts, law)) is not None:
            return why
        for number in law.parts:
            for access in parts.statements[number].accesses:
                name = access.cell.variable
                if name in made and users.setdefault(name, at) != at:
                    return f"{name} is used by statements apart"
                loops = whole.statements[law.whole[0]].iterators
                if name in made and parts.by_name[name].loops != loops:
                    return f"{name} is not of these statements alone"
    return None


def _shape(
    whole: steps_record.Program, parts: steps_record.Program, law: steps_record.Law
) -> str | None:
    if len(law.whole) == 3:
        return is_scaled(whole, parts, law)
    if len(law.whole) != 1 or not law.parts:
        return "no law is known of these statements"
    one = whole.statements[law.whole[0]]
    others = [parts.statements[number] for number in law.parts]
    for at, other in enumerate(others):
        if (other.iterators, other.holds) != (one.iterators, one.holds):
            return f"`{other.text}` runs at other instances than `{one.text}`"
        if other.time != (*one.time, Int(at)):
            return f"`{other.text}` stands elsewhere than `{one.text}`"
    if any(access.cell.within for s in (one, *others) for access in s.accesses):
        return f"`{one.text}` has a clipped operand"
    return None


# --- values -------------------------------------------------------------------------------------


def assumed_by_laws(record: steps_record.Record, elements: Elements) -> tuple[str, ...]:
    """Returns the assumptions under which the parts do what the wholes do.

    Raises WitnessError where they do not.
    """
    whole, parts = _sides(record)
    if len(elements.of) != len(record.laws):
        raise WitnessError("there is another number of laws")
    reals = False
    for law, classes in zip(record.laws, elements.of, strict=True):
        if len(law.whole) == 3:
            reals |= scaled_assumes(parts, law)
        else:
            reals |= _differs_for_reals(whole, parts, law, classes)
    return (REALS,) if reals else ()


def _differs_for_reals(
    whole: steps_record.Program,
    parts: steps_record.Program,
    law: steps_record.Law,
    classes: Classes,
) -> bool:
    one = whole.statements[law.whole[0]]
    others = [parts.statements[number] for number in law.parts]
    _fit((one, *others), classes)
    target = classes[0][-1]
    dtype = whole.by_name[one.target.variable].dtype
    known: dict[int, Tree] = {}
    for other, numbers in zip(others, classes[1:], strict=True):
        name = other.target.variable
        if name in whole.by_name and numbers[-1] != target:
            raise WitnessError(f"`{other.text}` writes another element than `{one.text}`")
        for cell, number in zip((*other.reads, other.target), numbers, strict=True):
            unread = cell is other.target and other.kind == "="
            if cell.variable not in whole.by_name and number not in known and not unread:
                raise WitnessError(f"`{other.text}` reads what nobody wrote")
        known[numbers[-1]] = _read_back(parts, other, _run(parts, other, numbers, known))
    mine = _read_back(whole, one, _run(whole, one, classes[0], {}))
    its = known.get(target, Leaf(target, COMPUTES[dtype], dtype))
    if exactly(mine, its):
        return False
    reals = as_numbers(mine, its, dtype)
    if reals is None:
        raise WitnessError(f"`{one.text}` computes something else than what it is read as")
    return reals


def _fit(statements: tuple[steps_record.Statement, ...], classes: Classes) -> None:
    """Each access has a number, which is one variable's."""
    if len(classes) != len(statements):
        raise WitnessError("a law has another number of statements")
    names: dict[int, str] = {}
    for statement, numbers in zip(statements, classes, strict=True):
        cells = (*statement.reads, statement.target)
        if len(cells) != len(numbers):
            raise WitnessError(f"`{statement.text}` has another number of accesses")
        for cell, number in zip(cells, numbers, strict=True):
            if names.setdefault(number, cell.variable) != cell.variable:
                raise WitnessError("elements of two variables are said to be one")


def _run(
    program: steps_record.Program,
    statement: steps_record.Statement,
    numbers: tuple[int, ...],
    known: Mapping[int, Tree],
) -> Tree:
    """Returns the value that a statement computes, before it is stored."""

    def insert(term: Term) -> Tree:
        match term:
            case Constant():
                return term
            case Numbered():
                number = numbers[term.number]
                kept = program.by_name[statement.reads[term.number].variable].dtype
                return known.get(number, Leaf(number, term.dtype, kept))
            case Convert():
                return Convert(insert(term.term), term.dtype)  # type: ignore[arg-type]
            case Operation():
                given = tuple(insert(one) for one in term.arguments)  # type: ignore[arg-type]
                return Operation(term.function, given, term.dtype)  # type: ignore[arg-type]

    term = insert(meaning(program, statement, iter(range(len(statement.reads)))))
    if statement.kind == "=":
        return term
    kept = program.by_name[statement.target.variable].dtype
    before = known.get(numbers[-1], Leaf(numbers[-1], COMPUTES[kept], kept))
    if before.dtype is not term.dtype:
        before = Convert(before, term.dtype)  # type: ignore[arg-type]
    return Operation("+", (before, term), term.dtype)  # type: ignore[arg-type]


def _read_back(
    program: steps_record.Program, statement: steps_record.Statement, value: Tree
) -> Tree:
    """The value as it is read again from what the statement writes."""
    dtype = program.by_name[statement.target.variable].dtype
    if isinstance(value, Leaf) and value.kept is dtype:
        return value
    kept = value if value.dtype is dtype else Stored(value, dtype)
    return kept if COMPUTES[dtype] is dtype else Convert(kept, COMPUTES[dtype])  # type: ignore[arg-type]


# --- obligations --------------------------------------------------------------------------------


def laws(step: Step, elements: Elements) -> Iterator[Draft]:
    """Every obligation of the laws of a record."""
    assumed_by_laws(step.record, elements)
    whole, parts = _sides(step.record)
    for law, classes in zip(step.record.laws, elements.of, strict=True):
        sides = [(whole, n) for n in law.whole], [(parts, n) for n in law.parts]
        if len(law.whole) == 1:
            places = list(zip((*sides[0], *sides[1]), classes, strict=True))
            yield from _one_element_each(step, places)
            yield from _reads_disjoint(step, places[1:])
        for program, number in (*sides[0], *sides[1]):
            if program is step.new:
                yield _bounds(step, number)


_Places = list[tuple[tuple[steps_record.Program, int], tuple[int, ...]]]


def _one_element_each(step: Step, places: _Places) -> Iterator[Draft]:
    """Accesses of one number are of one element."""
    (program, first), _ = places[0]
    ask = step.question()
    here = ask.instance(program, first, "here")
    known: dict[int, tuple[object, ...]] = {}
    fails = []
    for (of, number), numbers in places:
        statement = of.statements[number]
        for cell, at in zip((*statement.reads, statement.target), numbers, strict=True):
            if at not in known:
                known[at] = cell.index
                continue
            one = tuple(here.form(e) for e in known[at])  # type: ignore[arg-type]
            fails.append(
                conjunction_of(
                    [
                        steps_record.exists(here),
                        opposite(steps_record.same_element(one, steps_record.element(here, cell))),
                    ]
                )
            )
    claim = (
        f"What {_words_of(step, program, first)} and its parts access is one element or another."
    )
    yield Draft("SAME", ((_side_of(step, program), first),), claim, ask.expose(fails, claim))


def _reads_disjoint(step: Step, parts: _Places) -> Iterator[Draft]:
    """Drafts the obligation that no read is of another element that was written."""
    (program, first), _ = parts[0]
    ask = step.question()
    here = ask.instance(program, first, "here")
    fails = []
    written: dict[int, tuple[str, tuple[object, ...]]] = {}
    for (_, number), numbers in parts:
        statement = program.statements[number]
        summed = (statement.target,) if statement.kind == "+=" else ()
        pairs = zip((*statement.reads, *summed), (*numbers[:-1], *numbers[-1:]), strict=False)
        for cell, at in pairs:
            for other, (name, index) in written.items():
                if other != at and name == cell.variable:
                    one = tuple(here.form(e) for e in index)  # type: ignore[arg-type]
                    fails.append(
                        conjunction_of(
                            [
                                steps_record.exists(here),
                                steps_record.same_element(one, steps_record.element(here, cell)),
                            ]
                        )
                    )
        written[numbers[-1]] = statement.target.variable, statement.target.index
    claim = f"What {_words_of(step, program, first)} and those after it read is not written before."
    yield Draft("APART", ((_side_of(step, program), first),), claim, ask.expose(fails, claim))


def _bounds(step: Step, number: int) -> Draft:
    ask = step.question()
    here = ask.instance(step.new, number, "here")
    outside = []
    for access in here.statement.accesses:
        variable = step.new.by_name[access.cell.variable]
        within = steps_record.lies_in_variable(
            variable, steps_record.element(here, access.cell), here.values
        )
        outside.append(conjunction_of([steps_record.exists(here), opposite(within)]))
    claim = f"Every element that {step.describe('new', number)} accesses is in its variable."
    return Draft("BOUNDS", (("new", number),), claim, ask.expose(outside, claim))


def _side_of(step: Step, program: steps_record.Program) -> str:
    return "new" if program is step.new else "old"


def _words_of(step: Step, program: steps_record.Program, number: int) -> str:
    return step.describe(_side_of(step, program), number)
