"""A kernel as its roles' events: what translation makes of TTGIR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exogpu.importing import events as ev
from exogpu.importing.memory import Memory
from exogpu.importing.values import Value, Variable
from exogpu.result.errors import Span


@dataclass(slots=True)
class Barriers:
    """An array of mbarriers: how many, and the arrivals that complete a phase of each."""

    label: str
    count: int
    span: Span
    offset: int = 0
    size: int = 0
    arrivals: dict[int, int] = field(default_factory=dict)
    shares: bool = False
    """True if other buffers have its bytes before it is initialised, or after it is invalidated."""

    @property
    def end(self) -> int:
        """The offset after its last byte."""
        return self.offset + self.size


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
    before: tuple[ev.Item, ...]
    """The events that all warps of the first role execute before the roles part."""
    roles: tuple[ev.Role, ...]
    """One, for a kernel without partitions."""
    after: tuple[ev.Item, ...]
    memory: Memory
    barriers: Mapping[str, Barriers]
    accumulators: Mapping[str, tuple[str, Span]]
    """By name: the role whose registers they are."""
    trips: Mapping[Variable, Trips]
    specialized: bool
