"""The reason why a kernel is not validated: PTX instruction, source line and a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Refusal:
    """A difference between PTX and program, or what this reader of PTX does not know."""

    problem: str
    instruction: str = ""
    """The instruction of PTX, as it is written."""
    ptx_line: int = 0
    """Its line in the file of PTX."""
    source: str = ""
    """The statement of the program, as `FILE:LINE: TEXT`."""
    model: Mapping[str, int] = field(default_factory=dict)
    """A case in which the two differ: tid, ctaid, sizes."""


class NotValidatedError(Exception):
    """Ends a validation, with the reason."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.problem)


def refusal_of(problem: str, instruction: str = "", ptx_line: int = 0) -> NotValidatedError:
    """The error of what is not known here."""
    return NotValidatedError(Refusal(problem, instruction, ptx_line))
