"""Asks Z3 about values: what follows from the facts at a place of the kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from exogpu.importing import polynomial_values
from exogpu.solvers import smt

ATTEMPTS: Final = ((6, 0.1), (2, 0.4))
"""Z3's procedures for arithmetic, and the parts of the usual limit that each may spend."""


def follows(
    facts: Sequence[polynomial_values.Condition], claim: polynomial_values.Condition
) -> bool:
    """Returns whether the facts are proved to imply the claim; False also where undecided."""
    if claim == polynomial_values.Known(True):
        return True
    if claim in facts:
        return True
    return _ask_solver(_script((*facts, polynomial_values.negation(claim)))) == "unsat"


def possible_together(facts: Sequence[polynomial_values.Condition]) -> bool:
    """Returns whether facts are proved to hold together for some values."""
    return _ask_solver(_script(facts)) == "sat"


def equal(
    facts: Sequence[polynomial_values.Condition],
    one: polynomial_values.Value,
    other: polynomial_values.Value,
) -> bool:
    """Returns whether two values are proved equal wherever the facts hold."""
    return one == other or follows(facts, polynomial_values.compare("==", one - other))


def settled(
    value: polynomial_values.Value, facts: Sequence[polynomial_values.Condition]
) -> polynomial_values.Value:
    """The value with divisions toward zero as divisions that round down, where they are the same
    because the facts exclude negative dividends."""
    while True:
        for atom in value.atoms():
            if not isinstance(atom, polynomial_values.Toward):
                continue
            by = atom.divisor.constant
            if (
                by is not None
                and by > 0
                and follows(facts, polynomial_values.compare("<=", atom.term * -1))
            ):
                settle = (
                    polynomial_values.floor
                    if atom.part == "quotient"
                    else polynomial_values.remainder
                )
                value = value.substitute({atom: settle(atom.term, by)})
                break
        else:
            return value


@lru_cache(maxsize=4096)
def _ask_solver(script: str) -> str:
    return smt.ask_z3(script, attempts=ATTEMPTS).word


def _script(conditions: Iterable[polynomial_values.Condition]) -> str:
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
        self.names: dict[polynomial_values.Variable, str] = {}
        self.booleans: dict[polynomial_values.Unread, str] = {}

    @property
    def integers(self) -> Iterable[str]:
        return self.names.values()

    @property
    def natural(self) -> Iterable[str]:
        return (name for variable, name in self.names.items() if variable.natural)

    @property
    def bits(self) -> Iterable[str]:
        return (name for variable, name in self.names.items() if variable.bit)

    def condition(self, condition: polynomial_values.Condition) -> str:
        match condition:
            case polynomial_values.Known():
                return "true" if condition.value else "false"
            case polynomial_values.Compare():
                op = "=" if condition.op == "==" else "<="
                return f"({op} {self.value(condition.value)} 0)"
            case polynomial_values.Negation():
                return f"(not {self.condition(condition.term)})"
            case polynomial_values.Both():
                return f"(and {self.condition(condition.first)} {self.condition(condition.second)})"
            case polynomial_values.Unread():
                return self.booleans.setdefault(condition, f"b{len(self.booleans)}")

    def value(self, value: polynomial_values.Value) -> str:
        if value.constant is not None:
            return smt.numeral(value.constant)
        parts = []
        for product, factor in value.terms:
            factors = [self._atom(atom) for atom in product]
            factors += [smt.numeral(factor)] if factor != 1 or not factors else []
            parts.append(factors[0] if len(factors) == 1 else f"(* {' '.join(factors)})")
        return parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"

    def _atom(
        self,
        atom: polynomial_values.Variable
        | polynomial_values.Floor
        | polynomial_values.Remainder
        | polynomial_values.Toward
        | polynomial_values.Choice,
    ) -> str:
        match atom:
            case polynomial_values.Variable():
                return self.names.setdefault(atom, f"v{len(self.names)}")
            case polynomial_values.Floor():
                return f"(div {self.value(atom.term)} {atom.divisor})"
            case polynomial_values.Remainder():
                return f"(mod {self.value(atom.term)} {atom.divisor})"
            case polynomial_values.Toward():
                return self._truncated_quotient(atom)
            case polynomial_values.Choice():
                first, second = self.value(atom.first), self.value(atom.second)
                return f"(ite {self.condition(atom.condition)} {first} {second})"

    def _truncated_quotient(self, atom: polynomial_values.Toward) -> str:
        """SMT-LIB's `div` rounds so that the rest is not negative; C's rounds toward zero."""
        term, by = self.value(atom.term), self.value(atom.divisor)
        quotient = f"(ite (<= 0 {term}) (div {term} {by}) (- (div (- {term}) {by})))"
        return quotient if atom.part == "quotient" else f"(- {term} (* {quotient} {by}))"


def known_within(value: polynomial_values.Value, loop: str) -> bool:
    """Returns whether a value is the same in all iterations of a loop."""
    for atom in value.atoms():
        if isinstance(atom, polynomial_values.Variable) and loop in atom.within:
            return False
        if isinstance(atom, polynomial_values.Choice) and any(
            loop in u.within for u in polynomial_values.unread_in(atom.condition)
        ):
            return False
    return True


def is_steady(condition: polynomial_values.Condition, loop: str) -> bool:
    """Returns whether a condition is the same in all iterations of a loop."""
    inside = polynomial_values.condition_atoms(condition)
    varied = any(
        isinstance(atom, polynomial_values.Variable) and loop in atom.within for atom in inside
    )
    return not varied and not any(
        loop in one.within for one in polynomial_values.unread_in(condition)
    )


def between_bounds(
    low: polynomial_values.Value | int,
    value: polynomial_values.Value,
    high: polynomial_values.Value,
) -> tuple[polynomial_values.Condition, polynomial_values.Condition]:
    """`low <= value < high`"""
    return polynomial_values.compare(
        "<=", polynomial_values.integer_value(low) - value
    ), polynomial_values.compare("<=", value - high + 1)


def counter(name: str, loops: frozenset[str] = frozenset()) -> polynomial_values.Value:
    """The number of an iteration of a loop."""
    return polynomial_values.atom_value(
        polynomial_values.Variable(name, natural=True, within=loops | {name})
    )
