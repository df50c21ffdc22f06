"""Orders of instruction operands: the flags that decide verdicts, one line a kind.

"each" in the table is `convergent=False`: one record a thread.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from exogpu.ir.types import CollUnit, Operand, Placement, QualTL

_Q = QualTL


def _operand(
    initial: QualTL,
    extended: set[QualTL],
    order: str,
    threads: str,
    *,
    ptx: set[QualTL] | None = None,
    atomic: set[QualTL] = frozenset(),  # type: ignore[assignment]
) -> Operand:
    return Operand(
        initial=initial,
        extended=frozenset(extended),
        out_of_order=order == "out of order",
        convergent=threads in ("convergent", "owner"),
        ptx_extended=None if ptx is None else frozenset(ptx),
        atomic=frozenset(atomic),
        owner_only=threads == "owner",
    )


# fmt: off
WGMMA_D: Final = _operand(_Q.WG_D, {_Q.WG_D, _Q.WG_0}, "in order", "convergent", ptx={_Q.WG_D})
WGMMA_A: Final = _operand(_Q.WG_A, {_Q.WG_A}, "out of order", "convergent")
WGMMA_SMEM: Final = _operand(_Q.WG_S, {_Q.WG_S}, "out of order", "each")
WGMMA_ZERO: Final = _operand(_Q.WG_0, {_Q.WG_0, _Q.WG_D}, "in order", "convergent")
TMA_LOAD: Final = _operand(_Q.TMA_S, {_Q.TMA_S}, "out of order", "each")
TMA_STORE: Final = _operand(_Q.TMA_G, {_Q.TMA_G}, "out of order", "each")
TMA_SOURCE: Final = _operand(_Q.TMA_R, {_Q.TMA_R}, "out of order", "each")
TMA_REDUCE: Final = _operand(_Q.TMA_G, {_Q.TMA_G}, "out of order", "each", atomic={_Q.TMA_G})
CP_ASYNC: Final = _operand(_Q.SM80, {_Q.SM80}, "out of order", "each")
CUDA_REGISTER: Final = _operand(_Q.CUDA1, {_Q.CUDA1}, "in order", "owner")
CUDA_ATOMIC: Final = _operand(_Q.CUDA2, {_Q.CUDA2}, "in order", "each", atomic={_Q.CUDA2})
CUDA_MEMORY: Final = _operand(_Q.CUDA2, {_Q.CUDA2}, "in order", "each")
STREAM: Final = _operand(_Q.STRM, {_Q.STRM}, "in order", "convergent")
HOST: Final = _operand(_Q.CPU, {_Q.CPU}, "in order", "convergent")
# fmt: on


def clipped(operand: Operand) -> Operand:
    """The operand as a TMA global window: reads outside give zero, writes outside are dropped."""
    return dataclasses.replace(operand, clipped=True)


def aligned(
    operand: Operand,
    align: int,
    *,
    rows: int = 1,
    stride: int = 1,
    pitch: int = 0,
    adjacent: int = 1,
    blocks: int = 1,
) -> Operand:
    """The operand as a window that starts at a multiple of `align` bytes, its elements adjacent.

    `rows`, `stride`, `pitch`, `adjacent` and `blocks` are those of `Placement`.
    """
    return dataclasses.replace(
        operand, placement=Placement(align, rows, stride, pitch, adjacent, blocks)
    )


def by_rows(operand: Operand) -> Operand:
    """The operand as a window whose rows, its last dimension, have adjacent elements."""
    return aligned(operand, 1)


def over(operand: Operand, *units: CollUnit) -> Operand:
    """The operand with its leading dimensions distributed over `units`, outermost first."""
    return dataclasses.replace(operand, units=units)
