"""Two accesses of which one belongs to a dependent launch, the other to one before it."""

from __future__ import annotations

from dataclasses import dataclass

from exogpu.amir.nodes import Arrive, Fence, Op, Program
from exogpu.amir.walk import operations
from exogpu.machine.violation import Violation

WAIT = "Fence(cuda_stream_sync, cuda_in_order)"


@dataclass(frozen=True, slots=True)
class Overlapping:
    """Two launches that may run together, by their lines."""

    first: int
    second: int

    def missing(self, action: str) -> str:
        """Explains why nothing orders the launches."""
        return (
            f"the launch at line {self.second} is dependent: it may begin before that of line "
            f"{self.first} has ended, and nothing waits for it before {action}"
        )

    def advice(self) -> str:
        """Returns the remedy."""
        return (
            f"wait first: move {WAIT} before it, where the same threads take part; or write none "
            "in this launch, which then waits before everything else"
        )


def overlapping(program: Program | None, violation: Violation) -> Overlapping | None:
    """The launches of the two accesses of a violation, where the second is dependent."""
    if program is None or violation.record is None:
        return None
    order: list[Op] = list(operations(program.body))
    if violation.record not in order or violation.check not in order:
        return None
    begin, end = order.index(violation.record), order.index(violation.check)
    ends = [op for op in order[begin:end] if isinstance(op, Arrive) and op.launch]
    starts = [op for op in order[begin:end] if isinstance(op, Fence) and op.launch]
    if not ends or not starts:
        return None
    return Overlapping(ends[0].origin.span.line, starts[-1].origin.span.line)
