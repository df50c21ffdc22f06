"""A move: one change that may mend a hazard."""

from __future__ import annotations

from dataclasses import dataclass

from exogpu.schedule.proposing.drafts import Draft


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """A change of a draft, and the draft after it."""

    kind: str
    cost: float
    """How many statements of synchronisation it adds or changes; more for what is worse."""
    draft: Draft
