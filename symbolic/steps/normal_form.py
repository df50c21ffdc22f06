"""Compares typed values: exactly, or as real numbers.

A value is run through the mind as a tree of typed operations over elements.  Two trees are the same
exactly if they are equal but for the order of what may be exchanged.  Else they are multiplied out:
integers modulo a power of two, which is exact; floating point as real numbers, which is an
assumption.  What is no sum and no product is an unknown, under its own normal form.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite
from typing import Final, TypeAlias

from exogpu.ir.scalars import INTEGERS, Constant, Convert, Operation
from exogpu.ir.types import FLOATS, DataType

MOST: Final = 4000
"""Products that are multiplied out."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """The earlier value of an element, by the number of the element."""

    number: int
    dtype: DataType
    """In which it is computed."""
    kept: DataType
    """The type of the variable."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A value as a variable of another type keeps it."""

    term: Tree
    dtype: DataType


Tree: TypeAlias = Constant | Operation | Convert | Leaf | Stored
Key: TypeAlias = str
_Sum: TypeAlias = dict[tuple[Key, ...], Fraction]

_EXCHANGED: Final = frozenset({"+", "*", "min", "max"})


def exactly(one: Tree, other: Tree) -> bool:
    """Tests whether both are computed alike."""
    return _shape(one) == _shape(other)


def as_numbers(one: Tree, other: Tree, dtype: DataType) -> bool | None:
    """Compares both as numbers in a type: True if equal for real numbers alone, False if exactly;
    None if not seen."""
    width = _width(dtype)
    if width and (_meets_floats(one) or _meets_floats(other)):
        return None
    try:
        same = _sum(one, width) == _sum(other, width)
    except _UnseenError:
        return None
    return (width == 0) if same else None


def _width(dtype: DataType) -> int:
    """The bits of an integer type; 0 of floating point."""
    if dtype in FLOATS:
        return 0
    least, greatest = INTEGERS[dtype]
    return (greatest - least).bit_length()


def _shape(tree: Tree) -> Key:
    match tree:
        case Leaf():
            return f"x{tree.number}:{tree.dtype.value}"
        case Constant():
            return f"{type(tree.value).__name__} {tree.value!r}:{tree.dtype.value}"
        case Operation():
            terms = [_shape(one) for one in tree.arguments]  # type: ignore[arg-type]
            if tree.function in _EXCHANGED:
                terms.sort()
            return f"{tree.function}({','.join(terms)}):{tree.dtype.value}"
        case Convert() | Stored():
            kind = type(tree).__name__
            return f"{kind}({_shape(tree.term)}):{tree.dtype.value}"  # type: ignore[arg-type]


def _meets_floats(tree: Tree) -> bool:
    inner: tuple[Tree, ...] = ()
    if isinstance(tree, Operation):
        inner = tree.arguments  # type: ignore[assignment]
    elif isinstance(tree, Convert | Stored):
        inner = (tree.term,)  # type: ignore[assignment]
    return tree.dtype in FLOATS or any(map(_meets_floats, inner))


# --- multiplied out -----------------------------------------------------------------------------


class _UnseenError(Exception):
    """A sum that is too long, or that has an infinite part, which no real number is."""


def _sum(tree: Tree, width: int) -> _Sum:
    """The value as a sum of products: of integers modulo 2 to the width."""
    own = _width(tree.dtype)
    fits = own == 0 if width == 0 else own >= width
    match tree:
        case Constant() if fits and _is_number(tree.value, width):
            return _reduced({(): Fraction(tree.value)}, width)
        case Operation() if _infinity(tree) is not None:
            return {(_unknown(tree),): Fraction(1)}
        case Operation(function="+" | "-" | "negate" | "*") if fits:
            if any(map(_is_infinite, tree.arguments)):
                raise _UnseenError
            first, *rest = (_sum(one, width) for one in tree.arguments)  # type: ignore[arg-type]
            if tree.function == "negate":
                return _combined({}, first, -1, width)
            if tree.function == "*":
                return _multiplied(first, rest[0], width)
            return _combined(first, rest[0], 1 if tree.function == "+" else -1, width)
        case Operation(function="/") if width == 0 and fits:
            below = _sum(tree.arguments[1], 0)  # type: ignore[arg-type]
            if [*below] == [()]:
                above = _sum(tree.arguments[0], 0)  # type: ignore[arg-type]
                return {unknowns: factor / below[()] for unknowns, factor in above.items()}
            if not below:
                raise _UnseenError
        case Convert() | Stored() if fits:
            inner = _width(tree.term.dtype)
            whole = isinstance(tree.term, Leaf) and inner > 0 and width > 0
            if whole or (inner == 0 if width == 0 else inner >= width):
                return _sum(tree.term, width)  # type: ignore[arg-type]
    return {(_unknown(tree),): Fraction(1)}


def _is_number(value: float, width: int) -> bool:
    return isfinite(value) and (width == 0 or Fraction(value).denominator == 1)


def _is_infinite(tree: object) -> bool:
    """Tests whether a constant in it may be infinite, given real numbers."""
    if _infinity(tree) is not None:
        return True
    match tree:
        case Operation(function="min" | "max", arguments=given):
            neutral = inf if tree.function == "min" else -inf
            large = [one for one in given if _is_infinite(one)]
            return len(large) == len(given) or any(_infinity(one) != neutral for one in large)
        case Operation(function="select"):
            return any(map(_is_infinite, tree.arguments[2:]))
        case Operation(function="/"):
            return _is_infinite(tree.arguments[0])
        case Operation():
            return any(map(_is_infinite, tree.arguments))
        case Convert() | Stored():
            return _is_infinite(tree.term)
        case _:
            return False


def _infinity(tree: object) -> float | None:
    """The constant, or what is less than 0 by it, if it is no real number."""
    match tree:
        case Constant() if not isfinite(tree.value):
            return tree.value
        case Operation(function="negate", arguments=(Constant() as constant,)):
            return None if isfinite(constant.value) else -constant.value
        case _:
            return None


def _unknown(tree: Tree) -> Key:
    match tree:
        case Leaf():
            return f"x{tree.number}"
        case Constant():
            return f"{tree.value!r}:{tree.dtype.value}"
        case Operation() if tree.function.startswith("bits."):
            return _shape(tree)  # of no real number
        case Operation():
            terms = [_normal(one) for one in tree.arguments]  # type: ignore[arg-type]
            if tree.function in _EXCHANGED:
                terms.sort()
            return f"{tree.function}[{';'.join(terms)}]:{tree.dtype.value}"
        case Convert() | Stored():
            return f"to {tree.dtype.value}[{_normal(tree.term)}]"  # type: ignore[arg-type]


def _normal(tree: Tree) -> Key:
    terms = sorted(_sum(tree, _width(tree.dtype)).items())
    return "+".join(f"{f}*{'*'.join(u)}" for u, f in terms) + f":{tree.dtype.value}"


def _reduced(terms: _Sum, width: int) -> _Sum:
    if width:
        terms = {u: Fraction(f.numerator % (1 << width)) for u, f in terms.items()}
    return {u: f for u, f in terms.items() if f}


def _combined(one: _Sum, other: _Sum, sign: int, width: int) -> _Sum:
    total = {u: one.get(u, Fraction(0)) + sign * other.get(u, 0) for u in {**one, **other}}
    return _reduced(total, width)


def _multiplied(one: _Sum, other: _Sum, width: int) -> _Sum:
    if len(one) * len(other) > MOST:
        raise _UnseenError
    total: _Sum = {}
    for left, factor in one.items():
        for right, times in other.items():
            unknowns = tuple(sorted(left + right))
            total[unknowns] = total.get(unknowns, Fraction(0)) + factor * times
    return _reduced(total, width)
