"""Ways to bring a tile into shared memory: by the threads of a warp, by cp.async, or by TMA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from campaigns.gpu.copies import mapped
from campaigns.gpu.making import Making, Node
from campaigns.reach.parts import LANES, Step, every, lanes


@dataclass(frozen=True)
class Fill:
    """The statements by which a warp fills a tile."""

    body: list[Node]
    arrives: str
    """The timeline of an Arrive after it."""
    before: str
    """The timeline on which the tile has to be empty."""
    trailing: bool = False
    """The body has `{full}` in place of the barrier that it completes on."""


def by_threads(m: Making, step: Step) -> Fill:
    """Each thread writes four elements."""
    x = step.array(m, "x")

    def put(i: str, j: str) -> list[Node]:
        return [f"{step.tile.at(i, j)} = {x}[task, {step.number}, {i}, {j}]"]

    return Fill([every(m, step.tile, put)], "cuda_in_order", "cuda_in_order")


def by_cp_async(m: Making, step: Step) -> Fill:
    """Each thread starts the copy of its part."""
    m.note("cp.async")
    x, t, tile = step.array(m, "x"), m.name("t"), step.tile
    n = tile.rows * tile.cols // LANES
    across = tile.cols // n
    row, columns = f"{t} / {across}", f"{n} * ({t} % {across}) : {n} * ({t} % {across}) + {n}"
    source = f"{x}[task, {step.number}, {row}, {columns}]"
    copy = f"Sm80_cp_async_copy({tile.at(row, columns)}, {source}, n={n})"
    return Fill([lanes(t, [copy])], "Sm80_cp_async", "cuda_in_order")


def by_tma(m: Making, step: Step) -> Fill:
    """One lane starts the copy of the tile."""
    m.note("TMA load")
    x, rows, cols = step.array(m, "x"), step.tile.rows, step.tile.cols
    window = mapped(m, x, 0, 1, 1, rows, cols)
    load = (
        f"Sm90_tma_load({step.tile.whole}, {window}[task, {step.number}, :, :], rows={rows}, "
        f"cols={cols}, box=(1, 1, {rows}, {cols}), swizzle=0) >> {{full}}"
    )
    return Fill([load], "cuda_temporal", "cuda_generic_and_async", trailing=True)


BY_BARRIER: Final[tuple[Callable[[Making, Step], Fill], ...]] = (by_threads, by_cp_async, by_tma)
"""The fills that an mbarrier hands over."""
BY_FENCE: Final = BY_BARRIER[:2]
"""The fills that a Fence hands over."""
