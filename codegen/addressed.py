"""Registers that are indexed by what is known only at run time: ptxas puts them into memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exogpu.codegen.expressions import simplify
from exogpu.codegen.storage import Storage
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, Block, CudaThreads, DeviceFunction, For, Int, Point, Proc, Seq
from exogpu.ir.types import Space
from exogpu.ir.walk import accesses, blocks, control_variables, walk
from exogpu.result.errors import Diagnostic


def addressed(proc: Proc, storage: Mapping[Sym, Storage]) -> tuple[Diagnostic, ...]:
    """A warning a variable (G816), at the first such access.

    Registers have no addresses: an index has to be constant once the loops from one constant to
    another are unrolled.  What the compiler makes constant in another way is not known here.
    """
    found: dict[Sym, Diagnostic] = {}
    for stmt in walk(proc.body):
        if isinstance(stmt, DeviceFunction):
            for access, names in _accesses(stmt.body, frozenset(), storage):
                found.setdefault(access.name, _local_memory_warning(access, names))
    return tuple(found.values())


def _accesses(
    block: Block, known: frozenset[Sym], storage: Mapping[Sym, Storage]
) -> Iterator[tuple[Access, tuple[Sym, ...]]]:
    """Yields the accesses to registers whose indices have other variables than the known ones, with
    these variables."""
    for stmt in block:
        for access in accesses(stmt):
            variable = storage.get(access.name)
            if variable is not None and variable.space is Space.REGISTER:
                names = {name: None for name in _read(access, variable) if name not in known}
                if names:
                    yield access, tuple(names)
        inside = known | {stmt.iterator} if isinstance(stmt, For) and _constant(stmt) else known
        for inner in blocks(stmt):
            yield from _accesses(inner, inside, storage)


def _constant(loop: For) -> bool:
    """Tests whether a thread's code has the value of the iterator: iterators of thread loops drop
    out of register indices."""
    if isinstance(loop.mode, CudaThreads):
        return True
    if not isinstance(loop.mode, Seq) or loop.mode.unroll:
        return False
    return isinstance(loop.lo, Int) and isinstance(loop.hi, Int)


def _read(access: Access, variable: Storage) -> Iterator[Sym]:
    """The variables that tell the register."""
    rank = len(variable.shape)
    inside = range(rank - variable.tile_rank, rank)
    for dimension in (*variable.kept, *inside):
        coord = access.coords[dimension]
        index = simplify(coord.at if isinstance(coord, Point) else coord.lo, {})
        yield from sorted(control_variables(index), key=lambda name: name.number)


def _local_memory_warning(access: Access, names: tuple[Sym, ...]) -> Diagnostic:
    shown = " and ".join(name.name for name in names)
    return Diagnostic(
        "G816",
        f"{access.name} is in local memory, not in registers: its index has {shown}, known only at "
        "run time",
        access.span,
        "index it by constants, or by iterators of loops from one constant to another, which are "
        "unrolled",
    )
