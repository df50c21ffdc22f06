"""Tables of the threads that execute each statement of a procedure, keyed by statement identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exogpu.analysis.tiling import Tiling
from exogpu.ir.names import Sym
from exogpu.ir.nodes import CallInstr, DeviceFunction, For, Stmt, Warps


@dataclass(frozen=True, slots=True)
class Desugared:
    """The thread loops that an instruction call stands for, around one operand (section 4.1).

    `iterators[i]` runs over `0 .. extents[i] - 1` in place of the operand's i-th distributed
    dimension; `tiling` is that of the innermost loop's body.
    """

    iterators: tuple[Sym, ...]
    extents: tuple[int, ...]
    tiling: Tiling


@dataclass(frozen=True, slots=True)
class CollectiveFacts:
    """The threads that execute each statement."""

    scope: Mapping[Stmt, Tiling | None]
    """Tiling of the scope in which each statement stands; None at CPU scope."""
    inner: Mapping[For | Warps | DeviceFunction, Tiling]
    """Tiling of the body of each statement that derives one."""
    operands: Mapping[tuple[CallInstr, int], Desugared]
    """By call and position of the argument; only operands with distributed units."""
    trailing: Mapping[CallInstr, Desugared]
    """For trailing barriers with distributed units."""
