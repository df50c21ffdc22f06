"""Programs whose barriers are more than the hardware has, or are others: what the machine accepts
runs right on what the hardware counts."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

from exogpu.diagnostics.hazards import HazardKind
from tests.machine.shapes import roles, turns

COUNTED: Final = ("roles", "turns")
OF_BARRIERS: Final = frozenset({HazardKind.DEADLOCK, HazardKind.PHASE, HazardKind.BARRIER})
ORDERS: Final = 12


def went_wrong(shape: str, seed: int, steps: int, orders: int = ORDERS) -> set[str]:
    """What goes wrong in some orders of what the program of a seed does; empty: nothing does."""
    found: set[str] = set()
    if shape == "roles":
        ring = roles.draw(Random(seed))
        found = {roles.executed(ring, steps, Random(n)) for n in range(orders)}
    if shape == "turns":
        handed = turns.draw(Random(seed))
        found = {turns.executed(handed, steps, Random(n)) for n in range(orders)}
    return found - {""}


def accepted(kinds: Iterable[HazardKind]) -> bool:
    """Whether the machine finds nothing wrong with barriers."""
    return OF_BARRIERS.isdisjoint(kinds)
