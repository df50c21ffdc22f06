"""The protocol of a procedure that can be scheduled."""

from __future__ import annotations

from typing import Protocol

from exogpu.ir.nodes import Proc
from exogpu.result.errors import Diagnostic


class Schedulable(Protocol):
    """A procedure as `exogpu.api` has it; this room does not know that one."""

    name: str
    made_in: str
    ir: Proc | None

    @property
    def refusals(self) -> tuple[Diagnostic, ...]:
        """The errors of its definition."""
        ...

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that is wrong with it, but for hazards."""
        ...
