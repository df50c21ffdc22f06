"""Control expressions of the fast interpreter: linear forms, their ranges, and Python functions.

Sizes are known numbers here, so that an expression is a sum of iterators, remainders and
quotients.  An iterator is a slot of the list `e` of iterator values.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Add,
    And,
    BExpr,
    CExpr,
    Compare,
    CVar,
    FloorDiv,
    Int,
    Mod,
    Mul,
    Not,
    Or,
    Sub,
    Truth,
)

Values: TypeAlias = list[int]
"""The current value of every iterator, by slot."""


@dataclass(frozen=True, slots=True)
class Strided:
    """The numbers `lo, lo + step, .., hi`; a single number has step 0."""

    lo: int
    hi: int
    step: int


@dataclass(frozen=True, slots=True)
class Iterator:
    slot: int


@dataclass(frozen=True, slots=True)
class Remainder:
    term: Linear
    divisor: int


@dataclass(frozen=True, slots=True)
class Quotient:
    term: Linear
    divisor: int


Atom: TypeAlias = Iterator | Remainder | Quotient


@dataclass(frozen=True, slots=True)
class Linear:
    """`const + sum of factor * atom`."""

    const: int
    terms: tuple[tuple[Atom, int], ...] = ()


@dataclass(slots=True)
class Scope:
    """What is known about control variables: sizes by value, iterators by slot and range."""

    sizes: Mapping[Sym, int]
    slots: dict[Sym, int]
    ranges: list[Strided]

    def enter(self, name: Sym, lo: Linear, hi: Linear) -> int:
        """A slot for the iterator of a loop over `[lo, hi)`; `name` means it from here on."""
        first, last = range_of(lo, self.ranges).lo, range_of(hi, self.ranges).hi - 1
        slot = len(self.ranges)
        self.ranges.append(Strided(first, last, 1) if last > first else Strided(first, first, 0))
        self.slots[name] = slot
        return slot


def linear(expr: CExpr, scope: Scope) -> Linear:
    """The linear form of a control expression."""
    match expr:
        case Int():
            return Linear(expr.value)
        case CVar():
            if expr.name in scope.slots:
                return Linear(0, ((Iterator(scope.slots[expr.name]), 1),))
            return Linear(scope.sizes[expr.name])
        case Add():
            return plus(linear(expr.left, scope), linear(expr.right, scope))
        case Sub():
            return plus(linear(expr.left, scope), times(-1, linear(expr.right, scope)))
        case Mul():
            return times(expr.factor, linear(expr.term, scope))
        case Mod():
            return remainder(linear(expr.term, scope), expr.divisor, scope.ranges)
        case FloorDiv():
            return quotient(linear(expr.term, scope), expr.divisor, scope.ranges)
        case _:
            assert_never(expr)


def plus(left: Linear, right: Linear) -> Linear:
    terms = dict(left.terms)
    for atom, factor in right.terms:
        terms[atom] = terms.get(atom, 0) + factor
    return Linear(left.const + right.const, tuple((a, f) for a, f in terms.items() if f))


def times(factor: int, term: Linear) -> Linear:
    if factor == 0:
        return Linear(0)
    return Linear(factor * term.const, tuple((a, factor * f) for a, f in term.terms))


def remainder(term: Linear, divisor: int, ranges: Sequence[Strided]) -> Linear:
    """`term mod divisor`; multiples of the divisor do not count."""
    reduced = Linear(
        term.const % divisor, tuple((a, f % divisor) for a, f in term.terms if f % divisor)
    )
    span = range_of(reduced, ranges)
    if span.lo // divisor == span.hi // divisor:
        return plus(reduced, Linear(-(span.lo // divisor) * divisor))
    return Linear(0, ((Remainder(reduced, divisor), 1),))


def quotient(term: Linear, divisor: int, ranges: Sequence[Strided]) -> Linear:
    """`term div divisor`; multiples of the divisor divide exactly."""
    whole = Linear(
        term.const // divisor, tuple((a, f // divisor) for a, f in term.terms if f % divisor == 0)
    )
    rest = Linear(term.const % divisor, tuple((a, f) for a, f in term.terms if f % divisor))
    span = range_of(rest, ranges)
    if span.lo // divisor == span.hi // divisor:
        return plus(whole, Linear(span.lo // divisor))
    return plus(whole, Linear(0, ((Quotient(rest, divisor), 1),)))


def range_of(term: Linear, ranges: Sequence[Strided]) -> Strided:
    """Numbers among which the value always is."""
    lo = hi = term.const
    step = 0
    for atom, factor in term.terms:
        span = _range_of_atom(atom, ranges)
        ends = (factor * span.lo, factor * span.hi)
        lo, hi, step = lo + min(ends), hi + max(ends), math.gcd(step, factor * span.step)
    return Strided(lo, hi, step)


def _range_of_atom(atom: Atom, ranges: Sequence[Strided]) -> Strided:
    match atom:
        case Iterator():
            return ranges[atom.slot]
        case Remainder():
            span = range_of(atom.term, ranges)
            step = math.gcd(span.step, atom.divisor)
            first = span.lo % step
            return Strided(first, atom.divisor - step + first, step)
        case Quotient():
            span = range_of(atom.term, ranges)
            lo, hi = span.lo // atom.divisor, span.hi // atom.divisor
            step = span.step // atom.divisor if span.step % atom.divisor == 0 else 1
            return Strided(lo, hi, step if hi > lo else 0)
        case _:
            assert_never(atom)


def slots_of(term: Linear) -> frozenset[int]:
    """The iterators that the value depends on."""
    found: set[int] = set()
    for atom, _ in term.terms:
        found |= {atom.slot} if isinstance(atom, Iterator) else slots_of(atom.term)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Split:
    """A linear form as `outer + rest` with `lo <= rest <= hi`: `outer` is free of the inner
    iterators, and `rest` is a function of them and of `residues` alone."""

    outer: Linear
    lo: int
    hi: int
    residues: tuple[Linear, ...]


def split(term: Linear, inner: frozenset[int], ranges: Sequence[Strided]) -> Split:
    """Separates the iterators of inner loops.

    `(f + g) mod m` is a function of `f mod m` and g; `(f + g) div d` is
    `f div d + ((f mod d) + g) div d`.
    """
    outer, lo, hi = Linear(term.const), 0, 0
    residues: list[Linear] = []
    for atom, factor in term.terms:
        if not slots_of(Linear(0, ((atom, 1),))) & inner:
            outer = plus(outer, Linear(0, ((atom, factor),)))
            continue
        match atom:
            case Iterator():
                span = ranges[atom.slot]
                least, most = span.lo, span.hi
            case Remainder():
                part = split(atom.term, inner, ranges)
                residues += [*part.residues, remainder(part.outer, atom.divisor, ranges)]
                least, most = 0, atom.divisor - 1
            case Quotient():
                part = split(atom.term, inner, ranges)
                residues += [*part.residues, remainder(part.outer, atom.divisor, ranges)]
                outer = plus(outer, times(factor, quotient(part.outer, atom.divisor, ranges)))
                left = range_of(remainder(part.outer, atom.divisor, ranges), ranges)
                least = (left.lo + part.lo) // atom.divisor
                most = (left.hi + part.hi) // atom.divisor
            case _:
                assert_never(atom)
        ends = (factor * least, factor * most)
        lo, hi = lo + min(ends), hi + max(ends)
    return Split(outer, lo, hi, tuple(r for r in residues if r.terms))


# --- Python functions -----------------------------------------------------------------------


def source(term: Linear) -> str:
    """Python text of the value, in terms of the list `e`."""
    parts = [str(term.const)] if term.const or not term.terms else []
    for atom, factor in term.terms:
        match atom:
            case Iterator():
                text = f"e[{atom.slot}]"
            case Remainder():
                text = f"({source(atom.term)}) % {atom.divisor}"
            case Quotient():
                text = f"({source(atom.term)}) // {atom.divisor}"
            case _:
                assert_never(atom)
        parts.append(f"({text})" if factor == 1 else f"{factor} * ({text})")
    return " + ".join(parts)


def condition(expr: BExpr, scope: Scope) -> str:
    """Python text of a boolean expression."""
    match expr:
        case Truth():
            return str(expr.value)
        case And():
            return f"({condition(expr.left, scope)} and {condition(expr.right, scope)})"
        case Or():
            return f"({condition(expr.left, scope)} or {condition(expr.right, scope)})"
        case Not():
            return f"(not {condition(expr.term, scope)})"
        case Compare():
            return f"({source(difference(expr, scope))} {expr.op} 0)"
        case _:
            assert_never(expr)


def difference(expr: Compare, scope: Scope) -> Linear:
    """`left - right` of a comparison."""
    return plus(linear(expr.left, scope), times(-1, linear(expr.right, scope)))


def comparisons(expr: BExpr) -> Iterable[Compare]:
    """The comparisons in a boolean expression."""
    match expr:
        case Truth():
            return
        case Not():
            yield from comparisons(expr.term)
        case And() | Or():
            yield from comparisons(expr.left)
            yield from comparisons(expr.right)
        case Compare():
            yield expr
        case _:
            assert_never(expr)


def tuple_source(texts: Sequence[str]) -> str:
    """Python text of a tuple."""
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


@functools.lru_cache(maxsize=4096)
def _compiled(text: str) -> object:
    # Text made above from numbers, `e` and operators: nothing of the user's gets here.
    return eval(f"lambda e: {text}")


def number(text: str) -> Callable[[Values], int]:
    """The function of the iterators that the text is."""
    return _compiled(text)  # type: ignore[return-value]


def numbers(text: str) -> Callable[[Values], tuple[int, ...]]:
    """As `number`, of a tuple."""
    return _compiled(text)  # type: ignore[return-value]


def truth(text: str) -> Callable[[Values], bool]:
    """As `number`, of a condition."""
    return _compiled(text)  # type: ignore[return-value]
