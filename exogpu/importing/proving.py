"""Asks Z3 about values: what follows from the facts at a place of the kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from exogpu.importing.values import (
    Both,
    Choice,
    Compare,
    Condition,
    Floor,
    Known,
    Negation,
    Remainder,
    Toward,
    Unread,
    Value,
    Variable,
    compare,
    condition_atoms,
    floor,
    negation,
    of,
    remainder,
    unread_in,
    whole,
)
from exogpu.solvers import smt

ATTEMPTS: Final = ((6, 0.1), (2, 0.4))
"""Z3's procedures for arithmetic, and the parts of the usual limit that each may spend."""


def follows(facts: Sequence[Condition], claim: Condition) -> bool:
    """Returns whether the facts are proved to imply the claim; False also where undecided."""
    if claim == Known(True):
        return True
    if claim in facts:
        return True
    return _asked(_script((*facts, negation(claim)))) == "unsat"


def possible_together(facts: Sequence[Condition]) -> bool:
    """Returns whether facts are proved to hold together for some values."""
    return _asked(_script(facts)) == "sat"


def equal(facts: Sequence[Condition], one: Value, other: Value) -> bool:
    """Returns whether two values are proved equal wherever the facts hold."""
    return one == other or follows(facts, compare("==", one - other))


def settled(value: Value, facts: Sequence[Condition]) -> Value:
    """The value with divisions toward zero as divisions that round down, where they are the same
    because the facts exclude negative dividends."""
    while True:
        for atom in value.atoms():
            if not isinstance(atom, Toward):
                continue
            by = atom.divisor.constant
            if by is not None and by > 0 and follows(facts, compare("<=", atom.term * -1)):
                settle = floor if atom.part == "quotient" else remainder
                value = value.replaced({atom: settle(atom.term, by)})
                break
        else:
            return value


@lru_cache(maxsize=4096)
def _asked(script: str) -> str:
    return smt.ask_z3(script, attempts=ATTEMPTS).word


def _script(conditions: Iterable[Condition]) -> str:
    """The conjunction, with a constant for each variable and each condition that is data."""
    writer = _Writer()
    asserted = [writer.condition(one) for one in conditions]
    lines = ["(set-logic ALL)"]
    lines += [f"(declare-const {name} Int)" for name in writer.integers]
    lines += [f"(declare-const {name} Bool)" for name in writer.booleans.values()]
    lines += [f"(assert (<= 0 {name}))" for name in writer.natural]
    lines += [f"(assert (<= {name} 1))" for name in writer.bits]
    lines += [f"(assert {text})" for text in asserted]
    return "\n".join([*lines, "(check-sat)"])


class _Writer:
    def __init__(self) -> None:
        self.names: dict[Variable, str] = {}
        self.booleans: dict[Unread, str] = {}

    @property
    def integers(self) -> Iterable[str]:
        return self.names.values()

    @property
    def natural(self) -> Iterable[str]:
        return (name for variable, name in self.names.items() if variable.natural)

    @property
    def bits(self) -> Iterable[str]:
        return (name for variable, name in self.names.items() if variable.bit)

    def condition(self, condition: Condition) -> str:
        match condition:
            case Known():
                return "true" if condition.value else "false"
            case Compare():
                op = "=" if condition.op == "==" else "<="
                return f"({op} {self.value(condition.value)} 0)"
            case Negation():
                return f"(not {self.condition(condition.term)})"
            case Both():
                return f"(and {self.condition(condition.first)} {self.condition(condition.second)})"
            case Unread():
                return self.booleans.setdefault(condition, f"b{len(self.booleans)}")

    def value(self, value: Value) -> str:
        if value.constant is not None:
            return smt.numeral(value.constant)
        parts = []
        for product, factor in value.terms:
            factors = [self._atom(atom) for atom in product]
            factors += [smt.numeral(factor)] if factor != 1 or not factors else []
            parts.append(factors[0] if len(factors) == 1 else f"(* {' '.join(factors)})")
        return parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"

    def _atom(self, atom: Variable | Floor | Remainder | Toward | Choice) -> str:
        match atom:
            case Variable():
                return self.names.setdefault(atom, f"v{len(self.names)}")
            case Floor():
                return f"(div {self.value(atom.term)} {atom.divisor})"
            case Remainder():
                return f"(mod {self.value(atom.term)} {atom.divisor})"
            case Toward():
                return self._toward(atom)
            case Choice():
                first, second = self.value(atom.first), self.value(atom.second)
                return f"(ite {self.condition(atom.condition)} {first} {second})"

    def _toward(self, atom: Toward) -> str:
        """SMT-LIB's `div` rounds so that the rest is not negative; C's rounds toward zero."""
        term, by = self.value(atom.term), self.value(atom.divisor)
        quotient = f"(ite (<= 0 {term}) (div {term} {by}) (- (div (- {term}) {by})))"
        return quotient if atom.part == "quotient" else f"(- {term} (* {quotient} {by}))"


def known_within(value: Value, loop: str) -> bool:
    """Returns whether a value is the same in all iterations of a loop."""
    for atom in value.atoms():
        if isinstance(atom, Variable) and loop in atom.within:
            return False
        if isinstance(atom, Choice) and any(loop in u.within for u in unread_in(atom.condition)):
            return False
    return True


def steady(condition: Condition, loop: str) -> bool:
    """Returns whether a condition is the same in all iterations of a loop."""
    inside = condition_atoms(condition)
    varied = any(isinstance(atom, Variable) and loop in atom.within for atom in inside)
    return not varied and not any(loop in one.within for one in unread_in(condition))


def between(low: Value | int, value: Value, high: Value) -> tuple[Condition, Condition]:
    """`low <= value < high`"""
    return compare("<=", whole(low) - value), compare("<=", value - high + 1)


def counter(name: str, loops: frozenset[str] = frozenset()) -> Value:
    """The number of an iteration of a loop."""
    return of(Variable(name, natural=True, within=loops | {name}))
