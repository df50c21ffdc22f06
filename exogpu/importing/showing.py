"""Values and conditions as text, for messages."""

from __future__ import annotations

from exogpu.importing.values import (
    Atom,
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
)


def shown(value: Value) -> str:
    """A value as Python writes it."""
    parts = []
    for product, factor in sorted(value.terms, key=lambda term: not term[0]):
        factors = [_atom(atom) for atom in product]
        if factor != 1 or not factors:
            factors.insert(0, str(factor))
        parts.append(" * ".join(factors))
    return " + ".join(parts[::-1]).replace("+ -", "- ") or "0"


def _atom(atom: Atom) -> str:
    match atom:
        case Variable():
            return atom.name.strip("%")
        case Floor():
            return f"({shown(atom.term)}) // {atom.divisor}"
        case Remainder():
            return f"({shown(atom.term)}) % {atom.divisor}"
        case Toward():
            op = "//" if atom.part == "quotient" else "%"
            return f"({shown(atom.term)}) {op} ({shown(atom.divisor)})"
        case Choice():
            condition = shown_condition(atom.condition)
            return f"({shown(atom.first)} if {condition} else {shown(atom.second)})"


def shown_condition(condition: Condition) -> str:
    """A condition as Python writes it."""
    match condition:
        case Known():
            return str(condition.value)
        case Compare():
            return f"{shown(condition.value)} {condition.op} 0"
        case Negation():
            return f"not ({shown_condition(condition.term)})"
        case Both():
            return f"{shown_condition(condition.first)} and {shown_condition(condition.second)}"
        case Unread():
            return condition.name.strip("%")
