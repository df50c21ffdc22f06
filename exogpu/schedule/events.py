"""What the statements of a procedure do in order, as relations: instances, accesses, times.

An event is one access of one statement: `P3_0[i, j, w0]` is access 0 of statement 3 at iterators
`i, j`, and element `w0` of its window.  Loop modes and synchronisation are annotations and make
no events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from exogpu.analysis.inline import inline
from exogpu.analysis.instances import Domain, entry, where, within_loop
from exogpu.ir.isltext import bexpr, cexpr, conjunction, identifier
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Assign,
    Block,
    CallInstr,
    CExpr,
    DataParam,
    For,
    If,
    Interval,
    Not,
    Point,
    Proc,
    Reduce,
    Stmt,
    WindowStmt,
)
from exogpu.ir.types import DataType
from exogpu.ir.walk import blocks, passed, reads, walk

Time = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A statement that accesses data, and where it stands."""

    stmt: Stmt
    """As the procedure has it; `plain` is the same with windows resolved."""
    plain: Assign | Reduce | CallInstr
    name: str
    domain: Domain
    time: Time
    events: tuple[Event, ...]

    @property
    def iterators(self) -> tuple[Sym, ...]:
        """Of the loops around it, outermost first."""
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
    clipped: bool = False
    """Outside of its variable a read gives zero, and a write does nothing."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A data variable: the loops around its allocation tell its copies apart."""

    name: Sym
    dtype: DataType
    shape: tuple[CExpr, ...]
    iterators: tuple[Sym, ...]
    is_param: bool


@dataclass(frozen=True, slots=True)
class Program:
    """A procedure as the checker sees it."""

    proc: Proc
    params: tuple[str, ...]
    places: tuple[Place, ...]
    variables: Mapping[Sym, Variable]
    depth: int
    """Components of a time."""


def program(proc: Proc, tag: str) -> Program:
    """The events of a procedure without procedure calls; `tag` begins their names."""
    plain = inline(proc)
    originals = [s for s in walk(proc.body) if not isinstance(s, WindowStmt)]
    sources = dict(zip(walk(plain.body), originals, strict=True))
    reader = _Reader(sources, tag, [], {})
    domain = entry(proc)
    for param in proc.params:
        if isinstance(param, DataParam):
            variable = Variable(param.name, param.dtype, param.shape, (), True)
            reader.variables[param.name] = variable
    reader.block(plain.body, domain, ())
    params = tuple(identifier(p.name) for p in domain.params)
    depth = max((len(p.time) for p in reader.places), default=0) + 1
    return Program(proc, params, tuple(reader.places), reader.variables, depth)


@dataclass(slots=True)
class _Reader:
    sources: Mapping[Stmt, Stmt]
    tag: str
    places: list[Place]
    variables: dict[Sym, Variable]

    def block(self, block: Block, domain: Domain, time: Time) -> None:
        for at, stmt in enumerate(block):
            here = (*time, str(at))
            match stmt:
                case For():
                    inner = within_loop(domain, stmt.iterator, stmt.lo, stmt.hi)
                    self.block(stmt.body, inner, (*here, identifier(stmt.iterator)))
                case If():
                    self.block(stmt.body, where(domain, bexpr(stmt.condition)), (*here, "0"))
                    fails = where(domain, bexpr(Not(stmt.condition)))
                    self.block(stmt.orelse, fails, (*here, "1"))
                case Alloc():
                    self.variables[stmt.name] = Variable(
                        stmt.name, stmt.dtype, stmt.shape, domain.iterators, False
                    )
                case Assign() | Reduce() | CallInstr():
                    name = f"{self.tag}{len(self.places)}"
                    events = tuple(_events(stmt, name))
                    place = Place(self.sources[stmt], stmt, name, domain, here, events)
                    self.places.append(place)
                case _:
                    for inner_block in blocks(stmt):
                        self.block(inner_block, domain, here)


def _events(stmt: Assign | Reduce | CallInstr, name: str) -> Iterator[Event]:
    """The accesses of a statement, reads before writes."""
    number = count()
    match stmt:
        case Assign() | Reduce():
            for access in reads(stmt.value):
                yield Event(f"{name}_{next(number)}", access, False, False)
            summed = isinstance(stmt, Reduce)
            if summed:
                yield Event(f"{name}_{next(number)}", stmt.target, False, True)
            yield Event(f"{name}_{next(number)}", stmt.target, True, summed)
        case CallInstr():
            given = passed(stmt)
            # An instruction may leave elements of what it writes as they are: so it reads them.
            for one, writes in (*((o, False) for o in given), *((o, True) for o in given)):
                if one.written or not writes:
                    clipped = one.param.operand is not None and one.param.operand.clipped
                    yield Event(f"{name}_{next(number)}", one.access, writes, False, clipped)


# --- text -----------------------------------------------------------------------------------


def tuple_of(place: Place, event: Event) -> str:
    """`P3_0[i, j, w0]`"""
    dims = (*map(identifier, place.iterators), *elements(event))
    return f"{event.name}[{', '.join(dims)}]"


def elements(event: Event) -> tuple[str, ...]:
    """Names of the positions in a window, one an interval."""
    rank = sum(isinstance(coord, Interval) for coord in event.access.coords)
    return tuple(f"w{n}" for n in range(rank))


def inside(event: Event) -> str:
    """The constraint of a window's positions."""
    windows = [c for c in event.access.coords if isinstance(c, Interval)]
    return conjunction(f"0 <= w{n} < {cexpr(c.hi)} - {cexpr(c.lo)}" for n, c in enumerate(windows))


def cell(variable: Variable, access: Access, at: Mapping[Sym, str]) -> str:
    """`C_7[io, m, n]`: the element, after the iterators of its allocation."""
    outer = [at.get(s, identifier(s)) for s in variable.iterators]
    inner: list[str] = []
    rank = 0
    for coord in access.coords:
        if isinstance(coord, Point):
            inner.append(cexpr(coord.at))
        else:
            inner.append(f"{cexpr(coord.lo)} + w{rank}")
            rank += 1
    return f"{identifier(variable.name)}[{', '.join((*outer, *inner))}]"


def moment(program: Program, place: Place, event: Event) -> str:
    """The time of an event: reads of a statement come before its writes."""
    padding = ["0"] * (program.depth - 1 - len(place.time))
    return f"[{', '.join((*place.time, *padding, '1' if event.writes else '0'))}]"
