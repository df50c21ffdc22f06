"""GPU IR (paper, figures "syntax of variables and expressions" and "statements"): data only.

Expressions compare by value (spans aside); statements by identity, so that analyses can key
their results by statement.  Ranges are half-open everywhere in this IR.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import copysign
from typing import Literal, TypeAlias

from exogpu.diagnostics.errors import NOWHERE, Span
from exogpu.ir import types

# --- control expressions ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Int:
    """An integer constant."""

    value: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CVar:
    """A control variable: a size, an index argument or a loop iterator."""

    name: types.Sym
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Add:
    left: CExpr
    right: CExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Sub:
    left: CExpr
    right: CExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Mul:
    """`factor * term`; affine arithmetic multiplies by constants only."""

    factor: int
    term: CExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """`term / divisor`, rounded towards minus infinity; divisor > 0."""

    term: CExpr
    divisor: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Mod:
    """`term mod divisor`, in `0 .. divisor - 1`; divisor > 0."""

    term: CExpr
    divisor: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)


CExpr: TypeAlias = Int | CVar | Add | Sub | Mul | FloorDiv | Mod


# --- boolean expressions ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Truth:
    value: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Compare:
    op: Literal["==", "!=", "<", "<=", ">", ">="]
    left: CExpr
    right: CExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class And:
    left: BExpr
    right: BExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Or:
    left: BExpr
    right: BExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    term: BExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


BExpr: TypeAlias = Truth | Compare | And | Or | Not


# --- windows ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """A point coordinate of an access."""

    at: CExpr


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval coordinate `lo:hi`, half-open (decision `half-open-windows`)."""

    lo: CExpr
    hi: CExpr


Coord: TypeAlias = Point | Interval


@dataclass(frozen=True, slots=True)
class Access:
    """`x[w*]`: a window of a data, window or barrier variable; one coordinate a dimension."""

    name: types.Sym
    coords: tuple[Coord, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    through: tuple[Through, ...] = field(default=(), compare=False, repr=False)
    """The windows and parameters that inlining has replaced, the one that was written first."""


@dataclass(frozen=True, slots=True)
class Through:
    """A window that an access was made through: its coordinates there, and the window's extents."""

    coords: tuple[Coord, ...]
    extents: tuple[CExpr, ...]


# --- data expressions ---------------------------------------------------------------------


def same_number(one: float | int, other: float | int) -> bool:
    """Tests whether two constants are one number: 0 and -0 are two, and NaN is one."""
    if one != one or other != other:
        return one != one and other != other
    return one == other and (one != 0 or copysign(1, one) == copysign(1, other))


@dataclass(frozen=True, slots=True)
class Const:
    """A data constant."""

    value: float | int
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and same_number(self.value, other.value)

    def __hash__(self) -> int:
        return 0 if self.value != self.value else hash(self.value)


@dataclass(frozen=True, slots=True)
class Read:
    """The value of one element."""

    access: Access
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BinOp:
    op: Literal["+", "-", "*", "/"]
    left: DExpr
    right: DExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negate:
    term: DExpr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


DataFunction: TypeAlias = str
"""A name of `exogpu.ir.scalar_functions`: `min`, `&`, or `i32.rz`, which is `i32(x, rz)`."""


@dataclass(frozen=True, slots=True)
class Apply:
    """A data function, as `min(a, b)`, or an operator of integers, as `a & b`."""

    function: DataFunction
    arguments: tuple[DExpr, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


DExpr: TypeAlias = Const | Read | BinOp | Negate | Apply


# --- loop modes and warps -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seq:
    """`seq(lo, hi)`, with `unroll=` a number of iterations, True or False."""

    unroll: int | None = None
    """The number of iterations that the emitted loop writes out at a time: 0 all, 1 each by itself;
    None where code generation chooses."""


@dataclass(frozen=True, slots=True)
class CudaTasks:
    """`cuda_tasks(lo, hi)`"""


@dataclass(frozen=True, slots=True)
class CudaThreads:
    """`cuda_threads(lo, hi, unit=unit)`"""

    unit: types.CollUnit


@dataclass(frozen=True, slots=True)
class Slot:
    """`slot(barrier)`: one iteration, the number of Arrives on the barrier so far modulo `hi`.

    `x[slot(b), i] = e` is `for s in slot(b): x[s, i] = e`, s in `0 .. hi - 1`; of an array of
    barriers each element has had as many.
    """

    barrier: types.Sym


@dataclass(frozen=True, slots=True)
class Loaded:
    """`load_index(source, lo, hi)`: one iteration, the value of the element, which every thread
    that executes it reads; where that is not in `lo .. hi - 1` the kernel traps.

    `b = load_index(offsets[g], lo, hi)` is `for b in load_index(offsets[g], lo, hi)` whose body is
    the rest of the block.
    """

    source: Access
    """One element of a parameter in global memory: every coordinate is a point."""


LoopMode: TypeAlias = Seq | CudaTasks | CudaThreads | Slot | Loaded


@dataclass(frozen=True, slots=True)
class WarpConfig:
    """`CudaWarpConfig(name, count, setmaxnreg_dec, setmaxnreg_inc)`: count in warps."""

    name: str
    count: int
    setmaxnreg_dec: int = 0
    setmaxnreg_inc: int = 0


# --- statements ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Statement:
    span: Span = field(kw_only=True, default=NOWHERE)


@dataclass(frozen=True, slots=True, eq=False)
class For(_Statement):
    iterator: types.Sym
    lo: CExpr
    hi: CExpr
    mode: LoopMode
    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class If(_Statement):
    condition: BExpr
    body: Block
    orelse: Block = ()


@dataclass(frozen=True, slots=True, eq=False)
class DeviceFunction(_Statement):
    """`with CudaDeviceFunction(...)`: one kernel launch.

    `warps` is never empty; a launch by `blockDim=n` has one group with the name "".
    """

    cluster_dim: int
    warps: tuple[WarpConfig, ...]
    body: Block
    dependent: bool = False
    """True if it may begin before the launch right before it has ended (decision
    `dependent-launch`)."""
    min_blocks: int = 1
    """CTAs that a multiprocessor shall have room for: each thread has registers for that many."""

    @property
    def block_dim(self) -> int:
        """Threads a CTA."""
        return 32 * sum(group.count for group in self.warps)


@dataclass(frozen=True, slots=True, eq=False)
class Warps(_Statement):
    """`with CudaWarps(lo, hi, name=group)`: warps lo..hi-1 of the group."""

    lo: int
    hi: int
    group: str
    """"" is the only group of a launch by blockDim."""
    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class CallProc(_Statement):
    """A call of a procedure, at CPU scope only."""

    proc: Proc
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CallInstr(_Statement):
    """`instr(...) >> z[...]`: `trailing` is the barrier that the instruction signals."""

    instr: Instr
    arguments: tuple[Argument, ...]
    trailing: Access | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Assign(_Statement):
    """`x[c*] = e`"""

    target: Access
    value: DExpr


@dataclass(frozen=True, slots=True, eq=False)
class Reduce(_Statement):
    """`x[c*] += e`"""

    target: Access
    value: DExpr


@dataclass(frozen=True, slots=True, eq=False)
class WindowStmt(_Statement):
    """`name = source[w*] @ special`; `special` is None for a plain alias."""

    name: types.Sym
    source: Access
    special: types.SpecialWindow | None


@dataclass(frozen=True, slots=True, eq=False)
class Alloc(_Statement):
    """`name: dtype[shape] @ memory`"""

    name: types.Sym
    dtype: types.DataType
    shape: tuple[CExpr, ...]
    memory: types.DataMemory


@dataclass(frozen=True, slots=True, eq=False)
class BarrierAlloc(_Statement):
    """`name: barrier(guard)[shape] @ mechanism`"""

    name: types.Sym
    shape: tuple[CExpr, ...]
    mechanism: types.BarrierMechanism
    guard: types.Sym | None = None
    depth: int | None = None
    """The ring depth that another compiler chose; None if the Awaits determine it (decision
    `mbarrier-phase`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Free(_Statement):
    """End of a data or barrier variable's lifetime; inserted by the compiler, never written.
    Its span is that of the allocation."""

    name: types.Sym
    ends: Span = NOWHERE
    """The statement before which, or the last one after which, it ends."""
    reused_by: tuple[int, int, str] | None = None
    """The warps (lo, hi, group) that alone use the bytes until a second Free of the variable, at
    the end of its block (decision `shared-lifetime`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Fence(_Statement):
    """`Fence(pre, post)`; with `launches`, in a dependent launch, each thread by itself waits for
    the launches before (decision `dependent-launch`)."""

    pre: types.SyncTL
    post: types.SyncTL
    launches: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Arrive(_Statement):
    """`Arrive(timeline) >> targets`; more than one target is a multicast.

    The home barrier is the one element common to all targets' windows.
    """

    timeline: types.SyncTL
    targets: tuple[Access, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Await(_Statement):
    """`Await(barrier, timeline, n)`; a `~m` of the source is the negative n = -m-1 here."""

    barrier: Access
    timeline: types.SyncTL
    n: int


@dataclass(frozen=True, slots=True, eq=False)
class Uninit(_Statement):
    """`uninit(x[w*])`: these elements may be read although nothing has been written there."""

    access: Access


@dataclass(frozen=True, slots=True, eq=False)
class Pass(_Statement):
    """`pass`, or what inlining leaves of a call, before the body."""

    given: tuple[Access, ...] = field(default=(), kw_only=True)
    """The windows that were passed."""


Stmt: TypeAlias = (
    For
    | If
    | DeviceFunction
    | Warps
    | CallProc
    | CallInstr
    | Assign
    | Reduce
    | WindowStmt
    | Alloc
    | BarrierAlloc
    | Free
    | Fence
    | Arrive
    | Await
    | Uninit
    | Pass
)
Block: TypeAlias = tuple[Stmt, ...]

Argument: TypeAlias = CExpr | Access | Const
"""A call's argument: control for a control parameter; a window, or a constant, for data."""


# --- procedures and instructions ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ControlParam:
    """`n: size` (at least 1, unless a precondition admits 0) or `i: index` (any integer)."""

    name: types.Sym
    kind: Literal["size", "index"]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DataParam:
    """`x: dtype[shape] @ memory`; `operand` is set for instructions only."""

    name: types.Sym
    dtype: types.DataType
    shape: tuple[CExpr, ...]
    memory: types.DataMemory
    operand: types.Operand | None = None
    window: types.SpecialWindow | None = None
    """The special window type that the argument must have, for instructions (tensor maps)."""
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Param: TypeAlias = ControlParam | DataParam


@dataclass(frozen=True, slots=True)
class Contract:
    """`assert monotone(array)`: no element is less than the one before it, of one dimension;
    `assert injective(array)`: no two elements are equal.  With `where >= 0` it is about the
    elements alone that are at least 0."""

    kind: Literal["monotone", "injective"]
    array: types.Sym
    least: int | None = None
    """The least element that it is about; None: it is about all."""
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ImportSource:
    """The origin of an imported procedure, and the assumptions of its import."""

    compiler: str
    """`Triton 3.9`"""
    digest: str
    """The SHA-256 of the compiler's texts, in hexadecimal."""
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Proc:
    """A CPU procedure, possibly with kernel launches."""

    name: str
    params: tuple[Param, ...]
    preconditions: tuple[BExpr, ...]
    body: Block
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    doc: str = ""
    contracts: tuple[Contract, ...] = ()
    """Assumptions on the contents of its arrays, besides the preconditions."""
    imported: ImportSource | None = None
    """The origin of the procedure, if another compiler compiled it."""


@dataclass(frozen=True, slots=True, eq=False)
class Instr:
    """An instruction: its body is its meaning (figure statements, g).

    `modes` has the access mode of each data parameter, in order of the data parameters.
    `template` is the emitted text, or what the stream does; empty where code generation does not
    know it yet.
    """

    name: str
    """With its compile-time parameters, as a call prints it: `wgmma_tf32`."""
    constants: tuple[tuple[str, object], ...]
    params: tuple[Param, ...]
    preconditions: tuple[BExpr, ...]
    body: Block
    cuda: bool
    unit: types.CollUnit
    trailing: types.BarrierMechanism | None = None
    trailing_required: bool = False
    trailing_units: tuple[types.CollUnit, ...] = ()
    """The units over which the trailing barrier's dimensions are distributed."""
    modes: tuple[types.AccessMode, ...] = ()
    template: str | types.Memset | types.Memcpy = ""
    arch: str = ""
    """The one architecture that has it; empty: all do."""
    in_place: frozenset[types.Sym] = frozenset()
    """Parameters that may be one and the same window: it works element by element on them."""
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    doc: str = ""
