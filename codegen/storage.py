"""Places each variable on the device, and makes the C++ text of its elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from exogpu.analysis.alignment import SHARED_ALIGNMENT, SWIZZLED_ALIGNMENT
from exogpu.analysis.derive_tiling import unit_threads
from exogpu.analysis.distribution import is_of_cluster, over_ctas, own_parts
from exogpu.analysis.facts import Facts
from exogpu.analysis.ownership import Declared, distributed_dims
from exogpu.analysis.ownership_check import tile_of
from exogpu.codegen.control_text import C_TYPE, SIZE_OF
from exogpu.codegen.names import Names, unsupported
from exogpu.diagnostics.errors import Span
from exogpu.hw.register_tiles import Fragment
from exogpu.ir import nodes as ir
from exogpu.ir.affine import constant
from exogpu.ir.types import BarrierMechanism, DataType, QualTL, Space, Sym
from exogpu.ir.walk import control_variables, walk, window_arguments


@dataclass(frozen=True, slots=True)
class Storage:
    """The layout of a data variable: by rows, over the dimensions that are not distributed."""

    name: Sym
    dtype: DataType
    space: Space
    shape: tuple[ir.CExpr, ...]
    """All extents, the distributed ones too."""
    kept: tuple[int, ...]
    """The dimensions that a thread (registers) or a CTA (shared memory) indexes."""
    fragment: int = 0
    """Registers of a tile that one thread holds; 0 where there is no tile."""
    tile_rank: int = 0
    """Trailing dimensions that the tile fills."""
    held: Fragment | None = None
    """The place of an element of a register tile in registers, where that is known."""
    packed: bool = False
    """A register has two elements: 16-bit numbers that wgmma multiplies."""
    swizzle: int = 0
    of_cluster: bool = False
    """Each CTA of a cluster has a part of it, which the others may access, too."""
    own: frozenset[ir.Access] = frozenset()
    """The accesses that each CTA makes of its own part of such memory alone."""
    scale: Sym | None = None
    """The scale-d of a wgmma accumulator: 0 where the next product overwrites it."""
    pinned: bool = False
    """A wgmma reads or writes it after the statement that starts it: computations with its
    registers stay on their side of the wait."""
    flag: bool = False
    """It is no data, but the counts of a flag: one word an element."""
    reshaped: bool = False
    """Products of wgmma of several shapes accumulate in it: they are in order only over fences."""

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
        if isinstance(param, ir.DataParam):
            found[param.name] = _global(param)
    for stmt in walk(facts.proc.body):
        if isinstance(stmt, ir.Alloc) and stmt.memory.space not in (Space.SHARED, Space.REGISTER):
            found[stmt.name] = _global(stmt)
        elif isinstance(stmt, ir.BarrierAlloc) and stmt.mechanism is BarrierMechanism.FLAG:
            dims = tuple(range(len(stmt.shape)))
            space = Space.GLOBAL
            found[stmt.name] = Storage(stmt.name, DataType.I32, space, stmt.shape, dims, flag=True)
    for declared in facts.variables:
        if isinstance(declared.declaration, ir.Alloc):
            found[declared.declaration.name] = _local(declared, declared.declaration)
    return found


def _global(declared: ir.DataParam | ir.Alloc) -> Storage:
    return Storage(
        declared.name,
        declared.dtype,
        declared.memory.space,
        declared.shape,
        tuple(range(len(declared.shape))),
    )


def _local(declared: Declared, alloc: ir.Alloc) -> Storage:
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
            dims = (*distributed(declared, size), *_fixed_dimensions(declared, rank - tile_rank))
            kept = tuple(d for d in range(rank - tile_rank) if d not in dims)
            if tile_rank:
                kept = tuple(d for d in kept if shape[d] != ir.Int(1))
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


def _calls_on(declared: Declared, timeline: QualTL) -> tuple[ir.CallInstr, ...]:
    """The instructions with an operand of this timeline that is the variable."""
    name = declared.declaration.name
    return tuple(
        use.stmt
        for use in declared.uses
        if isinstance(use.stmt, ir.CallInstr)
        and any(
            o.access.name == name and o.timeline is timeline for o in window_arguments(use.stmt)
        )
    )


def _shape(call: ir.CallInstr) -> object:
    """Returns the key of a wgmma's .shape: the instruction and its compile-time parameters."""
    return call.instr.name, call.instr.constants


def distributed(declared: Declared, size: int) -> tuple[int, ...]:
    """The dimensions of a variable that are distributed over units of `size` threads."""
    return distributed_dims(declared, declared.uses, size)


def _fixed_dimensions(declared: Declared, rank: int) -> Iterator[int]:
    """The dimensions that every use indexes alike, by iterators around the allocation only."""
    outside = frozenset(declared.where.iterators)
    for d in range(rank):
        indices = {use.access.coords[d] for use in declared.uses}
        if len(indices) == 1:
            (index,) = indices
            if isinstance(index, ir.Point) and control_variables(index.at) <= outside:
                yield d


def _extent(alloc: ir.Alloc | ir.BarrierAlloc, extent: ir.CExpr) -> ir.Int:
    value = constant(extent)
    if value is None:
        raise unsupported(
            f"{alloc.name} is allocated in a kernel with an extent that depends on sizes",
            alloc.span,
            "give it a constant extent",
            "G802",
        )
    return ir.Int(value)


# Variables @ CudaGridConstant in a kernel: parameters by value, read through a reference.
#
# A launch copies its parameters, so that what the CPU writes after it is not seen.

MOST: Final = 4096
"""Bytes of a kernel's parameters that every device takes (CUDA C++ programming guide, __global__
function parameters)."""

POINTER, TENSOR_MAP = 8, 128


def constants(
    used: frozenset[Sym], storage: Mapping[Sym, Storage], others: int, span: Span
) -> tuple[Sym, ...]:
    """The grid constants that a kernel reads, in the order of their declaration.

    `others` are the bytes of its other parameters.  Raises ExoGpuError for extents that depend on
    sizes (G802), and for more bytes than a kernel's parameters have (G812).
    """
    found = tuple(n for n, s in storage.items() if s.space is Space.GRID_CONSTANT and n in used)
    for name in found:
        if any(constant(n) is None for n in storage[name].shape):
            raise unsupported(
                f"{name} is @ CudaGridConstant, and its extents depend on sizes",
                span,
                "give it constant extents, or put it @ CudaGmemLinear",
                "G802",
            )
    taken = sum(_bytes(storage[name]) for name in found)
    if found and others + taken > MOST:
        raise unsupported(
            f"the parameters of this kernel take {others + taken} bytes, and there are {MOST}; "
            f"{taken} are of {', '.join(n.name for n in found)}",
            span,
            "put large arrays @ CudaGmemLinear",
            "G812",
        )
    return found


def _bytes(variable: Storage) -> int:
    return -(-_count(variable) * SIZE_OF[variable.dtype] // 8) * 8


def _count(variable: Storage) -> int:
    return max(1, variable.elements)


def declared(
    names: Names, found: Sequence[Sym], storage: Mapping[Sym, Storage]
) -> tuple[list[str], list[str]]:
    """The parameters of a kernel for its constants, and the references that it reads them by."""
    parameters, references = [], []
    for name in found:
        dtype, count = C_TYPE[storage[name].dtype], _count(storage[name])
        spelled, value = names(name), names.declare(Sym(f"{name.name}_value"))
        parameters.append(f"const __grid_constant__ GridConstant<{dtype}, {count}> {value}")
        references.append(f"const {dtype} (&{spelled})[{count}] = {value}.at;")
    return parameters, references


# Shared memory: one dynamic block, offsets from lifetimes.


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """Byte offsets into the dynamic shared memory of a CTA, and its size."""

    offsets: Mapping[Sym, int]
    size: int
    ends: Mapping[Sym, int]
    order: tuple[Sym, ...]
    """The variables in the order of their allocation."""

    def overlap(self, a: Sym, b: Sym) -> bool:
        """Tests whether two variables have bytes in common."""
        return self.offsets[a] < self.ends[b] and self.offsets[b] < self.ends[a]


@dataclass(frozen=True, slots=True)
class _Live:
    name: Sym
    begin: int
    end: int
    size: int
    alignment: int


def layout(
    launch: ir.DeviceFunction, storage: Mapping[Sym, Storage], reserved: int
) -> SharedLayout:
    """Offsets for the shared variables of a launch, beyond the first `reserved` bytes.

    Two variables share bytes only if one is freed before the other is allocated.  The abstract
    machine checks that for all threads that may use the bytes (decision `shared-lifetime`).
    """
    placed: list[tuple[_Live, int]] = []
    lifetimes = _lifetimes(launch, storage)
    for live in sorted(lifetimes, key=lambda v: (-v.alignment, v.begin)):
        busy = sorted(
            (at, at + other.size)
            for other, at in placed
            if other.begin < live.end and live.begin < other.end
        )
        offset = _align(reserved, live.alignment)
        for begin, end in busy:
            if offset + live.size > begin and end > offset:
                offset = _align(end, live.alignment)
        placed.append((live, offset))
    size = max((at + live.size for live, at in placed), default=reserved)
    return SharedLayout(
        {live.name: at for live, at in placed},
        size,
        {live.name: at + live.size for live, at in placed},
        tuple(live.name for live in lifetimes),
    )


def _lifetimes(launch: ir.DeviceFunction, storage: Mapping[Sym, Storage]) -> list[_Live]:
    begins: dict[Sym, int] = {}
    ends: dict[Sym, int] = {}
    for at, stmt in enumerate(walk(launch.body)):
        match stmt:
            case ir.Alloc() if stmt.memory.space is Space.SHARED:
                begins[stmt.name] = at
            case ir.Free() if stmt.name in begins:
                ends.setdefault(stmt.name, at)
            case _:
                pass
    found = []
    for name, begin in begins.items():
        variable = storage[name]
        alignment = SWIZZLED_ALIGNMENT if variable.swizzle else SHARED_ALIGNMENT
        size = variable.elements * SIZE_OF[variable.dtype]
        found.append(_Live(name, begin, ends[name], size, alignment))
    return found


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
