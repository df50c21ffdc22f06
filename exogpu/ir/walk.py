"""One generic traversal of GPU IR, and the few functions everybody builds on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Add,
    Alloc,
    And,
    Apply,
    Arrive,
    Assign,
    Await,
    BarrierAlloc,
    BExpr,
    BinOp,
    Block,
    CallInstr,
    CallProc,
    CExpr,
    Compare,
    Const,
    Coord,
    CVar,
    DataParam,
    DeviceFunction,
    DExpr,
    Fence,
    FloorDiv,
    For,
    Free,
    If,
    Instr,
    Int,
    Interval,
    Loaded,
    Mod,
    Mul,
    Negate,
    Not,
    Or,
    Pass,
    Point,
    Proc,
    Read,
    Reduce,
    Stmt,
    Sub,
    Truth,
    Uninit,
    Warps,
    WindowStmt,
)
from exogpu.ir.types import AccessMode, QualTL

Declaration: TypeAlias = DataParam | Alloc | BarrierAlloc | WindowStmt


def blocks(stmt: Stmt) -> tuple[Block, ...]:
    """The blocks directly inside a statement, in program order."""
    match stmt:
        case If():
            return (stmt.body, stmt.orelse)
        case For() | DeviceFunction() | Warps():
            return (stmt.body,)
        case _:
            return ()


def walk(block: Block) -> Iterator[Stmt]:
    """Every statement of the block and of the blocks inside it, in program order."""
    for stmt in block:
        yield stmt
        for inner in blocks(stmt):
            yield from walk(inner)


def map_blocks(stmt: Stmt, change: Callable[[Block], Block]) -> Stmt:
    """The statement with `change` applied to its blocks; the same object if nothing changed."""
    match stmt:
        case If():
            body, orelse = change(stmt.body), change(stmt.orelse)
            same = body is stmt.body and orelse is stmt.orelse
            return stmt if same else replace(stmt, body=body, orelse=orelse)
        case For() | DeviceFunction() | Warps():
            body = change(stmt.body)
            return stmt if body is stmt.body else replace(stmt, body=body)
        case _:
            return stmt


def declarations(proc: Proc | Instr) -> Mapping[Sym, Declaration]:
    """The declaration of every data, window and barrier variable."""
    found: dict[Sym, Declaration] = {p.name: p for p in proc.params if isinstance(p, DataParam)}
    for stmt in walk(proc.body):
        if isinstance(stmt, Alloc | BarrierAlloc | WindowStmt):
            found[stmt.name] = stmt
    return found


def reads(expr: DExpr) -> Iterator[Access]:
    """The accesses that a data expression reads, left to right."""
    match expr:
        case Const():
            return
        case Read():
            yield expr.access
        case BinOp():
            yield from reads(expr.left)
            yield from reads(expr.right)
        case Negate():
            yield from reads(expr.term)
        case Apply():
            for argument in expr.arguments:
                yield from reads(argument)
        case _:
            assert_never(expr)


def control_variables(expr: CExpr | BExpr) -> frozenset[Sym]:
    """The control variables that an expression reads."""
    match expr:
        case Int() | Truth():
            return frozenset()
        case CVar():
            return frozenset({expr.name})
        case Mul() | FloorDiv() | Mod() | Not():
            return control_variables(expr.term)
        case Add() | Sub() | Compare() | And() | Or():
            return control_variables(expr.left) | control_variables(expr.right)
        case _:
            assert_never(expr)


def substitute(expr: CExpr, values: Mapping[Sym, CExpr]) -> CExpr:
    """The control expression with variables replaced."""
    match expr:
        case Int():
            return expr
        case CVar():
            return values.get(expr.name, expr)
        case Add() | Sub():
            left, right = substitute(expr.left, values), substitute(expr.right, values)
            if left is expr.left and right is expr.right:
                return expr
            return type(expr)(left, right, expr.span)
        case Mul():
            term = substitute(expr.term, values)
            return expr if term is expr.term else Mul(expr.factor, term, expr.span)
        case FloorDiv() | Mod():
            term = substitute(expr.term, values)
            return expr if term is expr.term else type(expr)(term, expr.divisor, expr.span)
        case _:
            assert_never(expr)


def substitute_bool(expr: BExpr, values: Mapping[Sym, CExpr]) -> BExpr:
    """The boolean expression with control variables replaced."""
    match expr:
        case Truth():
            return expr
        case Compare():
            left, right = substitute(expr.left, values), substitute(expr.right, values)
            return Compare(expr.op, left, right, expr.span)
        case And() | Or():
            first, second = substitute_bool(expr.left, values), substitute_bool(expr.right, values)
            return type(expr)(first, second, expr.span)
        case Not():
            return Not(substitute_bool(expr.term, values), expr.span)
        case _:
            assert_never(expr)


def substitute_access(access: Access, values: Mapping[Sym, CExpr]) -> Access:
    """The access with control variables in its coordinates replaced."""
    coords = tuple(
        Point(substitute(c.at, values))
        if isinstance(c, Point)
        else Interval(substitute(c.lo, values), substitute(c.hi, values))
        for c in access.coords
    )
    return replace(access, coords=coords)


def is_whole(coord: Coord, name: Sym, single: frozenset[Sym] = frozenset()) -> bool:
    """Returns whether a coordinate is `s` or `s : s + 1` of a variable; `single` are always 0."""
    if isinstance(coord, Point):
        return _is_sum(coord.at, name, 0, single)
    return _is_sum(coord.lo, name, 0, single) and _is_sum(coord.hi, name, 1, single)


def _is_sum(expr: CExpr, name: Sym, constant: int, single: frozenset[Sym]) -> bool:
    """Returns whether an expression is `name + constant`."""
    left, seen, rest = [expr], 0, 0
    while left:
        match left.pop():
            case Add(one, other):
                left += (one, other)
            case CVar(one) if one == name:
                seen += 1
            case CVar(one) if one in single:
                pass
            case Int(value):
                rest += value
            case _:
                return False
    return seen == 1 and rest == constant


def accesses(stmt: Stmt) -> Iterator[Access]:
    """The data and barrier accesses that a statement itself makes, reads before writes."""
    match stmt:
        case Assign() | Reduce():
            yield from reads(stmt.value)
            yield stmt.target
        case CallInstr() | CallProc():
            yield from (a for a in stmt.arguments if isinstance(a, Access))
            if isinstance(stmt, CallInstr) and stmt.trailing is not None:
                yield stmt.trailing
        case WindowStmt():
            yield stmt.source
        case Arrive():
            yield from stmt.targets
        case Await():
            yield stmt.barrier
        case Uninit():
            yield stmt.access
        case For(mode=Loaded(source)):
            yield source
        case For() | If() | DeviceFunction() | Warps() | Alloc() | BarrierAlloc():
            return
        case Free() | Fence() | Pass():
            return
        case _:
            assert_never(stmt)


@dataclass(frozen=True, slots=True)
class Passed:
    """A window that is a data argument of a call."""

    param: DataParam
    access: Access
    mode: AccessMode

    @property
    def written(self) -> bool:
        """Tests whether the call writes it."""
        return self.mode is not AccessMode.READ

    @property
    def timeline(self) -> QualTL | None:
        """The timeline of the call's accesses; None if the instruction gives none."""
        return None if self.param.operand is None else self.param.operand.initial


def passed(call: CallInstr) -> tuple[Passed, ...]:
    """The data arguments of a call that are windows, in order."""
    pairs = zip(call.instr.params, call.arguments, strict=True)
    data = [(p, a) for p, a in pairs if isinstance(p, DataParam)]
    return tuple(
        Passed(param, argument, mode)
        for (param, argument), mode in zip(data, call.instr.modes, strict=True)
        if isinstance(argument, Access)
    )


def evaluate(expr: CExpr, env: Mapping[Sym, int]) -> int:
    """The value of a control expression; division rounds down (rules C-Int, C-Read, C-Aff)."""
    match expr:
        case Int():
            return expr.value
        case CVar():
            return env[expr.name]
        case Add():
            return evaluate(expr.left, env) + evaluate(expr.right, env)
        case Sub():
            return evaluate(expr.left, env) - evaluate(expr.right, env)
        case Mul():
            return expr.factor * evaluate(expr.term, env)
        case FloorDiv():
            return evaluate(expr.term, env) // expr.divisor
        case Mod():
            return evaluate(expr.term, env) % expr.divisor
        case _:
            assert_never(expr)


def holds(expr: BExpr, env: Mapping[Sym, int]) -> bool:
    """The truth of a boolean expression (rules B-Const, B-Log, B-Rel)."""
    match expr:
        case Truth():
            return expr.value
        case And():
            return holds(expr.left, env) and holds(expr.right, env)
        case Or():
            return holds(expr.left, env) or holds(expr.right, env)
        case Not():
            return not holds(expr.term, env)
        case Compare():
            return compare(expr.op, evaluate(expr.left, env), evaluate(expr.right, env))
        case _:
            assert_never(expr)


def compare(op: str, left: int, right: int) -> bool:
    """`left op right` for integers."""
    match op:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
        case _:
            raise AssertionError(op)
