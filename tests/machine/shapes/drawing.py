"""What all generators draw."""

from __future__ import annotations

from random import Random

from exogpu.ir.types import Level, QualTL
from tests.machine.build import ATOMIC, FULL, Q0, Q1, Q2, TEMPORAL, TMA, UNORDERED, WGS

TIMELINES = (Q0, Q1, Q2, TMA, WGS)
LEVELS = (FULL, TEMPORAL, UNORDERED, ATOMIC, Level.INVISIBLE)


def some(random: Random, p: float = 0.4) -> frozenset[QualTL]:
    """A set of timelines, often a small one."""
    return frozenset(q for q in TIMELINES if random.random() < p) or {random.choice(TIMELINES)}


def level(random: Random) -> Level:
    return random.choices(LEVELS, (8, 6, 6, 3, 1))[0]
