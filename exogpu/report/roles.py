"""What the two statements of a hazard are to each other."""

from __future__ import annotations

from typing import Final

from exogpu.verdict import HazardKind

ROLES: Final[dict[HazardKind, tuple[str, str]]] = {
    HazardKind.RAW: ("the write", "the read that may not see it"),
    HazardKind.WAR: ("the read", "the write that may overtake it"),
    HazardKind.WAW: ("the write", "the write that may overtake it"),
    HazardKind.FREE: ("the access", "where the memory is freed"),
    HazardKind.BARRIER: ("the barrier", "where arrives and awaits do not agree"),
    HazardKind.DEADLOCK: ("the barrier", "the Await that may wait for ever"),
    HazardKind.PHASE: ("the waiter", "what may run a whole ring ahead of it"),
    HazardKind.DIVERGENCE: ("the scope", "what its threads do not all reach"),
    HazardKind.BOUNDS: ("the variable", "the access outside of it"),
}
"""The first and the second site, by kind."""
