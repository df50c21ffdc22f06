"""From an index of a window to the indices of the variables behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exogpu.analysis.instances import Domain, bind_range
from exogpu.ir.isltext import cexpr
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Add,
    Argument,
    CExpr,
    Const,
    ControlParam,
    Coord,
    CVar,
    DataParam,
    Instr,
    Int,
    Interval,
    Param,
    Proc,
    Sub,
    WindowStmt,
)
from exogpu.ir.walk import Declaration, declarations


@dataclass(frozen=True, slots=True)
class View:
    """Meaning of the name of a data or barrier variable."""

    extents: tuple[CExpr, ...] | None
    """One a dimension; None where they are checked elsewhere (an operand of a call)."""
    source: Access | None = None
    """The window of another variable that it is."""


Views = Mapping[Sym, View]


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a variable or window that has extents to keep."""

    name: Sym
    indices: tuple[CExpr, ...]
    extents: tuple[CExpr, ...]


def extent(coord: Interval) -> CExpr:
    """The extent of an interval."""
    return coord.hi if coord.lo == Int(0) else Sub(coord.hi, coord.lo)


def intervals(access: Access) -> tuple[Interval, ...]:
    """The interval coordinates: the window's dimensions."""
    return tuple(c for c in access.coords if isinstance(c, Interval))


def views_of(proc: Proc | Instr) -> dict[Sym, View]:
    """The views of a procedure's own names."""
    return {name: _view(declaration) for name, declaration in declarations(proc).items()}


def _view(declaration: Declaration) -> View:
    if isinstance(declaration, WindowStmt):
        extents = tuple(extent(c) for c in intervals(declaration.source))
        return View(extents, declaration.source)
    return View(declaration.shape)


def operand_views(params: tuple[Param, ...], arguments: tuple[Argument, ...]) -> dict[Sym, View]:
    """The views of a callee's data parameters, in terms of the caller's variables.

    A clipped operand stands for nothing: outside elements read as zero (decision `bounds`).
    """
    found: dict[Sym, View] = {}
    for param, argument in zip(params, arguments, strict=False):
        if isinstance(param, DataParam) and isinstance(argument, Access):
            clipped = param.operand is not None and param.operand.clipped
            found[param.name] = View(None, None if clipped else argument)
    return found


def control_values(params: tuple[Param, ...], arguments: tuple[Argument, ...]) -> dict[Sym, CExpr]:
    """The values of a callee's control parameters, in terms of the caller's variables."""
    return {
        param.name: argument
        for param, argument in zip(params, arguments, strict=False)
        if isinstance(param, ControlParam) and not isinstance(argument, Access | Const)
    }


def elements(views: Views, name: Sym, indices: tuple[CExpr, ...]) -> Iterator[Element]:
    """The element that an index means, of the name itself and of what it is a window of."""
    view = views.get(name)
    if view is None:
        return
    if view.extents is not None:
        yield Element(name, indices, view.extents)
    if view.source is not None:
        yield from elements(views, view.source.name, compose(view.source.coords, indices))


def compose(coords: tuple[Coord, ...], indices: tuple[CExpr, ...]) -> tuple[CExpr, ...]:
    """The index of the source that an index of its window means."""
    left = iter(indices)
    found: list[CExpr] = []
    for coord in coords:
        if isinstance(coord, Interval):
            index = next(left, Int(0))
            found.append(index if coord.lo == Int(0) else Add(coord.lo, index))
        else:
            found.append(coord.at)
    return tuple(found)


def any_element(domain: Domain, access: Access) -> tuple[Domain, tuple[CExpr, ...]]:
    """The domain of the elements of an access, and their index."""
    indices: list[CExpr] = []
    for coord in access.coords:
        if isinstance(coord, Interval):
            name = Sym("element")
            domain = bind_range(domain, name, coord.lo, coord.hi)
            indices.append(CVar(name))
        else:
            indices.append(coord.at)
    return domain, tuple(indices)


def outside(element: Element) -> str:
    """ISL text: the element lies outside its variable."""
    sides: list[str] = []
    for index, size in zip(element.indices, element.extents, strict=False):
        if isinstance(index, Int) and isinstance(size, Int) and 0 <= index.value < size.value:
            continue
        at = cexpr(index)
        sides.append(f"{at} < 0 or {at} >= {cexpr(size)}")
    return " or ".join(sides)
