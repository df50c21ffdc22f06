"""Control expressions of the fast interpreter: affine forms as Python functions.

Sizes are known numbers here, so that an expression is a sum of iterators, remainders, quotients
and values from memory.  An iterator is a slot of the list `e` of iterator values; so is an array
that values are loaded from, so that other contents need no other functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never, overload

import numpy as np

from exogpu.ir import affine
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.machine.index_contents import position

Values: TypeAlias = list[int]
"""The current value of every iterator, by slot; a `LoadedArray` in the slot of an array."""

Array: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"


class LoadedArray:
    """Contents of an array that values are loaded from; 0 outside of it."""

    def __init__(self, elements: Sequence[int]) -> None:
        self._elements = (*elements, 0)
        self._array = np.array(self._elements, np.int64)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: Array) -> Array: ...
    def __getitem__(self, at: int | Array) -> int | Array:
        last = len(self._elements) - 1
        if isinstance(at, np.ndarray):
            found: Array = self._array[np.where((at >= 0) & (at < last), at, last)]
            return found
        return self._elements[at if 0 <= at < last else last]


@dataclass(slots=True)
class Scope:
    """Knowledge about control variables: sizes by value, iterators by a name for each loop."""

    values: dict[Sym, affine.Affine]
    """The meaning of each name at this place."""
    ranges: dict[Sym, affine.Range] = field(default_factory=dict)
    slots: dict[Sym, int] = field(default_factory=dict)
    """The slots of the loops' own names, and of arrays."""
    shapes: dict[Sym, tuple[int, ...]] = field(default_factory=dict)
    """The shapes of the arrays that values are loaded from."""

    def enter(self, name: Sym, lo: affine.Affine, hi: affine.Affine, own: Sym | None = None) -> Sym:
        """A name of its own for the iterator of a loop over `[lo, hi)`; or the one that it has, if
        the loop stands in several places, of which each adds its range."""
        first, last = affine.interval(lo, self.ranges)[0], affine.interval(hi, self.ranges)[1] - 1
        span = affine.Range(first, last) if last > first else affine.Range(first, first, 0)
        if own is None:
            own = Sym(name.name)
            self.slots[own] = len(self.slots)
        else:
            before = self.ranges[own]
            if span != before:
                span = affine.Range(min(span.lo, before.lo), max(span.hi, before.hi))
        self.ranges[own] = span
        return own

    def enter_loop(self, name: Sym, own: Sym) -> AbstractContextManager[None]:
        """In a loop its iterator means the loop's own."""
        return self._meaning(name, affine.variable(own))

    def enter_load(self, name: Sym, source: ir.Access) -> AbstractContextManager[None]:
        """In a load its iterator means the element of the array."""
        at = self.form(position(source, self.shapes[source.name]))
        return self._meaning(name, affine.element(source.name, at))

    @contextmanager
    def _meaning(self, name: Sym, form: affine.Affine) -> Iterator[None]:
        """Makes a name mean this here; afterwards it means what it meant before."""
        shadowed = self.values.get(name)
        self.values[name] = form
        yield
        if shadowed is None:
            del self.values[name]
        else:
            self.values[name] = shadowed

    def declare(self, array: Sym, shape: tuple[int, ...], values: affine.Range) -> None:
        """Gives an array that values are loaded from a slot, and what is loaded a range."""
        if array not in self.shapes:
            self.slots[array] = len(self.slots)
            self.shapes[array] = shape
            self.ranges[array] = values
        lo, hi, _ = self.ranges[array]
        self.ranges[array] = affine.Range(min(lo, values.lo), max(hi, values.hi))

    def form(self, expr: ir.CExpr) -> affine.Affine:
        """The form of a control expression."""
        return affine.from_cexpr(expr, self.values, self.ranges)

    def slots_of(self, form: affine.Affine) -> frozenset[int]:
        """The iterators that the value depends on."""
        return frozenset(self.slots[name] for name in affine.variables(form))

    def source(self, form: affine.Affine) -> str:
        """Python text of the value, in terms of the list `e`."""
        parts = [str(form.constant)] if form.constant or not form.terms else []
        for atom, factor in form.terms:
            match atom:
                case Sym():
                    text = f"e[{self.slots[atom]}]"
                case affine.Rest():
                    text = f"({self.source(atom.form)}) % {atom.divisor}"
                case affine.Floor():
                    text = f"({self.source(atom.form)}) // {atom.divisor}"
                case affine.Lookup():
                    text = f"e[{self.slots[atom.table]}][{self.source(atom.form)}]"
                case _:
                    assert_never(atom)
            parts.append(f"({text})" if factor == 1 else f"{factor} * ({text})")
        return " + ".join(parts)

    def condition(self, expr: ir.BExpr) -> str:
        """Python text of a boolean expression."""
        match expr:
            case ir.Truth():
                return str(expr.value)
            case ir.And():
                return f"({self.condition(expr.left)} and {self.condition(expr.right)})"
            case ir.Or():
                return f"({self.condition(expr.left)} or {self.condition(expr.right)})"
            case ir.Not():
                return f"(not {self.condition(expr.term)})"
            case ir.Compare():
                return f"({self.source(self.difference(expr))} {expr.op} 0)"
            case _:
                assert_never(expr)

    def difference(self, expr: ir.Compare) -> affine.Affine:
        """`left - right` of a comparison."""
        return self.form(ir.Sub(expr.left, expr.right))


@dataclass(frozen=True, slots=True)
class Split:
    """A form as `outer + rest` with `lo <= rest <= hi`: `outer` is free of the inner
    iterators, and `rest` is a function of them and of `residues` alone."""

    outer: affine.Affine
    lo: int
    hi: int
    residues: tuple[affine.Affine, ...]


def split(form: affine.Affine, inner: frozenset[Sym], ranges: affine.Ranges) -> Split:
    """Separates the iterators of inner loops.

    `(f + g) mod m` is a function of `f mod m` and g; `(f + g) div d` is
    `f div d + ((f mod d) + g) div d`.
    """
    outer, lo, hi = affine.Affine(form.constant), 0, 0
    residues: list[affine.Affine] = []
    for atom, factor in form.terms:
        if not affine.mentions(affine.Affine(0, ((atom, 1),)), inner):
            outer = affine.combine((1, outer), (1, affine.Affine(0, ((atom, factor),))))
            continue
        match atom:
            case Sym():
                least, most, _ = ranges[atom]
            case affine.Rest():
                part = split(atom.form, inner, ranges)
                residues += [*part.residues, affine.remainder(part.outer, atom.divisor, ranges)]
                least, most = 0, atom.divisor - 1
            case affine.Floor():
                part = split(atom.form, inner, ranges)
                rest = affine.remainder(part.outer, atom.divisor, ranges)
                residues += [*part.residues, rest]
                outer = affine.combine(
                    (1, outer), (factor, affine.divide(part.outer, atom.divisor, ranges))
                )
                left = affine.interval(rest, ranges)
                least = (left[0] + part.lo) // atom.divisor
                most = (left[1] + part.hi) // atom.divisor
            case affine.Lookup():
                part = split(atom.form, inner, ranges)
                # Which elements are read, and what the array is.
                residues += [*part.residues, part.outer, affine.variable(atom.table)]
                least, most, _ = ranges[atom.table]
            case _:
                assert_never(atom)
        ends = (factor * least, factor * most)
        lo, hi = lo + min(ends), hi + max(ends)
    return Split(outer, lo, hi, tuple(r for r in residues if r.terms))


# --- Python functions -----------------------------------------------------------------------


def comparisons(expr: ir.BExpr) -> Iterable[ir.Compare]:
    """The comparisons in a boolean expression."""
    match expr:
        case ir.Truth():
            return
        case ir.Not():
            yield from comparisons(expr.term)
        case ir.And() | ir.Or():
            yield from comparisons(expr.left)
            yield from comparisons(expr.right)
        case ir.Compare():
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
