"""Shared memory of a kernel: buffers, and the cells that those share which overlap.

The compiler gives each buffer an offset; buffers whose lifetimes differ may have the same bytes.
Buffers that overlap are one array of cells here, cut wherever a buffer or a slot of a ring begins
or ends.  So two accesses meet in a cell if, and only if, their buffers or slots have common bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from exogpu.diagnostics.errors import Span
from exogpu.importing.polynomial_values import Value, integer_value
from exogpu.importing.refusals import unsupported


@dataclass(frozen=True, slots=True)
class Buffer:
    """One allocation of shared memory."""

    name: str
    """The name of the value in the TTGIR."""
    label: str
    """The user's name for it, or a description."""
    offset: int
    size: int
    slots: int
    """The number of slots of a ring; 1 for one tile."""
    span: Span

    @property
    def end(self) -> int:
        """The offset after its last byte."""
        return self.offset + self.size


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a buffer in its array: its first cell, and the cells of a slot."""

    array: str
    first: int
    width: int


@dataclass(frozen=True, slots=True)
class Array:
    """An array of cells of shared memory."""

    name: str
    cells: int
    span: Span


@dataclass(frozen=True, slots=True)
class Memory:
    """All shared memory of a kernel but its mbarriers."""

    arrays: Mapping[str, Array]
    places: Mapping[str, Place]
    buffers: Mapping[str, Buffer]


@dataclass(frozen=True, slots=True)
class Window:
    """Cells of an array: `count` of them, from `first` on."""

    array: str
    first: Value
    count: int
    slot: Value | None = None
    """The slot of the ring that was written in the source; None for a whole buffer."""


def laid_out(buffers: Iterable[Buffer]) -> Memory:
    """The arrays of all buffers.  Raises RefusedError (K104) for too many cells."""
    groups: list[list[Buffer]] = []
    end = -1
    for buffer in sorted(buffers, key=lambda one: (one.offset, -one.size)):
        if groups and buffer.offset < end:
            groups[-1].append(buffer)
            end = max(end, buffer.end)
        else:
            groups.append([buffer])
            end = buffer.end
    arrays: dict[str, Array] = {}
    places: dict[str, Place] = {}
    for members in groups:
        name = _fresh(members[0].label, arrays)
        cuts = _cuts(members)
        arrays[name] = Array(name, len(cuts) - 1, members[0].span)
        places |= {one.name: _place(one, name, cuts) for one in members}
    every = {one.name: one for members in groups for one in members}
    return Memory(arrays, places, every)


def _fresh(label: str, taken: Iterable[str]) -> str:
    name, number = label, 1
    while name in taken:
        number += 1
        name = f"{label}_{number}"
    return name


MOST: Final = 256
"""Cells of one array; of more, a proof would take too long."""


def _cuts(members: Sequence[Buffer]) -> list[int]:
    """The offsets at which cells begin, and the end of the last one.

    A cut within one slot of a ring is one in each of its slots, so that a slot number tells the
    first of its cells.
    """
    found = {one.offset for one in members} | {one.end for one in members}
    while len(found) <= MOST:
        more = {cut for one in members if one.slots > 1 for cut in _slot_cuts(one, found)}
        if more <= found:
            return sorted(found)
        found |= more
    raise unsupported(
        f"{members[0].label} shares its bytes with buffers that cut it into over {MOST} cells",
        "give the buffers lifetimes that overlap, so that they share no bytes",
        members[0].span,
    )


def _slot_cuts(ring: Buffer, cuts: Iterable[int]) -> Iterator[int]:
    slot = ring.size // ring.slots
    for cut in cuts:
        if ring.offset <= cut < ring.end:
            within = (cut - ring.offset) % slot
            yield from range(ring.offset + within, ring.end, slot)


def _place(buffer: Buffer, array: str, cuts: Sequence[int]) -> Place:
    first = cuts.index(buffer.offset)
    after = cuts.index(buffer.offset + buffer.size // buffer.slots)
    return Place(array, first, after - first)


def window(memory: Memory, buffer: str, slot: Value | None) -> Window:
    """The cells of a buffer, or of one slot of its ring."""
    place, of = memory.places[buffer], memory.buffers[buffer]
    if slot is None or of.slots == 1:
        return Window(place.array, integer_value(place.first), place.width * of.slots)
    return Window(place.array, slot * place.width + place.first, place.width, slot)


def overlap(one: Window, other: Window) -> bool:
    """Returns whether two windows may have a cell in common."""
    if one.array != other.array:
        return False
    first, second = one.first.constant, other.first.constant
    if first is None or second is None:
        return True
    return first < second + other.count and second < first + one.count
