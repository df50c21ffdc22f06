"""Contracts of arrays as text, and the elements that they are about."""

from __future__ import annotations


def contract_text(kind: str, array: str, least: int | None) -> str:
    """The contract as it is written.

    >>> contract_text("injective", "slots", 0)
    'injective(slots, where >= 0)'
    """
    return f"{kind}({array})" if least is None else f"{kind}({array}, where >= {least})"


def is_meant(value: int, least: int | None) -> bool:
    """Tests whether a contract is about elements of a value."""
    return least is None or value >= least
