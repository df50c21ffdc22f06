"""Work on a verdict that is known: hazards in words, repairs, conditions on sizes, warnings.

A failure in it is a mistake of exogpu.  It becomes a note, and never changes the verdict.
"""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass
from types import TracebackType

from exogpu.solvers.workers import cut_short

LOUD = False
"""True if failures are raised instead of noted: in tests and campaigns, which look for mistakes."""


class Failures:
    """The failures while one verdict is explained."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def noted(self, doing: str) -> Noted:
        """Returns a context that notes a failure: `with failures.noted("a search"): ...`."""
        return Noted(self, doing)

    def joined(self, note: str) -> str:
        """A verdict's note with those of failures."""
        return "; ".join(filter(None, (note, *self.notes)))


@dataclass(frozen=True, slots=True)
class Noted:
    """Notes what is raised within it and goes on after it.

    The verdict is not cached then, since a corrected exogpu says more.  Running out of memory is
    left to the caller, who knows the limit.
    """

    failures: Failures
    doing: str

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if LOUD or not isinstance(error, Exception) or isinstance(error, MemoryError):
            return False
        if os.environ.get("EXOGPU_DEBUG"):
            traceback.print_exception(error)
        cut_short()
        note = (
            f"{self.doing} failed ({type(error).__name__}: {error}); this is a bug in exogpu, and "
            "the verdict does not depend on it; with EXOGPU_DEBUG=1 it shows where"
        )
        if note not in self.failures.notes:
            self.failures.notes.append(note)
        return True
