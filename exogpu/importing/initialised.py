"""Follows which mbarriers are initialised, in use or invalidated, as operations come in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from exogpu.diagnostics.errors import Span
from exogpu.importing import role_events
from exogpu.importing.mbarrier_rings import steps
from exogpu.importing.memory import Window, overlap
from exogpu.importing.polynomial_values import Value
from exogpu.importing.refusals import unsupported
from exogpu.importing.role_events import Barriers


@dataclass(slots=True)
class Initialised:
    """The state of a kernel's mbarriers at a point of the code."""

    barriers: Mapping[str, Barriers]
    words: Mapping[str, Window] = field(default_factory=dict)
    """The bytes of those mbarriers that share them with other buffers."""
    unseen: set[str] = field(default_factory=set)
    """Initialised since all threads met."""
    in_use: set[str] = field(default_factory=set)
    """The mbarriers that threads of the role may still use, since they have not met."""
    invalidated: dict[str, set[int]] = field(default_factory=dict)
    """By array: the elements."""

    def meet(self) -> None:
        """All threads of the role meet."""
        self.unseen.clear()
        self.in_use.clear()

    def copy(self) -> Initialised:
        """Returns the state as it is, to go back to."""
        gone = {array: {*elements} for array, elements in self.invalidated.items()}
        return Initialised(self.barriers, self.words, {*self.unseen}, {*self.in_use}, gone)

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

    def invalidate(self, array: str, element: int | None, span: Span, *, once: bool) -> bool:
        """An mbarrier is invalidated, which no thread may use any more.

        Returns whether other buffers have its bytes from here on.
        """
        found = self.barriers[array]
        if array in self.in_use or not once:
            raise unsupported(
                f"the mbarrier {found.label} is invalidated where threads may still use it",
                "invalidate it at the kernel's end, after a barrier",
                span,
            )
        gone = self.invalidated.setdefault(array, set())
        if found.shares and (element is None or element in gone):
            raise unsupported(
                f"the mbarrier {found.label} is invalidated twice, or it is not known which one",
                "invalidate each mbarrier once, by its number",
                span,
            )
        gone |= {0 if element is None else element}
        return found.shares and gone == set(found.arrivals)

    def access(self, window: Window, span: Span, own: str = "") -> None:
        """An operation accesses shared memory, in which no mbarrier may be but its own."""
        for array, words in self.words.items():
            found = self.barriers[array]
            used = found.arrivals and self.invalidated.get(array) != set(found.arrivals)
            if used and array != own and overlap(words, window):
                raise unsupported(
                    f"bytes of the mbarrier {found.label} are accessed while it is in use",
                    "invalidate it before its bytes have another use",
                    span,
                )


def refuse_unawaited(
    items: Sequence[role_events.Item], barriers: Mapping[str, Barriers], unbalanced: Sequence[str]
) -> None:
    """Raises RefusedError (K104) where an mbarrier whose bytes are used again may not be awaited.

    Its arrivals, and the bytes of its loads, could come later.  That arrivals and waits balance is
    proved of every mbarrier that is not among the unbalanced ones.
    """
    waits = [step.event for step in steps(items) if isinstance(step.event, role_events.Wait)]
    earlier = {one.barrier.array for one in waits if one.lag != Value()}
    for array, one in barriers.items():
        if one.shares and (array in unbalanced or array in earlier):
            raise unsupported(
                f"the mbarrier {one.label} shares bytes, and not every arrival on it is awaited",
                "wait for each phase before the mbarrier is invalidated",
                one.span,
            )
