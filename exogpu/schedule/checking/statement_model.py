"""Models the statements of a procedure in order, as relations: instances, accesses, times.

An event is one access of one statement: `P3_0[i, j]` is access 0 of statement 3 at iterators
`i, j`.  Loop modes and synchronisation are annotations and make no events.  A call has the events
of the body that it calls, `exogpu.schedule.checking.opened_procedure`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias, assert_never

from exogpu.analysis.domain import Domain
from exogpu.hw.memories import DRAM
from exogpu.ir import nodes as ir
from exogpu.ir import scalars
from exogpu.ir.render import conjunction, identifier, isl_cond, isl_expr
from exogpu.ir.types import DataType, Sym
from exogpu.ir.walk import map_blocks
from exogpu.schedule.expression_parts import children, with_children
from exogpu.schedule.rewrite import Site
from exogpu.symbolic.steps.same_value import Term, is_held, is_same_value, numbered

Time: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """An assignment or sum, and where it stands."""

    site: Site
    """As the procedure has it; inside a call, after the call the statement of the body."""
    plain: ir.Assign | ir.Reduce
    """The same on the variables of the procedure: windows and arguments are put in."""
    name: str
    domain: Domain
    holds: tuple[ir.BExpr, ...]
    """The bounds and guards around it: what `domain` says beside the preconditions."""
    time: Time
    events: tuple[Event, ...]
    constants: Mapping[Sym, scalars.Constant]
    """The constants that were given for parameters."""

    @property
    def stmt(self) -> ir.Stmt:
        """The statement of the procedure itself."""
        return self.site[0]

    @property
    def iterators(self) -> tuple[Sym, ...]:
        """The iterators of the loops around it, outermost first, those of bodies included."""
        return self.domain.iterators

    @property
    def constraint(self) -> str:
        """Its instances, as a constraint."""
        return conjunction(self.domain.constraints)


@dataclass(frozen=True, slots=True)
class Event:
    """One access of a statement."""

    name: str
    access: ir.Access
    writes: bool
    reduces: bool
    """The target of a `+=`: these commute with each other."""
    within: tuple[ir.BExpr, ...] = ()
    """The condition under which a clipped operand has the element: elsewhere it is zero, and not
    written."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A data variable: the loops around its allocation tell its copies apart."""

    name: Sym
    dtype: DataType
    shape: tuple[ir.CExpr, ...]
    iterators: tuple[Sym, ...]
    is_param: bool


@dataclass(frozen=True, slots=True)
class Called:
    """A call, and what its data parameters stand for."""

    stmt: ir.Stmt
    domain: Domain
    operands: Mapping[Sym, ir.Access]
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

    proc: ir.Proc
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
    return conjunction((place.constraint, *map(isl_cond, event.within)))


def cell(variable: Variable, access: ir.Access, at: Mapping[Sym, str]) -> str:
    """`C_7[io, m, n]`: the element, after the iterators of its allocation."""
    outer = [at.get(s, identifier(s)) for s in variable.iterators]
    inner = [isl_expr(coord.at) for coord in access.coords if isinstance(coord, ir.Point)]
    return f"{identifier(variable.name)}[{', '.join((*outer, *inner))}]"


def moment(program: Program, place: Place, event: Event) -> Time:
    """The time of an event: reads of a statement come before its writes."""
    padding = ["0"] * (program.depth - 1 - len(place.time))
    return (*place.time, *padding, "1" if event.writes else "0")


# Compares two statements: do they differ in their accesses alone?


def is_alike(
    old: Place,
    of_old: Mapping[Sym, Variable],
    new: Place,
    of_new: Mapping[Sym, Variable],
    reads: tuple[int, ...],
) -> bool:
    """Tests whether two statements compute the same of their reads, in the same types.

    `reads` says which read of the old statement each of the new one is; the sides of a sum or
    product may be exchanged.
    """
    if type(old.plain) is not type(new.plain) or sorted(reads) != list(range(len(reads))):
        return False
    before = _meaning(old, of_old, iter(range(len(reads))))
    return is_same_value(before, _meaning(new, of_new, iter(reads)))


def same_term(
    one: Place, of_one: Mapping[Sym, Variable], other: Place, of_other: Mapping[Sym, Variable]
) -> bool:
    """Tests whether two statements put the same of their reads into sums of one type: an assignment
    as it is rounded, `+=` as it is added."""
    types = of_one[one.plain.target.name].dtype, of_other[other.plain.target.name].dtype
    if types[0] is not types[1]:
        return False
    if not is_same_value(_meaning(one, of_one, count()), _meaning(other, of_other, count())):
        return False
    if type(one.plain) is type(other.plain):
        return True
    return adds_held(one, of_one) and adds_held(other, of_other)


def adds_held(place: Place, variables: Mapping[Sym, Variable]) -> bool:
    """Tests whether the variable that a statement adds to holds the added term."""
    leaves = (event for event in place.events if not event.writes and not event.reduces)
    kinds = [variables[event.access.name].dtype for event in leaves]
    dtype = variables[place.plain.target.name].dtype
    return is_held(_meaning(place, variables, count()), dtype, kinds)


def divides(place: Place, variables: Mapping[Sym, Variable]) -> bool:
    """Tests whether a statement divides integers by an expression that may be zero."""
    return any(
        isinstance(part, scalars.Operation)
        and part.function in scalars.DIVISIONS
        and part.dtype in scalars.INTEGERS
        and not _is_nonzero(part.arguments[1], place.constants)
        for part in scalars.parts(_typed(place, variables))
    )


def _is_nonzero(scalar: scalars.Scalar, constants: Mapping[Sym, scalars.Constant]) -> bool:
    """Tests whether it is a constant, or a parameter that stands for one, other than zero."""
    match scalar:
        case scalars.Constant():
            return scalar.value != 0
        case scalars.Element():
            known = constants.get(scalar.access.name)
            return known is not None and known.value != 0
        case scalars.Convert():
            return _is_nonzero(scalar.term, constants)
        case scalars.Operation():
            return False
        case _:
            assert_never(scalar)


def _meaning(place: Place, variables: Mapping[Sym, Variable], reads: Iterator[int]) -> Term:
    return numbered(_typed(place, variables), place.constants, reads)


def _typed(place: Place, variables: Mapping[Sym, Variable]) -> scalars.Scalar:
    def type_of(name: Sym) -> DataType:
        constant = place.constants.get(name)
        return variables[name].dtype if constant is None else constant.dtype

    meaning = (
        scalars.added_scalar if isinstance(place.plain, ir.Reduce) else scalars.assigned_scalar
    )
    return meaning(place.plain.value, variables[place.plain.target.name].dtype, type_of)


# Roundings as assignments of their own, for the comparison of results.
#
#     y += tf32(a) * b   ->   near: f32
#                             near = tf32(a)
#                             y += near * b
#
# A load may round what it copies, where the textbook rounds in the product: so both are one.


def separate_roundings(proc: ir.Proc) -> ir.Proc:
    """The procedure with an assignment for each rounding that is only a part of a value; what it
    computes is the same."""
    body = _block(proc.body)
    return proc if body is proc.body else replace(proc, body=body)


def _block(block: ir.Block) -> ir.Block:
    found = tuple(new for stmt in block for new in _statements(stmt))
    same = len(found) == len(block) and all(a is b for a, b in zip(found, block, strict=True))
    return block if same else found


def _statements(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
    if not isinstance(stmt, ir.Assign | ir.Reduce):
        yield map_blocks(stmt, _block)
        return
    before: list[ir.Stmt] = []
    value = _name_roundings(stmt.value, before, whole=isinstance(stmt, ir.Assign))
    yield from before
    yield replace(stmt, value=value) if before else stmt


def _name_roundings(expr: ir.DExpr, before: list[ir.Stmt], *, whole: bool = False) -> ir.DExpr:
    """The expression with names for its roundings, but for itself if it is the `whole` value."""
    found = with_children(expr, [_name_roundings(child, before) for child in children(expr)])
    if whole or not isinstance(found, ir.Apply) or found.function != "tf32":
        return found
    near = ir.Access(Sym("near"), ())
    before.append(ir.Alloc(near.name, DataType.F32, (), DRAM, span=found.span))
    before.append(ir.Assign(near, found, span=found.span))
    return ir.Read(near, found.span)
