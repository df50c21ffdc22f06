"""Names that a CUDA engineer gives an access on each qualitative timeline (paper, figure
QualTL)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from exogpu.diagnostics.verdict import Policy
from exogpu.hw.timelines import SHORT_NAME, SYNC_TIMELINES
from exogpu.ir.types import QualSet, QualTL


@dataclass(frozen=True, slots=True)
class Called:
    """The words for one timeline."""

    title: str
    """An access on it, wherever the memory is."""
    shared: str
    """An access of shared memory."""
    elsewhere: str
    """An access of other memory."""
    many: str
    """Such accesses in general."""
    about: str
    """A description, in sentences."""


def _names(title: str, many: str, about: str, shared: str = "", elsewhere: str = "") -> Called:
    return Called(title, shared or title, elsewhere or title, many, about)


CALLED: Final[Mapping[QualTL, Called]] = {
    QualTL.CPU: _names("host access", "host accesses", "Ordinary CPU code."),
    QualTL.STRM: _names(
        "CUDA stream operation",
        "CUDA stream operations",
        "What the host enqueues on the kernel's CUDA stream.",
    ),
    QualTL.CUDA1: _names(
        "ordinary register access",
        "ordinary register accesses",
        "Registers, read or written by ordinary CUDA instructions.",
    ),
    QualTL.CUDA2: _names(
        "ordinary memory access",
        "ordinary memory accesses",
        "Shared or global memory, read or written by ordinary CUDA instructions (ld, st, ldmatrix, "
        "mbarrier operations), through the generic proxy.",
        "ordinary shared-memory access",
        "ordinary global-memory access",
    ),
    QualTL.SM80: _names(
        "cp.async copy",
        "cp.async copies",
        "The read of global memory and the write of shared memory by cp.async of sm_80.",
        "cp.async copy into shared memory",
        "cp.async copy from global memory",
    ),
    QualTL.TMA_S: _names(
        "TMA load",
        "TMA loads",
        "The read of global memory and the write of shared memory by a bulk tensor copy (TMA), "
        "through the async proxy.",
        "TMA load into shared memory",
        "TMA load from global memory",
    ),
    QualTL.TMA_G: _names(
        "TMA store",
        "TMA stores",
        "The write, or reduction, of global memory by a bulk tensor copy (TMA), through the async "
        "proxy.",
    ),
    QualTL.TMA_R: _names(
        "TMA store's read",
        "TMA stores' reads",
        "The read of shared memory by a bulk tensor copy (TMA) to global memory, through the async "
        "proxy.  It is over before the write is.",
        "TMA store's read of shared memory",
    ),
    QualTL.WG_A: _names(
        "wgmma read of A registers",
        "wgmma reads of A registers",
        "wgmma reads its operand A from registers, after the instruction has been issued.",
    ),
    QualTL.WG_D: _names(
        "wgmma access of accumulator registers",
        "wgmma accesses of accumulators",
        "wgmma reads and writes its accumulator D, after the instruction has been issued.",
    ),
    QualTL.WG_S: _names(
        "wgmma read of shared memory",
        "wgmma reads of shared memory",
        "wgmma reads its operands A and B from shared memory, through the async proxy.",
    ),
    QualTL.WG_0: _names(
        "wgmma zeroing of accumulator registers",
        "wgmma zeroing of accumulators",
        "wgmma with scale-d = 0 writes its accumulator without reading it.",
    ),
}
"""The words of every timeline."""

_ORDINARY: Final = frozenset({QualTL.CUDA1, QualTL.CUDA2})


def access_words(timeline: QualTL, shared: bool | None) -> str:
    """`TMA load into shared memory`; `shared` is None where the memory is not known."""
    called = CALLED[timeline]
    if shared is None:
        return called.title
    return called.shared if shared else called.elsewhere


def with_name(words: str, timeline: QualTL) -> str:
    """`TMA load (tmaS)`"""
    return f"{words} ({SHORT_NAME[timeline]})"


def accesses_on(timelines: QualSet, told: QualSet = frozenset()) -> str:
    """`ordinary accesses and TMA loads (tmaS)`: the short names of those that are not told."""
    words, rest = [], timelines
    if rest >= _ORDINARY:
        names = [SHORT_NAME[tl] for tl in CALLED if tl in _ORDINARY - told]
        words.append("ordinary accesses" + (f" ({', '.join(names)})" if names else ""))
        rest -= _ORDINARY
    for timeline in (one for one in CALLED if one in rest):
        many = CALLED[timeline].many
        words.append(many if timeline in told else with_name(many, timeline))
    return ", ".join(words[:-1]) + " and " + words[-1] if words[1:] else "".join(words)


# --- names that are looked up -------------------------------------------------------------------


def known_names() -> dict[str, QualTL | str]:
    """Every name of a timeline: short and long ones, and those of sync timelines."""
    found: dict[str, QualTL | str] = {name: name for name in SYNC_TIMELINES}
    for timeline, short in SHORT_NAME.items():
        found[short] = found[timeline.value] = timeline
    return found


def explained(name: str) -> tuple[str, str] | None:
    """A title and an explanation of a timeline's name, in any case; None for another name."""
    known = {one.lower(): found for one, found in known_names().items()}
    match known.get(name.lower()):
        case QualTL() as timeline:
            return _accesses(timeline)
        case str() as sync:
            return _ordering(sync)
        case _:
            return None


def _accesses(timeline: QualTL) -> tuple[str, str]:
    title = f"{SHORT_NAME[timeline]}, {timeline.value}: {CALLED[timeline].title}"
    lines = [CALLED[timeline].about]
    rows = {name: row.sets_under(Policy.PTX) for name, row in SYNC_TIMELINES.items()}
    full = [name for name, sets in rows.items() if timeline in sets.full]
    temporal = [name for name, sets in rows.items() if timeline in sets.temporal - sets.full]
    if full:
        lines.append(f"Fence, Arrive and Await order it by {', '.join(full)}.")
    if temporal:
        names = ", ".join(temporal)
        lines.append(f"Ordered in time only, enough to overwrite and not to read, by {names}.")
    return title, "\n".join(lines)


def _ordering(name: str) -> tuple[str, str]:
    row = SYNC_TIMELINES[name]
    sets = row.sets_under(Policy.PTX)
    orders = accesses_on(sets.full) if sets.full else "nothing"
    lines = [f"As a first timeline, it takes {orders}."]
    if sets.full:
        lines.append("As a second timeline, it shows them what was written before.")
    if only := sets.temporal - sets.full:
        lines.append(
            f"As a second timeline, it orders {accesses_on(only)} in time only: enough to "
            "overwrite, not to read."
        )
    if row.transitive:
        lines.append("It is transitive: it passes on what its threads have seen through others.")
    return f"{name}: a timeline of Fence, Arrive and Await", "\n".join(lines)
