"""A row of the lowering table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Scope(Enum):
    """The threads of a Fence, by the cheapest hardware barrier that joins them."""

    THREAD = "one thread"
    LANES = "part of a warp"
    WARP = "a warp"
    WARPS = "some warps of a CTA"
    CTA = "a CTA"
    CLUSTER = "a cluster"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the lowering table."""

    mechanism: str
    scope: str
    timelines: str
    text: str
    """C++ with PTX; fields in braces are filled in by the code generator."""
    section: str
    """Of the PTX ISA."""
    why: str


def asm(instruction: str) -> str:
    """The statement of an instruction, which orders accesses of memory around it."""
    return f'asm volatile("{instruction}" ::: "memory");'


MBARRIER: Final = "Parallel Synchronization and Communication Instructions"
"""The section of the PTX ISA."""
