"""The types of the language (paper, appendix A): data, timelines, units, memories, mechanisms.

Only their shapes stand here; the hardware's values of them are the tables of `exogpu.hw`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Final, Literal

from exogpu.diagnostics.verdict import Policy


class DataType(Enum):
    """Precision of a data variable (figure "List of variable types", and decision `data-types`)."""

    F8E4M3 = "f8e4m3"
    F8E5M2 = "f8e5m2"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    I8 = "i8"
    I32 = "i32"
    I64 = "i64"
    UI8 = "ui8"
    UI16 = "ui16"
    UI32 = "ui32"
    UI64 = "ui64"

    @property
    def bytes(self) -> int:
        """The bytes of one element; the first number in a type's name is its bits."""
        return int(self.value.lstrip("bfiu").partition("e")[0]) // 8


EIGHTS: Final = frozenset({DataType.F8E4M3, DataType.F8E5M2})
"""Floating point of 8 bits."""

FLOATS: Final = EIGHTS | {DataType.F16, DataType.BF16, DataType.F32, DataType.F64}
"""Floating point; the others are integers."""

INDICES: Final = (DataType.I32, DataType.I64)
"""Integers that `load_index` reads as indices."""


class QualTL(Enum):
    """Qualitative timeline: what a single access of memory is ordered by (figure QualTL)."""

    CPU = "cpu_in_order_qual"
    STRM = "cpu_cuda_stream_qual"
    CUDA1 = "cuda_in_order_rmem_qual"
    CUDA2 = "cuda_in_order_ram_qual"
    SM80 = "Sm80_cp_async_qual"
    TMA_S = "tma_to_smem_async_qual"
    TMA_G = "tma_to_gmem_async_qual"
    TMA_R = "tma_to_gmem_source_qual"
    WG_A = "wgmma_async_rmem_a_qual"
    WG_D = "wgmma_async_rmem_d_qual"
    WG_S = "wgmma_async_smem_qual"
    WG_0 = "wgmma_zero_qual"


QualSet = frozenset[QualTL]


class Level(IntEnum):
    """Visibility level of a record to a thread on a timeline, totally ordered (figure AMIR)."""

    INVISIBLE = 0
    ATOMIC_ONLY = 1
    UNORDERED = 2
    TEMPORALLY_ORDERED = 3
    FULLY_ORDERED = 4


@dataclass(frozen=True, slots=True)
class SyncSets:
    """A sync timeline under one policy: its full and its temporal-or-full timelines."""

    full: QualSet
    temporal: QualSet
    """Superset of `full` (T_qtmp: annotated temporal or full)."""


@dataclass(frozen=True, slots=True)
class SyncTL:
    """Sync timeline: a row of the figure SyncTL."""

    name: str
    transitive: bool
    sets: tuple[tuple[Policy, SyncSets], ...]

    def sets_under(self, policy: Policy) -> SyncSets:
        """The row's sets under `policy`."""
        return dict(self.sets)[policy]


@dataclass(frozen=True, slots=True)
class Extent:
    """`factor`, times clusterDim if `cluster`, times blockDim if `block`: an entry of a unit's
    domain or box."""

    factor: Fraction
    cluster: bool = False
    block: bool = False

    def evaluate(self, cluster_dim: int, block_dim: int) -> Fraction:
        """The entry's value for a launch; not an integer if the unit does not fit the launch."""
        launch = (cluster_dim if self.cluster else 1) * (block_dim if self.block else 1)
        return self.factor * launch


@dataclass(frozen=True, slots=True)
class CollUnit:
    """Collective unit: a domain and a box of the same rank (figure CollUnit).

    A box entry `None` is agnostic: the dimension may have any extent.
    """

    name: str
    """As the user wrote it, the count included: `2 * cuda_warp`."""
    domain: tuple[Extent, ...]
    box: tuple[Extent | None, ...]
    countable: bool = False
    """The figure gives the unit a count `n * unit`."""

    def __rmul__(self, count: int) -> CollUnit:
        """`n * unit`: n of the unit side by side, along its first box entry.

        Raises ValueError for a unit that the figure gives no count.
        """
        first = self.box[0]
        if first is None or not self.countable or count < 1:
            raise ValueError(f"{count} * {self.name}: this unit takes no such count")
        scaled = Extent(first.factor * count, first.cluster, first.block)
        return CollUnit(f"{count} * {self.name}", self.domain, (scaled, *self.box[1:]))

    def __mul__(self, count: int) -> CollUnit:
        return self.__rmul__(count)


class Space(Enum):
    """Physical backing of a data memory."""

    HOST = "host"
    GLOBAL = "global"
    SHARED = "shared"
    REGISTER = "register"
    GRID_CONSTANT = "grid constant"


@dataclass(frozen=True, slots=True)
class DataMemory:
    """Data memory (figure CudaMemory): its space, who owns one allocation, its constraints."""

    name: str
    """As the user wrote it: `Sm90_RmemMatrixD(64, 256)`."""
    space: Space
    unit: CollUnit | None = None
    """The collective that owns one allocation; None for host and global memory."""
    bases: tuple[str, ...] = ()
    """Names of the memories that this one is a kind of."""
    tile: tuple[int | None, ...] = ()
    """Extents of the trailing dimensions, for register tiles; None leaves an extent open."""
    abstract: bool = False
    """A base of other memories: parameters may ask for it, allocations may not."""
    sync_exempt: bool = False
    swizzle: int = 0
    layout: str = ""
    """The layout of a register tile's elements in registers: a row of
    `exogpu.hw.register_tiles`."""

    def is_a(self, other: DataMemory) -> bool:
        """Tests whether a variable of this memory may be passed where `other` is asked for."""
        return self.name == other.name or other.name in self.bases


class BarrierMechanism(Enum):
    """The way in which a split barrier completes (figure BarrierType)."""

    MBARRIER = "CudaMbarrier"
    COMMIT_GROUP = "CudaCommitGroup"
    CLUSTER_SYNC = "CudaClusterSync"
    FLAG = "CudaFlag"
    """In global memory, for the tasks of one launch: a count that each Arrive raises."""
    NAMED_BARRIER = "CudaNamedBarrier"
    """Beyond the figure: one of a CTA's 16 barriers, by arrive and sync (decision
    `named-barriers`)."""
    LAUNCH = "CudaLaunch"
    """The end of a launch, which a dependent one waits for; for the abstract machine alone."""

    @property
    def phased(self) -> bool:
        """Tests whether an Await waits for a numbered arrival, and arrivals and waiters have to
        keep up with each other (PHASE); such a barrier is the CTA's, as shared memory is."""
        return self in (BarrierMechanism.MBARRIER, BarrierMechanism.NAMED_BARRIER)

    @property
    def joins(self) -> bool:
        """Tests whether an Await waits for other threads: for its group a thread waits alone."""
        return self is not BarrierMechanism.COMMIT_GROUP

    @property
    def sync_exempt(self) -> bool:
        """Accesses to the barrier variable itself need no check (section Statement Conversion)."""
        return not self.phased


@dataclass(frozen=True, slots=True)
class SpecialWindow:
    """Special window type (figure SpecialWindow): a tensor map with its swizzle and box."""

    name: str
    swizzle: int
    box: tuple[int, ...]
    tf32: bool = False
    """Loaded values are rounded to tf32."""


class AccessMode(Enum):
    """The way in which an instruction's body uses a parameter (section Instruction Argument
    Conversion)."""

    READ = "read-only"
    WRITE = "write-only"
    READ_WRITE = "read-write"


@dataclass(frozen=True, slots=True)
class Placement:
    """Demands on the address of an operand's window, in bytes (decision `operand-alignment`)."""

    align: int = 1
    """The window's first element lies at a multiple of this."""
    rows: int = 1
    """So does index 0 of the last dimension, in the row of the first element."""
    stride: int = 1
    """So does the distance between neighbours in every dimension of the window but the last."""
    pitch: int = 0
    """The distance in the last dimension but one, exactly; 0 leaves it open."""
    adjacent: int = 1
    """So many last dimensions of the window lie without gaps."""
    blocks: int = 1
    """As `stride`, for every dimension but the last two."""


@dataclass(frozen=True, slots=True)
class Memset:
    """Template of a stream instruction: `cudaMemsetAsync` sets every byte of a window."""

    target: str
    """The parameter."""
    byte: int = 0


@dataclass(frozen=True, slots=True)
class Memcpy:
    """Template of a stream instruction: `cudaMemcpyAsync` copies one window to another."""

    to: str
    of: str
    kind: Literal["HostToDevice", "DeviceToHost", "DeviceToDevice"]


@dataclass(frozen=True, slots=True)
class Operand:
    """The hardware annotations of an instruction's data parameter (figure GPU IR, tau_a)."""

    initial: QualTL
    extended: QualSet
    out_of_order: bool
    convergent: bool
    ptx_extended: QualSet | None = None
    """The extended set under policy ptx, where it differs (decision `temporal-wgmma`)."""
    atomic: QualSet = frozenset()
    owner_only: bool = False
    """Checked and recorded by the thread that owns the element only (ordinary registers)."""
    clipped: bool = False
    """Out-of-range elements read as zero and are not written (TMA global operands)."""
    units: tuple[CollUnit, ...] = ()
    """The units over which the leading dimensions are distributed, outermost first."""
    placement: Placement | None = None
    """None: the instruction goes element by element, wherever they are."""

    def extended_under(self, policy: Policy) -> QualSet:
        """The extended timelines under `policy`."""
        if policy is Policy.PTX and self.ptx_extended is not None:
            return self.ptx_extended
        return self.extended


Sizes = Mapping[str, int]


# Variables of the IR: a readable name and a number that makes it unique.

_numbers: Iterator[int] = itertools.count()


@dataclass(frozen=True, slots=True)
class Sym:
    """A variable (control, data, barrier or window); two of the same name differ by number."""

    name: str
    number: int = field(default_factory=lambda: next(_numbers))

    def __hash__(self) -> int:
        return hash(self.name) + self.number

    def __repr__(self) -> str:
        return self.name
