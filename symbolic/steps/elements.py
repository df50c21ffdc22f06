"""Accesses that are of one element, for statements that are read as others: data, not believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Classes: TypeAlias = tuple[tuple[int, ...], ...]
"""Of the whole, then of the parts: of each statement the numbers of the elements that it reads, in
order, and that which it writes."""


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of each law, told apart by numbers."""

    of: tuple[Classes, ...]
