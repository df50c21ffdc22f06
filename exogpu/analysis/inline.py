"""Inlining of window statements and procedure calls (paper, section "Conversion", preprocessing).

    w = A[8:16, 0:4]              copy(A[8:16, 0:4])      # copy(x) is: x[i, 0] = 0
    x[0] = w[k, 1]                                            for i in ...:
        ->                            ->                          A[8 + i, 0] = 0
    x[0] = A[8 + k, 1]

Nothing but base variables and instructions is left.  Every copied statement is a new object, and
every variable that a called procedure declares a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from exogpu.analysis.requirements import extent
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import substitute, substitute_access, substitute_bool, walk


@dataclass(frozen=True, slots=True)
class Window:
    """A window of a base variable, with its extents."""

    access: ir.Access
    extents: tuple[ir.CExpr, ...]


View: TypeAlias = Window | ir.Const | Sym
"""The meaning of a data or barrier name: a window of a base variable, a value, a new name."""


@dataclass(frozen=True, slots=True)
class _Scope:
    """Meanings of the names of the procedure at hand; grows as declarations are met."""

    fresh: bool
    """Declarations get new names, as in called procedures."""
    control: dict[Sym, ir.CExpr] = field(default_factory=dict)
    views: dict[Sym, View] = field(default_factory=dict)


def inline(proc: ir.Proc) -> ir.Proc:
    """The procedure without window statements and procedure calls; itself if it has none."""
    if not any(isinstance(stmt, ir.WindowStmt | ir.CallProc) for stmt in walk(proc.body)):
        return proc
    return replace(proc, body=_block(proc.body, _Scope(fresh=False)))


def _block(block: ir.Block, scope: _Scope) -> ir.Block:
    return tuple(new for stmt in block for new in _stmt(stmt, scope))


def _stmt(stmt: ir.Stmt, scope: _Scope) -> Iterator[ir.Stmt]:
    match stmt:
        case ir.WindowStmt():
            source = substitute_access(stmt.source, scope.control)
            extents = tuple(extent(c) for c in source.coords if isinstance(c, ir.Interval))
            scope.views[stmt.name] = Window(_access(stmt.source, scope), extents)
        case ir.CallProc():
            yield from _callee_body(stmt, scope)
        case ir.For():
            lo, hi = substitute(stmt.lo, scope.control), substitute(stmt.hi, scope.control)
            name = _declare_iterator(stmt.iterator, scope)
            mode = _mode(stmt.mode, scope)
            body = _block(stmt.body, scope)
            yield replace(stmt, iterator=name, lo=lo, hi=hi, mode=mode, body=body)
        case ir.If():
            yield replace(
                stmt,
                condition=substitute_bool(stmt.condition, scope.control),
                body=_block(stmt.body, scope),
                orelse=_block(stmt.orelse, scope),
            )
        case ir.DeviceFunction() | ir.Warps():
            yield replace(stmt, body=_block(stmt.body, scope))
        case ir.CallInstr():
            trailing = None if stmt.trailing is None else _access(stmt.trailing, scope)
            arguments = tuple(_argument(a, scope) for a in stmt.arguments)
            yield replace(stmt, arguments=arguments, trailing=trailing)
        case ir.Assign() | ir.Reduce():
            target, value = _access(stmt.target, scope), _value(stmt.value, scope)
            yield replace(stmt, target=target, value=value)
        case ir.Alloc():
            shape = tuple(substitute(n, scope.control) for n in stmt.shape)
            yield replace(stmt, name=_declare(stmt.name, scope), shape=shape)
        case ir.BarrierAlloc():
            shape = tuple(substitute(n, scope.control) for n in stmt.shape)
            guard = None if stmt.guard is None else _name(stmt.guard, scope)
            yield replace(stmt, name=_declare(stmt.name, scope), shape=shape, guard=guard)
        case ir.Free():
            yield replace(stmt, name=_name(stmt.name, scope))
        case ir.Arrive():
            yield replace(stmt, targets=tuple(_access(a, scope) for a in stmt.targets))
        case ir.Await():
            yield replace(stmt, barrier=_access(stmt.barrier, scope))
        case ir.Uninit():
            yield replace(stmt, access=_access(stmt.access, scope))
        case ir.Fence() | ir.Pass():
            yield replace(stmt)
        case _:
            assert_never(stmt)


def _mode(mode: ir.LoopMode, scope: _Scope) -> ir.LoopMode:
    match mode:
        case ir.Slot(barrier):
            return ir.Slot(_name(barrier, scope))
        case ir.Loaded(source):
            return ir.Loaded(_access(source, scope))
        case _:
            return mode


def _callee_body(call: ir.CallProc, scope: _Scope) -> ir.Block:
    """The body of the called procedure, its parameters replaced by the arguments."""
    inner = _Scope(fresh=True)
    windows: list[tuple[ir.DataParam, ir.Access]] = []
    for param, argument in zip(call.proc.params, call.arguments, strict=True):
        given = _argument(argument, scope)
        match given:
            case ir.Access():
                assert isinstance(param, ir.DataParam), f"{param.name} takes a control expression"
                windows.append((param, given))
            case ir.Const():
                assert isinstance(param, ir.DataParam), f"{param.name} takes a control expression"
                inner.views[param.name] = given
            case _:
                assert isinstance(param, ir.ControlParam), f"{param.name} takes data"
                inner.control[param.name] = given
    for param, window in windows:
        extents = tuple(substitute(n, inner.control) for n in param.shape)
        inner.views[param.name] = Window(window, extents)
    body = _block(call.proc.body, inner)
    if not windows:
        return body
    return (ir.Pass(given=tuple(window for _, window in windows), span=call.span), *body)


def _declare(name: Sym, scope: _Scope) -> Sym:
    if not scope.fresh:
        return name
    new = Sym(name.name)
    scope.views[name] = new
    return new


def _declare_iterator(name: Sym, scope: _Scope) -> Sym:
    if not scope.fresh:
        return name
    new = Sym(name.name)
    scope.control[name] = ir.CVar(new)
    return new


def _name(name: Sym, scope: _Scope) -> Sym:
    view = scope.views.get(name, name)
    assert isinstance(view, Sym), f"{name} is no variable"
    return view


def _argument(argument: ir.Argument, scope: _Scope) -> ir.Argument:
    match argument:
        case ir.Const():
            return argument
        case ir.Access():
            view = scope.views.get(argument.name)
            return view if isinstance(view, ir.Const) else _access(argument, scope)
        case _:
            return substitute(argument, scope.control)


def _value(expr: ir.DExpr, scope: _Scope) -> ir.DExpr:
    match expr:
        case ir.Const():
            return expr
        case ir.Read():
            view = scope.views.get(expr.access.name)
            return (
                view
                if isinstance(view, ir.Const)
                else replace(expr, access=_access(expr.access, scope))
            )
        case ir.BinOp():
            return replace(expr, left=_value(expr.left, scope), right=_value(expr.right, scope))
        case ir.Negate():
            return replace(expr, term=_value(expr.term, scope))
        case ir.Apply():
            return replace(expr, arguments=tuple(_value(a, scope) for a in expr.arguments))
        case _:
            assert_never(expr)


def _access(access: ir.Access, scope: _Scope) -> ir.Access:
    """The access in terms of the base variable, its span kept."""
    here = substitute_access(access, scope.control) if scope.control else access
    view = scope.views.get(access.name)
    match view:
        case None:
            return here
        case Sym():
            return replace(here, name=view)
        case Window(window, extents):
            behind = (ir.Through(compose(t.coords, here.coords), t.extents) for t in window.through)
            through = (ir.Through(here.coords, extents), *behind)
            coords = compose(window.coords, here.coords)
            return replace(here, name=window.name, coords=coords, through=through)
        case ir.Const():
            raise AssertionError(f"{access.name} is a value here")
        case _:
            assert_never(view)


def compose(outer: tuple[ir.Coord, ...], inner: tuple[ir.Coord, ...]) -> tuple[ir.Coord, ...]:
    """The coordinates, in the base variable, of a window `inner` of its window `outer`.

    Each interval of `outer` is a dimension of the window, so takes the next one of `inner`.
    """
    left = iter(inner)
    found: list[ir.Coord] = []
    for coord in outer:
        if isinstance(coord, ir.Point):
            found.append(coord)
            continue
        here = next(left)
        if isinstance(here, ir.Point):
            found.append(ir.Point(_plus(coord.lo, here.at)))
        else:
            found.append(ir.Interval(_plus(coord.lo, here.lo), _plus(coord.lo, here.hi)))
    assert next(left, None) is None, "a window has more coordinates than dimensions"
    return tuple(found)


def _plus(left: ir.CExpr, right: ir.CExpr) -> ir.CExpr:
    match left, right:
        case ir.Int(0), _:
            return right
        case _, ir.Int(0):
            return left
        case ir.Int(a), ir.Int(b):
            return ir.Int(a + b)
        case _:
            return ir.Add(left, right)
