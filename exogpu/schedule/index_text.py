"""Control expressions that primitives make: read from text, and kept short."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, assert_never

from exogpu.frontend.scalar_calls import Named, named_function
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import walk
from exogpu.schedule.primitive import Unfit
from exogpu.schedule.rewrite import Path, enclosing_statements

Linear: TypeAlias = dict[ir.CExpr, int]
"""Factors of variables and divisions; that of `Int(1)` is the constant."""

_ONE: Final = ir.Int(1)

_TEXT: Final = "write it as in the procedure, of what is declared before the statement"
_CONTROL: Final = "name a size, an index argument, or the iterator of a loop around the statement"
_VARIABLES: Final = "name an array that is declared before the statement; inline a window first"


Ranges: TypeAlias = Mapping[Sym, tuple[int, int]]
"""Least and greatest values of iterators, where they are constant."""


def ranges_of(proc: ir.Proc) -> dict[Sym, tuple[int, int]]:
    """The ranges of the loops with constant bounds."""
    found: dict[Sym, tuple[int, int]] = {}
    for stmt in walk(proc.body):
        if isinstance(stmt, ir.For):
            lo, hi = constant(stmt.lo), constant(stmt.hi)
            if lo is not None and hi is not None:
                found[stmt.iterator] = (lo, hi - 1)
    return found


def tidy(expr: ir.CExpr, ranges: Ranges = MappingProxyType({})) -> ir.CExpr:
    """The same value with like terms collected, and multiples of a divisor taken out of it.

    With `ranges`, divisions that have one value there are resolved, and in sums and products
    iterators that have one.
    """
    return expr if isinstance(expr, ir.CVar) else sum_expression(linear(expr, ranges))


def linear(expr: ir.CExpr, ranges: Ranges = MappingProxyType({})) -> Linear:
    """The expression as a sum of multiples."""
    found: Linear = {}
    _collect(expr, 1, found, ranges)
    for atom in list(found):
        # n * (e / n) + e % n = e
        if isinstance(atom, ir.Mod):
            factor, divided = found[atom], ir.FloorDiv(atom.term, atom.divisor)
            if factor and found.get(divided, 0) == factor * atom.divisor:
                found[atom] = found[divided] = 0
                _collect(atom.term, factor, found, ranges)
    return {atom: factor for atom, factor in found.items() if factor}


def _collect(expr: ir.CExpr, factor: int, found: Linear, ranges: Ranges) -> None:
    match expr:
        case ir.Int():
            found[_ONE] = found.get(_ONE, 0) + factor * expr.value
        case ir.CVar():
            low, high = ranges.get(expr.name, (0, 1))
            plain: ir.CExpr = _ONE if low == high else ir.CVar(expr.name)
            found[plain] = found.get(plain, 0) + (factor * low if low == high else factor)
        case ir.Add():
            _collect(expr.left, factor, found, ranges)
            _collect(expr.right, factor, found, ranges)
        case ir.Sub():
            _collect(expr.left, factor, found, ranges)
            _collect(expr.right, -factor, found, ranges)
        case ir.Mul():
            _collect(expr.term, factor * expr.factor, found, ranges)
        case ir.FloorDiv():
            # floor((n a + b) / n) = a + floor(b / n)
            whole, rest = _split(expr.term, expr.divisor, ranges)
            for atom, times in whole.items():
                found[atom] = found.get(atom, 0) + factor * times
            if (block := _block(rest, expr.divisor, ranges)) is not None:
                found[_ONE] = found.get(_ONE, 0) + factor * block
            else:
                divided = ir.FloorDiv(sum_expression(rest), expr.divisor)
                found[divided] = found.get(divided, 0) + factor
        case ir.Mod():
            _, rest = _split(expr.term, expr.divisor, ranges)
            if (block := _block(rest, expr.divisor, ranges)) is not None:
                rest[_ONE] = rest.get(_ONE, 0) - block * expr.divisor
                for atom, times in rest.items():
                    found[atom] = found.get(atom, 0) + factor * times
            else:
                left = ir.Mod(sum_expression(rest), expr.divisor)
                found[left] = found.get(left, 0) + factor
        case _:
            assert_never(expr)


def _split(term: ir.CExpr, divisor: int, ranges: Ranges) -> tuple[Linear, Linear]:
    """`divisor * whole + rest`"""
    whole, rest = {}, {}
    for atom, factor in linear(term, ranges).items():
        if factor % divisor == 0:
            whole[atom] = factor // divisor
        else:
            rest[atom] = factor
    return whole, rest


def _block(terms: Linear, divisor: int, ranges: Ranges) -> int | None:
    """The one value of a sum divided by a number; None if it may have several."""
    low = high = 0
    for atom, factor in terms.items():
        ends = _ends(atom, ranges)
        if ends is None:
            return None
        low += min(factor * end for end in ends)
        high += max(factor * end for end in ends)
    return low // divisor if low // divisor == high // divisor else None


def _ends(atom: ir.CExpr, ranges: Ranges) -> tuple[int, int] | None:
    match atom:
        case ir.Int():
            return (atom.value, atom.value)
        case ir.CVar():
            return ranges.get(atom.name)
        case ir.Mod():
            return (0, atom.divisor - 1)
        case ir.FloorDiv(term=ir.CVar(name=name)) if name in ranges:
            low, high = ranges[name]
            return (low // atom.divisor, high // atom.divisor)
        case _:
            return None


def sum_expression(terms: Linear) -> ir.CExpr:
    """The sum, positive terms first, the constant last unless it alone is positive."""
    all_negative = all(factor < 0 for atom, factor in terms.items() if atom != _ONE)
    ordered = sorted(
        terms.items(),
        key=lambda item: ((item[0] == _ONE) != (all_negative and item[1] > 0), item[1] < 0),
    )
    result: ir.CExpr | None = None
    for atom, factor in ordered:
        size = abs(factor)
        one: ir.CExpr = ir.Int(size) if atom == _ONE else atom if size == 1 else ir.Mul(size, atom)
        if result is None:
            negative = ir.Int(factor) if atom == _ONE else ir.Mul(factor, atom)
            result = one if factor > 0 else negative
        else:
            result = ir.Add(result, one) if factor > 0 else ir.Sub(result, one)
    return ir.Int(0) if result is None else result


def plus(left: ir.CExpr, right: ir.CExpr) -> ir.CExpr:
    """A short sum."""
    return tidy(ir.Add(left, right))


def minus(left: ir.CExpr, right: ir.CExpr) -> ir.CExpr:
    """A short difference."""
    return tidy(ir.Sub(left, right))


def constant(expr: ir.CExpr) -> int | None:
    """The value of an expression without variables."""
    terms = linear(expr)
    return terms.get(_ONE, 0) if terms.keys() <= {_ONE} else None


def tidy_condition(expr: ir.BExpr, ranges: Ranges = MappingProxyType({})) -> ir.BExpr:
    """The same condition with short sides."""
    match expr:
        case ir.Truth():
            return expr
        case ir.Compare():
            return ir.Compare(expr.op, tidy(expr.left, ranges), tidy(expr.right, ranges), expr.span)
        case ir.And() | ir.Or():
            left, right = tidy_condition(expr.left, ranges), tidy_condition(expr.right, ranges)
            return type(expr)(left, right, expr.span)
        case ir.Not():
            return ir.Not(tidy_condition(expr.term, ranges), expr.span)
        case _:
            assert_never(expr)


def tidy_access(access: ir.Access, ranges: Ranges = MappingProxyType({})) -> ir.Access:
    """The same window with short coordinates."""
    coords: list[ir.Coord] = [
        ir.Point(tidy(c.at, ranges))
        if isinstance(c, ir.Point)
        else ir.Interval(tidy(c.lo, ranges), tidy(c.hi, ranges))
        for c in access.coords
    ]
    return ir.Access(access.name, tuple(coords), access.span)


# --- text -----------------------------------------------------------------------------------


def control_scope(proc: ir.Proc, path: Path) -> dict[str, Sym]:
    """The control variables known at a statement, by name; the innermost of one name."""
    known = {p.name.name: p.name for p in proc.params if isinstance(p, ir.ControlParam)}
    for stmt in enclosing_statements(proc, path):
        if isinstance(stmt, ir.For):
            known[stmt.iterator.name] = stmt.iterator
    return known


def read_control(text: str | int, known: Mapping[str, Sym]) -> ir.CExpr:
    """The control expression that a text means.  Raises Unfit."""
    return tidy(_control(_parsed(str(text)), known))


def read_window(text: str, known: Mapping[str, Sym], data: Mapping[str, Sym]) -> ir.Access:
    """The window `C[lo:hi, k]` that a text means.  Raises Unfit."""
    node = _parsed(text)
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        why = f"`{text}` is no window such as `C[8 * i : 8 * i + 8, k]`"
        raise Unfit(why, remedy=_TEXT)
    if node.value.id not in data:
        raise Unfit(f"there is no variable {node.value.id} here", remedy=_VARIABLES)
    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    coords: list[ir.Coord] = []
    for index in indices:
        if isinstance(index, ast.Slice):
            if index.lower is None or index.upper is None or index.step is not None:
                raise Unfit(f"`{text}`: an interval is `lo:hi`", remedy=_TEXT)
            bounds = (_control(index.lower, known), _control(index.upper, known))
            coords.append(ir.Interval(*map(tidy, bounds)))
        else:
            coords.append(ir.Point(tidy(_control(index, known))))
    return ir.Access(data[node.value.id], tuple(coords))


def read_data(text: str, known: Mapping[str, Sym], data: Mapping[str, Sym]) -> ir.DExpr:
    """The data expression that a text means.  Raises Unfit."""
    return _data(_parsed(text), known, data)


def _data(node: ast.expr, known: Mapping[str, Sym], data: Mapping[str, Sym]) -> ir.DExpr:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return ir.Const(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return ir.Const(-value)
        case ast.UnaryOp(op=ast.USub()):
            return ir.Negate(_data(node.operand, known, data))
        case ast.Name(id=name) if name in data:
            return ir.Read(ir.Access(data[name], ()))
        case ast.Subscript():
            access = read_window(ast.unparse(node), known, data)
            if all(isinstance(c, ir.Point) for c in access.coords):
                return ir.Read(access)
        case ast.BinOp() if type(node.op) in _OPERATORS:
            left, right = _data(node.left, known, data), _data(node.right, known, data)
            return ir.BinOp(_OPERATORS[type(node.op)], left, right)
        case _ if isinstance(named := named_function(node), Named):
            arguments = tuple(_data(a, known, data) for a in named.arguments)
            return ir.Apply(named.function, arguments)
        case _:
            pass
    raise Unfit(f"`{ast.unparse(node)}` is no data expression here", remedy=_TEXT)


_OPERATORS: Final[dict[type[ast.operator], Literal["+", "-", "*", "/"]]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
}


def read_condition(left: str, op: str, right: str, known: Mapping[str, Sym]) -> ir.Compare:
    """The comparison that texts mean.  Raises Unfit."""
    if op not in ("==", "!=", "<", "<=", ">", ">="):
        raise Unfit(f"{op!r} is no comparison")
    return ir.Compare(op, read_control(left, known), read_control(right, known))  # type: ignore[arg-type]


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise Unfit(f"`{text}` is no expression", remedy=_TEXT) from None


def _control(node: ast.expr, known: Mapping[str, Sym]) -> ir.CExpr:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return ir.Int(value)
        case ast.Name():
            if node.id not in known:
                raise Unfit(f"there is no control variable {node.id} here", remedy=_CONTROL)
            return ir.CVar(known[node.id])
        case ast.UnaryOp(op=ast.USub()):
            return ir.Mul(-1, _control(node.operand, known))
        case ast.BinOp():
            left, right = _control(node.left, known), _control(node.right, known)
            number = constant(right)
            match node.op:
                case ast.Add():
                    return ir.Add(left, right)
                case ast.Sub():
                    return ir.Sub(left, right)
                case ast.Mult() if number is not None:
                    return ir.Mul(number, left)
                case ast.Mult() if (factor := constant(left)) is not None:
                    return ir.Mul(factor, right)
                case ast.Div() | ast.FloorDiv() if number is not None and number > 0:
                    return ir.FloorDiv(left, number)
                case ast.Mod() if number is not None and number > 0:
                    return ir.Mod(left, number)
                case _:
                    pass
        case _:
            pass
    why = f"`{ast.unparse(node)}` is no quasi-affine expression of sizes and iterators"
    raise Unfit(why, remedy="write it as in an index: products, / and % by constants alone")
