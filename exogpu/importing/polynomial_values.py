"""Integers of a kernel, exactly: polynomials with whole coefficients over atoms.

Two values that are equal as polynomials are equal; what more is equal, a solver says
(`exogpu.importing.value_proofs`).  Machine integers are taken not to wrap, which is an assumption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias


@dataclass(frozen=True)
class Variable:
    """A counter, program id, argument, or a value that is not read further.

    `within` names the loops in whose iterations it may differ; `natural` says that it is not
    negative, `bit` that it is 0 or 1.
    """

    name: str
    natural: bool = False
    within: frozenset[str] = frozenset()
    bit: bool = False


@dataclass(frozen=True)
class Floor:
    """`term / divisor`, rounded down; divisor > 1."""

    term: Value
    divisor: int


@dataclass(frozen=True)
class Remainder:
    """`term mod divisor`, in `0 .. divisor - 1`; divisor > 1."""

    term: Value
    divisor: int


@dataclass(frozen=True)
class Toward:
    """`term / divisor` rounded toward zero, or what is left then, as C has it."""

    term: Value
    divisor: Value
    part: Literal["quotient", "rest"]


@dataclass(frozen=True)
class Choice:
    """`first` where the condition holds, else `second`."""

    condition: Condition
    first: Value
    second: Value


Atom: TypeAlias = Variable | Floor | Remainder | Toward | Choice


@dataclass(frozen=True)
class Value:
    """A sum of products of atoms; the empty product is 1."""

    terms: tuple[tuple[tuple[Atom, ...], int], ...] = ()

    @cached_property
    def constant(self) -> int | None:
        """Its value, where it has no atoms."""
        if not self.terms:
            return 0
        (product, factor), *others = self.terms
        return factor if not product and not others else None

    def __add__(self, other: Value | int) -> Value:
        found = dict(self.terms)
        for product, factor in integer_value(other).terms:
            found[product] = found.get(product, 0) + factor
        return _value_of_terms(found)

    def __sub__(self, other: Value | int) -> Value:
        return self + integer_value(other) * -1

    def __mul__(self, other: Value | int) -> Value:
        found: dict[tuple[Atom, ...], int] = {}
        for one, factor in self.terms:
            for two, times in integer_value(other).terms:
                product = tuple(sorted((*one, *two), key=repr))
                found[product] = found.get(product, 0) + factor * times
        return _value_of_terms(found)

    @property
    def offset(self) -> int:
        """Its constant term."""
        return dict(self.terms).get((), 0)

    def atoms(self) -> Iterator[Atom]:
        """All atoms, inner ones too."""
        for product, _ in self.terms:
            for atom in product:
                yield from _nested_atoms(atom)

    def variables(self) -> frozenset[Variable]:
        """All variables in it."""
        return frozenset(atom for atom in self.atoms() if isinstance(atom, Variable))

    def substitute(self, by: Mapping[Atom, Value]) -> Value:
        """With atoms replaced by values, outer ones first."""
        found = Value()
        for product, factor in self.terms:
            part = integer_value(factor)
            for atom in product:
                part = part * _replace_atoms(atom, by)
            found = found + part
        return found


@dataclass(frozen=True)
class Compare:
    """`value <op> 0`."""

    op: Literal["==", "<="]
    value: Value


@dataclass(frozen=True)
class Negation:
    term: Condition


@dataclass(frozen=True)
class Both:
    first: Condition
    second: Condition


@dataclass(frozen=True)
class Unread:
    """A condition that is data."""

    name: str
    within: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Known:
    value: bool


Condition: TypeAlias = Compare | Negation | Both | Unread | Known
TRUE: Final = Known(True)
FALSE: Final = Known(False)


def integer_value(value: Value | int) -> Value:
    """An integer as a value."""
    if isinstance(value, Value):
        return value
    return Value((((), value),)) if value else Value()


def atom_value(atom: Atom) -> Value:
    """An atom as a value."""
    return Value((((atom,), 1),))


def _value_of_terms(terms: Mapping[tuple[Atom, ...], int]) -> Value:
    kept = [(product, factor) for product, factor in terms.items() if factor]
    return Value(tuple(sorted(kept, key=lambda term: repr(term[0]))))


def _nested_atoms(atom: Atom) -> Iterator[Atom]:
    yield atom
    match atom:
        case Variable():
            return
        case Floor() | Remainder():
            yield from atom.term.atoms()
        case Toward():
            yield from atom.term.atoms()
            yield from atom.divisor.atoms()
        case Choice():
            yield from atom.first.atoms()
            yield from atom.second.atoms()
            yield from condition_atoms(atom.condition)


def condition_atoms(condition: Condition) -> Iterator[Atom]:
    """The atoms of a condition."""
    match condition:
        case Compare():
            yield from condition.value.atoms()
        case Negation():
            yield from condition_atoms(condition.term)
        case Both():
            yield from condition_atoms(condition.first)
            yield from condition_atoms(condition.second)
        case Unread() | Known():
            return


def unread_in(condition: Condition) -> frozenset[Unread]:
    """The parts of a condition that are data."""
    match condition:
        case Unread():
            return frozenset({condition})
        case Negation():
            return unread_in(condition.term)
        case Both():
            return unread_in(condition.first) | unread_in(condition.second)
        case Compare():
            inside = (a for a in condition.value.atoms() if isinstance(a, Choice))
            return frozenset().union(*(unread_in(a.condition) for a in inside))
        case Known():
            return frozenset()


def _replace_atoms(atom: Atom, by: Mapping[Atom, Value]) -> Value:
    if atom in by:
        return by[atom]
    match atom:
        case Variable():
            return atom_value(atom)
        case Floor():
            return floor(atom.term.substitute(by), atom.divisor)
        case Remainder():
            return remainder(atom.term.substitute(by), atom.divisor)
        case Toward():
            return divide_toward_zero(
                atom.term.substitute(by), atom.divisor.substitute(by), atom.part
            )
        case Choice():
            return choice(
                replaced_in(atom.condition, by),
                atom.first.substitute(by),
                atom.second.substitute(by),
            )


def replaced_in(condition: Condition, by: Mapping[Atom, Value]) -> Condition:
    """A condition with atoms replaced by values."""
    match condition:
        case Compare():
            return compare(condition.op, condition.value.substitute(by))
        case Negation():
            return negation(replaced_in(condition.term, by))
        case Both():
            return both_hold(replaced_in(condition.first, by), replaced_in(condition.second, by))
        case Unread() | Known():
            return condition


# --- constructors that simplify -------------------------------------------------------------


def floor(value: Value, divisor: int) -> Value:
    """Division that rounds down, with the multiples of the divisor taken out.

    A quotient of a quotient is left as it is: the inner one may be a trip count.
    """
    if divisor == 1:
        return value
    parts = {product: divmod(factor, divisor) for product, factor in value.terms}
    out = _value_of_terms({product: q for product, (q, r) in parts.items() if not (product and r)})
    rest = _value_of_terms(
        {p: f if p and r else r for (p, f) in value.terms for (_, r) in (parts[p],) if r}
    )
    if rest.constant is not None:  # between 0 and the divisor
        return out
    if len(rest.terms) == 1 and rest.terms[0][1] == 1 and len(rest.terms[0][0]) == 1:
        (inner,) = rest.terms[0][0]
        if isinstance(inner, Remainder) and inner.divisor <= divisor:
            return out
    return out + atom_value(Floor(rest, divisor))


def remainder(value: Value, divisor: int) -> Value:
    """The remainder of division that rounds down."""
    if divisor == 1:
        return Value()
    rest = _value_of_terms({product: factor % divisor for product, factor in value.terms})
    rest = rest.substitute(
        {
            atom: atom.term
            for product, _ in rest.terms
            for atom in product
            if isinstance(atom, Remainder) and len(product) == 1 and atom.divisor % divisor == 0
        }
    )
    rest = _value_of_terms({product: factor % divisor for product, factor in rest.terms})
    if rest.constant is not None:
        return rest
    if len(rest.terms) == 1 and rest.terms[0][1] == 1 and len(rest.terms[0][0]) == 1:
        (inner,) = rest.terms[0][0]
        if isinstance(inner, Remainder) and inner.divisor <= divisor:
            return rest
    return atom_value(Remainder(rest, divisor))


def divide_toward_zero(term: Value, divisor: Value, part: Literal["quotient", "rest"]) -> Value:
    """Division that rounds toward zero; it rounds down where nothing is negative."""
    by = divisor.constant
    if by is not None and by > 0 and is_natural(term):
        return floor(term, by) if part == "quotient" else remainder(term, by)
    if by is not None and term.constant is not None and by != 0:
        quotient = abs(term.constant) // abs(by) * (1 if (term.constant < 0) == (by < 0) else -1)
        return integer_value(quotient if part == "quotient" else term.constant - quotient * by)
    if by == 1:
        return term if part == "quotient" else Value()
    return atom_value(Toward(term, divisor, part))


def choice(condition: Condition, first: Value, second: Value) -> Value:
    """One of two values."""
    if isinstance(condition, Known) or first == second:
        return first if isinstance(condition, Known) and condition.value else second
    return atom_value(Choice(condition, first, second))


def compare(op: Literal["==", "<="], value: Value) -> Condition:
    """`value <op> 0`"""
    if value.constant is not None:
        return Known(value.constant == 0 if op == "==" else value.constant <= 0)
    return Compare(op, _lowest(value) if op == "<=" else value)


def _lowest(value: Value) -> Value:
    """A value that is at most 0 where this one is: `n u + w <= 0` is `u <= floor(-w / n)`."""
    by = max((abs(factor) for product, factor in value.terms if product), default=1)
    if by == 1:
        return value
    whole_part = _value_of_terms({p: f // by for p, f in value.terms if p and f % by == 0})
    return whole_part - floor(whole_part * by - value, by)


def negation(condition: Condition) -> Condition:
    """The opposite."""
    match condition:
        case Known():
            return Known(not condition.value)
        case Negation():
            return condition.term
        case Compare(op="<="):
            return compare("<=", integer_value(1) - condition.value)
        case _:
            return Negation(condition)


def both_hold(first: Condition, second: Condition) -> Condition:
    """Returns the conjunction of two conditions."""
    match first, second:
        case (Known(False), _) | (_, Known(False)):
            return FALSE
        case (Known(True), other) | (other, Known(True)):
            return other
        case _:
            return first if first == second else Both(first, second)


_RELATIONS: Final[Mapping[str, Callable[[Value, Value], Condition]]] = {
    "eq": lambda a, b: compare("==", a - b),
    "ne": lambda a, b: negation(compare("==", a - b)),
    "sle": lambda a, b: compare("<=", a - b),
    "slt": lambda a, b: compare("<=", a - b + 1),
    "sge": lambda a, b: compare("<=", b - a),
    "sgt": lambda a, b: compare("<=", b - a + 1),
}


def relation(name: str, first: Value, second: Value) -> Condition | None:
    """A comparison by its name in MLIR; None for one of another name."""
    found = _RELATIONS.get(name)
    return None if found is None else found(first, second)


def is_natural(value: Value) -> bool:
    """Returns whether the value's form shows that it is not negative."""
    return all(factor >= 0 and all(map(_natural, product)) for product, factor in value.terms)


def is_bit(value: Value) -> bool:
    """Returns whether the value's form shows that it is 0 or 1."""
    if value.constant is not None:
        return value.constant in (0, 1)
    if len(value.terms) != 1 or value.terms[0][1] != 1 or len(value.terms[0][0]) != 1:
        return False
    (atom,) = value.terms[0][0]
    match atom:
        case Variable():
            return atom.bit
        case Remainder():
            return atom.divisor == 2
        case Choice():
            return is_bit(atom.first) and is_bit(atom.second)
        case _:
            return False


def _natural(atom: Atom) -> bool:
    match atom:
        case Variable():
            return atom.natural
        case Floor():
            return is_natural(atom.term)
        case Remainder():
            return True
        case Toward():
            return is_natural(atom.term) and is_natural(atom.divisor)
        case Choice():
            return is_natural(atom.first) and is_natural(atom.second)
