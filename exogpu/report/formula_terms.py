"""Formulas as data, and how they read: as text, as MathML, and as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from exogpu.interpreter.functions import apply
from exogpu.ir.scalars import Function

Numbers: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Index:
    """A sum of named indices and a constant."""

    names: tuple[str, ...]
    constant: int = 0


@dataclass(frozen=True, slots=True)
class Element:
    array: str
    at: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Number:
    value: float | int


@dataclass(frozen=True, slots=True)
class Call:
    function: Function
    arguments: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """Over `0 <= name < extent`, for each name."""

    over: tuple[tuple[str, str], ...]
    body: Term


Term: TypeAlias = Element | Number | Call | Sum


@dataclass(frozen=True, slots=True)
class Equation:
    """`target = body` for all elements of the target; `+=` where it accumulates."""

    target: Element
    accumulates: bool
    body: Term


_INFIX: Final[Mapping[str, tuple[str, int]]] = {
    "+": ("+", 1),
    "-": ("-", 1),
    "*": ("*", 2),
    "/": ("/", 2),
}


def elements(term: Term) -> Iterator[Element]:
    """The array elements of a term."""
    match term:
        case Element():
            yield term
        case Number():
            return
        case Call():
            for argument in term.arguments:
                yield from elements(argument)
        case Sum():
            yield from elements(term.body)
        case _:
            assert_never(term)


# --- text ---------------------------------------------------------------------------------


def text(equation: Equation) -> str:
    """`C[l,m,n] = sum over k of A[l,m,k] * B[l,n,k]`"""
    sign = "+=" if equation.accumulates else "="
    return f"{_text(equation.target)} {sign} {_text(equation.body)}"


def _text(term: Term, needed: int = 0) -> str:
    match term:
        case Element():
            return f"{term.array}[{','.join(map(_index, term.at))}]" if term.at else term.array
        case Number():
            return str(term.value)
        case Call(function, (left, right)) if function in _INFIX:
            sign, own = _INFIX[function]
            shown = f"{_text(left, own)} {sign} {_text(right, own + 1)}"
            return f"({shown})" if own < needed else shown
        case Call():
            return f"{term.function}({', '.join(_text(a) for a in term.arguments)})"
        case Sum():
            names = ", ".join(name for name, _ in term.over)
            shown = f"sum over {names} of {_text(term.body, 2)}"
            return f"({shown})" if needed else shown
        case _:
            assert_never(term)


def _index(index: Index) -> str:
    shown = "+".join(index.names)
    if not shown:
        return str(index.constant)
    return f"{shown}{index.constant:+d}" if index.constant else shown


# --- MathML -------------------------------------------------------------------------------


def mathml(equations: tuple[Equation, ...]) -> str:
    """The equations one below the other; names are escaped."""
    return "".join(
        f'<math display="block">{_math(e.target)}<mo>{"+=" if e.accumulates else "="}</mo>'
        f"{_math(e.body)}</math>"
        for e in equations
    )


def _math(term: Term, needed: int = 0) -> str:
    match term:
        case Element():
            name = f"<mi>{escape(term.array)}</mi>"
            at = "<mo>,</mo>".join(f"<mi>{escape(_index(index))}</mi>" for index in term.at)
            return f"<msub>{name}<mrow>{at}</mrow></msub>" if term.at else name
        case Number():
            return f"<mn>{term.value}</mn>"
        case Call(function, (left, right)) if function in _INFIX:
            sign, own = _INFIX[function]
            sign = {"*": "·", "-": "−"}.get(sign, sign)
            shown = f"{_math(left, own)}<mo>{sign}</mo>{_math(right, own + 1)}"
            return _row(f"<mo>(</mo>{shown}<mo>)</mo>" if own < needed else shown)
        case Call():
            inside = "<mo>,</mo>".join(_math(a) for a in term.arguments)
            return _row(f"<mi>{escape(term.function)}</mi><mo>(</mo>{inside}<mo>)</mo>")
        case Sum():
            signs = "".join(
                "<munder><mo>∑</mo><mrow><mn>0</mn><mo>≤</mo>"
                f"<mi>{escape(name)}</mi><mo>&lt;</mo><mi>{escape(extent)}</mi></mrow></munder>"
                for name, extent in term.over
            )
            return _row(f"{signs}{_math(term.body, 2)}")
        case _:
            assert_never(term)


def _row(inside: str) -> str:
    return f"<mrow>{inside}</mrow>"


# --- numbers ------------------------------------------------------------------------------


def evaluate(
    equation: Equation, arrays: Mapping[str, Numbers], extents: Mapping[str, int]
) -> Numbers:
    """The target's array after the equation; `extents` has every index name's."""
    names = tuple(index.names[0] for index in equation.target.at if index.names)
    over = tuple(name for name, _ in _summed(equation.body))
    axes = {name: axis for axis, name in enumerate((*names, *over))}
    value = _value(equation.body, arrays, axes, extents)
    value = np.broadcast_to(value, tuple(extents[n] for n in names) + (1,) * len(over))
    value = value.reshape(tuple(extents[n] for n in names))
    result = arrays[equation.target.array].copy()
    at = tuple(slice(None) if index.names else index.constant for index in equation.target.at)
    result[at] = result[at] + value if equation.accumulates else value
    return result


def _summed(term: Term) -> tuple[tuple[str, str], ...]:
    match term:
        case Sum():
            return (*term.over, *_summed(term.body))
        case Call():
            return tuple(dict.fromkeys(s for a in term.arguments for s in _summed(a)))
        case _:
            return ()


def _value(
    term: Term, arrays: Mapping[str, Numbers], axes: Mapping[str, int], extents: Mapping[str, int]
) -> Numbers:
    match term:
        case Element():
            at = tuple(_grid(index, axes, extents) for index in term.at)
            found: Numbers = np.asarray(arrays[term.array][at])
            return found if term.at else found.reshape((1,) * len(axes))
        case Number():
            return np.full((1,) * len(axes), float(term.value))
        case Call():
            values = [_value(a, arrays, axes, extents) for a in term.arguments]
            return np.asarray(apply(term.function, values), np.float64)
        case Sum():
            body = _value(term.body, arrays, axes, extents)
            over = tuple(axes[name] for name, _ in term.over)
            return np.asarray(body.sum(axis=over, keepdims=True))
        case _:
            assert_never(term)


def _grid(
    index: Index, axes: Mapping[str, int], extents: Mapping[str, int]
) -> npt.NDArray[np.intp]:
    total = np.full((1,) * len(axes), index.constant, dtype=np.intp)
    for name in index.names:
        shape = [1] * len(axes)
        shape[axes[name]] = extents[name]
        total = total + np.arange(extents[name]).reshape(shape)
    return total
