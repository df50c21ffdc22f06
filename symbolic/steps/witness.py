"""Findings about a step, as data: the new places of old statements, and the writes that each read
finds.

Nothing of it is believed.  Statements are told by their numbers in their program; expressions are
of the iterators of the statement that they are about, and of `element.0` and so on for an element
of a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from exogpu.ir.nodes import BExpr, CExpr

Reader: TypeAlias = tuple[int, int] | str
"""Statement and access of a new procedure, or the parameter that is left at its end."""


@dataclass(frozen=True, slots=True)
class At:
    """An instance of a statement."""

    statement: int
    values: tuple[CExpr, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """A parameter as it was given."""


Source: TypeAlias = At | Given | None
"""What wrote last; None where nothing has."""


@dataclass(frozen=True, slots=True)
class Found:
    """A condition, and the last write of an element under it."""

    where: BExpr
    source: Source


@dataclass(frozen=True, slots=True)
class Kept:
    """A condition, and the new instance that an old one becomes under it."""

    where: BExpr
    at: At


@dataclass(frozen=True, slots=True)
class Zero:
    """A condition under which a read finds zero, and the writes of that zero."""

    where: BExpr
    found: tuple[Found, ...]


@dataclass(frozen=True, slots=True)
class Witness:
    """All of it."""

    kept: Mapping[int, tuple[Kept, ...]]
    """By old statement; a statement that has none is gone."""
    overwritten: Mapping[int, tuple[At, ...]]
    """By old statement that is gone somewhere: kept assignments, the next on its element; none
    where nobody writes it again."""
    found: Mapping[Reader, tuple[Found, ...]]
    """By read of the new procedure that stands for something."""
    zeros: Mapping[tuple[int, int], Zero]
    """By read of the new procedure."""


EMPTY = Witness({}, {}, {}, {})
