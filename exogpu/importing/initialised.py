"""Follows which mbarriers are initialised, in use or invalidated, as operations come in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exogpu.importing.kernel import Barriers
from exogpu.importing.refusing import unsupported
from exogpu.result.errors import Span


@dataclass(slots=True)
class Initialised:
    """The state of a kernel's mbarriers at a point of the code."""

    barriers: Mapping[str, Barriers]
    unseen: set[str] = field(default_factory=set)
    """Initialised since all threads met."""
    in_use: set[str] = field(default_factory=set)
    """The mbarriers that threads of the role may still use, since they have not met."""
    invalidated: set[str] = field(default_factory=set)

    def meet(self) -> None:
        """All threads of the role meet."""
        self.unseen.clear()
        self.in_use.clear()

    def copy(self) -> Initialised:
        """Returns the state as it is, to go back to."""
        return Initialised(self.barriers, {*self.unseen}, {*self.in_use}, {*self.invalidated})

    def forget(self, before: Initialised) -> None:
        """A branch or loop may not have run, so that its barriers do not count after it."""
        self.unseen |= before.unseen
        self.in_use |= before.in_use

    def initialise(self, array: str, index: int, count: int, span: Span, *, once: bool) -> None:
        """An mbarrier is initialised, which is `once` where the kernel begins."""
        found = self.barriers[array]
        if not once or index in found.arrivals:
            raise unsupported(
                f"the mbarrier {found.label} is initialised in a loop or branch, or again",
                "initialise each mbarrier once, where the kernel begins",
                span,
            )
        found.arrivals[index] = count
        self.unseen.add(array)

    def use(self, array: str, span: Span, *, all_threads: bool) -> None:
        """An operation uses an mbarrier, which all its threads have to see initialised."""
        found = self.barriers[array]
        self.in_use.add(array)
        late = all_threads and array in self.unseen
        if late or set(found.arrivals) != set(range(found.count)) or array in self.invalidated:
            raise unsupported(
                f"the mbarrier {found.label} is used where not all threads see it initialised",
                "initialise all of it first; the compiler puts a barrier after that",
                span,
            )

    def invalidate(self, array: str, span: Span, *, once: bool) -> None:
        """An mbarrier is invalidated, which no thread may use any more."""
        if array in self.in_use or not once:
            raise unsupported(
                f"the mbarrier {self.barriers[array].label} is invalidated where threads may "
                "still use it",
                "invalidate it at the kernel's end, after a barrier",
                span,
            )
        self.invalidated.add(array)
