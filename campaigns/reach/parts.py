"""Parts of programs: tiles in shared memory, and the ways in which a warp uses them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from campaigns.gpu.making import Making, Node

LANES: Final = 32

ACCUMULATOR: Final = (16, 8)
"""Rows and columns of a tile that goes through mma.sync."""
SMALL: Final = (8, 4)
"""The sides of other tiles: 128 bytes, the least that TMA takes."""


@dataclass(frozen=True)
class Tile:
    """Numbers of f32 in shared memory."""

    name: str
    rows: int
    cols: int
    slot: str = ""
    """The index before the two of the tile; empty: there is none."""

    def at(self, row: str, column: str) -> str:
        """One element."""
        return f"{self.name}[{self._first}{row}, {column}]"

    @property
    def whole(self) -> str:
        """The tile as an operand."""
        return f"{self.name}[{self._first}:, :]"

    @property
    def _first(self) -> str:
        return f"{self.slot}, " if self.slot else ""


@dataclass(frozen=True)
class Step:
    """The place of a use: one step of one task."""

    tile: Tile
    number: str
    """The step, below `count`."""
    count: str

    def array(self, m: Making, stem: str) -> str:
        """A new array in global memory with a tile for each step of each task."""
        return m.array(stem, "f32", "M", self.count, self.tile.rows, self.tile.cols)


@dataclass(frozen=True)
class Use:
    """The ways in which a warp uses the tiles of a task, one a step."""

    step: list[Node]
    declared: list[Node] = field(default_factory=list)
    """At the beginning of a task."""
    first: list[Node] = field(default_factory=list)
    """By that warp, before all steps."""
    last: list[Node] = field(default_factory=list)
    """By that warp, after them."""
    end: list[Node] = field(default_factory=list)
    """By all threads of the CTA, after that."""


MakeUse = Callable[[Making, Step], Use]


def lanes(name: str, body: list[Node], count: int = LANES) -> Node:
    """Each thread of a warp for itself."""
    return (f"for {name} in cuda_threads(0, {count}, unit=cuda_thread):", body)


def warp(m: Making, body: list[Node]) -> Node:
    """The first warp of the scope."""
    return (f"for {m.name('w')} in cuda_threads(0, 1, unit=cuda_warp):", body)


def every(m: Making, tile: Tile, body: Callable[[str, str], list[Node]]) -> Node:
    """The body for the row and the column of each element of a tile, spread over a warp."""
    t, e = m.name("t"), m.name("e")
    each = tile.rows * tile.cols // LANES
    if each == 1:
        return lanes(t, body(f"{t} / {tile.cols}", f"{t} % {tile.cols}"))
    if m.chance(0.5):
        row, column = f"{LANES // tile.cols} * {e} + {t} / {tile.cols}", f"{t} % {tile.cols}"
    else:
        across = tile.cols // each
        row, column = f"{t} / {across}", f"{each} * ({t} % {across}) + {e}"
    return lanes(t, [(f"for {e} in seq(0, {each}):", body(row, column))])


def elsewhere(m: Making, tile: Tile, row: str, column: str) -> tuple[str, str]:
    """Another element for each, most often of another thread."""
    rows, cols = tile.rows, tile.cols
    return m.rng.choice(
        [
            (row, column),
            (f"{rows - 1} - ({row})", column),
            (row, f"{cols - 1} - ({column})"),
            (f"({row} + {rows // 2}) % {rows}", f"({column} + 1) % {cols}"),
        ]
    )
