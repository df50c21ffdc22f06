"""Abstract Machine IR (paper, figure AMIR): data only.

Control, booleans and windows are those of GPU IR; windows are half-open here too, and an
access touches only the elements that lie inside its variable (decision `bounds`).  Every operation
carries the source statement it comes from and the threads that execute it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from exogpu.analysis.quantifiers import Each
from exogpu.analysis.threadmap import Digit, ThreadMap
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.contracts import contract_text
from exogpu.ir.nodes import Access, BExpr, CExpr, Contract, ControlParam, ImportSource
from exogpu.ir.types import BarrierMechanism, Level, QualSet, QualTL, Sym


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an operation."""

    span: Span
    text: str
    """The source statement, on one line."""
    threads: ThreadMap | None
    """Executing threads within a task; None at CPU scope: every thread of every task."""
    instr: str = ""
    """Name of the instruction that the statement calls; empty for others."""
    ends: Span | None = None
    """The place where a variable ends, of an operation at its end; `span` is its allocation."""


@dataclass(frozen=True, slots=True)
class Trailing:
    """A trailing barrier: its targets are tagged with the arrive count of `home` (decision
    `multicast-tags`).

    A multicast instruction's Record of what lands in one CTA has that CTA's element as its only
    target; the conversion makes one for each CTA.
    """

    home: Access
    """One element: every coordinate is a point."""
    targets: tuple[Access, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """`for iterator in loop(lo, hi)`, half-open.  `tasks` marks a cuda_tasks loop, `threads` a
    cuda_threads loop; the semantics is the same.

    With a `slot` it has one iteration: the number of Arrives on that element so far, modulo `hi`
    (decision `slots`).  With a `source` it has one iteration, of the element's value; where that is
    not in `[lo, hi)` the kernel traps, and nothing is said of the launch (decision
    `loaded-values`).
    """

    iterator: Sym
    lo: CExpr
    hi: CExpr
    body: Block
    origin: Origin
    tasks: bool = False
    threads: bool = False
    slot: Access | None = None
    """One element of a barrier; then `lo` is 0 and `hi` a constant."""
    source: Access | None = None
    """One element of a parameter that nothing writes: the value of the one iteration."""


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    condition: BExpr
    body: Block
    origin: Origin


@dataclass(frozen=True, slots=True, eq=False)
class IncTaskID:
    """Begins a task.  Lowering puts one first in the body of the innermost cuda_tasks loop."""

    origin: Origin


@dataclass(frozen=True, slots=True, eq=False)
class Alloc:
    """Fresh state for every element of the variable."""

    name: Sym
    origin: Origin


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """End of a variable's lifetime, after its checks: its state is dropped, and with a barrier
    its tags in every record (decision `task-order`)."""

    name: Sym
    origin: Origin


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """RecordRead, or RecordMutate where `mutate`.

    `timeline` None is the barrier's own record of a trailing barrier: no timeline, visible to
    nobody until awaited (decision `arrive-counts`).  `trailing` is the barrier that tags the
    record.
    """

    mutate: bool
    level: Level
    convergent: bool
    access: Access
    timeline: QualTL | None
    atomic: QualSet
    trailing: Trailing | None
    origin: Origin
    inside: bool = False
    """A window outside of its variable is a hazard. Without this, elements outside are left out: by
    a tensor map, or as the statement's Requires say."""


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """CheckReads, or CheckMutates where `mutates`: every such record of the window must have
    at least `level` for one timeline of `timelines`, to every executing thread, or, where
    `convergent`, to one of them.  `free` marks the checks of a free."""

    mutates: bool
    level: Level
    convergent: bool
    access: Access
    timelines: QualSet
    origin: Origin
    free: bool = False
    reads: bool = False
    """The checking statement reads the element (for the hazard's name)."""


@dataclass(frozen=True, slots=True, eq=False)
class Clear:
    """ClearReads or, where `mutates`, ClearMutates."""

    mutates: bool
    access: Access
    origin: Origin


@dataclass(frozen=True, slots=True, eq=False)
class Initialise:
    """From here on every element of the window has a value: the statement writes it; or, where
    `uninit`, the statement says that it does not matter which."""

    access: Access
    origin: Origin
    uninit: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class CheckInitialised:
    """The statement reads every element of the window: since the allocation each must have been
    written, in the order of the program (decision `initialised`)."""

    access: Access
    origin: Origin


@dataclass(frozen=True, slots=True, eq=False)
class Fence:
    transitive: bool
    pre: QualSet
    full: QualSet
    temporal: QualSet
    origin: Origin
    launch: bool = False
    """One of the two around a kernel."""
    joins: bool = True
    """Its threads wait for each other: a statement lowered to wgmma.fence alone does not do
    that."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrive:
    """`home` is one element; it is among the targets."""

    transitive: bool
    pre: QualSet
    home: Access
    targets: tuple[Access, ...]
    origin: Origin
    launch: bool = False
    """The end of a launch that a dependent one follows."""


@dataclass(frozen=True, slots=True, eq=False)
class Await:
    barrier: Access
    full: QualSet
    temporal: QualSet
    n: int
    origin: Origin
    launch: bool = False
    """A wait for the launches before."""


@dataclass(frozen=True, slots=True, eq=False)
class CheckBarrier:
    """At the barrier's free: arrives and awaits agree on every element."""

    name: Sym
    origin: Origin


@dataclass(frozen=True, slots=True, eq=False)
class Require:
    """Whenever it is executed, for all values of `each`, the conditions hold; or it is a hazard of
    this kind.  It records nothing, and orders nothing."""

    kind: HazardKind
    variable: Sym | None
    """The variable that it is about, or the first of several."""
    each: tuple[Each, ...]
    conditions: tuple[BExpr, ...]
    origin: Origin
    together: tuple[Digit, ...] = ()
    """The threads that are alike in these digits all execute it, or none does."""


Op: TypeAlias = (
    Loop
    | Guard
    | IncTaskID
    | Alloc
    | Release
    | Record
    | Check
    | Clear
    | Initialise
    | CheckInitialised
    | Fence
    | Arrive
    | Await
    | CheckBarrier
    | Require
)
Block: TypeAlias = tuple[Op, ...]

OnWindow: TypeAlias = Record | Check | Clear | Initialise | CheckInitialised
"""Operations that read or change the state of the elements of a window."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A data or barrier variable: its extents, and for barriers mechanism, guard and ring depth.

    `depth` is the ring depth that the skip counts of the guard group give (decision
    `mbarrier-phase`), None where it must be found: the smallest up to 32 for which PHASE holds.
    """

    name: Sym
    shape: tuple[CExpr, ...]
    mechanism: BarrierMechanism | None = None
    guard: Sym | None = None
    depth: int | None = None
    shared: bool = False
    task_local: bool = True
    """Allocated inside a task: dropped at its end.  False for global and host variables."""
    owner: int | None = None
    """The number of adjacent threads in the unit that owns an element of registers."""
    host: bool = False
    """Allocated in memory of the host: the CPU waits for the stream before it ends."""

    @property
    def resident(self) -> bool:
        """Tests whether it serves one task of a cluster after another: shared memory, or a barrier
        in it, allocated between a launch and its tasks (decision `resident-memory`)."""
        return self.shared and not self.task_local

    @property
    def counts_all(self) -> bool:
        """Tests whether an Await waits for every Arrive on its element, so that none may come
        later: of flags (decision `flags`)."""
        return self.mechanism is BarrierMechanism.FLAG


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """An AMIR procedure: control parameters only.  Data parameters are `variables` that exist
    from the start, without records."""

    name: str
    params: tuple[ControlParam, ...]
    preconditions: tuple[BExpr, ...]
    variables: tuple[Variable, ...]
    body: Block
    policy: Policy
    contracts: tuple[Contract, ...] = ()
    """Assumptions on the contents of its arrays."""
    imported: ImportSource | None = None
    """The origin of the procedure, if another compiler compiled it."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of a proof besides the preconditions, such as `monotone(offsets)`."""
        contracts = tuple(
            contract_text(one.kind, one.array.name, one.least) for one in self.contracts
        )
        return (*contracts, *(() if self.imported is None else self.imported.assumptions))

    def to_json(self) -> dict[str, object]:
        """The program as a JSON object (schema: docs/amir.md)."""
        return dict(EXPORTERS[-1](self))


EXPORTERS: Final[list[Callable[[Program], Mapping[str, object]]]] = []
"""The function that makes JSON of a program; `exogpu.amir.export` puts it here."""
