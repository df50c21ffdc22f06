"""Lays out the elements of a variable in memory: by rows, over the dimensions of one allocation.

Code generation lays variables out so; what instructions ask of addresses is judged by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from exogpu.analysis.cluster_parts import over_ctas
from exogpu.analysis.uses import Declared
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Alloc, BarrierAlloc, CExpr, DataParam, Proc, WindowStmt
from exogpu.ir.types import Space
from exogpu.ir.walk import declarations, evaluate

GLOBAL_ALIGNMENT: Final = 16
"""Bytes, of a global variable's first element; every launch refuses arrays that start elsewhere."""

SHARED_ALIGNMENT: Final = 128
"""Bytes; TMA asks for 128 in shared memory (PTX ISA, cp.async.bulk.tensor)."""

SWIZZLED_ALIGNMENT: Final = 1024
"""Bytes: eight rows of 128, the repeat of the widest swizzle (PTX ISA, Swizzling Modes)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One allocation of a variable in global or shared memory."""

    declaration: DataParam | Alloc
    kept: tuple[int, ...]
    """The dimensions that are not distributed, outermost first."""
    base: int
    """The first element lies at a multiple of so many bytes."""

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return self.declaration.dtype.bytes

    @property
    def extents(self) -> tuple[CExpr, ...]:
        """The extents of the kept dimensions."""
        return tuple(self.declaration.shape[d] for d in self.kept)


class Layouts:
    """The layouts of a procedure without windows and calls of procedures; made when asked for."""

    def __init__(self, proc: Proc, variables: Iterable[Declared]) -> None:
        self._declared = declarations(proc)
        self._cuda = {found.declaration.name: found for found in variables}

    def of(self, name: Sym) -> Layout | None:
        """None for what has no address: registers, host memory, grid constants."""
        declaration = self._declared[name]
        assert not isinstance(declaration, BarrierAlloc | WindowStmt)
        every = tuple(range(len(declaration.shape)))
        match declaration.memory.space:
            case Space.GLOBAL:
                return Layout(declaration, every, GLOBAL_ALIGNMENT)
            case Space.SHARED:
                gone = over_ctas(self._cuda[name])
                base = SWIZZLED_ALIGNMENT if declaration.memory.swizzle else SHARED_ALIGNMENT
                return Layout(declaration, tuple(d for d in every if d not in gone), base)
            case Space.HOST | Space.REGISTER | Space.GRID_CONSTANT:
                return None


def strides_at(layout: Layout, point: Mapping[Sym, int]) -> tuple[int, ...]:
    """Bytes from one index of each kept dimension to the next, at given sizes and iterators."""
    found = [layout.item]
    for extent in reversed(layout.extents[1:]):
        found.insert(0, found[0] * evaluate(extent, point))
    return tuple(found) if layout.kept else ()
