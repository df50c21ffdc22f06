"""Places each variable on the device, and makes the C++ text of its elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exogpu.analysis.affine import constant
from exogpu.analysis.cluster_parts import is_of_cluster, over_ctas, own_parts
from exogpu.analysis.derive import unit_threads
from exogpu.analysis.facts import Facts
from exogpu.analysis.fragments import tile_of
from exogpu.analysis.ownership import distributed_dims
from exogpu.analysis.uses import Declared
from exogpu.codegen.errors import unsupported
from exogpu.codegen.expressions import SIZE_OF
from exogpu.hw.fragments import Fragment
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    BarrierAlloc,
    CallInstr,
    CExpr,
    DataParam,
    Int,
    Point,
)
from exogpu.ir.types import BarrierMechanism, DataType, QualTL, Space
from exogpu.ir.walk import control_variables, passed, walk


@dataclass(frozen=True, slots=True)
class Storage:
    """The layout of a data variable: by rows, over the dimensions that are not distributed."""

    name: Sym
    dtype: DataType
    space: Space
    shape: tuple[CExpr, ...]
    """All extents, the distributed ones too."""
    kept: tuple[int, ...]
    """The dimensions that a thread (registers) or a CTA (shared memory) indexes."""
    fragment: int = 0
    """Registers of a tile that one thread holds; 0 where there is no tile."""
    tile_rank: int = 0
    """Trailing dimensions that the tile fills."""
    held: Fragment | None = None
    """Of a register tile, in which register an element is, where that is known."""
    packed: bool = False
    """Whether a register has two elements: 16-bit numbers that wgmma multiplies."""
    swizzle: int = 0
    of_cluster: bool = False
    """Whether each CTA of a cluster has a part of it, which the others may access, too."""
    own: frozenset[Access] = frozenset()
    """Of such memory, the accesses that each CTA makes of its own part alone."""
    scale: Sym | None = None
    """Of a wgmma accumulator: its scale-d, 0 where the next product overwrites it."""
    pinned: bool = False
    """Whether wgmma reads or writes it, after the statement that starts it: what is computed with
    its registers stays on its side of what is waited for."""
    flag: bool = False
    """Whether it is no data, but the counts of a flag: one word an element."""
    reshaped: bool = False
    """Whether wgmma of several shapes accumulate in it: they are in order only over fences."""

    @property
    def extents(self) -> tuple[int, ...]:
        """The kept extents of a variable on the device, all constant."""
        found = [constant(self.shape[d]) for d in self.kept]
        return tuple(n for n in found if n is not None)

    @property
    def elements(self) -> int:
        """Elements of one owner's allocation, of variables on the device."""
        return math.prod(self.extents)


def storages(facts: Facts) -> Mapping[Sym, Storage]:
    """The layout of every parameter, and of every variable that is allocated."""
    found: dict[Sym, Storage] = {}
    for param in facts.proc.params:
        if isinstance(param, DataParam):
            found[param.name] = _global(param)
    for stmt in walk(facts.proc.body):
        if isinstance(stmt, Alloc) and stmt.memory.space not in (Space.SHARED, Space.REGISTER):
            found[stmt.name] = _global(stmt)
        elif isinstance(stmt, BarrierAlloc) and stmt.mechanism is BarrierMechanism.FLAG:
            dims = tuple(range(len(stmt.shape)))
            space = Space.GLOBAL
            found[stmt.name] = Storage(stmt.name, DataType.I32, space, stmt.shape, dims, flag=True)
    for declared in facts.variables:
        if isinstance(declared.declaration, Alloc):
            found[declared.declaration.name] = _local(declared, declared.declaration)
    return found


def _global(declared: DataParam | Alloc) -> Storage:
    return Storage(
        declared.name,
        declared.dtype,
        declared.memory.space,
        declared.shape,
        tuple(range(len(declared.shape))),
    )


def _local(declared: Declared, alloc: Alloc) -> Storage:
    shape = tuple(_extent(alloc, n) for n in alloc.shape)
    tiling, memory = declared.where.tiling, alloc.memory
    rank, tile_rank = len(shape), len(memory.tile)
    match memory.space:
        case Space.SHARED:
            dims = over_ctas(declared)
            kept = tuple(d for d in range(rank) if d not in dims)
            of_cluster = is_of_cluster(declared)
            if memory.swizzle and shape[-1].value * SIZE_OF[alloc.dtype] != memory.swizzle:
                raise unsupported(
                    f"the rows of {alloc.name} are not {memory.swizzle} bytes, its swizzle",
                    alloc.span,
                    "give the last dimension as many elements as the swizzle has room for",
                )
            return Storage(
                alloc.name,
                alloc.dtype,
                memory.space,
                shape,
                kept,
                swizzle=memory.swizzle,
                of_cluster=of_cluster,
                own=own_parts(declared) if of_cluster else frozenset(),
            )
        case Space.REGISTER:
            assert memory.unit is not None
            size = unit_threads(tiling, memory.unit)
            assert size is not None, "distributed memory analysis refuses it"
            dims = (*distributed(declared, size), *_fixed(declared, rank - tile_rank))
            kept = tuple(d for d in range(rank - tile_rank) if d not in dims)
            if tile_rank:
                kept = tuple(d for d in kept if shape[d] != Int(1))
            tile = [n.value for n in shape[rank - tile_rank :]]
            fragment = math.prod(tile) // size if tile_rank else 0
            packed = memory.layout == "wgmma A" and alloc.dtype.bytes == 2
            multiplied = _calls_on(declared, QualTL.WG_D)
            flagged = multiplied or _calls_on(declared, QualTL.WG_0)
            scale = Sym(f"{alloc.name}_scale") if flagged else None
            return Storage(
                alloc.name,
                alloc.dtype,
                memory.space,
                shape,
                kept,
                fragment // 2 if packed else fragment,
                tile_rank,
                packed=packed,
                held=tile_of(alloc),
                scale=scale,
                pinned=bool(multiplied or _calls_on(declared, QualTL.WG_A)),
                reshaped=len({_shape(call) for call in multiplied}) > 1,
            )
        case Space.HOST | Space.GLOBAL | Space.GRID_CONSTANT:
            raise unsupported(
                f"{alloc.name} is allocated in {memory.name} inside a kernel",
                alloc.span,
                "allocate it outside of the kernel, as a parameter",
            )


def _calls_on(declared: Declared, timeline: QualTL) -> tuple[CallInstr, ...]:
    """The instructions with an operand of this timeline that is the variable."""
    name = declared.declaration.name
    return tuple(
        use.stmt
        for use in declared.uses
        if isinstance(use.stmt, CallInstr)
        and any(o.access.name == name and o.timeline is timeline for o in passed(use.stmt))
    )


def _shape(call: CallInstr) -> object:
    """Returns the key of a wgmma's .shape: the instruction and its compile-time parameters."""
    return call.instr.name, call.instr.constants


def distributed(declared: Declared, size: int) -> tuple[int, ...]:
    """The dimensions of a variable that are distributed over units of `size` threads."""
    return distributed_dims(declared, declared.uses, size)


def _fixed(declared: Declared, rank: int) -> Iterator[int]:
    """The dimensions that every use indexes alike, by iterators around the allocation only."""
    outside = frozenset(declared.where.iterators)
    for d in range(rank):
        indices = {use.access.coords[d] for use in declared.uses}
        if len(indices) == 1:
            (index,) = indices
            if isinstance(index, Point) and control_variables(index.at) <= outside:
                yield d


def _extent(alloc: Alloc | BarrierAlloc, extent: CExpr) -> Int:
    value = constant(extent)
    if value is None:
        raise unsupported(
            f"{alloc.name} is allocated in a kernel with an extent that depends on sizes",
            alloc.span,
            "give it a constant extent",
            "G802",
        )
    return Int(value)
