"""A step with what is known of it: what each access stands for, and what adds zero."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from exogpu.ir.nodes import BExpr, CExpr, CVar, Int
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, holds, substitute, substitute_bool
from exogpu.symbolic.encode.formulas import FALSE, TRUE, conjunction_of, disjunction_of, opposite
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.model import bounded_below, conjuncts
from exogpu.symbolic.steps import record as steps_record
from exogpu.symbolic.steps import same_value
from exogpu.symbolic.steps.step_witness import At, Witness

# Finds the variables that a step is about: of the others nothing has changed.
#
# A variable is untouched if the same statements access it, each as itself, at the same instances
# and elements, and in the same order among each other, and if no other statement stands for its
# elements.

Time = tuple[CExpr, ...]


def changed_variables(record: steps_record.Record) -> frozenset[str]:
    """The variables of which anything may have changed, of both procedures."""
    old, new = record.old, record.new
    found: set[str] = set()
    itself: dict[int, int] = {}
    for image in record.images:
        was, now = old.statements[image.old], new.statements[image.new]
        plain = image.at == tuple(map(CVar, was.iterators)) and was.iterators == now.iterators
        in_order = image.reads == tuple(range(len(image.reads)))
        used = [[a.cell.variable for a in one.accesses] for one in (was, now)]
        if plain and not image.only and in_order and used[0] == used[1] and image.new not in itself:
            itself[image.new] = image.old
        else:
            found |= {a.cell.variable for one in (was, now) for a in one.accesses}
    for image in record.again:
        was, now = old.statements[image.old], new.statements[image.new]
        found |= {a.cell.variable for one in (was, now) for a in one.accesses}
        itself.pop(image.new, None)
    for copy in record.copies:
        found.add(copy.cell.variable)
    for number, statement in enumerate(new.statements):
        if number not in itself:
            found |= {a.cell.variable for a in statement.accesses}
    for name in (old.by_name.keys() | new.by_name.keys()) - found:
        before = _described(old, name, {n: n for n in range(len(old.statements))})
        if old.by_name.get(name) != new.by_name.get(name) or before != _described(
            new, name, itself
        ):
            found.add(name)
    return frozenset(found)


def _described(program: steps_record.Program, name: str, numbers: dict[int, int]) -> list[object]:
    """All that counts of the accesses of a variable."""
    using = [
        number
        for number, statement in enumerate(program.statements)
        if any(a.cell.variable == name for a in statement.accesses)
    ]
    times = _compressed([program.statements[number].time for number in using])
    return [
        (
            numbers[number],
            program.statements[number].iterators,
            program.statements[number].holds,
            time,
            [
                (a.number, a.cell)
                for a in program.statements[number].accesses
                if a.cell.variable == name
            ],
        )
        for number, time in zip(using, times, strict=True)
    ]


def _compressed(times: Sequence[Time]) -> list[Time]:
    """Times in the same order, without what all have, and with small numbers."""
    depth = max(map(len, times), default=0)
    padded = [(*time, *[Int(0)] * (depth - len(time))) for time in times]
    columns: list[list[CExpr]] = []
    for column in zip(*padded, strict=True):
        numbers = sorted({c.value for c in column if isinstance(c, Int)})
        ranks = {number: Int(rank) for rank, number in enumerate(numbers)}
        if len(numbers) > 1 or not all(isinstance(c, Int) for c in column):
            columns.append([ranks[c.value] if isinstance(c, Int) else c for c in column])
    return [tuple(row) for row in zip(*columns, strict=True)] if columns else [()] * len(times)


class Draft(NamedTuple):
    """An obligation: its kind, the statements concerned, a claim, and a script."""

    kind: str
    statements: tuple[tuple[str, int], ...]
    """`old` or `new`, and a number."""
    claim: str
    script: str


class Stands(NamedTuple):
    """A condition, and the element of an old variable that an access stands for under it."""

    where: BExpr
    variable: str
    cell: tuple[CExpr, ...]


@dataclass(frozen=True)
class Step:
    """A record with a witness."""

    record: steps_record.Record
    witness: Witness

    @property
    def old(self) -> steps_record.Program:
        """The procedure before."""
        return self.record.old

    @property
    def new(self) -> steps_record.Program:
        """The procedure after."""
        return self.record.new

    @cached_property
    def changed_variables(self) -> frozenset[str]:
        """The variables of which something has changed."""
        return changed_variables(self.record)

    @cached_property
    def images(self) -> tuple[steps_record.Image, ...]:
        """Selects the images with an access of a variable that has changed."""
        return tuple(one for one in self.record.images if any(self.pairs(one)))

    def pairs(
        self, image: steps_record.Image
    ) -> Iterator[tuple[steps_record.Access, steps_record.Access]]:
        """The accesses of changed variables, each with that of the old statement."""
        for access in self.new.statements[image.new].accesses:
            was = steps_record.was_access(self.old, image, access)
            if self.counts(access) and self.counts(was):
                yield access, was

    @cached_property
    def by_new(self) -> Mapping[int, tuple[steps_record.Image, ...]]:
        """Images by the new statement."""
        numbers = range(len(self.new.statements))
        return {n: tuple(i for i in self.images if i.new == n) for n in numbers}

    @cached_property
    def by_old(self) -> Mapping[int, tuple[steps_record.Image, ...]]:
        """Images by the old statement."""
        numbers = range(len(self.old.statements))
        return {n: tuple(i for i in self.images if i.old == n) for n in numbers}

    @cached_property
    def copies(self) -> Mapping[int, steps_record.Copy]:
        """Copies by statement."""
        return {copy.new: copy for copy in self.record.copies}

    @cached_property
    def recomputed(self) -> Mapping[int, steps_record.Image]:
        """Maps each new statement that computes something once more to its image."""
        return {image.new: image for image in self.record.again}

    def counts(self, access: steps_record.Access) -> bool:
        """Tests whether an access is of a variable that has changed."""
        return access.cell.variable in self.changed_variables

    @cached_property
    def least(self) -> Mapping[Sym, int]:
        """The least value of each size, preconditions aside: 0 where one admits it, else 1."""
        sizes = (p.name for p in self.old.params if p.kind == "size")
        return {name: 0 if _admits_zero(self.old.preconditions, name) else 1 for name in sizes}

    def question(self) -> steps_record.Question:
        """A script to be written."""
        return steps_record.Question(self.old, self.least)

    def describe(self, which: str, number: int) -> str:
        """A statement of the old or the new procedure in words."""
        program = self.old if which == "old" else self.new
        return f"`{program.statements[number].text}` (statement {number}, {which})"

    # --- what accesses stand for ------------------------------------------------------------

    def stands(self, of: steps_record.Instance, access: steps_record.Access) -> tuple[Stands, ...]:
        """Returns the old elements that an access of a new instance stands for: under one of these
        conditions at most."""
        if not self.counts(access):
            return ()
        copy = self.copies.get(of.number)
        if copy is not None:
            where = conjunction_of([steps_record.exists(of), of.holds(access.cell.within)])
            return (Stands(where, copy.cell.variable, steps_record.element(of, copy.cell)),)
        return tuple(
            Stands(
                steps_record.is_same_access(self.old, image, of, access),
                was.cell.variable,
                steps_record.element(steps_record.original(self.old, image, of), was.cell),
            )
            for image in (*self.by_new[of.number], *self._recomputation(of.number))
            if self.counts(was := steps_record.was_access(self.old, image, access))
        )

    def _recomputation(self, number: int) -> tuple[steps_record.Image, ...]:
        return (self.recomputed[number],) if number in self.recomputed else ()

    def originals(
        self, variable: str
    ) -> Iterator[tuple[int, steps_record.Image, steps_record.Access]]:
        """New writes that are old ones of a variable."""
        for image in self.images:
            access = self.new.statements[image.new].write
            if self.counts(access) and self._was(image, access) == variable:
                yield image.new, image, access

    def _was(self, image: steps_record.Image, access: steps_record.Access) -> str:
        return steps_record.was_access(self.old, image, access).cell.variable

    # --- zero -------------------------------------------------------------------------------

    def idle(self, of: steps_record.Instance) -> BExpr:
        """The instance is a sum that stands for nothing and adds zero."""
        statement = of.statement
        if statement.kind != "+=":
            return FALSE
        live = disjunction_of(one.where for one in self.stands(of, statement.write))
        return conjunction_of([self.is_zero(of, statement.value), opposite(live)])

    def is_zero(self, of: steps_record.Instance, value: steps_record.Value) -> BExpr:
        """The value is zero there: made of zeros, and of reads that are said to find it."""
        match value:
            case steps_record.Number():
                return TRUE if same_value.number(value.text) == 0 else FALSE
            case steps_record.Nth():
                zero = self.witness.zeros.get((of.number, value.read))
                said = FALSE if zero is None else substitute_bool(zero.where, of.values)
                outside = opposite(of.holds(of.statement.reads[value.read].within))
                return disjunction_of([said, outside])
            case steps_record.Formula(function="negate" | "tf32"):
                return self.is_zero(of, value.terms[0])
            case steps_record.Formula(function="+" | "-" | "*"):
                return conjunction_of(self.is_zero(of, term) for term in value.terms)
            case steps_record.Formula():
                return FALSE


def named_instance(
    program: steps_record.Program, at: At, values: steps_record.Values
) -> steps_record.Instance:
    """The instance that a witness names.  Raises WitnessError where there is none."""
    if at.statement >= len(program.statements):
        raise WitnessError(f"there is no statement {at.statement}")
    if len(program.statements[at.statement].iterators) != len(at.values):
        raise WitnessError(f"statement {at.statement} has other iterators")
    return steps_record.instance(
        program, at.statement, [substitute(value, values) for value in at.values]
    )


def _admits_zero(preconditions: Iterable[BExpr], size: Sym) -> bool:
    return any(
        control_variables(condition) == {size}
        and holds(condition, {size: 0})
        and bounded_below(condition, size)
        for precondition in preconditions
        for condition in conjuncts(precondition)
    )
