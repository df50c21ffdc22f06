"""The instructions of imported kernels: what an operation accesses, cell by cell.

A window is some cells of an array, each of so many parts; one cell is a window of its parts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Final

from exogpu.hw.memories import CudaGmemLinear, CudaSmemLinear, Sm80_RmemMatrixD, Sm90_RmemMatrixD
from exogpu.hw.operands import (
    CP_ASYNC,
    CUDA_MEMORY,
    CUDA_REGISTER,
    TMA_LOAD,
    TMA_SOURCE,
    TMA_STORE,
    WGMMA_D,
    WGMMA_SMEM,
)
from exogpu.hw.units import cuda_thread, cuda_warp, cuda_warpgroup
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Assign,
    Block,
    Const,
    CVar,
    DataParam,
    For,
    Instr,
    Int,
    Point,
    Read,
    Reduce,
    Seq,
    Stmt,
)
from exogpu.ir.types import (
    AccessMode,
    BarrierMechanism,
    CollUnit,
    DataMemory,
    DataType,
    Operand,
)

Extents = tuple[int, ...]
FRAGMENT_EXTENTS: Final = (16, 8)
FRAGMENT: Final = Sm80_RmemMatrixD(*FRAGMENT_EXTENTS)
"""Stands for the registers into which a warp loads."""
ROWS: Final = 64
COLUMNS: Final = 8
ACCUMULATOR: Final = Sm90_RmemMatrixD(ROWS, COLUMNS)
"""Stands for an accumulator of any width: all of one is accessed, or none."""


@cache
def tma_load(extents: Extents) -> Instr:
    """A TMA load of cells, which signals an mbarrier."""
    to = _param("to", extents, CudaSmemLinear, TMA_LOAD)
    mbarrier = BarrierMechanism.MBARRIER
    return _instr("tma_load", cuda_warp, (to,), (AccessMode.WRITE,), _filled(to), mbarrier)


@cache
def tma_store(extents: Extents) -> Instr:
    """A TMA store of cells; one element stands for the tile in global memory."""
    to = _param("to", (1,), CudaGmemLinear, TMA_STORE)
    source = _param("source", extents, CudaSmemLinear, TMA_SOURCE)

    def copied(indices: Sequence[Sym]) -> Stmt:
        return Assign(Access(to.name, (Point(Int(0)),)), Read(_element(source, indices)))

    body = _over(extents, copied)
    modes = (AccessMode.WRITE, AccessMode.READ)
    return _instr("tma_store", cuda_warp, (to, source), modes, body)


@cache
def cp_async(extents: Extents) -> Instr:
    """A thread's cp.async copies into its part of cells."""
    to = _param("to", extents, CudaSmemLinear, CP_ASYNC)
    return _instr("cp_async", cuda_thread, (to,), (AccessMode.WRITE,), _filled(to))


@cache
def store_all(extents: Extents, warps: int) -> Instr:
    """Threads write cells, and it is not known which thread writes which element."""
    to = _param("to", extents, CudaSmemLinear, CUDA_MEMORY)
    unit = cuda_warp if warps == 1 else warps * cuda_warp
    return _instr("store_shared", unit, (to,), (AccessMode.WRITE,), _filled(to))


@cache
def load_all(extents: Extents) -> Instr:
    """A warp reads cells, and it is not known which thread reads which element."""
    to = _param("to", FRAGMENT_EXTENTS, FRAGMENT, CUDA_REGISTER)
    source = _param("source", extents, CudaSmemLinear, CUDA_MEMORY)

    def copied(at: Sequence[Sym]) -> Stmt:
        target, element = at[:2], at[2:]
        return Assign(_element(to, target), Read(_element(source, element)))

    body = _over((*FRAGMENT_EXTENTS, *extents), copied)
    modes = (AccessMode.WRITE, AccessMode.READ)
    return _instr("load_shared", cuda_warp, (to, source), modes, body)


@cache
def wgmma(operands: tuple[Extents, ...]) -> Instr:
    """A product of a warpgroup, with those of its operands that are in shared memory."""
    result = _param("accumulator", (ROWS, COLUMNS), ACCUMULATOR, WGMMA_D)
    sources = tuple(
        _param(name, extents, CudaSmemLinear, WGMMA_SMEM)
        for name, extents in zip("ab" if len(operands) > 1 else "b", operands, strict=True)
    )

    def added(at: Sequence[Sym]) -> Block:
        target = _element(result, at)
        if not sources:
            return (Reduce(target, Const(0.0)),)
        return tuple(
            stmt
            for source in sources
            for stmt in _over(_extents(source), partial(_sum, target, source))
        )

    x, y = Sym("x"), Sym("y")
    body = _loop(x, ROWS, _loop(y, COLUMNS, added((x, y))))
    modes = (AccessMode.READ_WRITE, *(AccessMode.READ for _ in sources))
    return _instr("wgmma", cuda_warpgroup, (result, *sources), modes, body)


@cache
def write_registers() -> Instr:
    """A warpgroup writes an accumulator as ordinary registers."""
    to = _param("to", (ROWS, COLUMNS), ACCUMULATOR, CUDA_REGISTER)
    return _instr("write", cuda_warpgroup, (to,), (AccessMode.WRITE,), _filled(to))


@cache
def read_registers() -> Instr:
    """A warpgroup reads an accumulator as ordinary registers."""
    to = _param("to", (ROWS, COLUMNS), ACCUMULATOR, CUDA_REGISTER)
    source = _param("source", (ROWS, COLUMNS), ACCUMULATOR, CUDA_REGISTER)

    def copied(at: Sequence[Sym]) -> Stmt:
        return Assign(_element(to, at), Read(_element(source, at)))

    modes = (AccessMode.WRITE, AccessMode.READ)
    body = _over((ROWS, COLUMNS), copied)
    return _instr("read", cuda_warpgroup, (to, source), modes, body)


def _sum(target: Access, source: DataParam, at: Sequence[Sym]) -> Stmt:
    return Reduce(target, Read(_element(source, at)))


def _param(name: str, extents: Extents, memory: DataMemory, operand: Operand) -> DataParam:
    shape = tuple(Int(extent) for extent in extents)
    return DataParam(Sym(name), DataType.F32, shape, memory, operand)


def _extents(param: DataParam) -> Extents:
    return tuple(extent.value for extent in param.shape if isinstance(extent, Int))


def _element(param: DataParam, at: Sequence[Sym]) -> Access:
    return Access(param.name, tuple(Point(CVar(name)) for name in at))


def _filled(param: DataParam) -> Block:
    return _over(_extents(param), lambda at: Assign(_element(param, at), Const(0.0)))


def _over(extents: Extents, stmt: Callable[[Sequence[Sym]], Stmt]) -> Block:
    """A statement for each element, in loops."""
    names = [Sym("xyzuv"[at]) for at in range(len(extents))]
    block: Block = (stmt(names),)
    for name, extent in reversed(list(zip(names, extents, strict=True))):
        block = _loop(name, extent, block)
    return block


def _loop(name: Sym, extent: int, body: Block) -> Block:
    return (For(name, Int(0), Int(extent), Seq(), body),)


def _instr(
    name: str,
    unit: CollUnit,
    params: tuple[DataParam, ...],
    modes: tuple[AccessMode, ...],
    body: Block,
    trailing: BarrierMechanism | None = None,
) -> Instr:
    return Instr(
        name,
        (),
        params,
        (),
        body,
        cuda=True,
        unit=unit,
        trailing=trailing,
        trailing_required=trailing is not None,
        modes=modes,
        arch="sm_90a",
    )
