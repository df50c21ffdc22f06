"""From an index of a window to the indices of the variables behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from exogpu.analysis import quantifiers
from exogpu.analysis.domain import Domain, bind_range, controls, least
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir import nodes as ir
from exogpu.ir.render import isl_expr
from exogpu.ir.types import Sym
from exogpu.ir.walk import (
    Declaration,
    accesses,
    control_variables,
    declarations,
    substitute,
    substitute_bool,
)


@dataclass(frozen=True, slots=True)
class View:
    """Meaning of the name of a data or barrier variable."""

    extents: tuple[ir.CExpr, ...] | None
    """One a dimension; None where they are checked elsewhere (an operand of a call)."""
    source: ir.Access | None = None
    """The window of another variable that it is."""


Views = Mapping[Sym, View]


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a variable or window that has extents to keep."""

    name: Sym
    indices: tuple[ir.CExpr, ...]
    extents: tuple[ir.CExpr, ...]


def extent(coord: ir.Interval) -> ir.CExpr:
    """The extent of an interval."""
    return coord.hi if coord.lo == ir.Int(0) else ir.Sub(coord.hi, coord.lo)


def intervals(access: ir.Access) -> tuple[ir.Interval, ...]:
    """The interval coordinates: the window's dimensions."""
    return tuple(c for c in access.coords if isinstance(c, ir.Interval))


def views_of(proc: ir.Proc | ir.Instr) -> dict[Sym, View]:
    """The views of a procedure's own names."""
    return {name: _view(declaration) for name, declaration in declarations(proc).items()}


def _view(declaration: Declaration) -> View:
    if isinstance(declaration, ir.WindowStmt):
        extents = tuple(extent(c) for c in intervals(declaration.source))
        return View(extents, declaration.source)
    return View(declaration.shape)


def operand_views(
    params: tuple[ir.Param, ...], arguments: tuple[ir.Argument, ...]
) -> dict[Sym, View]:
    """The views of a callee's data parameters, in terms of the caller's variables.

    A clipped operand stands for nothing: outside elements read as zero (decision `bounds`).
    """
    found: dict[Sym, View] = {}
    for param, argument in zip(params, arguments, strict=False):
        if isinstance(param, ir.DataParam) and isinstance(argument, ir.Access):
            clipped = param.operand is not None and param.operand.clipped
            found[param.name] = View(None, None if clipped else argument)
    return found


def control_values(
    params: tuple[ir.Param, ...], arguments: tuple[ir.Argument, ...]
) -> dict[Sym, ir.CExpr]:
    """The values of a callee's control parameters, in terms of the caller's variables."""
    return {
        param.name: argument
        for param, argument in zip(params, arguments, strict=False)
        if isinstance(param, ir.ControlParam) and not isinstance(argument, ir.Access | ir.Const)
    }


def elements(views: Views, name: Sym, indices: tuple[ir.CExpr, ...]) -> Iterator[Element]:
    """The element that an index means, of the name itself and of what it is a window of."""
    view = views.get(name)
    if view is None:
        return
    if view.extents is not None:
        yield Element(name, indices, view.extents)
    if view.source is not None:
        yield from elements(views, view.source.name, compose(view.source.coords, indices))


def compose(coords: tuple[ir.Coord, ...], indices: tuple[ir.CExpr, ...]) -> tuple[ir.CExpr, ...]:
    """The index of the source that an index of its window means."""
    left = iter(indices)
    found: list[ir.CExpr] = []
    for coord in coords:
        if isinstance(coord, ir.Interval):
            index = next(left, ir.Int(0))
            found.append(index if coord.lo == ir.Int(0) else ir.Add(coord.lo, index))
        else:
            found.append(coord.at)
    return tuple(found)


def any_element(domain: Domain, access: ir.Access) -> tuple[Domain, tuple[ir.CExpr, ...]]:
    """The domain of the elements of an access, and their index."""
    indices: list[ir.CExpr] = []
    for coord in access.coords:
        if isinstance(coord, ir.Interval):
            name = Sym("element")
            domain = bind_range(domain, name, coord.lo, coord.hi)
            indices.append(ir.CVar(name))
        else:
            indices.append(coord.at)
    return domain, tuple(indices)


def outside(element: Element) -> str:
    """ISL text: the element lies outside its variable."""
    sides: list[str] = []
    for index, size in zip(element.indices, element.extents, strict=False):
        if isinstance(index, ir.Int) and isinstance(size, ir.Int) and 0 <= index.value < size.value:
            continue
        at = isl_expr(index)
        sides.append(f"{at} < 0 or {at} >= {isl_expr(size)}")
    return " or ".join(sides)


# Conditions, in the language itself, that must hold whenever a statement is executed.
#
# They stand in the abstract machine's program (`Require`), so that a proof asks a solver of them:
# what ISL finds of bounds and operands finds violations, and proves nothing.

Variable: TypeAlias = ir.DataParam | ir.Alloc | ir.BarrierAlloc


@dataclass(frozen=True, slots=True)
class Required:
    """For all values of `each`, all conditions hold; else it is a hazard of this kind."""

    kind: HazardKind
    variable: Sym | None
    """None of what an instruction asks of all of its arguments."""
    each: tuple[quantifiers.Each, ...]
    conditions: tuple[ir.BExpr, ...]


# --- what a statement requires --------------------------------------------------------------


def required_conditions(stmt: ir.Stmt, declared: Mapping[Sym, Variable]) -> Iterator[Required]:
    """Yields the bounds conditions of a statement of an inlined procedure, beside those of its
    records: windows lie inside their variables."""
    match stmt:
        case ir.Alloc() | ir.BarrierAlloc():
            conditions = quantifiers.conjunction_of(
                quantifiers.compared("<=", ir.Int(0), size) for size in stmt.shape
            )
            yield from _bounds(stmt.name, (), conditions)
        case ir.CallInstr():
            yield from _call(stmt, declared)
        case ir.Uninit():
            yield from _whole_window(stmt.access, declared[stmt.access.name], recorded=False)
        case ir.Pass():
            for access in stmt.given:
                yield from _whole_window(access, declared[access.name], recorded=False)
        case ir.If():
            return
        case _:
            for access in accesses(stmt):
                yield from _whole_window(access, declared[access.name])


def _bounds(
    variable: Sym | None, each: tuple[quantifiers.Each, ...], condition: ir.BExpr
) -> Iterator[Required]:
    if found := quantifiers.parts(condition):
        yield Required(HazardKind.BOUNDS, variable, each, found)


def _whole_window(
    access: ir.Access, variable: Variable, *, recorded: bool = True
) -> Iterator[Required]:
    """Every element of a window lies in the windows between, and in the allocation at hand."""
    arrays = [(t.coords, t.extents) for t in access.through]
    if not (recorded and _known_by_record(variable)):
        arrays.append((access.coords, variable.shape))
    yield from _bounds(
        access.name,
        (),
        quantifiers.conjunction_of(quantifiers.within_extents(*array) for array in arrays),
    )


def _known_by_record(variable: Variable) -> bool:
    """Tests whether a record's window is the only bound to check: the variable has records, and its
    extents are the same wherever it is allocated."""
    if isinstance(variable, ir.BarrierAlloc):
        return not any(map(control_variables, variable.shape))
    if variable.memory.sync_exempt:
        return False
    return isinstance(variable, ir.DataParam) or not any(map(control_variables, variable.shape))


def _call(call: ir.CallInstr, declared: Mapping[Sym, Variable]) -> Iterator[Required]:
    """The elements that the instruction's body touches under its guards (decision `bounds`), and
    what the instruction asks of its arguments."""
    instr = call.instr
    values = control_values(instr.params, call.arguments)
    for param, argument in zip(instr.params, call.arguments, strict=True):
        if not isinstance(param, ir.DataParam) or not isinstance(argument, ir.Access):
            continue
        if param.operand is not None and param.operand.clipped:
            continue
        if touches_all(instr, param.name):
            yield from _whole_window(argument, declared[argument.name])
            continue
        for each, guards, access in accesses_of_parameter(instr.body, param.name, (), ()):
            indices = tuple(substitute(i, values) for i in indices_of(access))
            sides = tuple(_window_conditions(argument, declared[argument.name], indices))
            guarded = [substitute_bool(guard, values) for guard in guards]
            bound = tuple(
                quantifiers.Each(e.name, substitute(e.lo, values), substitute(e.hi, values))
                for e in each
            )
            simple = quantifiers.for_each(bound, guarded, sides)
            if simple is not None:
                # Said even where it always holds: the operand's records say nothing of bounds.
                conditions = quantifiers.parts(simple) or (simple,)
                yield Required(HazardKind.BOUNDS, argument.name, (), conditions)
            else:
                condition = quantifiers.conjunction_of(
                    quantifiers.within_extents([ir.Point(s.index)], [s.extent]) for s in sides
                )
                implied = (
                    condition
                    if not guarded
                    else quantifiers.disjunction_of(
                        [ir.Not(quantifiers.conjunction_of(guarded)), condition]
                    )
                )
                yield from _bounds(argument.name, bound, implied)
    if call.trailing is not None:
        yield from _whole_window(call.trailing, declared[call.trailing.name])
    yield from _bounds(None, (), quantifiers.conjunction_of(_contract(call, values)))


def _contract(call: ir.CallInstr, values: Mapping[Sym, ir.CExpr]) -> Iterator[ir.BExpr]:
    """The instruction's preconditions hold, and the windows have the extents of its operands."""
    instr = call.instr
    for control in controls(instr):
        if control.kind == "size" and control.name in values:
            yield quantifiers.compared(
                "<=", ir.Int(least(instr, control.name)), values[control.name]
            )
    for precondition in instr.preconditions:
        yield quantifiers.fold_condition(substitute_bool(precondition, values))
    for param, argument in zip(instr.params, call.arguments, strict=True):
        if isinstance(param, ir.DataParam) and isinstance(argument, ir.Access):
            given = (extent(c) for c in intervals(argument))
            for one, asked in zip(given, param.shape, strict=False):
                yield quantifiers.compared("==", one, substitute(asked, values))


def _window_conditions(
    argument: ir.Access, variable: Variable, indices: tuple[ir.CExpr, ...]
) -> Iterator[quantifiers.Side]:
    """The element with these indices in a window lies in its variable and the windows between."""
    arrays = [(argument.coords, variable.shape)]
    arrays += ((t.coords, t.extents) for t in argument.through)
    for coords, extents in arrays:
        yield from map(quantifiers.Side, compose(coords, indices), extents)


# --- what an instruction's body touches -----------------------------------------------------


@lru_cache(maxsize=1024)
def touches_all(instr: ir.Instr, param: Sym) -> bool:
    """Tests whether the body of an instruction surely touches all of an operand: some access, under
    no guard, runs over its extents."""
    (shape,) = (p.shape for p in instr.params if isinstance(p, ir.DataParam) and p.name == param)
    return any(
        not guards and covers(each, indices_of(access), shape)
        for each, guards, access in accesses_of_parameter(instr.body, param, (), ())
    )


def covers(
    each: tuple[quantifiers.Each, ...], indices: tuple[ir.CExpr, ...], shape: tuple[ir.CExpr, ...]
) -> bool:
    """Tests whether indices run over all extents, each with a loop of its own."""
    loops = {one.name: one for one in each}
    for index, size in zip(indices, shape, strict=True):
        if not isinstance(index, ir.CVar) or index.name not in loops:
            return False
        one = loops.pop(index.name)
        if one.lo != ir.Int(0) or one.hi != size:
            return False
    # A loop that the indices do not read has an iteration.
    return all(
        quantifiers.compared("<", one.lo, one.hi) == ir.Truth(True) for one in loops.values()
    )


_Touched: TypeAlias = tuple[tuple[quantifiers.Each, ...], tuple[ir.BExpr, ...], ir.Access]


def accesses_of_parameter(
    block: ir.Block, param: Sym, each: tuple[quantifiers.Each, ...], guards: tuple[ir.BExpr, ...]
) -> Iterator[_Touched]:
    """The accesses of a parameter in the body, with the loops and guards around them."""
    for stmt in block:
        match stmt:
            case ir.For():
                inner = (*each, quantifiers.Each(stmt.iterator, stmt.lo, stmt.hi))
                yield from accesses_of_parameter(stmt.body, param, inner, guards)
            case ir.If():
                one = [*accesses_of_parameter(stmt.body, param, each, ())]
                other = [*accesses_of_parameter(stmt.orelse, param, each, ())]
                yield from ((e, (*guards, *g), a) for e, g, a in one if (e, g, a) in other)
                for found, beside, condition in (
                    (one, other, stmt.condition),
                    (other, one, ir.Not(stmt.condition)),
                ):
                    alone = (t for t in found if t not in beside)
                    yield from ((e, (*guards, condition, *g), a) for e, g, a in alone)
            case _:
                yield from ((each, guards, a) for a in accesses(stmt) if a.name == param)


def indices_of(access: ir.Access) -> tuple[ir.CExpr, ...]:
    """Returns the indices of an access of an instruction's body, which touches one element."""
    return tuple(c.at for c in access.coords if isinstance(c, ir.Point))
