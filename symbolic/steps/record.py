"""Subject of a step's certificate: two procedures as the statements in them, and the map between
these.

Calls and windows are opened, launches are their bodies, and loop modes and synchronisation are left
out: what is left means something sequentially.  Variables have one name each, and expressions are
of these names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from exogpu.ir.nodes import BExpr, CExpr, CVar, Int
from exogpu.ir.types import DataType, Sym
from exogpu.ir.walk import substitute, substitute_bool
from exogpu.symbolic.encode.formulas import (
    at_most,
    conjunction_of,
    disjunction_of,
    equal,
    less_than,
)
from exogpu.symbolic.encode.script import Script


@dataclass(frozen=True, slots=True)
class Number:
    """A constant, in its own text; with a type where a parameter was given it."""

    text: str
    dtype: DataType | None = None


@dataclass(frozen=True, slots=True)
class Nth:
    """The value of the n-th read of the statement, from 0."""

    read: int


@dataclass(frozen=True, slots=True)
class Formula:
    """An operation: `+ - * /`, `negate`, or a function."""

    function: str
    terms: tuple[Value, ...]


Value: TypeAlias = Number | Nth | Formula


@dataclass(frozen=True, slots=True)
class Cell:
    """An element of a variable: the iterators around its allocation are its first indices."""

    variable: str
    index: tuple[CExpr, ...]
    within: tuple[BExpr, ...] = ()
    """The condition under which a clipped operand has the element: elsewhere it is zero, and not
    written."""


@dataclass(frozen=True, slots=True)
class Statement:
    """An assignment or sum, with what is around it."""

    kind: Literal["=", "+="]
    iterators: tuple[Sym, ...]
    holds: tuple[BExpr, ...]
    """The bounds of its loops, and its guards."""
    time: tuple[CExpr, ...]
    """Constants and iterators; the first counts most.  Shorter ones go on with zeros."""
    reads: tuple[Cell, ...]
    target: Cell
    value: Value
    line: int
    text: str

    @property
    def accesses(self) -> tuple[Access, ...]:
        """All of its accesses, reads before the write; of a sum, its target is the last read."""
        summed = self.kind == "+="
        last = len(self.reads)
        found = [Access(n, cell, False, False) for n, cell in enumerate(self.reads)]
        if summed:
            found.append(Access(last, self.target, False, True))
        found.append(Access(last + summed, self.target, True, summed))
        return tuple(found)

    @property
    def write(self) -> Access:
        """Its last access."""
        return self.accesses[-1]


@dataclass(frozen=True, slots=True)
class Access:
    """One access of a statement."""

    number: int
    cell: Cell
    writes: bool
    reduces: bool
    """The target of a `+=`: these commute with each other."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A data variable; `loops` are those around its allocation, one copy each iteration."""

    name: str
    dtype: DataType
    shape: tuple[CExpr, ...]
    loops: tuple[Sym, ...]
    is_param: bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """A control parameter."""

    name: Sym
    kind: Literal["size", "index"]


@dataclass(frozen=True)
class Program:
    """A procedure as its statements."""

    params: tuple[Parameter, ...]
    preconditions: tuple[BExpr, ...]
    variables: tuple[Variable, ...]
    statements: tuple[Statement, ...]

    @cached_property
    def by_name(self) -> Mapping[str, Variable]:
        """The variables."""
        return {variable.name: variable for variable in self.variables}

    @cached_property
    def depth(self) -> int:
        """The longest time of a statement."""
        return max((len(s.time) for s in self.statements), default=0)

    def accesses(self) -> Iterator[tuple[int, Access]]:
        """Each access with the number of its statement."""
        for number, statement in enumerate(self.statements):
            for access in statement.accesses:
                yield number, access


@dataclass(frozen=True, slots=True)
class Image:
    """A new statement is an old one, at these values of the old one's iterators, where both
    happen."""

    new: int
    old: int
    at: tuple[CExpr, ...]
    """The coordinates in the new one's iterators."""
    reads: tuple[int, ...]
    """The number of the old statement's read for each one of the new."""
    only: tuple[BExpr, ...] = ()
    """Where the new statement is that one; elsewhere it stands for nothing."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A new statement copies the value that an element of the old procedure has there."""

    new: int
    cell: Cell


@dataclass(frozen=True, slots=True)
class Law:
    """Statements of one procedure that do what others do in their place in the other one."""

    whole: tuple[int, ...]
    parts: tuple[int, ...]


Compared: TypeAlias = Literal["statements", "results", "whole to parts", "parts to whole"]
"""The way in which both procedures are compared: statement by statement, by their results, or as
the same but for laws, where the old or the new one has the whole."""


@dataclass(frozen=True, slots=True)
class Record:
    """A step."""

    old: Program
    new: Program
    images: tuple[Image, ...]
    copies: tuple[Copy, ...]
    again: tuple[Image, ...] = ()
    """New statements that compute once more what an old one did, and keep it elsewhere."""
    compared: Compared = "statements"
    laws: tuple[Law, ...] = ()
    """The laws under which the statements of procedures that differ are the same."""

    @property
    def by_results(self) -> bool:
        """Tests whether the procedures are compared by their results, and not by their
        statements."""
        return self.compared == "results"


# Formulas about instances of statements, and scripts that ask about them.

Values: TypeAlias = Mapping[Sym, CExpr]
"""The values of iterators."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One execution of a statement of a program."""

    program: Program
    number: int
    values: Values

    @property
    def statement(self) -> Statement:
        """The statement that is executed."""
        return self.program.statements[self.number]

    def form(self, expr: CExpr) -> CExpr:
        """The expression at this instance."""
        return substitute(expr, self.values)

    def holds(self, conditions: Iterable[BExpr]) -> BExpr:
        """The conditions at this instance, together."""
        return conjunction_of(substitute_bool(one, self.values) for one in conditions)

    @property
    def iterator_values(self) -> tuple[CExpr, ...]:
        """The values of its iterators."""
        return tuple(self.values[name] for name in self.statement.iterators)


def instance(program: Program, number: int, at: Sequence[CExpr]) -> Instance:
    """The instance of a statement at these values of its iterators."""
    names = program.statements[number].iterators
    return Instance(program, number, dict(zip(names, at, strict=True)))


def exists(of: Instance) -> BExpr:
    """It is executed."""
    return of.holds(of.statement.holds)


def happens(of: Instance, access: Access) -> BExpr:
    """It is executed and makes the access."""
    return conjunction_of([exists(of), of.holds(access.cell.within)])


def element(of: Instance, cell: Cell) -> tuple[CExpr, ...]:
    """The element, after the iterators of its allocation."""
    return tuple(map(of.form, cell.index))


def same_element(one: Sequence[CExpr], other: Sequence[CExpr]) -> BExpr:
    """Two elements of one variable are one."""
    return conjunction_of(equal(a, b) for a, b in zip(one, other, strict=True))


def lies_in_variable(variable: Variable, index: Sequence[CExpr], values: Values) -> BExpr:
    """The element lies inside its variable."""
    own = index[len(variable.loops) :]
    extents = [substitute(extent, values) for extent in variable.shape]
    return conjunction_of(
        term
        for at, extent in zip(own, extents, strict=True)
        for term in (at_most(Int(0), at), less_than(at, extent))
    )


# --- images -------------------------------------------------------------------------------------


def original(old: Program, image: Image, new: Instance) -> Instance:
    """The old instance that a new one is."""
    return instance(old, image.old, [new.form(expr) for expr in image.at])


def is_one(old: Program, image: Image, new: Instance) -> BExpr:
    """The new instance is that old one: both are executed, where it is said to be."""
    return conjunction_of([exists(new), new.holds(image.only), exists(original(old, image, new))])


def was_access(old: Program, image: Image, access: Access) -> Access:
    """The access of the old statement that one of the new statement is."""
    accesses = old.statements[image.old].accesses
    count = len(image.reads)
    return accesses[image.reads[access.number] if access.number < count else access.number]


def is_same_access(old: Program, image: Image, new: Instance, access: Access) -> BExpr:
    """The new instance is that old one, and both make the access."""
    was = original(old, image, new)
    before = was_access(old, image, access).cell
    return conjunction_of(
        [is_one(old, image, new), new.holds(access.cell.within), was.holds(before.within)]
    )


# --- order --------------------------------------------------------------------------------------


def moment(of: Instance, access: Access) -> tuple[CExpr, ...]:
    """Returns the time of an access: reads of a statement come before its write."""
    time = tuple(map(of.form, of.statement.time))
    padding = (Int(0),) * (of.program.depth - len(time))
    return (*time, *padding, Int(int(access.writes)))


def earlier(one: Sequence[CExpr], other: Sequence[CExpr], *, or_same: bool = False) -> BExpr:
    """One moment comes before another; or they are the same, where that is allowed."""
    orders: list[BExpr] = []
    equals: list[BExpr] = []
    for a, b in zip(one, other, strict=True):
        if isinstance(a, Int) and isinstance(b, Int) and a.value != b.value:
            if a.value < b.value:
                orders.append(conjunction_of(equals))
            return disjunction_of(orders)
        if a != b:
            orders.append(conjunction_of([*equals, less_than(a, b)]))
            equals.append(equal(a, b))
    if or_same:
        orders.append(conjunction_of(equals))
    return disjunction_of(orders)


# --- scripts ------------------------------------------------------------------------------------


class Question:
    """A script that asks for a case in which something fails, at any sizes."""

    def __init__(self, program: Program, least: Mapping[Sym, int]) -> None:
        self._script = Script({}, {})
        for param in program.params:
            self._script.constant(param.name)
        for name, value in least.items():
            self._script.assume(at_most(Int(value), CVar(name)))
        for precondition in program.preconditions:
            self._script.assume(precondition)

    def instance(self, program: Program, number: int, label: str) -> Instance:
        """Some instance of a statement, executed or not."""
        names = program.statements[number].iterators
        at = [self._script.constant(Sym(name.name), f"{label}.") for name in names]
        return instance(program, number, at)

    def numbers(self, label: str, count: int) -> tuple[CExpr, ...]:
        """Some integers."""
        return tuple(self._script.constant(Sym(f"{label}{n}")) for n in range(count))

    def element(self, variable: Variable) -> tuple[CExpr, ...]:
        """Some element of a parameter."""
        found = self.numbers("element", len(variable.shape))
        self.assume(lies_in_variable(variable, found, {}))
        return found

    def assume(self, formula: BExpr) -> None:
        """Assumes a formula."""
        self._script.assume(formula)

    def expose(self, failures: Iterable[BExpr], claim: str) -> str:
        """The script, which is answered `unsat` if none of the failures can be."""
        named = [self._script.node("failure", [one]) for one in failures]
        self._script.expose(list(dict.fromkeys(named)))
        return self._script.text(claim)
