"""The lanes of a timeline: threads that take part in the same statements, as few as fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from exogpu.analysis.describe import thread_names
from exogpu.ir.nodes import DeviceFunction
from exogpu.report.trace import Event

MOST: Final = 12
"""Lanes of a timeline."""


@dataclass(frozen=True, slots=True)
class Role:
    """A lane: its threads, and their name in three parts."""

    threads: frozenset[int]
    cta: str
    group: str
    within: str
    """The threads of the CTA, in words."""


def roles(events: Iterable[Event], launch: DeviceFunction) -> tuple[Role, ...]:
    """Classes of threads that no statement divides, in thread order.

    Statements of single threads and, if there are still too many classes, those of fewer threads
    than a warp, a warpgroup or a CTA do not count as dividing.
    """
    sets = {event.threads for event in events if event.threads}
    everyone = frozenset().union(*sets)
    for least in (1, 32, 128, launch.block_dim, launch.block_dim * launch.cluster_dim):
        classes = _classes(everyone, [s for s in sets if len(s) >= least], launch.block_dim)
        if len(classes) <= MOST:
            break
    # Threads that do nothing alone are no role.
    active = [c for c in classes if any(c & s and s != everyone for s in sets)] or classes
    return tuple(Role(c, *_names(c, launch)) for c in sorted(active, key=min))


def lanes_of(event: Event, lanes: tuple[Role, ...]) -> tuple[int, ...]:
    """The lanes whose threads execute an event, or some of them."""
    return tuple(i for i, role in enumerate(lanes) if role.threads & event.threads)


def _classes(
    everyone: frozenset[int], sets: list[frozenset[int]], block_dim: int
) -> list[frozenset[int]]:
    by_sets: dict[tuple[int, ...], set[int]] = {}
    member: Mapping[int, list[int]] = {thread: [thread // block_dim] for thread in everyone}
    for number, threads in enumerate(sets):
        for thread in threads:
            member[thread].append(number)
    for thread, numbers in member.items():
        by_sets.setdefault(tuple(numbers), set()).add(thread)
    return [frozenset(found) for found in by_sets.values()]


def _names(threads: frozenset[int], launch: DeviceFunction) -> tuple[str, str, str]:
    """`CTA 0`, `producer` and `threads 0 to 31`."""
    block = launch.block_dim
    ctas = sorted({t // block for t in threads})
    where = f"CTA {ctas[0]}" if len(ctas) == 1 else f"CTAs {ctas[0]} to {ctas[-1]}"
    inside = sorted({t % block for t in threads})
    words, at = thread_names(inside, block, 1), 0
    for group in launch.warps:
        if at <= inside[0] and inside[-1] < at + 32 * group.count:
            return where, group.name, words
        at += 32 * group.count
    return where, "", words
