"""Control and boolean expressions as C++ text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from exogpu.diagnostics.errors import Span
from exogpu.ir import nodes as ir
from exogpu.ir.affine import Ranges
from exogpu.ir.types import DataType, Sym

C_TYPE: Final[Mapping[DataType, str]] = {
    DataType.F8E4M3: "unsigned char",
    DataType.F8E5M2: "unsigned char",
    DataType.F16: "unsigned short",
    DataType.BF16: "unsigned short",
    DataType.F32: "float",
    DataType.F64: "double",
    DataType.I8: "signed char",
    DataType.I32: "int",
    DataType.I64: "long long",
    DataType.UI8: "unsigned char",
    DataType.UI16: "unsigned short",
    DataType.UI32: "unsigned",
    DataType.UI64: "unsigned long long",
}
"""Floats of 8 and 16 bits are stored as their bits."""

SIZE_OF: Final[Mapping[DataType, int]] = {dtype: dtype.bytes for dtype in DataType}
"""Bytes of an element."""

_OR, _AND, _EQUAL, _SUM, _PRODUCT, _UNARY, _ATOM = range(7)


@dataclass(slots=True)
class Control:
    """Spelling of control variables at the place of an expression."""

    name: Callable[[Sym], str]
    nonnegative: set[Sym] = field(default_factory=set)
    """Variables known to be at least 0: division of them may truncate."""
    constants: dict[Sym, int] = field(default_factory=dict)
    """Variables with one value, written as that value."""
    bounds: dict[Sym, tuple[ir.CExpr, ir.CExpr]] = field(default_factory=dict)
    """First and last value of iterators and built-in variables, by the variables around them."""
    narrowed: Ranges = field(default_factory=dict)
    """Ranges of iterators that the conditions around narrow."""
    threads: set[Sym] = field(default_factory=set)
    """Iterators that divide threads: a thread has one value of each."""
    even: frozenset[Sym] = frozenset()
    """Sizes that a precondition makes even."""
    noted: dict[ir.CExpr, Span] = field(default_factory=dict)
    """The arithmetic that was written, and its place: see `exogpu.codegen.fits_int32`."""
    distances: dict[tuple[ir.CExpr, ...], Span] = field(default_factory=dict)
    """Products of extents that helper functions are told as `int`, and where."""

    def note(self, expr: ir.CExpr) -> None:
        """The text computes the value of an expression."""
        self.noted.setdefault(simplify(expr, self.constants), expr.span)

    def note_distance(self, extents: Sequence[ir.CExpr], where: Span) -> None:
        """A helper function is told the product of extents."""
        found = tuple(simplify(n, self.constants) for n in extents)
        self.distances.setdefault(found, where)

    def iterate(self, iterator: Sym, lo: ir.CExpr, hi: ir.CExpr) -> None:
        """An iterator goes from lo to hi - 1."""
        self.bounds[iterator] = lo, plus(hi, ir.Int(-1))


def is_nonnegative(expr: ir.CExpr, control: Control) -> bool:
    """Tests whether the expression is at least 0, judged from its parts; False if that is
    unclear."""
    match expr:
        case ir.Int():
            return expr.value >= 0
        case ir.CVar():
            return expr.name in control.nonnegative or control.constants.get(expr.name, -1) >= 0
        case ir.Add():
            return is_nonnegative(expr.left, control) and is_nonnegative(expr.right, control)
        case ir.Sub():
            return False
        case ir.Mul():
            return expr.factor >= 0 and is_nonnegative(expr.term, control)
        case ir.FloorDiv():
            return is_nonnegative(expr.term, control)
        case ir.Mod():
            return True
        case _:
            assert_never(expr)


def simplify(expr: ir.CExpr, constants: Mapping[Sym, int]) -> ir.CExpr:
    """The expression with constants put in, and what they make trivial removed.

    A tree, and not an affine form (`ir.affine`): terms keep the order in which they were written.
    """
    match expr:
        case ir.Int():
            return expr
        case ir.CVar():
            value = constants.get(expr.name)
            return expr if value is None else ir.Int(value)
        case ir.Add():
            return plus(simplify(expr.left, constants), simplify(expr.right, constants))
        case ir.Sub():
            left, right = simplify(expr.left, constants), simplify(expr.right, constants)
            match left, right:
                case _, ir.Int(value):
                    return plus(left, ir.Int(-value))
                case _:
                    return ir.Sub(left, right)
        case ir.Mul():
            return times(expr.factor, simplify(expr.term, constants))
        case ir.FloorDiv():
            term = simplify(expr.term, constants)
            if isinstance(term, ir.Int):
                return ir.Int(term.value // expr.divisor)
            return term if expr.divisor == 1 else ir.FloorDiv(term, expr.divisor)
        case ir.Mod():
            term = simplify(expr.term, constants)
            if isinstance(term, ir.Int):
                return ir.Int(term.value % expr.divisor)
            return ir.Int(0) if expr.divisor == 1 else ir.Mod(term, expr.divisor)
        case _:
            assert_never(expr)


def plus(left: ir.CExpr, right: ir.CExpr) -> ir.CExpr:
    """`left + right`, without zeros; constants are added up."""
    match left, right:
        case ir.Int(a), ir.Int(b):
            return ir.Int(a + b)
        case ir.Int(0), _:
            return right
        case _, ir.Int(0):
            return left
        case ir.Add(inner, ir.Int(a)), ir.Int(b):
            return plus(inner, ir.Int(a + b))
        case _:
            return ir.Add(left, right)


def times(factor: int, term: ir.CExpr) -> ir.CExpr:
    """`factor * term`, without ones and zeros."""
    match term:
        case ir.Int(value):
            return ir.Int(factor * value)
        case _ if factor == 0:
            return ir.Int(0)
        case _ if factor == 1:
            return term
        case ir.Mul(inner, rest):
            return times(factor * inner, rest)
        case _:
            return ir.Mul(factor, term)


def c_control(expr: ir.CExpr, control: Control, needed: int = _OR) -> str:
    """C++ text of a control expression, in parentheses if it binds weaker than `needed`."""
    control.note(expr)
    return _control(simplify(expr, control.constants), control, needed)


def c_atom(expr: ir.CExpr, control: Control) -> str:
    """C++ text of a control expression, in parentheses unless it is a single token or call."""
    return c_control(expr, control, _ATOM)


def c_factor(expr: ir.CExpr, control: Control) -> str:
    """C++ text of a control expression that may stand as the right side of a product."""
    return c_control(expr, control, _UNARY)


def _control(expr: ir.CExpr, control: Control, needed: int) -> str:
    def operand(term: ir.CExpr, strength: int) -> str:
        return _control(term, control, strength)

    match expr:
        case ir.Int():
            return _wrap(str(expr.value), _ATOM if expr.value >= 0 else _UNARY, needed)
        case ir.CVar():
            return control.name(expr.name)
        case ir.Add(left, ir.Int(value)) if value < 0:
            return _wrap(f"{operand(left, _SUM)} - {-value}", _SUM, needed)
        case ir.Add():
            text = f"{operand(expr.left, _SUM)} + {operand(expr.right, _PRODUCT)}"
            return _wrap(text, _SUM, needed)
        case ir.Sub():
            text = f"{operand(expr.left, _SUM)} - {operand(expr.right, _PRODUCT)}"
            return _wrap(text, _SUM, needed)
        case ir.Mul():
            return _wrap(f"{expr.factor} * {operand(expr.term, _UNARY)}", _PRODUCT, needed)
        case ir.FloorDiv():
            if not is_nonnegative(expr.term, control):
                return f"floor_div({operand(expr.term, _OR)}, {expr.divisor})"
            return _wrap(f"{operand(expr.term, _PRODUCT)} / {expr.divisor}", _PRODUCT, needed)
        case ir.Mod():
            if not is_nonnegative(expr.term, control):
                return f"floor_mod({operand(expr.term, _OR)}, {expr.divisor})"
            return _wrap(f"{operand(expr.term, _PRODUCT)} % {expr.divisor}", _PRODUCT, needed)
        case _:
            assert_never(expr)


def c_condition(expr: ir.BExpr, control: Control, needed: int = _OR) -> str:
    """C++ text of a boolean expression."""
    match expr:
        case ir.Truth():
            return "true" if expr.value else "false"
        case ir.Compare():
            left, right = (c_control(e, control, _SUM) for e in (expr.left, expr.right))
            return _wrap(f"{left} {expr.op} {right}", _EQUAL, needed)
        case ir.And():
            text = f"{c_condition(expr.left, control, _AND)} && "
            return _wrap(text + c_condition(expr.right, control, _EQUAL), _AND, needed)
        case ir.Or():
            text = f"{c_condition(expr.left, control, _AND)} || "
            return _wrap(text + c_condition(expr.right, control, _AND), _OR, needed)
        case ir.Not():
            return f"!({c_condition(expr.term, control)})"
        case _:
            assert_never(expr)


def _wrap(text: str, strength: int, needed: int) -> str:
    return text if strength >= needed else f"({text})"
