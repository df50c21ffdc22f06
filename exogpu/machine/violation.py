"""Reports of both interpreters of the abstract machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from exogpu.amir.nodes import Op
from exogpu.result.verdict import HazardKind

_KINDS: Final = list(HazardKind)


@dataclass(frozen=True, slots=True)
class Violation:
    """A check that failed: the operation that failed, at which element, against which record.

    Interpreters agree on every compared field.  Of several violations of one operation the
    first is the one with the smallest index, then the earliest `record` in program text.
    """

    kind: HazardKind
    variable: str
    index: tuple[int, ...]
    task: int | None
    """Task of the failing operation, from 1; None at CPU scope."""
    check: Op
    iteration: tuple[tuple[str, int], ...]
    """Values of the loop iterators around `check`, outermost first."""
    record: Op | None
    """The Record, Arrive or Await that is not ordered before `check`; None if there is none."""
    record_iteration: tuple[tuple[str, int], ...] | None = field(default=None, compare=False)
    record_task: int | None = field(default=None, compare=False)
    contents: tuple[tuple[str, tuple[int, ...]], ...] = field(default=(), compare=False)
    """Of the arrays that values are loaded from: those with which it was found."""


def rank(
    kind: HazardKind, index: tuple[int, ...], record: Op | None, places: Mapping[Op, int]
) -> tuple[tuple[int, ...], int, int]:
    """The order of the violations of one operation: smallest index first, then the record that
    comes first in the program text (none before any), then by kind."""
    return (index, -1 if record is None else places[record], _KINDS.index(kind))
