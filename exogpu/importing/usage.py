"""Collects the roles that arrive on each array of mbarriers, and those that wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from exogpu.importing import events as ev
from exogpu.importing.kernel import Barriers
from exogpu.importing.refusing import unsupported
from exogpu.importing.rings import steps
from exogpu.result.errors import Span


@dataclass(frozen=True, slots=True)
class Use:
    """An array of mbarriers as the procedure has it.

    A dimension more tells roles apart, where several arrive on one element, or several wait for it.
    """

    label: str
    span: Span
    count: int
    depth: int
    """The number of hardware mbarriers of an element: 1, or all of a ring that runs on."""
    arrivers: tuple[str, ...]
    """The roles that arrive, where an element's phase takes several."""
    waiters: tuple[str, ...]
    """The roles that wait, where several wait for one element."""
    signalled: bool
    """True if threads arrive on it, and not TMA loads alone."""
    runs: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        several = max(len(self.arrivers), len(self.waiters))
        own = () if self.runs else (self.count,)
        return (*own, several) if several > 1 else own

    def arriving(self, role: str) -> int | range | None:
        """The coordinate of a role's arrivals."""
        if len(self.arrivers) > 1:
            return self.arrivers.index(role)
        return range(len(self.waiters)) if len(self.waiters) > 1 else None

    def waiting(self, role: str) -> int | range | None:
        """The coordinate of a role's waits."""
        if len(self.waiters) > 1:
            return self.waiters.index(role)
        return range(len(self.arrivers)) if len(self.arrivers) > 1 else None


@dataclass(frozen=True, slots=True)
class Usage:
    """All arrays of mbarriers that are used."""

    barriers: Mapping[str, Use]


def usage_of(
    items: Sequence[ev.Item],
    barriers: Mapping[str, Barriers],
    runs: frozenset[str],
    taken: Iterable[str] = (),
) -> Usage:
    """Collects a kernel's uses of its mbarriers; their names are none of those already taken.

    Raises RefusedError (K104) where a phase does not take the arrivals that complete it.
    """
    found: dict[str, Use] = {}
    for array, declared in barriers.items():
        arrivals = _by_element(items, array, ev.Signal | ev.Expect)
        waits = _by_element(items, array, ev.Wait)
        if not arrivals and not waits:
            continue
        for element, count in declared.arrivals.items():
            every = arrivals.get(0 if array in runs else None, ())
            roles = every if array in runs else arrivals.get(element, every)
            if roles and len(roles) != count:
                raise unsupported(
                    f"{declared.label} is initialised with a count of {count}, and "
                    f"{len(roles)} role{'s arrive' if len(roles) > 1 else ' arrives'} on it",
                    "initialise it with the number of roles that arrive once in each phase",
                    declared.span,
                )
        arrivers = max(arrivals.values(), key=len, default=())
        waiters = max(waits.values(), key=len, default=())
        if len(arrivers) > 1 and len(waiters) > 1:
            raise unsupported(
                f"several roles arrive on {declared.label}, and several wait for it",
                "give each waiting role an mbarrier of its own",
                declared.span,
            )
        found[array] = Use(
            _fresh(declared.label, {*taken, *(use.label for use in found.values())}),
            declared.span,
            declared.count,
            declared.count if array in runs else 1,
            arrivers if len(arrivers) > 1 else (),
            waiters if len(waiters) > 1 else (),
            bool(_by_element(items, array, ev.Signal)),
            array in runs,
        )
    return Usage(found)


def _by_element(
    items: Sequence[ev.Item], array: str, kinds: type[ev.Event] | object
) -> dict[int | None, tuple[str, ...]]:
    """The roles of events on an array, by element where all of their numbers are constants."""
    own = [s for s in steps(items) if isinstance(s.event, kinds) and s.event.barrier.array == array]  # type: ignore[arg-type,union-attr]
    indices = [s.event.barrier.index.constant for s in own]  # type: ignore[union-attr]
    constant = all(index is not None for index in indices)
    found: dict[int | None, dict[str, None]] = {}
    for step, index in zip(own, indices, strict=True):
        found.setdefault(index if constant else None, {})[step.role] = None
    return {index: tuple(roles) for index, roles in found.items()}


def _fresh(label: str, taken: set[str]) -> str:
    name, number = label, 1
    while name in taken:
        number += 1
        name = f"{label}_{number}"
    return name
