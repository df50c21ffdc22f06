"""A step with what is known of it: what each access stands for, and what adds zero."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from exogpu.ir.names import Sym
from exogpu.ir.nodes import BExpr, CExpr
from exogpu.ir.walk import control_variables, holds, substitute, substitute_bool
from exogpu.symbolic.encode.formulas import FALSE, TRUE, every, opposite, some
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.least import bounded_below
from exogpu.symbolic.placed import conjuncts
from exogpu.symbolic.steps.alike import number
from exogpu.symbolic.steps.instances import (
    Instance,
    Question,
    Values,
    element,
    exists,
    instance,
    is_same_access,
    original,
    was_access,
)
from exogpu.symbolic.steps.record import (
    Access,
    Copy,
    Formula,
    Image,
    Nth,
    Number,
    Program,
    Record,
    Value,
)
from exogpu.symbolic.steps.untouched import touched
from exogpu.symbolic.steps.witness import At, Witness


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

    record: Record
    witness: Witness

    @property
    def old(self) -> Program:
        """The procedure before."""
        return self.record.old

    @property
    def new(self) -> Program:
        """The procedure after."""
        return self.record.new

    @cached_property
    def about(self) -> frozenset[str]:
        """The variables of which something has changed."""
        return touched(self.record)

    @cached_property
    def images(self) -> tuple[Image, ...]:
        """Selects the images with an access of a variable that has changed."""
        return tuple(one for one in self.record.images if any(self.pairs(one)))

    def pairs(self, image: Image) -> Iterator[tuple[Access, Access]]:
        """The accesses of changed variables, each with that of the old statement."""
        for access in self.new.statements[image.new].accesses:
            was = was_access(self.old, image, access)
            if self.counts(access) and self.counts(was):
                yield access, was

    @cached_property
    def by_new(self) -> Mapping[int, tuple[Image, ...]]:
        """Images by the new statement."""
        numbers = range(len(self.new.statements))
        return {n: tuple(i for i in self.images if i.new == n) for n in numbers}

    @cached_property
    def by_old(self) -> Mapping[int, tuple[Image, ...]]:
        """Images by the old statement."""
        numbers = range(len(self.old.statements))
        return {n: tuple(i for i in self.images if i.old == n) for n in numbers}

    @cached_property
    def copies(self) -> Mapping[int, Copy]:
        """Copies by statement."""
        return {copy.new: copy for copy in self.record.copies}

    @cached_property
    def again(self) -> Mapping[int, Image]:
        """Maps each new statement that computes something once more to its image."""
        return {image.new: image for image in self.record.again}

    def counts(self, access: Access) -> bool:
        """Tests whether an access is of a variable that has changed."""
        return access.cell.variable in self.about

    @cached_property
    def least(self) -> Mapping[Sym, int]:
        """The least value of each size, preconditions aside: 0 where one admits it, else 1."""
        sizes = (p.name for p in self.old.params if p.kind == "size")
        return {name: 0 if _admits_zero(self.old.preconditions, name) else 1 for name in sizes}

    def question(self) -> Question:
        """A script to be written."""
        return Question(self.old, self.least)

    def said(self, which: str, number: int) -> str:
        """A statement of the old or the new procedure in words."""
        program = self.old if which == "old" else self.new
        return f"`{program.statements[number].text}` (statement {number}, {which})"

    # --- what accesses stand for ------------------------------------------------------------

    def stands(self, of: Instance, access: Access) -> tuple[Stands, ...]:
        """Returns the old elements that an access of a new instance stands for: under one of these
        conditions at most."""
        if not self.counts(access):
            return ()
        copy = self.copies.get(of.number)
        if copy is not None:
            where = every([exists(of), of.holds(access.cell.within)])
            return (Stands(where, copy.cell.variable, element(of, copy.cell)),)
        return tuple(
            Stands(
                is_same_access(self.old, image, of, access),
                was.cell.variable,
                element(original(self.old, image, of), was.cell),
            )
            for image in (*self.by_new[of.number], *self._again(of.number))
            if self.counts(was := was_access(self.old, image, access))
        )

    def _again(self, number: int) -> tuple[Image, ...]:
        return (self.again[number],) if number in self.again else ()

    def originals(self, variable: str) -> Iterator[tuple[int, Image, Access]]:
        """New writes that are old ones of a variable."""
        for image in self.images:
            access = self.new.statements[image.new].write
            if self.counts(access) and self._was(image, access) == variable:
                yield image.new, image, access

    def _was(self, image: Image, access: Access) -> str:
        return was_access(self.old, image, access).cell.variable

    # --- zero -------------------------------------------------------------------------------

    def idle(self, of: Instance) -> BExpr:
        """The instance is a sum that stands for nothing and adds zero."""
        statement = of.statement
        if statement.kind != "+=":
            return FALSE
        live = some(one.where for one in self.stands(of, statement.write))
        return every([self.is_zero(of, statement.value), opposite(live)])

    def is_zero(self, of: Instance, value: Value) -> BExpr:
        """The value is zero there: made of zeros, and of reads that are said to find it."""
        match value:
            case Number():
                return TRUE if number(value.text) == 0 else FALSE
            case Nth():
                zero = self.witness.zeros.get((of.number, value.read))
                said = FALSE if zero is None else substitute_bool(zero.where, of.values)
                outside = opposite(of.holds(of.statement.reads[value.read].within))
                return some([said, outside])
            case Formula(function="negate" | "tf32"):
                return self.is_zero(of, value.terms[0])
            case Formula(function="+" | "-" | "*"):
                return every(self.is_zero(of, term) for term in value.terms)
            case Formula():
                return FALSE


def named_instance(program: Program, at: At, values: Values) -> Instance:
    """The instance that a witness names.  Raises WitnessError where there is none."""
    if at.statement >= len(program.statements):
        raise WitnessError(f"there is no statement {at.statement}")
    if len(program.statements[at.statement].iterators) != len(at.values):
        raise WitnessError(f"statement {at.statement} has other iterators")
    return instance(program, at.statement, [substitute(value, values) for value in at.values])


def _admits_zero(preconditions: Iterable[BExpr], size: Sym) -> bool:
    return any(
        control_variables(condition) == {size}
        and holds(condition, {size: 0})
        and bounded_below(condition, size)
        for precondition in preconditions
        for condition in conjuncts(precondition)
    )
