"""Models the statements of a procedure in order, as relations: instances, accesses, times.

An event is one access of one statement: `P3_0[i, j]` is access 0 of statement 3 at iterators
`i, j`.  Loop modes and synchronisation are annotations and make no events.  A call has the events
of the body that it calls, `exogpu.schedule.opening`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from exogpu.analysis.instances import Domain
from exogpu.ir.isltext import bexpr, cexpr, conjunction, identifier
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, Assign, BExpr, CExpr, Point, Proc, Reduce, Stmt
from exogpu.ir.scalars import Constant
from exogpu.ir.types import DataType
from exogpu.schedule.rewrite import Site

Time: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """An assignment or sum, and where it stands."""

    site: Site
    """As the procedure has it; inside a call, after the call the statement of the body."""
    plain: Assign | Reduce
    """The same on the variables of the procedure: windows and arguments are put in."""
    name: str
    domain: Domain
    holds: tuple[BExpr, ...]
    """The bounds and guards around it: what `domain` says beside the preconditions."""
    time: Time
    events: tuple[Event, ...]
    constants: Mapping[Sym, Constant]
    """What parameters stand for that were given a constant."""

    @property
    def stmt(self) -> Stmt:
        """The statement of the procedure itself."""
        return self.site[0]

    @property
    def iterators(self) -> tuple[Sym, ...]:
        """The iterators of the loops around it, outermost first, those of bodies included."""
        return self.domain.iterators

    @property
    def where(self) -> str:
        """Its instances, as a constraint."""
        return conjunction(self.domain.constraints)


@dataclass(frozen=True, slots=True)
class Event:
    """One access of a statement."""

    name: str
    access: Access
    writes: bool
    reduces: bool
    """The target of a `+=`: these commute with each other."""
    within: tuple[BExpr, ...] = ()
    """Of a clipped operand, where it has the element: elsewhere it is zero, and not written."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A data variable: the loops around its allocation tell its copies apart."""

    name: Sym
    dtype: DataType
    shape: tuple[CExpr, ...]
    iterators: tuple[Sym, ...]
    is_param: bool


@dataclass(frozen=True, slots=True)
class Called:
    """A call, and what its data parameters stand for."""

    stmt: Stmt
    domain: Domain
    operands: Mapping[Sym, Access]
    """Windows of variables of the procedure, by parameter."""


@dataclass(frozen=True, slots=True)
class Said:
    """Statements, and those that are read in their place."""

    whole: tuple[Place, ...]
    parts: tuple[Place, ...]
    made: frozenset[Sym]
    """The variables of the parts alone."""


@dataclass(frozen=True, slots=True)
class Program:
    """A procedure as the checker sees it."""

    proc: Proc
    params: tuple[str, ...]
    places: tuple[Place, ...]
    variables: Mapping[Sym, Variable]
    depth: int
    """Components of a time."""
    readings: tuple[Said, ...] = ()
    calls: tuple[Called, ...] = ()


# --- text -----------------------------------------------------------------------------------


def tuple_of(place: Place, event: Event) -> str:
    """`P3_0[i, j]`"""
    return f"{event.name}[{', '.join(map(identifier, place.iterators))}]"


def instances(place: Place, event: Event) -> str:
    """`P3_0[i, j] : 0 <= i < n`"""
    return f"{tuple_of(place, event)} : {happens(place, event)}"


def happens(place: Place, event: Event) -> str:
    """The constraint that an event happens at an instance."""
    return conjunction((place.where, *map(bexpr, event.within)))


def cell(variable: Variable, access: Access, at: Mapping[Sym, str]) -> str:
    """`C_7[io, m, n]`: the element, after the iterators of its allocation."""
    outer = [at.get(s, identifier(s)) for s in variable.iterators]
    inner = [cexpr(coord.at) for coord in access.coords if isinstance(coord, Point)]
    return f"{identifier(variable.name)}[{', '.join((*outer, *inner))}]"


def moment(program: Program, place: Place, event: Event) -> Time:
    """The time of an event: reads of a statement come before its writes."""
    padding = ["0"] * (program.depth - 1 - len(place.time))
    return (*place.time, *padding, "1" if event.writes else "0")
