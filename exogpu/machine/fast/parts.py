"""Gathers the inputs of a block's behaviour while it is compiled, for `fast.loops`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from exogpu.ir.affine import Affine
from exogpu.ir.names import Sym

Bounds: TypeAlias = tuple[tuple[Affine, Affine], ...]
"""By dimension, where a window begins and ends."""


@dataclass(slots=True)
class Parts:
    """Control values and state that the operations of a block use."""

    exact: dict[Affine, None] = field(default_factory=dict)
    """Values that matter as they are."""
    compared: dict[Affine, None] = field(default_factory=dict)
    """Values whose sign matters."""
    windows: dict[Sym, dict[Bounds, None]] = field(default_factory=dict)
    """Accesses of cells."""
    inner: set[Sym] = field(default_factory=set)
    """Iterators of the loops in the block."""
    fresh: set[Sym] = field(default_factory=set)
    """Variables that the block allocates or releases."""
    barriers: set[Sym] = field(default_factory=set)
    """Barrier variables whose counts it uses."""
    lifts: bool = False
    """Whether it has operations that rewrite every record."""
    cpu: bool = False
    """Whether some of those stand at CPU scope."""
    tasks: bool = False
    """Whether tasks begin in it."""

    def add(self, other: Parts) -> None:
        """Joins what another block of the same loop depends on."""
        self.exact |= other.exact
        self.compared |= other.compared
        for name, windows in other.windows.items():
            self.windows.setdefault(name, {}).update(windows)
        self.inner |= other.inner
        self.fresh |= other.fresh
        self.barriers |= other.barriers
        self.lifts |= other.lifts
        self.cpu |= other.cpu
        self.tasks |= other.tasks
