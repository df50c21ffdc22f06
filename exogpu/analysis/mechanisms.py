"""Kinds of commit groups, told by the timeline of an Arrive (decision `solitary-mechanisms`)."""

from __future__ import annotations

from enum import Enum
from typing import Final

from exogpu.ir.types import Policy, QualSet, QualTL, SyncTL


class GroupKind(Enum):
    """The three commit-group mechanisms of PTX; each counts its groups by itself."""

    WGMMA = "wgmma"
    BULK = "bulk"
    CP_ASYNC = "cp.async"


_TIMELINES: Final[dict[GroupKind, QualSet]] = {
    GroupKind.WGMMA: frozenset({QualTL.WG_A, QualTL.WG_D, QualTL.WG_S, QualTL.WG_0}),
    GroupKind.BULK: frozenset({QualTL.TMA_G, QualTL.TMA_R}),
    GroupKind.CP_ASYNC: frozenset({QualTL.SM80}),
}


def group_kind(timeline: SyncTL) -> GroupKind | None:
    """The kind of the commit group that an Arrive on the timeline ends; None if it is none."""
    full = timeline.under(Policy.PAPER).full
    if full:
        for kind, timelines in _TIMELINES.items():
            if full <= timelines:
                return kind
    return None
