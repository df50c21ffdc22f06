"""Every diagnostic code: what it means, and an example of it with its repair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Code:
    """One entry of `exogpu explain`."""

    title: str
    explanation: str
    example: str
    """A fragment that draws the diagnostic, and its repair, as source text."""


CODES: Final[dict[str, Code]] = {
}
"""By code; the letter is the stage: P parsing, T types, S scopes, C collective tiling,
D distributed memory, B bounds, H hazards, X invocation."""
