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
from exogpu.importing.role_events import WITHIN, Barriers


@dataclass(slots=True)
class Initialised:
    """The state of a kernel's mbarriers at a point of the code."""

    barriers: Mapping[str, Barriers]
    words: Mapping[str, Window] = field(default_factory=dict)
    """The bytes of those mbarriers that share them with other buffers."""
    live: dict[str, set[int]] = field(default_factory=dict)
    """By array: the elements that are initialised, and perhaps invalidated since."""
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
        live, gone = (
            {array: {*elements} for array, elements in one.items()}
            for one in (self.live, self.invalidated)
        )
        return Initialised(self.barriers, self.words, live, {*self.unseen}, {*self.in_use}, gone)

    def forget(self, before: Initialised) -> None:
        """A branch or loop may not have run, so that its barriers do not count after it."""
        self.unseen |= before.unseen
        self.in_use |= before.in_use

    def end_iteration(self, loop: str, *, again: bool = True) -> None:
        """An iteration of a loop ends: what it has initialised, it has to have invalidated.

        Where there is no iteration `again`, only bytes that have another use have to be free."""
        for array, found in self.barriers.items():
            if not found.scope or found.scope != loop or array not in self.live:
                continue
            ends = again or found.shares
            if ends and self.invalidated.get(array, set()) != self.live[array]:
                raise unsupported(
                    f"the mbarrier {found.label} is initialised again by the next iteration",
                    "initialise it before the loop, or invalidate all of it where iterations end",
                    found.span,
                )
            del self.live[array]
            self.invalidated.pop(array, None)

    def initialise(
        self, array: str, index: int, count: int, span: Span, *, scope: str | None
    ) -> None:
        """An mbarrier is initialised, where the kernel begins or in each iteration of `scope`;
        that is None for another place."""
        found, live = self.barriers[array], self.live.setdefault(array, set())
        known = found.arrivals.get(index, count)
        if scope is None or index in live or array in self.invalidated or known != count:
            raise unsupported(
                f"the mbarrier {found.label} is initialised in a branch, or again",
                "initialise each mbarrier once, where the kernel or an iteration begins",
                span,
            )
        if found.arrivals and found.scope != scope:
            raise unsupported(
                f"the mbarrier {found.label} is initialised in a branch or loop, and elsewhere",
                "initialise all of it in one place",
                span,
            )
        found.scope = scope
        found.arrivals[index] = count
        live.add(index)
        self.unseen.add(array)

    def use(self, array: str, span: Span, *, all_threads: bool) -> None:
        """An operation uses an mbarrier, which all its threads have to see initialised."""
        found = self.barriers[array]
        self.in_use.add(array)
        late = all_threads and array in self.unseen
        known = self.live.get(array, set()) == set(range(found.count))
        if late or not known or array in self.invalidated:
            raise unsupported(
                f"the mbarrier {found.label} is used where not all threads see it initialised",
                "initialise all of it first; the compiler puts a barrier after that",
                span,
            )

    def invalidate(self, array: str, element: int | None, span: Span, *, scope: str | None) -> bool:
        """An mbarrier is invalidated, which no thread may use any more.

        Returns whether other buffers have its bytes from here on.
        """
        found = self.barriers[array]
        again = bool(found.scope)
        if array in self.in_use or scope != found.scope:
            raise unsupported(
                f"the mbarrier {found.label} is invalidated where threads may still use it",
                "invalidate it at the kernel's end, after a barrier",
                span,
            )
        gone = self.invalidated.setdefault(array, set())
        if (found.shares or again) and (element is None or element in gone):
            raise unsupported(
                f"the mbarrier {found.label} is invalidated twice, or it is not known which one",
                "invalidate each mbarrier once, by its number",
                span,
            )
        gone |= {0 if element is None else element}
        return found.shares and gone == self.live.get(array, set())

    def access(self, window: Window, span: Span, own: str = "") -> None:
        """An operation accesses shared memory, in which no mbarrier may be but its own."""
        for array, words in self.words.items():
            found = self.barriers[array]
            live = self.live.get(array, set())
            used = live and self.invalidated.get(array) != live
            if used and array != own and overlap(words, window):
                raise unsupported(
                    f"bytes of the mbarrier {found.label} are accessed while it is in use",
                    "invalidate it before its bytes have another use",
                    span,
                )


def refuse_unawaited(
    items: Sequence[role_events.Item], barriers: Mapping[str, Barriers], unbalanced: Sequence[str]
) -> None:
    """Raises RefusedError (K104) where an mbarrier that ends before the kernel may not be awaited.

    Its bytes are those of another buffer then, or of the next iteration's mbarrier.

    Its arrivals, and the bytes of its loads, could come later.  That arrivals and waits balance is
    proved of every mbarrier that is not among the unbalanced ones.
    """
    waits = [step.event for step in steps(items) if isinstance(step.event, role_events.Wait)]
    earlier = {one.barrier.array for one in waits if one.lag != Value()}
    for array, one in barriers.items():
        ends = one.shares or (one.scope and not one.scope.startswith(WITHIN))
        if ends and (array in unbalanced or array in earlier):
            raise unsupported(
                f"the bytes of the mbarrier {one.label} have another use later, and not every "
                "arrival on it is awaited",
                "wait for each phase before the mbarrier is invalidated",
                one.span,
            )
