"""Slots of arrays of mbarriers: each element has had as many Arrives (decision `slots`).

for m in cuda_threads(0, 2, unit=...):          # full: barrier[2]
    Arrive(cuda_in_order) >> full[m]

That holds where every execution of the loops around an Arrive reaches each element once, and no
slot is counted in the middle of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.analysis.affine import constant
from exogpu.analysis.barriers import first_home
from exogpu.analysis.roles import wide
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Arrive,
    BarrierAlloc,
    Block,
    CudaThreads,
    CVar,
    For,
    If,
    Int,
    Loaded,
    Point,
    Proc,
    Slot,
    Stmt,
)
from exogpu.ir.walk import blocks, control_variables, walk
from exogpu.result.errors import Diagnostic, Note

Path = tuple[Stmt, ...]
"""The statements around one, outermost first."""


def check(proc: Proc) -> Iterator[Diagnostic]:
    """The slots of arrays whose elements may have different numbers of Arrives."""
    shapes = {s.name: s.shape for s in walk(proc.body) if isinstance(s, BarrierAlloc)}
    placed = [*_placed(proc.body, ())]
    for slot, around in placed:
        if not isinstance(slot, For) or not isinstance(slot.mode, Slot):
            continue
        name = slot.mode.barrier
        if all(constant(extent) == 1 for extent in shapes[name]):
            continue
        for arrive, path in placed:
            if isinstance(arrive, Arrive) and arrive.targets[0].name == name:
                inner = _all_elements(arrive, path, shapes[name])
                if inner is None or not inner.isdisjoint(around):
                    yield _refusal(name, slot, arrive)
                    break


def _placed(block: Block, around: Path) -> Iterator[tuple[Stmt, Path]]:
    for stmt in block:
        yield stmt, around
        for inside in blocks(stmt):
            yield from _placed(inside, (*around, stmt))


def _all_elements(arrive: Arrive, path: Path, shape: tuple[object, ...]) -> set[Stmt] | None:
    """The loops around an Arrive that reach each element of its barrier once; None where they do
    not."""
    home = first_home(arrive.targets)
    roles = frozenset.intersection(*map(wide, arrive.targets))  # It reaches all of these.
    loops = {s.iterator: s for s in path if isinstance(s, For)}
    over: dict[Sym, For] = {}
    for d, (name, extent) in enumerate(zip(_indices(home), shape, strict=True)):
        if d in roles:
            continue
        loop = None if name is None else loops.get(name)
        if loop is None or loop.iterator in over or not isinstance(loop.mode, CudaThreads):
            return None
        if loop.lo != Int(0) or loop.hi != extent:
            return None
        over[loop.iterator] = loop
    # Which element it is, and values from memory that may be other ones for another element.
    telling = {*over}
    for stmt in path:
        read = frozenset[Sym]()
        if isinstance(stmt, For):
            read = control_variables(stmt.lo) | control_variables(stmt.hi)
        elif isinstance(stmt, If):
            read = control_variables(stmt.condition)
        if isinstance(stmt, For) and isinstance(stmt.mode, Loaded):
            if (read | _read(stmt.mode.source)) & telling:
                telling.add(stmt.iterator)
        elif read & telling:
            return None
    return set(over.values())


def _read(access: Access) -> frozenset[Sym]:
    ends = (c.at if isinstance(c, Point) else c.lo for c in access.coords)
    return frozenset[Sym]().union(*map(control_variables, ends))


def _indices(home: Access) -> Iterator[Sym | None]:
    for coord in home.coords:
        at = coord.at if isinstance(coord, Point) else coord.lo
        yield at.name if isinstance(at, CVar) else None


def _refusal(name: Sym, slot: For, arrive: Arrive) -> Diagnostic:
    return Diagnostic(
        "D519",
        f"slot({name}) is no one number: the elements of {name} may have had different numbers of "
        "Arrives",
        slot.span,
        f"let each Arrive on {name} reach all of its elements, in cuda_threads loops over them, "
        "and write the slot outside of these",
        (Note("an Arrive that does not", arrive.span),),
    )
