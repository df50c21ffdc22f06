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

from exogpu.analysis.bounds_views import extent
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Add,
    Alloc,
    Apply,
    Argument,
    Arrive,
    Assign,
    Await,
    BarrierAlloc,
    BinOp,
    Block,
    CallInstr,
    CallProc,
    CExpr,
    Const,
    ControlParam,
    Coord,
    CVar,
    DataParam,
    DeviceFunction,
    DExpr,
    Fence,
    For,
    Free,
    If,
    Int,
    Interval,
    Loaded,
    LoopMode,
    Negate,
    Pass,
    Point,
    Proc,
    Read,
    Reduce,
    Slot,
    Stmt,
    Through,
    Uninit,
    Warps,
    WindowStmt,
)
from exogpu.ir.walk import substitute, substitute_access, substitute_bool, walk


@dataclass(frozen=True, slots=True)
class Window:
    """A window of a base variable, with its extents."""

    access: Access
    extents: tuple[CExpr, ...]


View: TypeAlias = Window | Const | Sym
"""What a data or barrier name stands for: a window of a base variable, a value, a new name."""


@dataclass(frozen=True, slots=True)
class _Scope:
    """Meanings of the names of the procedure at hand; grows as declarations are met."""

    fresh: bool
    """Whether declarations get new names: in called procedures."""
    control: dict[Sym, CExpr] = field(default_factory=dict)
    views: dict[Sym, View] = field(default_factory=dict)


def inline(proc: Proc) -> Proc:
    """The procedure without window statements and procedure calls; itself if it has none."""
    if not any(isinstance(stmt, WindowStmt | CallProc) for stmt in walk(proc.body)):
        return proc
    return replace(proc, body=_block(proc.body, _Scope(fresh=False)))


def _block(block: Block, scope: _Scope) -> Block:
    return tuple(new for stmt in block for new in _stmt(stmt, scope))


def _stmt(stmt: Stmt, scope: _Scope) -> Iterator[Stmt]:
    match stmt:
        case WindowStmt():
            source = substitute_access(stmt.source, scope.control)
            extents = tuple(extent(c) for c in source.coords if isinstance(c, Interval))
            scope.views[stmt.name] = Window(_access(stmt.source, scope), extents)
        case CallProc():
            yield from _called(stmt, scope)
        case For():
            lo, hi = substitute(stmt.lo, scope.control), substitute(stmt.hi, scope.control)
            name = _declare_iterator(stmt.iterator, scope)
            mode = _mode(stmt.mode, scope)
            body = _block(stmt.body, scope)
            yield replace(stmt, iterator=name, lo=lo, hi=hi, mode=mode, body=body)
        case If():
            yield replace(
                stmt,
                condition=substitute_bool(stmt.condition, scope.control),
                body=_block(stmt.body, scope),
                orelse=_block(stmt.orelse, scope),
            )
        case DeviceFunction() | Warps():
            yield replace(stmt, body=_block(stmt.body, scope))
        case CallInstr():
            trailing = None if stmt.trailing is None else _access(stmt.trailing, scope)
            arguments = tuple(_argument(a, scope) for a in stmt.arguments)
            yield replace(stmt, arguments=arguments, trailing=trailing)
        case Assign() | Reduce():
            target, value = _access(stmt.target, scope), _value(stmt.value, scope)
            yield replace(stmt, target=target, value=value)
        case Alloc():
            shape = tuple(substitute(n, scope.control) for n in stmt.shape)
            yield replace(stmt, name=_declare(stmt.name, scope), shape=shape)
        case BarrierAlloc():
            shape = tuple(substitute(n, scope.control) for n in stmt.shape)
            guard = None if stmt.guard is None else _name(stmt.guard, scope)
            yield replace(stmt, name=_declare(stmt.name, scope), shape=shape, guard=guard)
        case Free():
            yield replace(stmt, name=_name(stmt.name, scope))
        case Arrive():
            yield replace(stmt, targets=tuple(_access(a, scope) for a in stmt.targets))
        case Await():
            yield replace(stmt, barrier=_access(stmt.barrier, scope))
        case Uninit():
            yield replace(stmt, access=_access(stmt.access, scope))
        case Fence() | Pass():
            yield replace(stmt)
        case _:
            assert_never(stmt)


def _mode(mode: LoopMode, scope: _Scope) -> LoopMode:
    match mode:
        case Slot(barrier):
            return Slot(_name(barrier, scope))
        case Loaded(source):
            return Loaded(_access(source, scope))
        case _:
            return mode


def _called(call: CallProc, scope: _Scope) -> Block:
    """The body of the called procedure, its parameters replaced by the arguments."""
    inner = _Scope(fresh=True)
    windows: list[tuple[DataParam, Access]] = []
    for param, argument in zip(call.proc.params, call.arguments, strict=True):
        given = _argument(argument, scope)
        match given:
            case Access():
                assert isinstance(param, DataParam), f"{param.name} takes a control expression"
                windows.append((param, given))
            case Const():
                assert isinstance(param, DataParam), f"{param.name} takes a control expression"
                inner.views[param.name] = given
            case _:
                assert isinstance(param, ControlParam), f"{param.name} takes data"
                inner.control[param.name] = given
    for param, window in windows:
        extents = tuple(substitute(n, inner.control) for n in param.shape)
        inner.views[param.name] = Window(window, extents)
    body = _block(call.proc.body, inner)
    if not windows:
        return body
    return (Pass(given=tuple(window for _, window in windows), span=call.span), *body)


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
    scope.control[name] = CVar(new)
    return new


def _name(name: Sym, scope: _Scope) -> Sym:
    view = scope.views.get(name, name)
    assert isinstance(view, Sym), f"{name} is no variable"
    return view


def _argument(argument: Argument, scope: _Scope) -> Argument:
    match argument:
        case Const():
            return argument
        case Access():
            view = scope.views.get(argument.name)
            return view if isinstance(view, Const) else _access(argument, scope)
        case _:
            return substitute(argument, scope.control)


def _value(expr: DExpr, scope: _Scope) -> DExpr:
    match expr:
        case Const():
            return expr
        case Read():
            view = scope.views.get(expr.access.name)
            return (
                view
                if isinstance(view, Const)
                else replace(expr, access=_access(expr.access, scope))
            )
        case BinOp():
            return replace(expr, left=_value(expr.left, scope), right=_value(expr.right, scope))
        case Negate():
            return replace(expr, term=_value(expr.term, scope))
        case Apply():
            return replace(expr, arguments=tuple(_value(a, scope) for a in expr.arguments))
        case _:
            assert_never(expr)


def _access(access: Access, scope: _Scope) -> Access:
    """The access in terms of the base variable, its span kept."""
    here = substitute_access(access, scope.control) if scope.control else access
    view = scope.views.get(access.name)
    match view:
        case None:
            return here
        case Sym():
            return replace(here, name=view)
        case Window(window, extents):
            behind = (Through(compose(t.coords, here.coords), t.extents) for t in window.through)
            through = (Through(here.coords, extents), *behind)
            coords = compose(window.coords, here.coords)
            return replace(here, name=window.name, coords=coords, through=through)
        case Const():
            raise AssertionError(f"{access.name} is a value here")
        case _:
            assert_never(view)


def compose(outer: tuple[Coord, ...], inner: tuple[Coord, ...]) -> tuple[Coord, ...]:
    """The coordinates, in the base variable, of a window `inner` of its window `outer`.

    Each interval of `outer` is a dimension of the window, so takes the next one of `inner`.
    """
    left = iter(inner)
    found: list[Coord] = []
    for coord in outer:
        if isinstance(coord, Point):
            found.append(coord)
            continue
        here = next(left)
        if isinstance(here, Point):
            found.append(Point(_plus(coord.lo, here.at)))
        else:
            found.append(Interval(_plus(coord.lo, here.lo), _plus(coord.lo, here.hi)))
    assert next(left, None) is None, "a window has more coordinates than dimensions"
    return tuple(found)


def _plus(left: CExpr, right: CExpr) -> CExpr:
    match left, right:
        case Int(0), _:
            return right
        case _, Int(0):
            return left
        case Int(a), Int(b):
            return Int(a + b)
        case _:
            return Add(left, right)
