"""One generic traversal of GPU IR, and the few functions everybody builds on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, assert_never

from exogpu.ir import nodes as ir
from exogpu.ir.types import AccessMode, QualTL, Sym

Declaration: TypeAlias = ir.DataParam | ir.Alloc | ir.BarrierAlloc | ir.WindowStmt


def blocks(stmt: ir.Stmt) -> tuple[ir.Block, ...]:
    """The blocks directly inside a statement, in program order."""
    match stmt:
        case ir.If():
            return (stmt.body, stmt.orelse)
        case ir.For() | ir.DeviceFunction() | ir.Warps():
            return (stmt.body,)
        case _:
            return ()


def walk(block: ir.Block) -> Iterator[ir.Stmt]:
    """Every statement of the block and of the blocks inside it, in program order."""
    for stmt in block:
        yield stmt
        for inner in blocks(stmt):
            yield from walk(inner)


def map_blocks(stmt: ir.Stmt, change: Callable[[ir.Block], ir.Block]) -> ir.Stmt:
    """The statement with `change` applied to its blocks; the same object if nothing changed."""
    match stmt:
        case ir.If():
            body, orelse = change(stmt.body), change(stmt.orelse)
            same = body is stmt.body and orelse is stmt.orelse
            return stmt if same else replace(stmt, body=body, orelse=orelse)
        case ir.For() | ir.DeviceFunction() | ir.Warps():
            body = change(stmt.body)
            return stmt if body is stmt.body else replace(stmt, body=body)
        case _:
            return stmt


def declarations(proc: ir.Proc | ir.Instr) -> Mapping[Sym, Declaration]:
    """The declaration of every data, window and barrier variable."""
    found: dict[Sym, Declaration] = {p.name: p for p in proc.params if isinstance(p, ir.DataParam)}
    for stmt in walk(proc.body):
        if isinstance(stmt, ir.Alloc | ir.BarrierAlloc | ir.WindowStmt):
            found[stmt.name] = stmt
    return found


def data_parts(expr: ir.DExpr) -> Iterator[ir.DExpr]:
    """A data expression and all that it is made of, left to right."""
    yield expr
    match expr:
        case ir.Const() | ir.Read():
            pass
        case ir.BinOp():
            yield from data_parts(expr.left)
            yield from data_parts(expr.right)
        case ir.Negate():
            yield from data_parts(expr.term)
        case ir.Apply():
            for argument in expr.arguments:
                yield from data_parts(argument)
        case _:
            assert_never(expr)


def reads(expr: ir.DExpr) -> Iterator[ir.Access]:
    """The accesses that a data expression reads, left to right."""
    match expr:
        case ir.Const():
            return
        case ir.Read():
            yield expr.access
        case ir.BinOp():
            yield from reads(expr.left)
            yield from reads(expr.right)
        case ir.Negate():
            yield from reads(expr.term)
        case ir.Apply():
            for argument in expr.arguments:
                yield from reads(argument)
        case _:
            assert_never(expr)


def control_variables(expr: ir.CExpr | ir.BExpr) -> frozenset[Sym]:
    """The control variables that an expression reads."""
    match expr:
        case ir.Int() | ir.Truth():
            return frozenset()
        case ir.CVar():
            return frozenset({expr.name})
        case ir.Mul() | ir.FloorDiv() | ir.Mod() | ir.Not():
            return control_variables(expr.term)
        case ir.Add() | ir.Sub() | ir.Compare() | ir.And() | ir.Or():
            return control_variables(expr.left) | control_variables(expr.right)
        case _:
            assert_never(expr)


def expressions_of(access: ir.Access) -> Iterator[ir.CExpr]:
    """The expressions of an access."""
    for coord in access.coords:
        yield from (coord.at,) if isinstance(coord, ir.Point) else (coord.lo, coord.hi)


def read_by(access: ir.Access) -> frozenset[Sym]:
    """The control variables of an access."""
    return frozenset[Sym]().union(*map(control_variables, expressions_of(access)))


def substitute(expr: ir.CExpr, values: Mapping[Sym, ir.CExpr]) -> ir.CExpr:
    """The control expression with variables replaced."""
    match expr:
        case ir.Int():
            return expr
        case ir.CVar():
            return values.get(expr.name, expr)
        case ir.Add() | ir.Sub():
            left, right = substitute(expr.left, values), substitute(expr.right, values)
            if left is expr.left and right is expr.right:
                return expr
            return type(expr)(left, right, expr.span)
        case ir.Mul():
            term = substitute(expr.term, values)
            return expr if term is expr.term else ir.Mul(expr.factor, term, expr.span)
        case ir.FloorDiv() | ir.Mod():
            term = substitute(expr.term, values)
            return expr if term is expr.term else type(expr)(term, expr.divisor, expr.span)
        case _:
            assert_never(expr)


def substitute_bool(expr: ir.BExpr, values: Mapping[Sym, ir.CExpr]) -> ir.BExpr:
    """The boolean expression with control variables replaced."""
    match expr:
        case ir.Truth():
            return expr
        case ir.Compare():
            left, right = substitute(expr.left, values), substitute(expr.right, values)
            return ir.Compare(expr.op, left, right, expr.span)
        case ir.And() | ir.Or():
            first, second = substitute_bool(expr.left, values), substitute_bool(expr.right, values)
            return type(expr)(first, second, expr.span)
        case ir.Not():
            return ir.Not(substitute_bool(expr.term, values), expr.span)
        case _:
            assert_never(expr)


def substitute_access(access: ir.Access, values: Mapping[Sym, ir.CExpr]) -> ir.Access:
    """The access with control variables in its coordinates replaced."""
    coords = tuple(
        ir.Point(substitute(c.at, values))
        if isinstance(c, ir.Point)
        else ir.Interval(substitute(c.lo, values), substitute(c.hi, values))
        for c in access.coords
    )
    return replace(access, coords=coords)


def map_reads(expr: ir.DExpr, change: Callable[[ir.Read], ir.DExpr]) -> ir.DExpr:
    """The expression with its reads changed."""
    match expr:
        case ir.Const():
            return expr
        case ir.Read():
            return change(expr)
        case ir.BinOp():
            left, right = map_reads(expr.left, change), map_reads(expr.right, change)
            return replace(expr, left=left, right=right)
        case ir.Negate():
            return replace(expr, term=map_reads(expr.term, change))
        case ir.Apply():
            return replace(expr, arguments=tuple(map_reads(a, change) for a in expr.arguments))
        case _:
            assert_never(expr)


def is_whole(coord: ir.Coord, name: Sym, single: frozenset[Sym] = frozenset()) -> bool:
    """Returns whether a coordinate is `s` or `s : s + 1` of a variable; `single` are always 0."""
    if isinstance(coord, ir.Point):
        return _is_sum(coord.at, name, 0, single)
    return _is_sum(coord.lo, name, 0, single) and _is_sum(coord.hi, name, 1, single)


def _is_sum(expr: ir.CExpr, name: Sym, constant: int, single: frozenset[Sym]) -> bool:
    """Returns whether an expression is `name + constant`."""
    left, seen, rest = [expr], 0, 0
    while left:
        match left.pop():
            case ir.Add(one, other):
                left += (one, other)
            case ir.CVar(one) if one == name:
                seen += 1
            case ir.CVar(one) if one in single:
                pass
            case ir.Int(value):
                rest += value
            case _:
                return False
    return seen == 1 and rest == constant


def accesses(stmt: ir.Stmt) -> Iterator[ir.Access]:
    """The data and barrier accesses that a statement itself makes, reads before writes."""
    match stmt:
        case ir.Assign() | ir.Reduce():
            yield from reads(stmt.value)
            yield stmt.target
        case ir.CallInstr() | ir.CallProc():
            yield from (a for a in stmt.arguments if isinstance(a, ir.Access))
            if isinstance(stmt, ir.CallInstr) and stmt.trailing is not None:
                yield stmt.trailing
        case ir.WindowStmt():
            yield stmt.source
        case ir.Arrive():
            yield from stmt.targets
        case ir.Await():
            yield stmt.barrier
        case ir.Uninit():
            yield stmt.access
        case ir.For(mode=ir.Loaded(source)):
            yield source
        case ir.For() | ir.If() | ir.DeviceFunction() | ir.Warps() | ir.Alloc() | ir.BarrierAlloc():
            return
        case ir.Free() | ir.Fence() | ir.Pass():
            return
        case _:
            assert_never(stmt)


@dataclass(frozen=True, slots=True)
class Passed:
    """A window that is a data argument of a call."""

    param: ir.DataParam
    access: ir.Access
    mode: AccessMode

    @property
    def is_written(self) -> bool:
        """Tests whether the call writes it."""
        return self.mode is not AccessMode.READ

    @property
    def timeline(self) -> QualTL | None:
        """The timeline of the call's accesses; None if the instruction gives none."""
        return None if self.param.operand is None else self.param.operand.initial


def window_arguments(call: ir.CallInstr) -> tuple[Passed, ...]:
    """The data arguments of a call that are windows, in order."""
    pairs = zip(call.instr.params, call.arguments, strict=True)
    data = [(p, a) for p, a in pairs if isinstance(p, ir.DataParam)]
    return tuple(
        Passed(param, argument, mode)
        for (param, argument), mode in zip(data, call.instr.modes, strict=True)
        if isinstance(argument, ir.Access)
    )


def evaluate(expr: ir.CExpr, env: Mapping[Sym, int]) -> int:
    """The value of a control expression; division rounds down (rules C-Int, C-Read, C-Aff)."""
    match expr:
        case ir.Int():
            return expr.value
        case ir.CVar():
            return env[expr.name]
        case ir.Add():
            return evaluate(expr.left, env) + evaluate(expr.right, env)
        case ir.Sub():
            return evaluate(expr.left, env) - evaluate(expr.right, env)
        case ir.Mul():
            return expr.factor * evaluate(expr.term, env)
        case ir.FloorDiv():
            return evaluate(expr.term, env) // expr.divisor
        case ir.Mod():
            return evaluate(expr.term, env) % expr.divisor
        case _:
            assert_never(expr)


def holds(expr: ir.BExpr, env: Mapping[Sym, int]) -> bool:
    """The truth of a boolean expression (rules B-Const, B-Log, B-Rel)."""
    match expr:
        case ir.Truth():
            return expr.value
        case ir.And():
            return holds(expr.left, env) and holds(expr.right, env)
        case ir.Or():
            return holds(expr.left, env) or holds(expr.right, env)
        case ir.Not():
            return not holds(expr.term, env)
        case ir.Compare():
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


# Operations of instructions on atomic operands: one operation each, of which any order gives the
# same.
#
# Adds can be exchanged among themselves, and so can maxima; an add and a maximum cannot (decision
# `atomic-operations`).

Operation: TypeAlias = Literal["add", "max", "min"]


def operation(body: ir.Block, name: Sym) -> Operation | None:
    """The one operation of all statements of a body that access the operand; None: there is none.

    `x[...] += e` adds, and `x[...] = max(x[...], e)` is a maximum, where e does not read x.
    """
    found = {_of_statement(stmt, name) for stmt in walk(body) if _concerns(stmt, name)}
    return found.pop() if len(found) == 1 else None


def _concerns(stmt: ir.Stmt, name: Sym) -> bool:
    return any(access.name == name for access in accesses(stmt))


def _of_statement(stmt: ir.Stmt, name: Sym) -> Operation | None:
    match stmt:
        case ir.Reduce() if stmt.target.name == name and not _reads_name(stmt.value, name):
            return "add"
        case ir.Assign(value=ir.Apply(function=("max" | "min") as function, arguments=(old, new))):
            if stmt.target.name != name or _reads_name(new, name):
                return None
            return function if isinstance(old, ir.Read) and old.access == stmt.target else None
        case _:
            return None


def _reads_name(value: ir.DExpr, name: Sym) -> bool:
    return any(access.name == name for access in reads(value))
