"""Finds the elements that a statement reads, and those it surely writes (decision `initialised`).

An instruction reads and writes what its body does, under the body's guards.  Where a body's loops
run over a box of its operand that box is a window, case by case where a bound is the least of two:

for m in seq(0, M):               if rows <= M: D[0 : rows, :]
    for n in seq(0, N):      ->   if M <= rows: D[0 : M, :]
        if m < rows:
            C[m, n] = D[m, n]

Elsewhere the loops stay, around one element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Final, TypeAlias

from exogpu.analysis import quantifiers
from exogpu.analysis.requirements import control_values, covers, indices_of
from exogpu.diagnostics.errors import NOWHERE
from exogpu.ir import nodes as ir
from exogpu.ir.affine import from_cexpr
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, reads, substitute, substitute_bool

MOST: Final = 8
"""Cases in which a window is written; beyond these the loops of the body stay."""


@dataclass(frozen=True, slots=True)
class Part:
    """The elements of a window, in the loops' iterations in which the guards hold."""

    each: tuple[quantifiers.Each, ...]
    guards: tuple[ir.BExpr, ...]
    access: ir.Access


_Indices: TypeAlias = tuple[ir.CExpr, ...]


@dataclass(frozen=True, slots=True)
class _Touched:
    """An element of an operand that an instruction's body touches, with what is around it."""

    each: tuple[quantifiers.Each, ...]
    guards: tuple[ir.BExpr, ...]
    indices: _Indices


@dataclass(frozen=True, slots=True)
class _Box:
    """A window of an operand, where the guards hold."""

    guards: tuple[ir.BExpr, ...]
    coords: tuple[ir.Coord, ...]


# --- statements -----------------------------------------------------------------------------


def read_by_call(call: ir.CallInstr, position: int) -> tuple[Part, ...]:
    """The elements of an argument that a call reads, without those that it has written before."""
    return _parts(call, position, _reads)


def written_by_call(call: ir.CallInstr, position: int) -> tuple[Part, ...]:
    """The elements of an argument that a call surely writes."""
    return _parts(call, position, _writes)


def _parts(
    call: ir.CallInstr, position: int, found: Callable[[ir.Instr, Sym], tuple[_Touched | _Box, ...]]
) -> tuple[Part, ...]:
    param, argument = call.instr.params[position], call.arguments[position]
    assert isinstance(param, ir.DataParam) and isinstance(argument, ir.Access)
    values = control_values(call.instr.params, call.arguments)
    several = (_in_caller(one, argument, values) for one in found(call.instr, param.name))
    return tuple(dict.fromkeys(part for part in several if ir.Truth(False) not in part.guards))


def _in_caller(one: _Touched | _Box, argument: ir.Access, values: Mapping[Sym, ir.CExpr]) -> Part:
    """Translates a part of an operand to a part of the caller's variable."""
    if isinstance(one, _Box):
        guards = [part for guard in one.guards for part in _guard_conditions(guard, values)]
        coords = _composed(argument.coords, one.coords, values)
        return Part((), tuple(guards), replace(argument, coords=coords, through=(), span=NOWHERE))
    names = {each.name: Sym(each.name.name) for each in one.each}
    inside = {**values, **{old: ir.CVar(new) for old, new in names.items()}}
    each = tuple(
        quantifiers.Each(names[e.name], substitute(e.lo, inside), substitute(e.hi, inside))
        for e in one.each
    )
    guards = [part for guard in one.guards for part in _guard_conditions(guard, inside)]
    coords = _composed(argument.coords, tuple(map(ir.Point, one.indices)), inside)
    return Part(each, tuple(guards), replace(argument, coords=coords, through=(), span=NOWHERE))


def _guard_conditions(guard: ir.BExpr, values: Mapping[Sym, ir.CExpr]) -> tuple[ir.BExpr, ...]:
    """Splits a guard into conditions that all hold where it does."""
    return quantifiers.parts(quantifiers.fold_condition(substitute_bool(guard, values)))


def _composed(
    coords: Sequence[ir.Coord], inner: Iterable[ir.Coord], values: Mapping[Sym, ir.CExpr]
) -> tuple[ir.Coord, ...]:
    """The window of the variable that a window of its window is."""
    left = iter(inner)
    found: list[ir.Coord] = []
    for coord in coords:
        if isinstance(coord, ir.Point):
            found.append(coord)
            continue
        match next(left, None):
            case None:
                found.append(ir.Point(coord.lo))
            case ir.Point(at):
                found.append(ir.Point(_plus(coord.lo, substitute(at, values))))
            case ir.Interval(lo, hi):
                ends = (_plus(coord.lo, substitute(end, values)) for end in (lo, hi))
                found.append(ir.Interval(*ends))
    return tuple(found)


def _plus(left: ir.CExpr, right: ir.CExpr) -> ir.CExpr:
    match left, right:
        case ir.Int(a), ir.Int(b):
            return ir.Int(a + b)
        case ir.Int(0), _:
            return right
        case _, ir.Int(0):
            return left
        case _:
            return ir.Add(left, right)


# --- bodies of instructions -----------------------------------------------------------------


@lru_cache(maxsize=1024)
def _reads(instr: ir.Instr, param: Sym) -> tuple[_Touched | _Box, ...]:
    body = _body(instr, param)
    return _boxed(body.shape, body.read)


@lru_cache(maxsize=1024)
def _writes(instr: ir.Instr, param: Sym) -> tuple[_Touched | _Box, ...]:
    body = _body(instr, param)
    return _boxed(body.shape, body.written)


def _body(instr: ir.Instr, param: Sym) -> _Body:
    (shape,) = (p.shape for p in instr.params if isinstance(p, ir.DataParam) and p.name == param)
    body = _Body(param, shape)
    for stmt in instr.body:
        body.known = body.statement(stmt, (), (), body.known)
        if any(not one.guards and covers(one.each, one.indices, shape) for one in body.written):
            break  # What follows reads what has been written.
    return body


class _Body:
    """The accesses of one operand in an instruction's body, in their order."""

    def __init__(self, param: Sym, shape: tuple[ir.CExpr, ...]) -> None:
        self.param = param
        self.shape = shape
        self.known = frozenset[_Indices]()
        """Elements that have been written at this point of the body."""
        self.read: list[_Touched] = []
        self.written: list[_Touched] = []

    def block(
        self,
        block: ir.Block,
        each: tuple[quantifiers.Each, ...],
        guards: tuple[ir.BExpr, ...],
        known: frozenset[_Indices],
    ) -> frozenset[_Indices]:
        """Goes over a block, before which these elements have been written; those after it."""
        for stmt in block:
            known = self.statement(stmt, each, guards, known)
        return known

    def statement(
        self,
        stmt: ir.Stmt,
        each: tuple[quantifiers.Each, ...],
        guards: tuple[ir.BExpr, ...],
        known: frozenset[_Indices],
    ) -> frozenset[_Indices]:
        match stmt:
            case ir.For():
                inner = (*each, quantifiers.Each(stmt.iterator, stmt.lo, stmt.hi))
                self.block(stmt.body, inner, guards, known)
                return known
            case ir.If():
                one = self.block(stmt.body, each, (*guards, stmt.condition), known)
                other = self.block(stmt.orelse, each, (*guards, ir.Not(stmt.condition)), known)
                return one & other
            case ir.Assign() | ir.Reduce():
                accesses = [*reads(stmt.value)]
                if isinstance(stmt, ir.Reduce):
                    accesses.append(stmt.target)
                for access in accesses:
                    if access.name == self.param and indices_of(access) not in known:
                        self.read.append(_Touched(each, guards, indices_of(access)))
                if stmt.target.name != self.param:
                    return known
                self.written.append(_Touched(each, guards, indices_of(stmt.target)))
                return known | {indices_of(stmt.target)}
            case _:
                return known


def _boxed(shape: tuple[ir.CExpr, ...], found: Iterable[_Touched]) -> tuple[_Touched | _Box, ...]:
    """The parts as windows where they are; all of the operand alone where some part is that."""
    made: list[_Touched | _Box] = []
    for one in dict.fromkeys(found):
        if not one.guards and covers(one.each, one.indices, shape):
            return (_Box((), tuple(ir.Interval(ir.Int(0), size) for size in shape)),)
        made += _windows(one) or [one]
    return tuple(dict.fromkeys(made))


def _windows(one: _Touched) -> list[_Box]:
    """The windows that the iterations touch, with conditions under which they do; none where these
    are no boxes."""
    names = {each.name for each in one.each}
    split = [
        part
        for guard in one.guards
        for part in quantifiers.parts(quantifiers.fold_condition(guard))
    ]
    inside = [guard for guard in split if control_variables(guard) & names]
    around = [guard for guard in split if not control_variables(guard) & names]
    ranges = quantifiers.ranges_of(one.each, inside)
    read = [name for index in one.indices for name in control_variables(index) & names]
    if ranges is None or len(set(read)) < len(read):
        return []
    bound = {name for guard in inside for name in control_variables(guard) & names}
    coords: list[list[tuple[ir.BExpr, ir.Coord]]] = []
    for index in one.indices:
        own = control_variables(index) & names
        choices = _ends(index, own, ranges, one.each, free=not own & bound)
        if choices is None:
            return []
        coords.append(choices)
    for name in names - set(read):
        los, his = ranges[name]
        around += (quantifiers.compared("<", lo, hi) for lo, hi in product(los, his))
    found: list[_Box] = []
    for chosen in product(*coords):
        guard = quantifiers.conjunction_of([*around, *(condition for condition, _ in chosen)])
        if guard != ir.Truth(False):
            found.append(_Box(quantifiers.parts(guard), tuple(coord for _, coord in chosen)))
    return found if len(found) <= MOST else []


def _ends(
    index: ir.CExpr,
    own: frozenset[Sym],
    ranges: Mapping[Sym, tuple[list[ir.CExpr], list[ir.CExpr]]],
    each: Sequence[quantifiers.Each],
    *,
    free: bool,
) -> list[tuple[ir.BExpr, ir.Coord]] | None:
    """The values of an index of the loops' variables, each with the condition under which they are
    these; None where they are no interval.  `free`: no guard bounds the variables."""
    if not own:
        return [(ir.Truth(True), ir.Point(index))]
    form = from_cexpr(index, {}, {})
    if len(own) == 1 and all(c == 1 for atom, c in form.terms if atom in own):
        (name,) = own
        if (name, 1) in form.terms:
            return [*_interval(index, name, *ranges[name])]
    values = quantifiers.values_of(index, each) if free else None
    if values is not None and max(values) - min(values) + 1 == len(values):
        return [(ir.Truth(True), ir.Interval(ir.Int(min(values)), ir.Int(max(values) + 1)))]
    return None


def _interval(
    index: ir.CExpr, name: Sym, los: Sequence[ir.CExpr], his: Sequence[ir.CExpr]
) -> Iterator[tuple[ir.BExpr, ir.Coord]]:
    """From the greatest of the lower bounds to the least of the upper ones."""
    for lo, hi in product(dict.fromkeys(los), dict.fromkeys(his)):
        greatest = [quantifiers.compared("<=", other, lo) for other in los if other != lo]
        least = [quantifiers.compared("<=", hi, other) for other in his if other != hi]
        condition = quantifiers.conjunction_of([*greatest, *least])
        first, end = (_tidy(substitute(index, {name: bound})) for bound in (lo, hi))
        if condition != ir.Truth(False):
            yield condition, ir.Interval(first, end)


def _tidy(expr: ir.CExpr) -> ir.CExpr:
    return _plus(expr.left, expr.right) if isinstance(expr, ir.Add) else expr
