"""Describes how the two statements of a hazard relate to each other."""

from __future__ import annotations

from typing import Final

from exogpu.result.verdict import Hazard, HazardKind

ROLES: Final[dict[HazardKind, tuple[str, str]]] = {
    HazardKind.RAW: ("the write", "the read that may not see it"),
    HazardKind.WAR: ("the read", "the write that may overtake it"),
    HazardKind.WAW: ("the write", "the write that may overtake it"),
    HazardKind.LEAK: ("the write of another task", "the read that finds it"),
    HazardKind.UNINIT: ("the variable", "the read that finds no value"),
    HazardKind.FREE: ("the access", "where its memory ends"),
    HazardKind.BARRIER: ("the barrier", "where arrives and awaits do not agree"),
    HazardKind.DEADLOCK: ("what waits", "what does not let it end"),
    HazardKind.PHASE: ("the waiter", "what may run a whole ring ahead of it"),
    HazardKind.DIVERGENCE: ("the scope", "what its threads do not all reach"),
    HazardKind.OWNERSHIP: ("the variable", "the access by another unit than its own"),
    HazardKind.BOUNDS: ("the variable", "the access outside of it"),
    HazardKind.OVERLAP: ("the variable", "the call that takes its elements twice"),
    HazardKind.SLOT: ("the access by a slot", "the access that is elsewhere to it in another task"),
    HazardKind.ALIGN: ("the variable", "the call that asks for another place"),
}
"""The first and the second site, by kind, where the sites do not say it themselves."""


def roles_of(hazard: Hazard) -> tuple[str, str]:
    """The roles of the first and of the second site."""
    first, second = ROLES[hazard.kind]
    second = hazard.second.role or second
    if hazard.second.ends is not None and hazard.kind is HazardKind.FREE:
        second = f"{second} (declared at line {hazard.second.span.line})"
    return (hazard.first and hazard.first.role) or first, second
