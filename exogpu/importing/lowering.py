"""A table of the synchronisation that each version of Triton adds when it lowers TTGIR to PTX.

The rows were counted in the PTX of each version.  A kernel's own PTX is compared with them
(`exogpu.importing.skeleton`), so that a proof does not rest on the table alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Lowering:
    """One version."""

    version: str
    meet_before_arrive: bool
    """`mbarrier.arrive` is executed by one thread, after a barrier of its partition."""
    meet_after_product_wait: bool
    """A partition of several warpgroups meets after `wgmma.wait_group`, if that is not local."""
    meet_within_scratch: bool
    """Between the stores and the loads of scratch memory all threads of a partition meet."""
    copies_once: bool
    """True if, of the threads that have one element, one executes its cp.async."""


LOWERINGS: Final[Mapping[str, Lowering]] = {
    "3.8": Lowering("3.8", True, False, True, True),
    "3.9": Lowering("3.9", True, True, True, True),
}
"""By the first two parts of the version."""

NEWEST: Final = LOWERINGS["3.9"]
NEWEST_FIRST: Final = tuple(reversed(tuple(LOWERINGS.values())))
