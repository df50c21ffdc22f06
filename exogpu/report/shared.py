"""The shared memory of a CTA over program order: which bytes hold which variable, and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from exogpu.amir.lower_args import statement_text
from exogpu.analysis.affine import constant
from exogpu.analysis.facts import Facts
from exogpu.codegen.expressions import SIZE_OF
from exogpu.codegen.mbarriers import barrier_bytes, rings
from exogpu.codegen.smem import SharedLayout, layout
from exogpu.codegen.storage import Storage, storages
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Alloc, DeviceFunction, Free, Mod, Point
from exogpu.ir.types import Space
from exogpu.ir.walk import accesses, walk
from exogpu.report.model import SharedMemory, Slab
from exogpu.result.errors import ExoGpuError

WIDTH: Final = 640.0
HEIGHT: Final = 240.0
LEAST: Final = 16.0
"""Height of the smallest slab, in pixels, so that its name can be read."""


def shared(facts: Facts, depths: Mapping[str, int]) -> tuple[SharedMemory, ...]:
    """A picture for each launch with shared memory; none where no layout can be made.

    `depths` are ring depths that a proof found, by mbarrier.
    """
    try:
        storage, all_rings = storages(facts), rings(facts, depths)
    except ExoGpuError:  # a kernel that code generation does not know how to lay out
        return ()
    pictures = []
    for launch in walk(facts.proc.body):
        if isinstance(launch, DeviceFunction):
            _, reserved = barrier_bytes(launch, all_rings)
            made = layout(launch, storage, reserved)
            if made.size:
                pictures.append(_picture(launch, storage, made, reserved))
    return tuple(pictures)


def _picture(
    launch: DeviceFunction, storage: Mapping[Sym, Storage], made: SharedLayout, reserved: int
) -> SharedMemory:
    order = [stmt for stmt in walk(launch.body)]
    step = WIDTH / max(len(order), 1)
    slabs: list[Slab] = []
    if reserved:
        lines = launch.span.line, max(stmt.span.end_line for stmt in order)
        slabs.append(Slab("mbarriers", "", 0, reserved, *lines, 1, 0, 0, WIDTH, 0))
    for begin, stmt in enumerate(order):
        if isinstance(stmt, Alloc) and stmt.memory.space is Space.SHARED:
            ends = (i for i, s in enumerate(order) if isinstance(s, Free) and s.name == stmt.name)
            end = next(ends, len(order))
            variable = storage[stmt.name]
            slabs.append(
                Slab(
                    stmt.name.name,
                    statement_text(stmt),
                    made.offsets[stmt.name],
                    variable.elements * SIZE_OF[variable.dtype],
                    stmt.span.line,
                    max(s.span.end_line for s in order[begin : max(end, begin + 1)]),
                    _slots(launch, stmt),
                    begin * step,
                    0,
                    (end - begin) * step,
                    0,
                )
            )
    return SharedMemory(tuple(_placed(slabs, made.size)), made.size, WIDTH, _y(slabs, made.size))


def _placed(slabs: list[Slab], size: int) -> Iterator[Slab]:
    """The slabs with their heights: in proportion to bytes, but for the smallest."""
    for slab in slabs:
        top, bottom = _y(slabs, slab.offset), _y(slabs, slab.offset + slab.size)
        yield Slab(
            slab.variable,
            slab.declared,
            slab.offset,
            slab.size,
            slab.first_line,
            slab.last_line,
            slab.slots,
            round(slab.x, 1),
            round(top, 1),
            round(slab.width, 1),
            round(bottom - top, 1),
        )


def _y(slabs: list[Slab], offset: int) -> float:
    """Returns the height at which an offset is drawn: every stretch between two edges of slabs has
    a least height."""
    edges = sorted({0, *(s.offset for s in slabs), *(s.offset + s.size for s in slabs)})
    whole, at = max(edges[-1], 1), 0.0
    for low, high in pairwise(edges):
        if offset <= low:
            break
        at += max(HEIGHT * (high - low) / whole, LEAST if high - low > 8 else 0.0)
    return at


def _slots(launch: DeviceFunction, alloc: Alloc) -> int:
    """Slots of a ring: the extent n of a dimension that is indexed modulo n."""
    for stmt in walk(launch.body):
        for access in accesses(stmt):
            if access.name == alloc.name:
                for coord, extent in zip(access.coords, alloc.shape, strict=True):
                    match coord:
                        case Point(Mod(_, divisor)) if divisor == constant(extent):
                            return divisor
                        case _:
                            pass
    return 1
