"""Elements of register tiles as C++ text: which of a thread's registers each is.

The map of the tile says it of any element; a statement's indices are put in and the thread drops
out, since the thread holds the element.  What is left is constant once the loops are unrolled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from exogpu.codegen.control_text import Control
from exogpu.codegen.names import unsupported
from exogpu.codegen.register_indices import (
    index_form,
    narrowed,
    ranges_of,
    read_by,
    without_thread,
)
from exogpu.codegen.storage import Storage
from exogpu.diagnostics.errors import Diagnostic
from exogpu.ir import nodes as ir
from exogpu.ir.affine import Affine, Range, Ranges, mentions
from exogpu.ir.types import Space, Sym
from exogpu.ir.walk import accesses, blocks, walk


def tile_index(index: ir.CExpr, access: ir.Access, control: Control) -> ir.CExpr:
    """An index of registers without the iterators over threads that stand in it.

    Raises ExoGpuError (G802) where it depends on them: registers are not indexed by the thread.
    """
    found = without_thread(index, control)
    if found is None:
        raise unsupported(
            f"which register {access.name} is in is not told without the thread",
            access.span,
            "index the tile by the iterators of its fragment",
            "G802",
        )
    return found


def pairs(loop: ir.For, storage: Mapping[Sym, Storage], control: Control) -> frozenset[ir.Stmt]:
    """The statements of a loop that write the two elements of each of some registers, and what they
    write is not read in the loop."""
    if loop.lo != ir.Int(0) or loop.hi != ir.Int(2) or not isinstance(loop.mode, ir.Seq):
        return frozenset()
    found: set[ir.Stmt] = set()
    for stmt in loop.body:
        if not isinstance(stmt, ir.Assign) or not storage[stmt.target.name].packed:
            continue
        variable = storage[stmt.target.name]
        touched = [a for inner in walk(loop.body) for a in accesses(inner)]
        alone = sum(a.name == stmt.target.name for a in touched) == 1
        if alone and _halves(loop.iterator, stmt.target, variable, control):
            found.add(stmt)
    return frozenset(found)


def _halves(iterator: Sym, target: ir.Access, variable: Storage, control: Control) -> bool:
    """Tests whether 0 and 1 of an iterator are the two elements of a register, the same one of the
    same tile."""
    assert variable.held is not None, "what has no fragment has no elements"
    indices = [c.at if isinstance(c, ir.Point) else c.lo for c in target.coords]
    inside = len(indices) - variable.tile_rank
    number = variable.held.register(indices[inside:])
    ranges = ranges_of(control)
    half, *others = (
        index_form(index, ranges)
        for index in (ir.Mod(number, 2), ir.FloorDiv(number, 2), *indices[:inside])
    )
    return half == Affine(0, ((iterator, 1),)) and not any(mentions(o, [iterator]) for o in others)


# Registers that are indexed by what is known only at run time: ptxas puts them into memory.


def addressed(proc: ir.Proc, storage: Mapping[Sym, Storage]) -> tuple[Diagnostic, ...]:
    """A warning a variable (G816), at the first such access.

    Registers have no addresses: an index has to be constant once the loops from one constant to
    another are unrolled.  What the compiler makes constant in another way is not known here.
    """
    found: dict[Sym, Diagnostic] = {}
    for stmt in walk(proc.body):
        if isinstance(stmt, ir.DeviceFunction):
            for access, names in _accesses(stmt.body, _Known(storage)):
                found.setdefault(access.name, _local_memory_warning(access, names))
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class _Known:
    """The values that the compiler knows of iterators at a statement."""

    storage: Mapping[Sym, Storage]
    ranges: Ranges = field(default_factory=dict)
    constants: frozenset[Sym] = frozenset()
    """Iterators that are constants once loops are unrolled."""

    def in_loop(self, loop: ir.For) -> _Known:
        """Enters a loop."""
        if not (isinstance(loop.lo, ir.Int) and isinstance(loop.hi, ir.Int)):
            return self
        range_ = Range(loop.lo.value, max(loop.lo.value, loop.hi.value - 1))
        unrolled = isinstance(loop.mode, ir.Seq) and not loop.mode.unroll
        return replace(
            self,
            ranges={**self.ranges, loop.iterator: range_},
            constants=self.constants | {loop.iterator} if unrolled else self.constants,
        )

    def in_branch(self, condition: ir.BExpr, holds: bool) -> _Known:
        """Enters a part of an `if`."""
        return replace(self, ranges=narrowed(self.ranges, condition, holds))


def _accesses(block: ir.Block, known: _Known) -> Iterator[tuple[ir.Access, tuple[Sym, ...]]]:
    """Yields the accesses to registers whose indices have other variables than the known ones, with
    these variables."""
    for stmt in block:
        for access in accesses(stmt):
            variable = known.storage.get(access.name)
            if variable is not None and variable.space is Space.REGISTER:
                names = {
                    name: None
                    for name in _register_variables(access, variable, known.ranges)
                    if name not in known.constants
                }
                if names:
                    yield access, tuple(names)
        match stmt:
            case ir.If():
                yield from _accesses(stmt.body, known.in_branch(stmt.condition, True))
                yield from _accesses(stmt.orelse, known.in_branch(stmt.condition, False))
            case _:
                inside = known.in_loop(stmt) if isinstance(stmt, ir.For) else known
                for inner in blocks(stmt):
                    yield from _accesses(inner, inside)


def _register_variables(access: ir.Access, variable: Storage, ranges: Ranges) -> Iterator[Sym]:
    """The variables that tell the register, by number."""
    indices = [c.at if isinstance(c, ir.Point) else c.lo for c in access.coords]
    inside = len(indices) - variable.tile_rank
    telling = [indices[d] for d in variable.kept if d < inside]
    if variable.tile_rank and variable.held is not None:
        telling.append(variable.held.register(indices[inside:]))
    for index in telling:
        yield from sorted(read_by(index, ranges), key=lambda name: name.number)


def _local_memory_warning(access: ir.Access, names: tuple[Sym, ...]) -> Diagnostic:
    shown = " and ".join(name.name for name in names)
    return Diagnostic(
        "G816",
        f"{access.name} is in local memory, not in registers: its index has {shown}, known only at "
        "run time",
        access.span,
        "index it by constants, or by iterators of loops from one constant to another, which are "
        "unrolled",
    )
