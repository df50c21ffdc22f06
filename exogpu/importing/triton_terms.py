"""A refutation in the words of Triton: what the language calls a Fence is a barrier there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from exogpu.diagnostics.hazards import Hazard, HazardKind, Occurrence

_WORDS: Final[tuple[tuple[str, str], ...]] = (
    (r" \((?:cpu|strm|cuda1|cuda2|Sm80|tma[SGR]|wg[ADS0])(?:, (?:\w+))*\)", ""),
    (r"\bFence at line", "barrier at line"),
    (r"\bArrive at line", "arrival or commit at line"),
    (r"\bAwait at line", "wait at line"),
    (r"\bits first timeline takes", "it takes"),
    (r"\bits second timeline shows", "it shows"),
    (r"\b(\w+)_waits\b", r"\1"),
    (r"\btma_load of\b", "TMA load of"),
    (r"\btma_store of\b", "TMA store of"),
    (r"\bcp_async of\b", "cp.async of"),
    (r"\bstore_shared of\b", "store of"),
    (r"\bload_shared of\b", "load of"),
    (r"\bst_(\w+)\b(?:\[\d+\])?", r"the TMA stores of \1"),
    (r"\bcp_(\w+)\b(?:\[\d+\])?", r"the cp.async groups of \1"),
    (r"\bwg_(\w+)\b(?:\[\d+\])?", r"the wgmma groups of \1"),
    (r"\bregs_(\w+)\b(?:\[\d+\])?", r"registers of \1"),
)
"""The language's names, as patterns, and what Triton calls them."""

REPAIRS: Final[Mapping[HazardKind, str]] = {
    HazardKind.DEADLOCK: "arrive on the mbarrier before this wait, or wait with the other phase",
    HazardKind.PHASE: "wait for each phase of the mbarrier before it may complete again",
    HazardKind.BARRIER: "wait for the last arrivals or groups before the kernel ends",
    HazardKind.UNINIT: "fill the buffer before it is read, or mask the read",
    HazardKind.FREE: "wait for the access before the kernel ends: mbarrier.wait, tma.store_wait, "
    "async_copy.wait_group or warpgroup_mma_wait with pending 0",
}
"""The repair for a hazard that is no conflict of two accesses."""


def hazard_for_triton(hazard: Hazard) -> Hazard:
    """The hazard as a user of Triton reads it."""
    return replace(
        hazard,
        message=_worded(hazard.message),
        link=_worded(hazard.link),
        help=_repair(hazard),
        changes=(),
        first=None if hazard.first is None else _place(hazard.first),
        second=_place(hazard.second),
    )


def _worded(text: str) -> str:
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    return text


def _place(site: Occurrence) -> Occurrence:
    shown = tuple(pair for pair in site.iteration if pair[0] not in ("t", "w", "q", "p"))
    return replace(site, iteration=shown)


def _repair(hazard: Hazard) -> str:
    if hazard.kind in REPAIRS:
        return REPAIRS[hazard.kind]
    first = "" if hazard.first is None else hazard.first.access
    second = hazard.second.access
    if "wgmma" in first:
        return "wait for the product before: warpgroup_mma_wait with fewer pending"
    if "cp.async" in first:
        return "wait for the copy before: async_copy.wait_group with fewer pending, then a barrier"
    if "TMA store" in first:
        return "wait for the store before: tma.store_wait with fewer pending"
    if "TMA load" in first:
        return "wait for the load before: mbarrier.wait on its mbarrier, in its phase"
    if "TMA" in second or "wgmma" in second:
        return (
            "put fence_async_shared after the access at the first line, and a barrier or an "
            "mbarrier between the two"
        )
    return "put a barrier, or an mbarrier's arrive and wait, between the two"
