"""Subject of a step's certificate: two procedures as the statements in them, and the map between
these.

Calls and windows are opened, launches are their bodies, and loop modes and synchronisation are left
out: what is left means something sequentially.  Variables have one name each, and expressions are
of these names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from exogpu.ir.names import Sym
from exogpu.ir.nodes import BExpr, CExpr
from exogpu.ir.types import DataType


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
    """Of a clipped operand, where it has the element: elsewhere it is zero, and not written."""


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
    """Of the new one's iterators."""
    reads: tuple[int, ...]
    """Which read of the old statement each one of the new is."""
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
"""How both procedures are compared: statement by statement, by what they leave, or as the same but
for laws, where the old or the new one has the whole."""


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
    """Of procedures that differ in statements that are read as others."""

    @property
    def by_results(self) -> bool:
        """Tests whether the procedures are compared by their results, and not by their
        statements."""
        return self.compared == "results"
