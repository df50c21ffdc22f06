"""The synchronisation of a kernel: events, and loops of them, by role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from exogpu.diagnostics.errors import Span
from exogpu.importing.memory import Memory, Window
from exogpu.importing.polynomial_values import TRUE, Condition, Value, Variable


@dataclass(frozen=True, slots=True)
class Meet:
    """All threads of the role meet: `bar.sync`, also where the lowering adds it."""


@dataclass(frozen=True, slots=True)
class MeetAll:
    """All threads of the CTA meet: where partitions begin and end."""


@dataclass(frozen=True, slots=True)
class ProxyFence:
    """Each thread executes `fence.proxy.async`."""


@dataclass(frozen=True, slots=True)
class Load:
    """Threads read shared memory: each its own part, or each all of it."""

    window: Window
    parts: str = ""
    """The map from threads to bytes; empty where it is not known, or has elements twice."""


@dataclass(frozen=True, slots=True)
class Store:
    """Threads write shared memory."""

    window: Window
    parts: str = ""


@dataclass(frozen=True, slots=True)
class StoreByOne:
    """One thread writes shared memory: it initialises or invalidates mbarriers, whose bytes other
    buffers have at other times."""

    window: Window


@dataclass(frozen=True, slots=True)
class Slot:
    """One mbarrier of an array of them."""

    array: str
    index: Value


@dataclass(frozen=True, slots=True)
class TmaLoad:
    """One thread issues a TMA load that signals an mbarrier."""

    window: Window
    barrier: Slot


@dataclass(frozen=True, slots=True)
class Expect:
    """One thread's arrival that expects the bytes of the TMA loads before this event."""

    barrier: Slot


@dataclass(frozen=True, slots=True)
class Signal:
    """All threads of the role meet, then one arrives on an mbarrier."""

    barrier: Slot


@dataclass(frozen=True, slots=True)
class Wait:
    """All threads of the role wait for a phase of an mbarrier."""

    barrier: Slot
    phase: Value
    lag: Value | None = None
    """The wait is for its own arrival (0) or the one before it (1); None until that is known."""
    ghost: bool = False
    """True if nobody executes it: it makes the counts balance, and orders nothing."""


@dataclass(frozen=True, slots=True)
class TmaStore:
    """One thread issues a TMA store, and commits it to a group."""

    window: Window
    tensor: str
    coordinates: tuple[Value | None, ...]
    block: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TmaStoreWait:
    """The issuing thread waits until at most `pending` groups of TMA stores read."""

    pending: int
    ghost: bool = False
    """True if nobody executes it: it orders nothing."""


@dataclass(frozen=True, slots=True)
class AsyncCopy:
    """Each thread copies by cp.async to its part of shared memory."""

    window: Window
    parts: str = ""


@dataclass(frozen=True, slots=True)
class AsyncCommit:
    """Each thread commits its cp.async copies to a group."""


@dataclass(frozen=True, slots=True)
class AsyncWait:
    """Each thread waits until at most `pending` of its groups of cp.async are under way."""

    pending: int


@dataclass(frozen=True, slots=True)
class Dot:
    """Each warpgroup fences, issues a wgmma and commits it."""

    accumulator: str
    operands: tuple[Window, ...]
    """The operands in shared memory."""


@dataclass(frozen=True, slots=True)
class DotWait:
    """Each warpgroup waits until at most `pending` of its groups of wgmma are under way."""

    pending: int
    ghost: bool = False
    """True if nobody executes it: it orders nothing."""


@dataclass(frozen=True, slots=True)
class Registers:
    """Threads read (`uses`) or write accumulators as ordinary registers."""

    uses: str = ""
    writes: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """Counts that the waits on a ring are one more: nothing that the kernel does."""

    array: str


Event: TypeAlias = (
    Meet
    | MeetAll
    | ProxyFence
    | Load
    | Store
    | StoreByOne
    | TmaLoad
    | Expect
    | Signal
    | Wait
    | TmaStore
    | TmaStoreWait
    | AsyncCopy
    | AsyncCommit
    | AsyncWait
    | Dot
    | DotWait
    | Registers
    | Tick
)


def windows(event: Event) -> tuple[Window, ...]:
    """The windows of shared memory that an event accesses."""
    match event:
        case Load() | Store() | StoreByOne() | TmaLoad() | TmaStore() | AsyncCopy():
            return (event.window,)
        case Dot():
            return event.operands
        case _:
            return ()


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """An event at its place, where its guard holds."""

    event: Event
    span: Span
    role: str
    guard: Condition = TRUE


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """A loop of a role, or of several that are read side by side."""

    counter: Variable
    trips: Value
    """The number of iterations."""
    body: tuple[Item, ...]
    span: Span


Item: TypeAlias = Step | Loop


@dataclass(frozen=True, slots=True)
class Role:
    """The warps that execute one partition, or all of a kernel without partitions."""

    name: str
    warps: int
    items: tuple[Item, ...] = field(default=(), compare=False)

    @property
    def threads(self) -> int:
        """The number of its threads."""
        return 32 * self.warps


# A kernel as its roles' events: what translation makes of TTGIR.


@dataclass(slots=True)
class Barriers:
    """An array of mbarriers: how many, and the arrivals that complete a phase of each."""

    label: str
    count: int
    span: Span
    offset: int = 0
    size: int = 0
    arrivals: dict[int, int] = field(default_factory=dict)
    scope: str = ""
    """The counter of the loop each of whose iterations initialises it anew; empty for none."""
    shares: bool = False
    """True if other buffers have its bytes before it is initialised, or after it is invalidated."""

    @property
    def end(self) -> int:
        """The offset after its last byte."""
        return self.offset + self.size


CASE: Final = "case_"
"""The names of sizes that are 1 where a branch is taken, and 0 where not, begin so."""

WITHIN: Final = "within_"
"""The names of counters of branches that are read as loops begin so."""


@dataclass(frozen=True, slots=True)
class Trips:
    """A loop's trip count, as it was written: negative counts are none."""

    value: Value
    span: Span


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel as its roles' events."""

    name: str
    span: Span
    before: tuple[Item, ...]
    """The events that all warps of the first role execute before the roles part."""
    roles: tuple[Role, ...]
    """One, for a kernel without partitions."""
    after: tuple[Item, ...]
    memory: Memory
    barriers: Mapping[str, Barriers]
    accumulators: Mapping[str, tuple[str, Span]]
    """By name: the role whose registers they are."""
    trips: Mapping[Variable, Trips]
    specialized: bool
    selected: Span | None = None
    """The place of a select of accumulators, which LLVM places; None where there is none."""
