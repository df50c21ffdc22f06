"""Formulas about instances of statements, and scripts that ask about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from exogpu.ir.names import Sym
from exogpu.ir.nodes import BExpr, CExpr, CVar, Int
from exogpu.ir.walk import substitute, substitute_bool
from exogpu.symbolic.encode.formulas import at_most, equal, every, less, some
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.steps.record import Access, Cell, Image, Program, Statement, Variable

Values: TypeAlias = Mapping[Sym, CExpr]
"""Of iterators."""


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
        return every(substitute_bool(one, self.values) for one in conditions)

    @property
    def at(self) -> tuple[CExpr, ...]:
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
    return every([exists(of), of.holds(access.cell.within)])


def element(of: Instance, cell: Cell) -> tuple[CExpr, ...]:
    """The element, after the iterators of its allocation."""
    return tuple(map(of.form, cell.index))


def same_element(one: Sequence[CExpr], other: Sequence[CExpr]) -> BExpr:
    """Two elements of one variable are one."""
    return every(equal(a, b) for a, b in zip(one, other, strict=True))


def inside(variable: Variable, index: Sequence[CExpr], values: Values) -> BExpr:
    """The element lies inside its variable."""
    own = index[len(variable.loops) :]
    extents = [substitute(extent, values) for extent in variable.shape]
    return every(
        term
        for at, extent in zip(own, extents, strict=True)
        for term in (at_most(Int(0), at), less(at, extent))
    )


# --- images -------------------------------------------------------------------------------------


def original(old: Program, image: Image, new: Instance) -> Instance:
    """The old instance that a new one is."""
    return instance(old, image.old, [new.form(expr) for expr in image.at])


def is_one(old: Program, image: Image, new: Instance) -> BExpr:
    """The new instance is that old one: both are executed, where it is said to be."""
    return every([exists(new), new.holds(image.only), exists(original(old, image, new))])


def was_access(old: Program, image: Image, access: Access) -> Access:
    """The access of the old statement that one of the new statement is."""
    accesses = old.statements[image.old].accesses
    count = len(image.reads)
    return accesses[image.reads[access.number] if access.number < count else access.number]


def is_same_access(old: Program, image: Image, new: Instance, access: Access) -> BExpr:
    """The new instance is that old one, and both make the access."""
    was = original(old, image, new)
    before = was_access(old, image, access).cell
    return every([is_one(old, image, new), new.holds(access.cell.within), was.holds(before.within)])


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
                orders.append(every(equals))
            return some(orders)
        if a != b:
            orders.append(every([*equals, less(a, b)]))
            equals.append(equal(a, b))
    if or_same:
        orders.append(every(equals))
    return some(orders)


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
        self.assume(inside(variable, found, {}))
        return found

    def assume(self, formula: BExpr) -> None:
        """Assumes a formula."""
        self._script.assume(formula)

    def expose(self, failures: Iterable[BExpr], claim: str) -> str:
        """The script, which is answered `unsat` if none of the failures can be."""
        named = [self._script.node("failure", [one]) for one in failures]
        self._script.expose(list(dict.fromkeys(named)))
        return self._script.text(claim)
