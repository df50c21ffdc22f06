"""Control expressions as quasi-affine forms.

A form is a constant plus integer multiples of atoms; an atom is a variable, a floor division or
remainder that could not be resolved, or an element of a table of numbers.  A variable may have a
range, from its loop.

What writes expressions out keeps them as trees (`codegen.control_text`, `symbolic.encode`): there
the order of the terms is part of the text.  `solvers.isl_functions` has forms of its own, as ISL
gives them: by position, and divided as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Final, NamedTuple, TypeAlias, assert_never

from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym


class Range(NamedTuple):
    """The numbers `lo, lo + step, .., hi`; the step of a single number may be 0."""

    lo: int
    hi: int
    step: int = 1


Ranges: TypeAlias = Mapping[Sym, Range]

ANY: Final = Range(-(1 << 128), 1 << 128)
"""The range of a variable of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Floor:
    """`form / divisor`, rounded down."""

    form: Affine
    divisor: int


@dataclass(frozen=True, slots=True)
class Rest:
    """`form mod divisor`, in `0 .. divisor - 1`."""

    form: Affine
    divisor: int


@dataclass(frozen=True, slots=True)
class Lookup:
    """The element of a table at a place; the table's range is that of its elements."""

    table: Sym
    form: Affine


Atom: TypeAlias = Sym | Floor | Rest | Lookup


@dataclass(frozen=True, slots=True)
class Affine:
    """`constant + sum of coefficient * atom`; no coefficient is 0, no atom stands twice."""

    constant: int
    terms: tuple[tuple[Atom, int], ...] = ()


def variable(name: Sym) -> Affine:
    """The form that is one variable."""
    return Affine(0, ((name, 1),))


def element(table: Sym, form: Affine) -> Affine:
    """The form that is the element of a table at a place."""
    return Affine(0, ((Lookup(table, form), 1),))


def combine(*parts: tuple[int, Affine], constant: int = 0) -> Affine:
    """`constant` plus the sum of `factor * form`."""
    total = constant
    terms: dict[Atom, int] = {}
    for factor, form in parts:
        total += factor * form.constant
        for atom, coefficient in form.terms:
            terms[atom] = terms.get(atom, 0) + factor * coefficient
    return Affine(total, tuple((a, c) for a, c in terms.items() if c))


def interval(form: Affine, ranges: Ranges) -> tuple[int, int]:
    """Bounds of the form's values where every variable is anywhere in its range."""
    found = range_of(form, ranges)
    return found.lo, found.hi


def range_of(form: Affine, ranges: Ranges) -> Range:
    """Numbers among which the form's value always is."""
    low = high = form.constant
    step = 0
    for atom, coefficient in form.terms:
        least, greatest, stride = _range_of_atom(atom, ranges)
        ends = (coefficient * least, coefficient * greatest)
        low, high, step = low + min(ends), high + max(ends), gcd(step, coefficient * stride)
    return Range(low, high, step)


def magnitude(form: Affine, ranges: Ranges) -> int:
    """Returns a bound on every partial sum of the form, and on those inside its divisions."""
    total = abs(form.constant)
    inside = 0
    for atom, coefficient in form.terms:
        total += abs(coefficient) * max(map(abs, _range_of_atom(atom, ranges)[:2]))
        if isinstance(atom, Floor | Rest):
            inside = max(inside, magnitude(atom.form, ranges), atom.divisor)
        elif isinstance(atom, Lookup):
            inside = max(inside, magnitude(atom.form, ranges))
    return max(total, inside)


def _range_of_atom(atom: Atom, ranges: Ranges) -> Range:
    match atom:
        case Sym():
            return ranges.get(atom, ANY)
        case Floor():
            low, high, step = range_of(atom.form, ranges)
            low, high = low // atom.divisor, high // atom.divisor
            step = step // atom.divisor if step % atom.divisor == 0 else 1
            return Range(low, high, step if high > low else 0)
        case Rest():
            low, high, step = range_of(atom.form, ranges)
            if low // atom.divisor == high // atom.divisor:
                return Range(low % atom.divisor, high % atom.divisor, step)
            step = gcd(step, atom.divisor)
            return Range(low % step, atom.divisor - step + low % step, step)
        case Lookup():
            return ranges.get(atom.table, ANY)
        case _:
            assert_never(atom)


def divide(form: Affine, divisor: int, ranges: Ranges) -> Affine:
    """`form / divisor` rounded down: multiples of the divisor leave the division."""
    whole, rest = _split(form, divisor)
    low, high = interval(rest, ranges)
    if low // divisor == high // divisor:
        return combine((1, whole), constant=low // divisor)
    if (found := _coarse(rest, divisor, ranges)) is not None:
        step, coarse, _ = found
        return combine((1, whole), (1, divide(coarse, divisor // step, ranges)))
    common = gcd(divisor, *(c for _, c in rest.terms))
    # floor((g x + r) / (g d)) = floor((x + floor(r / g)) / d)
    smaller = Affine(rest.constant // common, tuple((a, c // common) for a, c in rest.terms))
    return combine((1, whole), (1, Affine(0, ((Floor(smaller, divisor // common), 1),))))


def remainder(form: Affine, divisor: int, ranges: Ranges) -> Affine:
    """`form mod divisor`: multiples of the divisor vanish."""
    _, rest = _split(form, divisor)
    reduced = Affine(rest.constant, tuple((a, c % divisor) for a, c in rest.terms))
    for one in (rest, reduced):
        low, high = interval(one, ranges)
        if low // divisor == high // divisor:
            return combine((1, one), constant=-divisor * (low // divisor))
    if (found := _coarse(reduced, divisor, ranges)) is not None:
        step, coarse, fine = found
        return combine((step, remainder(coarse, divisor // step, ranges)), (1, fine))
    return Affine(0, ((Rest(reduced, divisor), 1),))


def _coarse(form: Affine, divisor: int, ranges: Ranges) -> tuple[int, Affine, Affine] | None:
    """A step, and `coarse` and `fine` with `form = step * coarse + fine`, `fine` in 0..step-1: a
    division by a multiple of the step does not see what is fine.  None where there is none."""
    for step in sorted({gcd(divisor, c) for _, c in form.terms}, reverse=True):
        fine = Affine(form.constant % step, tuple((a, c) for a, c in form.terms if c % step))
        low, high = interval(fine, ranges)
        if step > 1 and fine.terms and low >= 0 and high < step:
            terms = tuple((a, c // step) for a, c in form.terms if c % step == 0)
            return step, Affine(form.constant // step, terms), fine
    return None


def _split(form: Affine, divisor: int) -> tuple[Affine, Affine]:
    """`whole` and `rest` with `form = divisor * whole + rest`, `rest.constant` in 0..divisor-1."""
    whole = tuple((a, c // divisor) for a, c in form.terms if c % divisor == 0)
    rest = tuple((a, c) for a, c in form.terms if c % divisor)
    return (
        Affine(form.constant // divisor, whole),
        Affine(form.constant % divisor, rest),
    )


def from_cexpr(expr: ir.CExpr, values: Mapping[Sym, Affine], ranges: Ranges) -> Affine:
    """The form of a control expression whose variables have the given forms; others stand for
    themselves."""
    match expr:
        case ir.Int():
            return Affine(expr.value)
        case ir.CVar():
            return values.get(expr.name) or variable(expr.name)
        case ir.Add():
            left, right = (from_cexpr(e, values, ranges) for e in (expr.left, expr.right))
            return combine((1, left), (1, right))
        case ir.Sub():
            left, right = (from_cexpr(e, values, ranges) for e in (expr.left, expr.right))
            return combine((1, left), (-1, right))
        case ir.Mul():
            return combine((expr.factor, from_cexpr(expr.term, values, ranges)))
        case ir.FloorDiv():
            return divide(from_cexpr(expr.term, values, ranges), expr.divisor, ranges)
        case ir.Mod():
            return remainder(from_cexpr(expr.term, values, ranges), expr.divisor, ranges)
        case _:
            assert_never(expr)


def substitute(form: Affine, values: Mapping[Sym, Affine], ranges: Ranges) -> Affine:
    """The form with variables replaced, divisions resolved anew."""
    if not any(name in values for name in variables(form)):
        return form
    parts: list[tuple[int, Affine]] = []
    for atom, coefficient in form.terms:
        match atom:
            case Sym():
                part = values.get(atom) or variable(atom)
            case Floor():
                part = divide(substitute(atom.form, values, ranges), atom.divisor, ranges)
            case Rest():
                part = remainder(substitute(atom.form, values, ranges), atom.divisor, ranges)
            case Lookup():
                part = element(atom.table, substitute(atom.form, values, ranges))
            case _:
                assert_never(atom)
        parts.append((coefficient, part))
    return combine(*parts, constant=form.constant)


def variables(form: Affine) -> Iterator[Sym]:
    """The variables of a form, those inside divisions included."""
    for atom, _ in form.terms:
        yield from atom_variables(atom)


def atom_variables(atom: Atom) -> Iterator[Sym]:
    """The variables of an atom."""
    match atom:
        case Sym():
            yield atom
        case Floor() | Rest() | Lookup():
            yield from variables(atom.form)
        case _:
            assert_never(atom)


def divisors(form: Affine, name: Sym) -> Iterator[int]:
    """The m for which the form depends on `name` through `name / m` or `name mod m` alone."""
    for atom, _ in form.terms:
        if isinstance(atom, Floor | Rest):
            yield from divisors(atom.form, name)
            for inner, coefficient in atom.form.terms:
                if inner == name:
                    yield atom.divisor // gcd(atom.divisor, coefficient)


def mentions(form: Affine, names: Iterable[Sym]) -> bool:
    """Tests whether the form depends on any of the variables."""
    wanted = frozenset(names)
    return any(name in wanted for name in variables(form))


# Constant values and differences of control expressions.


def constant(expr: ir.CExpr) -> int | None:
    """The value of an expression that is the same for all values of its variables.

    None where its form has a variable left.
    """
    form = from_cexpr(expr, {}, {})
    return None if form.terms else form.constant


def difference(left: ir.CExpr, right: ir.CExpr) -> int | None:
    """`left - right` where it is constant, else None."""
    return constant(ir.Sub(left, right))
