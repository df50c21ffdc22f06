"""Shared memory: one dynamic block, offsets from lifetimes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exogpu.analysis.layout import SHARED_ALIGNMENT, SWIZZLED_ALIGNMENT
from exogpu.codegen.expressions import SIZE_OF
from exogpu.codegen.storage import Storage
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Alloc, DeviceFunction, Free
from exogpu.ir.types import Space
from exogpu.ir.walk import walk


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """Byte offsets into the dynamic shared memory of a CTA, and its size."""

    offsets: Mapping[Sym, int]
    size: int
    ends: Mapping[Sym, int]

    def overlap(self, a: Sym, b: Sym) -> bool:
        """Tests whether two variables have bytes in common."""
        return self.offsets[a] < self.ends[b] and self.offsets[b] < self.ends[a]


@dataclass(frozen=True, slots=True)
class _Live:
    name: Sym
    begin: int
    end: int
    size: int
    alignment: int


def layout(launch: DeviceFunction, storage: Mapping[Sym, Storage], reserved: int) -> SharedLayout:
    """Offsets for the shared variables of a launch, beyond the first `reserved` bytes.

    Two variables share bytes only if one is freed before the other is allocated, which the
    abstract machine checks for all threads of the cluster (section "Shared Memory Allocations").
    """
    placed: list[tuple[_Live, int]] = []
    for live in sorted(_lifetimes(launch, storage), key=lambda v: (-v.alignment, v.begin)):
        busy = sorted(
            (at, at + other.size)
            for other, at in placed
            if other.begin < live.end and live.begin < other.end
        )
        offset = _align(reserved, live.alignment)
        for begin, end in busy:
            if offset + live.size > begin and end > offset:
                offset = _align(end, live.alignment)
        placed.append((live, offset))
    size = max((at + live.size for live, at in placed), default=reserved)
    return SharedLayout(
        {live.name: at for live, at in placed},
        size,
        {live.name: at + live.size for live, at in placed},
    )


def _lifetimes(launch: DeviceFunction, storage: Mapping[Sym, Storage]) -> list[_Live]:
    begins: dict[Sym, int] = {}
    ends: dict[Sym, int] = {}
    for at, stmt in enumerate(walk(launch.body)):
        match stmt:
            case Alloc() if stmt.memory.space is Space.SHARED:
                begins[stmt.name] = at
            case Free() if stmt.name in begins:
                ends[stmt.name] = at
            case _:
                pass
    found = []
    for name, begin in begins.items():
        variable = storage[name]
        alignment = SWIZZLED_ALIGNMENT if variable.swizzle else SHARED_ALIGNMENT
        size = variable.elements * SIZE_OF[variable.dtype]
        found.append(_Live(name, begin, ends[name], size, alignment))
    return found


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
