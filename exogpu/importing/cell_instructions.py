"""The instructions of imported kernels: what an operation accesses, cell by cell.

A window is some cells of an array, each of so many parts; one cell is a window of its parts alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from exogpu.hw import operands as hw_operands
from exogpu.hw.memories import CudaGmemLinear, CudaSmemLinear, Sm80_RmemMatrixD, Sm90_RmemMatrixD
from exogpu.hw.units import cuda_thread, cuda_warp, cuda_warpgroup
from exogpu.importing import role_events
from exogpu.importing.mbarrier_rings import steps
from exogpu.importing.refusals import unsupported
from exogpu.ir import nodes as ir
from exogpu.ir import types

Extents = tuple[int, ...]
FRAGMENT_EXTENTS: Final = (16, 8)
FRAGMENT: Final = Sm80_RmemMatrixD(*FRAGMENT_EXTENTS)
"""Stands for the registers into which a warp loads."""
ROWS: Final = 64
COLUMNS: Final = 8
ACCUMULATOR: Final = Sm90_RmemMatrixD(ROWS, COLUMNS)
"""Stands for an accumulator of any width: all of one is accessed, or none."""


@cache
def tma_load(extents: Extents) -> ir.Instr:
    """A TMA load of cells, which signals an mbarrier."""
    to = _param("to", extents, CudaSmemLinear, hw_operands.TMA_LOAD)
    mbarrier = types.BarrierMechanism.MBARRIER
    return _instr("tma_load", cuda_warp, (to,), (types.AccessMode.WRITE,), _filled(to), mbarrier)


@cache
def tma_store(extents: Extents) -> ir.Instr:
    """A TMA store of cells; one element stands for the tile in global memory."""
    to = _param("to", (1,), CudaGmemLinear, hw_operands.TMA_STORE)
    source = _param("source", extents, CudaSmemLinear, hw_operands.TMA_SOURCE)

    def copied(indices: Sequence[types.Sym]) -> ir.Stmt:
        return ir.Assign(
            ir.Access(to.name, (ir.Point(ir.Int(0)),)), ir.Read(_element(source, indices))
        )

    body = _loops_over(extents, copied)
    modes = (types.AccessMode.WRITE, types.AccessMode.READ)
    return _instr("tma_store", cuda_warp, (to, source), modes, body)


@cache
def cp_async(extents: Extents) -> ir.Instr:
    """A thread's cp.async copies into its part of cells."""
    to = _param("to", extents, CudaSmemLinear, hw_operands.CP_ASYNC)
    return _instr("cp_async", cuda_thread, (to,), (types.AccessMode.WRITE,), _filled(to))


@cache
def store_all(extents: Extents, warps: int) -> ir.Instr:
    """Threads write cells, and it is not known which thread writes which element."""
    to = _param("to", extents, CudaSmemLinear, hw_operands.CUDA_MEMORY)
    unit = cuda_warp if warps == 1 else warps * cuda_warp
    return _instr("store_shared", unit, (to,), (types.AccessMode.WRITE,), _filled(to))


@cache
def load_all(extents: Extents) -> ir.Instr:
    """A warp reads cells, and it is not known which thread reads which element."""
    to = _param("to", FRAGMENT_EXTENTS, FRAGMENT, hw_operands.CUDA_REGISTER)
    source = _param("source", extents, CudaSmemLinear, hw_operands.CUDA_MEMORY)

    def copied(at: Sequence[types.Sym]) -> ir.Stmt:
        target, element = at[:2], at[2:]
        return ir.Assign(_element(to, target), ir.Read(_element(source, element)))

    body = _loops_over((*FRAGMENT_EXTENTS, *extents), copied)
    modes = (types.AccessMode.WRITE, types.AccessMode.READ)
    return _instr("load_shared", cuda_warp, (to, source), modes, body)


@cache
def wgmma(operands: tuple[Extents, ...]) -> ir.Instr:
    """A product of a warpgroup, with those of its operands that are in shared memory."""
    result = _param("accumulator", (ROWS, COLUMNS), ACCUMULATOR, hw_operands.WGMMA_D)
    sources = tuple(
        _param(name, extents, CudaSmemLinear, hw_operands.WGMMA_SMEM)
        for name, extents in zip("ab" if len(operands) > 1 else "b", operands, strict=True)
    )

    def add_element(at: Sequence[types.Sym]) -> ir.Block:
        target = _element(result, at)
        if not sources:
            return (ir.Reduce(target, ir.Const(0.0)),)
        return tuple(
            stmt
            for source in sources
            for stmt in _loops_over(_extents(source), partial(_sum, target, source))
        )

    x, y = types.Sym("x"), types.Sym("y")
    body = _loop(x, ROWS, _loop(y, COLUMNS, add_element((x, y))))
    modes = (types.AccessMode.READ_WRITE, *(types.AccessMode.READ for _ in sources))
    return _instr("wgmma", cuda_warpgroup, (result, *sources), modes, body)


@cache
def write_registers() -> ir.Instr:
    """A warpgroup writes an accumulator as ordinary registers."""
    to = _param("to", (ROWS, COLUMNS), ACCUMULATOR, hw_operands.CUDA_REGISTER)
    return _instr("write", cuda_warpgroup, (to,), (types.AccessMode.WRITE,), _filled(to))


@cache
def read_registers() -> ir.Instr:
    """A warpgroup reads an accumulator as ordinary registers."""
    to = _param("to", (ROWS, COLUMNS), ACCUMULATOR, hw_operands.CUDA_REGISTER)
    source = _param("source", (ROWS, COLUMNS), ACCUMULATOR, hw_operands.CUDA_REGISTER)

    def copied(at: Sequence[types.Sym]) -> ir.Stmt:
        return ir.Assign(_element(to, at), ir.Read(_element(source, at)))

    modes = (types.AccessMode.WRITE, types.AccessMode.READ)
    body = _loops_over((ROWS, COLUMNS), copied)
    return _instr("read", cuda_warpgroup, (to, source), modes, body)


def _sum(target: ir.Access, source: ir.DataParam, at: Sequence[types.Sym]) -> ir.Stmt:
    return ir.Reduce(target, ir.Read(_element(source, at)))


def _param(
    name: str, extents: Extents, memory: types.DataMemory, operand: types.Operand
) -> ir.DataParam:
    shape = tuple(ir.Int(extent) for extent in extents)
    return ir.DataParam(types.Sym(name), types.DataType.F32, shape, memory, operand)


def _extents(param: ir.DataParam) -> Extents:
    return tuple(extent.value for extent in param.shape if isinstance(extent, ir.Int))


def _element(param: ir.DataParam, at: Sequence[types.Sym]) -> ir.Access:
    return ir.Access(param.name, tuple(ir.Point(ir.CVar(name)) for name in at))


def _filled(param: ir.DataParam) -> ir.Block:
    return _loops_over(_extents(param), lambda at: ir.Assign(_element(param, at), ir.Const(0.0)))


def _loops_over(extents: Extents, stmt: Callable[[Sequence[types.Sym]], ir.Stmt]) -> ir.Block:
    """A statement for each element, in loops."""
    names = [types.Sym("xyzuv"[at]) for at in range(len(extents))]
    block: ir.Block = (stmt(names),)
    for name, extent in reversed(list(zip(names, extents, strict=True))):
        block = _loop(name, extent, block)
    return block


def _loop(name: types.Sym, extent: int, body: ir.Block) -> ir.Block:
    return (ir.For(name, ir.Int(0), ir.Int(extent), ir.Seq(), body),)


def _instr(
    name: str,
    unit: types.CollUnit,
    params: tuple[ir.DataParam, ...],
    modes: tuple[types.AccessMode, ...],
    body: ir.Block,
    trailing: types.BarrierMechanism | None = None,
) -> ir.Instr:
    return ir.Instr(
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


# Counts the parts of each array of cells: one for each thread if it is known who has what.


@dataclass(frozen=True, slots=True)
class Parts:
    """The one map from threads to an array's bytes that is followed exactly."""

    threads: int = 1
    key: str = ""

    def exact(self, key: str) -> bool:
        """Returns whether accesses by this map are those of each thread's own part."""
        return bool(key) and key == self.key


def parts_of(
    items: Sequence[role_events.Item], roles: Sequence[role_events.Role]
) -> Mapping[str, Parts]:
    """By array: its parts.  All accesses by another map are taken to be of all parts by all
    threads, which is more than they access.

    Raises RefusedError (K104) for cp.async by two maps.
    """
    threads = {role.name: role.threads for role in roles}
    keys: dict[str, Counter[str]] = {}
    chosen: dict[str, str] = {}
    by: dict[str, int] = {}
    for step in steps(items):
        match step.event:
            case role_events.Load() | role_events.Store() if step.event.parts:
                keys.setdefault(step.event.window.array, Counter())[step.event.parts] += 1
                by[step.event.parts] = threads[step.role]
            case role_events.AsyncCopy() as copy:
                array, by[copy.parts] = copy.window.array, threads[step.role]
                if chosen.setdefault(array, copy.parts) != copy.parts:
                    raise unsupported(
                        "cp.async copies into the same bytes in two layouts",
                        "copy in one layout, or keep the buffers apart",
                        step.span,
                    )
            case _:
                pass
    found = {array: counter.most_common(1)[0][0] for array, counter in keys.items()}
    found |= chosen
    return {array: Parts(by[key], key) for array, key in found.items()}
