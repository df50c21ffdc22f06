"""Solves the indices of an element for the iterators of a loop nest, digit by digit.

Of `4 * q + j` and `(p + q) mod 16`, with j below 4, p and q below 16, the indices e0 and e1 tell
`q = e0 / 4`, `j = e0 mod 4` and `p = (e1 - q) mod 16`.  These are candidates: the solver is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from exogpu.amir.nodes import Initialise, Loop
from exogpu.ir import affine
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import substitute
from exogpu.symbolic.sites import Site, loads_around, order_of

ELEMENT: Final = tuple(Sym(f"e{at}") for at in range(8))
"""The indices of an element."""


def writer_of(write: Site, read: Site) -> tuple[ir.CExpr, ...] | None:
    """The iterators of the instance of a write that may have written ELEMENT for a read, in the
    read's iteration of their common loops.  They are expressions of the read's iterators and of
    ELEMENT; None where these do not tell them.
    """
    assert isinstance(write.op, Initialise)
    common, _ = order_of(write, read)
    loaded = {load.source: load.iterator for load in loads_around(read)}
    found: dict[Sym, ir.CExpr] = {}
    unknown: dict[Sym, affine.Range] = {}
    for at, loop in enumerate(write.loops):
        if at < common:
            found[loop.iterator] = ir.CVar(loop.iterator)
        elif loop.source in loaded and loop.source is not None:
            found[loop.iterator] = ir.CVar(loaded[loop.source])
        elif loop.source is not None or loop.slot is not None:
            return None
        else:
            unknown[loop.iterator] = _range_of(loop)
    indices = list[ir.CExpr]()
    inside = dict[Sym, affine.Range]()
    for coord in write.op.access.coords:
        if isinstance(coord, ir.Point):
            indices.append(coord.at)
            continue
        width = affine.from_cexpr(ir.Sub(coord.hi, coord.lo), {}, {})
        offset = Sym("offset")
        inside[offset] = affine.Range(0, affine.ANY.hi if width.terms else width.constant - 1)
        indices.append(ir.Add(coord.lo, ir.CVar(offset)))
    element = [ir.CVar(name) for name in ELEMENT[: len(indices)]]
    found |= solve(indices, element, unknown | inside)
    for loop in write.loops[common:]:  # Where every iteration writes the element: the first.
        found.setdefault(loop.iterator, loop.lo)
    return tuple(substitute(found[name], found) for name in write.iterators)


def _range_of(loop: Loop) -> affine.Range:
    low = loop.lo.value if isinstance(loop.lo, ir.Int) else affine.ANY.lo
    return affine.Range(low, loop.hi.value - 1 if isinstance(loop.hi, ir.Int) else affine.ANY.hi)


def solve(
    indices: Sequence[ir.CExpr], element: Sequence[ir.CExpr], unknown: Mapping[Sym, affine.Range]
) -> dict[Sym, ir.CExpr]:
    """The unknown iterators that an element tells, as expressions of its indices and known names.

    `indices` are the expressions that are to have the values `element`.

    >>> p, e = Sym("p"), CVar(Sym("e"))
    >>> list(solve([Add(CVar(p), Int(1))], [e], {p: Range(0, 3)})) == [p]
    True
    """
    digits = _Digits(unknown)
    waiting = [
        _Equation(affine.from_cexpr(index, {}, unknown), value)
        for index, value in zip(indices, element, strict=True)
    ]
    while waiting:
        left = [one for one in waiting if not digits.solve_equation(one)]
        left += digits.further()
        if left == waiting:
            break
        waiting = left
    return {name: digits.known[name] for name in unknown if name in digits.known}


@dataclass(frozen=True, slots=True)
class _Equation:
    """A form has a value; with a modulus, one that is congruent to it."""

    form: affine.Affine
    value: ir.CExpr
    modulus: int = 0


@dataclass(slots=True)
class _Digits:
    """The atoms whose values are known."""

    ranges: Mapping[Sym, affine.Range]
    known: dict[affine.Atom, ir.CExpr] = field(default_factory=dict)
    _congruences: list[_Equation] = field(default_factory=list)

    def solve_equation(self, equation: _Equation) -> bool:
        """Reads the unknown atoms of an equation; False if its value does not tell them."""
        form, number = equation.form, equation.value
        places = [(c, atom) for atom, c in form.terms if self._value(atom) is None]
        rest = self._sum([(a, c) for a, c in form.terms if (c, a) not in places], form.constant)
        if places and all(place < 0 for place, _ in places):
            number, places = ir.Sub(rest, number), [(-place, atom) for place, atom in places]
        elif rest != ir.Int(0):
            number = ir.Sub(number, rest)
        places.sort(key=lambda one: -one[0])
        if not self._are_digits(places, equation.modulus):
            return False
        if equation.modulus:
            number = ir.Mod(number, equation.modulus)
        above = 0
        for place, atom in places:
            digit: ir.CExpr = ir.FloorDiv(number, place) if place > 1 else number
            self._learn(atom, ir.Mod(digit, above // place) if above else digit)
            above = place
        return True

    def further(self) -> list[_Equation]:
        """The equations that have come with the digits read since the last time."""
        found, self._congruences = self._congruences, []
        return found

    def _are_digits(self, places: Sequence[tuple[int, affine.Atom]], modulus: int) -> bool:
        """Tests whether each atom is below the place of the one before it."""
        above = modulus
        for at, (place, _) in enumerate(places):
            low, high, _ = affine.range_of(
                affine.Affine(0, tuple((a, c) for c, a in places[at:])), self.ranges
            )
            if place <= 0 or above % place:
                return False
            if above and (low < 0 or high >= above):
                return False
            above = place
        return True

    def _learn(self, atom: affine.Atom, value: ir.CExpr) -> None:
        self.known[atom] = value
        if isinstance(atom, affine.Rest):
            self._congruences.append(_Equation(atom.form, value, atom.divisor))
        for name, divisor in _halves(atom):
            high = self.known.get(affine.Floor(_variable(name), divisor))
            low = self.known.get(affine.Rest(_variable(name), divisor))
            if high is not None and low is not None:
                self.known[name] = ir.Add(ir.Mul(divisor, high), low)

    def _value(self, atom: affine.Atom) -> ir.CExpr | None:
        """The value of an atom; None if it is unknown."""
        if atom in self.known:
            return self.known[atom]
        match atom:
            case Sym():
                return None if atom in self.ranges else ir.CVar(atom)
            case affine.Floor(form, divisor):
                if any(self._value(inner) is None for inner, _ in form.terms):
                    return None
                return ir.FloorDiv(self._sum(form.terms, form.constant), divisor)
            case affine.Rest(form, divisor):
                if any(self._value(inner) is None for inner, _ in form.terms):
                    return None
                return ir.Mod(self._sum(form.terms, form.constant), divisor)
            case affine.Lookup():
                return None

    def _sum(self, terms: Sequence[tuple[affine.Atom, int]], constant: int) -> ir.CExpr:
        """The value of a constant plus terms whose atoms are known."""
        total: ir.CExpr = ir.Int(constant)
        for atom, coefficient in terms:
            value = self._value(atom)
            assert value is not None
            term = value if coefficient == 1 else ir.Mul(coefficient, value)
            total = term if total == ir.Int(0) else ir.Add(total, term)
        return total


def _variable(name: Sym) -> affine.Affine:
    return affine.Affine(0, ((name, 1),))


def _halves(atom: affine.Atom) -> Iterator[tuple[Sym, int]]:
    """The variable and the divisor of `x / d` and of `x mod d`."""
    match atom:
        case affine.Floor(affine.Affine(0, ((Sym() as name, 1),)), divisor):
            yield name, divisor
        case affine.Rest(affine.Affine(0, ((Sym() as name, 1),)), divisor):
            yield name, divisor
