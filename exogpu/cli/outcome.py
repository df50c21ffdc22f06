"""Verdicts with the places of their procedures, and the exit status that they give together."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from exogpu.result.errors import Span
from exogpu.result.verdict import Verdict, Word


@dataclass(frozen=True, slots=True)
class Outcome:
    """One answer of the command line: a verdict, and where its procedure (or its file) stands."""

    span: Span
    verdict: Verdict


STATUS: Final[dict[Word, int]] = {"proved": 0, "refuted": 1, "error": 2, "undecided": 3}
"""Exit status of a single verdict."""

PRECEDENCE: Final = (4, 2, 1, 3, 0)
"""4 is a failure of exogpu itself: it says nothing about any kernel."""


def exit_status(outcomes: Iterable[Outcome]) -> int:
    """Returns the first of 4, 2, 1, 3 that occurs among the statuses of the outcomes, else 0."""
    return worst({STATUS[outcome.verdict.word] for outcome in outcomes})


def worst(statuses: Collection[int]) -> int:
    """Returns the first of 4, 2, 1, 3 that occurs among the statuses, else 0."""
    return next((status for status in PRECEDENCE if status in statuses), 0)
