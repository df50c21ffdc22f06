"""Findings about results, as data: the terms whose sum each read of two procedures is.

Nothing of it is believed.  A term is a statement that writes an expression, at values of its
iterators, or an element of a parameter as it was given; its own values are `term.0` and so on.  Of
several pieces the first counts whose condition holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from exogpu.ir.nodes import BExpr, CVar
from exogpu.symbolic.encode.witness import named
from exogpu.symbolic.steps.witness import Found, Kept, Reader

Source: TypeAlias = int | str
"""The statement of a term, or the parameter."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one source in the sum that a read finds."""

    where: BExpr
    """Which ones: of the iterators of the read, and of the term's own values."""
    through: tuple[Found, ...]
    """By which write each came."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The reads of one procedure."""

    wanted: Mapping[Reader, BExpr]
    """Of which instances of a read something is said; of parameters at the end, of all."""
    begins: Mapping[Reader, tuple[Found, ...]]
    """The last assignment before each; the sum is of what it gave and what was added since."""
    terms: Mapping[Reader, Mapping[Source, Terms]]


@dataclass(frozen=True, slots=True)
class Summed:
    """Two procedures, and which terms of them are one."""

    old: Sums
    new: Sums
    forth: Mapping[int, tuple[Kept, ...]]
    """By new statement, the old instance of which each is the counterpart."""
    back: Mapping[int, tuple[Kept, ...]]
    """By old statement, the new one."""


def term_names(rank: int) -> tuple[CVar, ...]:
    """The integers that stand for a term."""
    return tuple(named(f"term.{at}") for at in range(rank))
