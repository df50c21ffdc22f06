"""Places of rows in a kernel, and the text that a place adds.

The wgmma instructions are executed by all four warps of a warpgroup (PTX ISA, wgmma).  In a CTA
whose warps are no multiple of four the last ones are in no warpgroup: they made no product, and
go past the rows of a scope that has them too.

A proxy fence is of the state space in which both proxies access something: the one of all spaces
waits for the global accesses of the CTA too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from exogpu.analysis.derive import is_unit_scope
from exogpu.analysis.tiling import Tiling
from exogpu.codegen import sync
from exogpu.codegen.names import WARP
from exogpu.codegen.proxies import Proxies
from exogpu.hw.units import cuda_warpgroup

OF_WARPGROUPS: Final = frozenset({"drain wgmma", "wgmma fence", "arrive wgmma", "await wgmma"})
"""Rows that warpgroups execute."""

OF_PROXIES: Final = frozenset({"proxy fence", "proxy fence at free"})
"""Rows with a state space."""

OF_CTAS: Final = frozenset({"fence cluster", "await cluster"})
"""Rows after which a CTA knows what others have done."""

OF_BULK: Final[Mapping[str, str]] = {
    "drain bulk": "drain bulk, sources",
    "await bulk": "await bulk, sources",
}
"""Rows that wait for bulk stores, and what waits for the reads of their sources alone."""

SOURCES: Final = frozenset(OF_BULK.values())


@dataclass(frozen=True, slots=True)
class Where:
    """The threads that execute a row: a scope, and the warps of the path that is emitted."""

    tiling: Tiling
    warps: tuple[int, int] | None
    """First and end, in the CTA; None: one path for all."""
    proxies: Proxies


def emit(key: str, where: Where, **fields: int | str) -> list[str]:
    """The lines of a row, under a condition where warps of no warpgroup come along."""
    if key in OF_PROXIES:
        at_free = key == "proxy fence at free"
        fields["space"] = where.proxies.freed_space if at_free else where.proxies.space
    if where.proxies.sources:
        key = OF_BULK.get(key, key)
    lines = sync.emit(key, **fields)
    if key in OF_CTAS:
        lines += after_others(where)
    if key not in OF_WARPGROUPS or is_unit_scope(where.tiling, cuda_warpgroup):
        return lines
    count = where.tiling.block_dim // 32
    first, end = where.warps or (0, count)
    last = count // 4 * 4
    if end <= last:
        return lines
    if first >= last:
        return []
    return [f"if ({WARP.name} < {last}) {{", *(f"    {line}" for line in lines), "}"]


def after_others(where: Where) -> list[str]:
    """Returns the lines after a wait for other CTAs."""
    return sync.emit("proxy fence after others") if where.proxies.across else []
