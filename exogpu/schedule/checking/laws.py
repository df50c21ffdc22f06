"""Laws by which expressions change: do statements compute the same as others in their place?

    x = b + c    reads as    x = b;  x += c        sums of several writes
    x = x + e    reads as    x += e
    y = f(e)     reads as    v = e;  y = f(v)      an expression in a variable of its own
    x = g        reads as    x = h                 where g and h are the same polynomial

The parts are run in the mind: what is written is put in where it is read.  What the target is then
and what the whole makes of it are compared, first as they stand (sides of sums and products may be
exchanged), then as polynomials.  Integers wrap around, which polynomials keep, so that is the same
exactly.  Floating point rounds after each operation; there, equal polynomials are equal for real
numbers only, which is an assumption that the step then names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import inf, isfinite
from typing import Any, Final, TypeAlias, assert_never

from exogpu.analysis.domain import Domain, never
from exogpu.ir import nodes as ir
from exogpu.ir import scalars
from exogpu.ir.render import isl_expr
from exogpu.ir.types import FLOATS, DataType, Sym
from exogpu.ir.walk import control_variables, reads
from exogpu.schedule.checking.statement_model import Place, Said, Variable

REALS: Final = "floating-point numbers are taken as real ones: other roundings"
"""The assumption where values are the same for real numbers."""

TERMS: Final = 2000
"""Terms of a polynomial that are written out."""

Variables: TypeAlias = Mapping[Sym, Variable]


class Unlawful(Exception):
    """A reason why statements do not compute the same as others."""


@dataclass(frozen=True, slots=True)
class _Number:
    """An element, by its number among those of a comparison, in the type that it is computed in."""

    number: int
    dtype: DataType
    kept: DataType
    """The type of the variable."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """A value as an element of another type keeps it."""

    term: _Value
    dtype: DataType


_Value: TypeAlias = scalars.Constant | scalars.Operation | scalars.Convert | _Number | _Stored


def assumption(said: Said, of: Variables) -> str | None:
    """Returns the assumption under which the parts do what the whole does; None if it is the same
    exactly. Raises Unlawful where it is another thing."""
    match said:
        case Said(whole=(whole,)):
            return _of_one(whole, said.parts, said.made, of)
        case Said(whole=(zero, total, scale), parts=(first, second)):
            return _scaled(zero, total, scale, first, second, of)
        case _:
            raise Unlawful("no law is known of these statements")


# --- one statement, run in the mind -----------------------------------------------------------


@dataclass(slots=True)
class Elements:
    """The elements that some statements at one place name, told apart for all sizes."""

    domain: Domain
    found: list[ir.Access]

    def number(self, access: ir.Access) -> int:
        """The number of an element; one that may be another or not has its own."""
        for number, other in enumerate(self.found):
            if other.name is access.name and self.is_same_element(access, other):
                return number
        self.found.append(access)
        return len(self.found) - 1

    def read_element(self, access: ir.Access, known: Mapping[int, _Value]) -> int:
        """The same of an element that is read where others have been written.

        Raises Unlawful where it may be one of these or not.
        """
        number = self.number(access)
        for written in known:
            other = self.found[written]
            may_be = number != written and other.name is access.name
            if may_be and not self.are_disjoint(access, other):
                raise Unlawful(f"an element of {access.name.name} is read that may be written")
        return number

    def is_same_element(self, one: ir.Access, other: ir.Access) -> bool:
        if one.coords == other.coords:
            return True
        return never(self.domain, [f"({a}) != ({b})" for a, b in _indices(one, other)])

    def are_disjoint(self, one: ir.Access, other: ir.Access) -> bool:
        equal = " and ".join(f"({a}) = ({b})" for a, b in _indices(one, other))
        return never(self.domain, [equal])


def _indices(one: ir.Access, other: ir.Access) -> list[tuple[str, str]]:
    pairs = zip(one.coords, other.coords, strict=True)
    return [
        (isl_expr(a.at), isl_expr(b.at))
        for a, b in pairs
        if isinstance(a, ir.Point) and isinstance(b, ir.Point)
    ]


def _of_one(
    whole: Place, parts: tuple[Place, ...], made: frozenset[Sym], of: Variables
) -> str | None:
    places = (whole, *parts)
    if not parts or any(p.domain != whole.domain or p.constants for p in places):
        raise Unlawful("the statements run at other instances")
    if any(event.within for p in places for event in p.events):
        raise Unlawful("an operand is clipped")
    elements = Elements(whole.domain, [])
    target = elements.number(whole.plain.target)
    dtype = of[whole.plain.target.name].dtype
    known: dict[int, _Value] = {}
    for part in parts:
        number = elements.number(part.plain.target)
        its = of[part.plain.target.name]
        if number != target and part.plain.target.name not in made:
            raise Unlawful("another element would be written")
        known[number] = _read_back(_run(part, number, elements, known, of), its.dtype)
    mine = _read_back(_run(whole, target, elements, {}, of), dtype)
    return _compared(mine, known.get(target, mine), dtype)


def _run(
    place: Place,
    target: int,
    elements: Elements,
    known: Mapping[int, _Value],
    of: Variables,
) -> _Value:
    """Returns the value that a statement computes, before it is stored."""
    plain = place.plain
    dtype = of[plain.target.name].dtype

    def store(scalar: scalars.Scalar) -> _Value:
        match scalar:
            case scalars.Constant():
                return scalar
            case scalars.Element():
                number = elements.read_element(scalar.access, known)
                kept = of[scalar.access.name].dtype
                return known.get(number, _Number(number, scalar.dtype, kept))
            case scalars.Convert():
                return scalars.Convert(store(scalar.term), scalar.dtype)  # type: ignore[arg-type]
            case scalars.Operation():
                arguments = tuple(store(a) for a in scalar.arguments)
                return scalars.Operation(scalar.function, arguments, scalar.dtype)  # type: ignore[arg-type]
            case _:
                assert_never(scalar)

    def type_of(name: Sym) -> DataType:
        return of[name].dtype

    if isinstance(plain, ir.Assign):
        return store(scalars.assigned_scalar(plain.value, dtype, type_of))
    term = scalars.added_scalar(plain.value, dtype, type_of)
    before = scalars.converted(scalars.Element(plain.target, scalars.COMPUTES[dtype]), term.dtype)
    return store(scalars.Operation("+", (before, term), term.dtype))


def _read_back(value: _Value, dtype: DataType) -> _Value:
    """The value as it is read again from a variable of a type."""
    if isinstance(value, _Number) and value.kept is dtype:
        return value
    kept: Any = value if value.dtype is dtype else _Stored(value, dtype)
    return (
        kept if scalars.COMPUTES[dtype] is dtype else scalars.Convert(kept, scalars.COMPUTES[dtype])
    )


# --- two values -------------------------------------------------------------------------------


def _compared(one: _Value, other: _Value, dtype: DataType) -> str | None:
    if _same_value_as(one, other):
        return None
    bits = _bits(dtype)
    if bits == 0 or not (_has_floats(one) or _has_floats(other)):
        mine, its = _polynomial(one, bits), _polynomial(other, bits)
        if mine == its and _divisors(one) == _divisors(other):
            return REALS if bits == 0 else None
    raise Unlawful("its value may be another")


def _divisors(value: _Value) -> frozenset[str]:
    """By what integers are divided that may be zero: then there is no value, whatever becomes of
    the result."""
    match value:
        case scalars.Operation():
            found = frozenset[str]().union(*map(_divisors, value.arguments))  # type: ignore[arg-type]
            divisor = value.arguments[-1]
            divided = value.function in scalars.DIVISIONS and value.dtype in scalars.INTEGERS
            if divided and not (isinstance(divisor, scalars.Constant) and divisor.value):
                found |= {_law_text(divisor)}  # type: ignore[arg-type]
            return found
        case scalars.Convert() | _Stored():
            return _divisors(value.term)  # type: ignore[arg-type]
        case _:
            return frozenset()


def _same_value_as(one: _Value, other: _Value) -> bool:
    """Tests whether two values are computed alike, but for the order of two that may be
    exchanged."""
    match one, other:
        case scalars.Operation(), scalars.Operation():
            if (one.function, one.dtype) != (other.function, other.dtype):
                return False
            orders = [other.arguments]
            if one.function in ("+", "*", "min", "max"):
                orders.append(other.arguments[::-1])
            return any(
                len(one.arguments) == len(order) and all(map(_same_value_as, one.arguments, order))  # type: ignore[arg-type]
                for order in orders
            )
        case (scalars.Convert(), scalars.Convert()) | (_Stored(), _Stored()):
            return one.dtype is other.dtype and _same_value_as(one.term, other.term)  # type: ignore[arg-type,union-attr]
        case scalars.Constant(), scalars.Constant():
            return one.dtype is other.dtype and ir.same_number(one.value, other.value)
        case _:
            return one == other


def _bits(dtype: DataType) -> int:
    """Returns the number of bits of an integer type; 0 for floating point."""
    if dtype in FLOATS:
        return 0
    least, greatest = scalars.INTEGERS[dtype]
    return (greatest - least + 1).bit_length() - 1


def _has_floats(value: _Value) -> bool:
    if value.dtype in FLOATS:
        return True
    match value:
        case scalars.Operation():
            return any(map(_has_floats, value.arguments))  # type: ignore[arg-type]
        case scalars.Convert() | _Stored():
            return _has_floats(value.term)  # type: ignore[arg-type]
        case _:
            return False


_ARITHMETIC: Final = ("+", "-", "negate", "*", "/")

_Monomial: TypeAlias = tuple[str, ...]
_Polynomial: TypeAlias = dict[_Monomial, Fraction]


def _polynomial(value: _Value, bits: int) -> _Polynomial:
    """The value as sums of products of what is no sum and no product; of integers modulo a power
    of two, of floating point with `bits` 0 as of real numbers."""
    match value:
        case scalars.Constant() if isfinite(value.value):
            return _wrapped({(): Fraction(value.value)}, bits)
        case scalars.Operation() if any(map(_is_infinite, (value, *value.arguments))):
            return {(_key(value),): Fraction(1)}
        case scalars.Operation() if value.function in _ARITHMETIC and (
            _bits(value.dtype) == 0 or 0 < bits <= _bits(value.dtype)
        ):
            terms = [_polynomial(a, bits) for a in value.arguments[:2]]  # type: ignore[arg-type]
            match value.function:
                case "+":
                    return _sum(terms[0], terms[1], 1, bits)
                case "-":
                    return _sum(terms[0], terms[1], -1, bits)
                case "negate":
                    return _sum({}, terms[0], -1, bits)
                case "*":
                    return _product(terms[0], terms[1], bits)
                case "/" if bits == 0 and terms[1].keys() == {()}:
                    return _product(terms[0], {(): 1 / terms[1][()]}, bits)
                case "/" if bits == 0 and not terms[1]:
                    raise Unlawful("it divides by zero, which is no real number")
        case scalars.Convert() | _Stored() if _bits(value.dtype) == _bits(value.term.dtype) == 0:
            return _polynomial(value.term, bits)  # type: ignore[arg-type]
        case scalars.Convert() | _Stored() if bits and 0 < bits <= _bits(value.term.dtype):
            if bits <= _bits(value.dtype):
                return _polynomial(value.term, bits)  # type: ignore[arg-type]
    return {(_key(value),): Fraction(1)}


def _is_infinite(value: object) -> bool:
    """Tests whether a constant in it may make it infinite: then it is in no polynomial, since from
    itself infinity is not subtracted."""
    match value:
        case scalars.Constant():
            return not isfinite(value.value)
        case scalars.Operation(function="/", arguments=(above, _)):
            return _is_infinite(above)
        case scalars.Operation(function="select", arguments=(_, _, less, other)):
            return _is_infinite(less) or _is_infinite(other)
        case scalars.Operation(function="min" | "max", arguments=(one, other)):
            infinite = [a for a in (one, other) if _is_infinite(a)]
            nothing = inf if value.function == "min" else -inf
            return len(infinite) == 2 or any(_infinity(a) != nothing for a in infinite)
        case scalars.Operation():
            return any(map(_is_infinite, value.arguments))
        case scalars.Convert() | _Stored():
            return _is_infinite(value.term)
        case _:
            return False


def _infinity(value: object) -> float | None:
    """Returns the infinite constant that a value is; None for another value."""
    match value:
        case scalars.Constant():
            return None if isfinite(value.value) else value.value
        case scalars.Operation(function="negate", arguments=(scalars.Constant() as constant,)):
            return None if isfinite(constant.value) else -constant.value
        case _:
            return None


def _key(value: _Value) -> str:
    """Returns the key of a value that is no sum and no product: equal for equal values alone."""
    match value:
        case _Number():
            return f"x{value.number}"
        case scalars.Constant():
            return f"{value.value!r} {value.dtype.value}"
        case scalars.Operation() if (infinity := _infinity(value)) is not None:
            return f"{infinity!r} {value.dtype.value}"
        case scalars.Operation(function="+" | "-" | "*" | "negate"):
            if any(map(_is_infinite, value.arguments)):
                raise Unlawful("it computes with infinity, which is no real number")
            # In its own type, which is narrower than that around it.
            return f"({_law_text(value)}) {value.dtype.value}"
        case scalars.Operation() if value.function.startswith("bits."):
            return repr(value)  # of no real number
        case scalars.Operation():
            given = [_law_text(a) for a in value.arguments]  # type: ignore[arg-type]
            if value.function in ("min", "max"):
                given.sort()
            return f"{value.function}({', '.join(given)}) {value.dtype.value}"
        case scalars.Convert(term=_Number() as number):
            return _key(number)
        case scalars.Convert() | _Stored():
            kind = "as" if isinstance(value, scalars.Convert) else "kept in"
            return f"({_law_text(value.term)}) {kind} {value.dtype.value}"


def _law_text(value: _Value) -> str:
    terms = _polynomial(value, _bits(value.dtype))
    parts = (f"{factor} * {' * '.join(names)}" for names, factor in sorted(terms.items()))
    return f"{' + '.join(parts)} : {value.dtype.value}"


def _wrapped(terms: _Polynomial, bits: int) -> _Polynomial:
    if bits:
        terms = {m: Fraction(int(f) % (1 << bits)) for m, f in terms.items()}
    return {m: f for m, f in terms.items() if f}


def _sum(one: _Polynomial, other: _Polynomial, sign: int, bits: int) -> _Polynomial:
    found = dict(one)
    for monomial, factor in other.items():
        found[monomial] = found.get(monomial, Fraction(0)) + sign * factor
    return _wrapped(found, bits)


def _product(one: _Polynomial, other: _Polynomial, bits: int) -> _Polynomial:
    if len(one) * len(other) > TERMS:
        raise Unlawful("the expression is too long to be compared")
    found: _Polynomial = {}
    for (a, x), (b, y) in product(one.items(), other.items()):
        both = tuple(sorted((*a, *b)))
        found[both] = found.get(both, Fraction(0)) + x * y
    return _wrapped(found, bits)


# --- a factor in front of a sum ---------------------------------------------------------------


def _scaled(
    zero: Place, total: Place, scale: Place, first: Place, second: Place, of: Variables
) -> str | None:
    """`x = 0; for i: x += y; x = c * x` and `x = 0; for i: x += c * y`."""
    target = zero.plain.target
    inner = set(total.domain.iterators) - set(zero.domain.iterators)
    factor = _factor(scale, target)
    alike = (
        zero.domain == first.domain == scale.domain
        and total.domain == second.domain
        and all(p.plain.target == target for p in (total, scale, first, second))
        and all(_is_zero(p) for p in (zero, first))
        and isinstance(total.plain, ir.Reduce)
        and isinstance(second.plain, ir.Reduce)
    )
    if not alike or factor is None:
        raise Unlawful("it is no sum from zero and a factor of it")
    match second.plain.value:
        case ir.BinOp(op="*", left=left, right=right) if {left, right} == {
            factor,
            total.plain.value,
        }:
            pass
        case _:
            raise Unlawful("the terms are not the factor times those of the sum")
    given = [*reads(factor), *reads(total.plain.value)]
    if target.name in {a.name for a in given}:
        raise Unlawful(f"{target.name.name} is read in the sum")
    ends = (c.at for a in (*reads(factor), target) for c in a.coords if isinstance(c, ir.Point))
    if any(control_variables(end) & inner for end in ends):
        raise Unlawful("the factor or the sum is another one in each iteration")
    every = (zero, total, scale, first, second)
    if any(p.constants or event.within for p in every for event in p.events):
        raise Unlawful("an operand is clipped or a constant")
    return _scaled_type(second, of)


def _scaled_type(second: Place, of: Variables) -> str | None:
    """Returns the assumption under which the factor may be taken out in these types; None if it
    needs none.  Raises Unlawful if it may not."""
    dtype = of[second.plain.target.name].dtype
    types = {of[a.name].dtype for a in reads(second.plain.value)}
    if dtype in FLOATS and types <= FLOATS:
        return REALS
    term = scalars.added_scalar(second.plain.value, dtype, lambda name: of[name].dtype)
    inner = term.term if isinstance(term, scalars.Convert) else term
    if dtype in FLOATS or types & FLOATS or _bits(inner.dtype) < _bits(dtype):
        raise Unlawful("the terms of the sum are of another type than the sum")
    return None


def _factor(scale: Place, target: ir.Access) -> ir.Read | ir.Const | None:
    """Returns the factor that a statement multiplies its target with."""
    if not isinstance(scale.plain, ir.Assign):
        return None
    match scale.plain.value:
        case ir.BinOp(op="*", left=left, right=right):
            for one, other in ((left, right), (right, left)):
                if isinstance(one, ir.Read) and one.access == target:
                    return _one_number(other)
    return None


def _one_number(value: ir.DExpr) -> ir.Read | ir.Const | None:
    """An element, or a constant that is a real number: infinity times an empty sum is none."""
    match value:
        case ir.Read():
            return value
        case ir.Const() if isfinite(value.value):
            return value
        case _:
            return None


def _is_zero(place: Place) -> bool:
    return isinstance(place.plain, ir.Assign) and place.plain.value == ir.Const(0)
