"""Counts the earlier events of a kind that a role executes before each of them, as exact values.

In nested loops the counts are products of trip counts, which are polynomials here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from exogpu.diagnostics.errors import Span
from exogpu.importing import polynomial_values, role_events
from exogpu.importing.refusals import unknown_value, unsupported
from exogpu.importing.role_events import Barriers, Kernel
from exogpu.importing.value_proofs import between_bounds, equal
from exogpu.importing.value_rendering import value_text

Counted = Callable[[role_events.Event], bool]


@dataclass(frozen=True, slots=True)
class Count:
    """The number of earlier steps that count before one step, and the facts at its place."""

    before: polynomial_values.Value
    facts: tuple[polynomial_values.Condition, ...]


def total(items: Sequence[role_events.Item], counted: Counted) -> polynomial_values.Value | None:
    """Counts the events; None where their number depends on guards."""
    found = polynomial_values.Value()
    for item in items:
        match item:
            case role_events.Loop():
                inside = total(item.body, counted)
                if inside is None:
                    return None
                found = found + item.trips * inside
            case role_events.Step() if counted(item.event):
                if item.guard != polynomial_values.TRUE:
                    return None
                found = found + 1
            case role_events.Step():
                pass
    return found


def counts(
    items: Sequence[role_events.Item],
    counted: Counted,
    start: polynomial_values.Value | None = None,
    facts: tuple[polynomial_values.Condition, ...] = (),
) -> Mapping[role_events.Step, Count] | None:
    """The count before every step, of those that count or not; None where guards decide it."""
    now = polynomial_values.Value() if start is None else start
    found: dict[role_events.Step, Count] = {}
    for item in items:
        match item:
            case role_events.Loop():
                inside = total(item.body, counted)
                if inside is None:
                    return None
                number = polynomial_values.atom_value(item.counter)
                within = (*facts, *between_bounds(0, number, item.trips))
                body = counts(item.body, counted, now + number * inside, within)
                if body is None:
                    return None
                found |= body
                now = now + item.trips * inside
            case role_events.Step():
                known = facts if item.guard == polynomial_values.TRUE else (*facts, item.guard)
                found[item] = Count(now, known)
                if counted(item.event):
                    if item.guard != polynomial_values.TRUE:
                        return None
                    now = now + polynomial_values.integer_value(1)
    return found


# Finds the arrival that each wait on an mbarrier waits for, from its slot and its phase.
#
# The hardware's wait names a parity. A wait is the w-th of its element, counted exactly; if its
# phase is the parity of w, it waits for arrival w, otherwise for the one before it. Elements are
# visited in turn, or have constant numbers; anything else is refused.


def resolve_lags(kernel: Kernel, facts: tuple[polynomial_values.Condition, ...] = ()) -> Kernel:
    """The kernel with the lag of every wait, from facts about its sizes.

    Raises RefusedError where one is not known.
    """
    roles = []
    for role in kernel.roles:
        items = (*kernel.before, *role.items, *kernel.after) if not kernel.roles[1:] else role.items
        roles.append(replace(role, items=_resolve_lags(items, kernel, facts)))
    if not kernel.roles[1:]:
        return replace(kernel, before=(), roles=tuple(roles), after=())
    for step in (*steps(kernel.before), *steps(kernel.after)):
        if isinstance(
            step.event,
            role_events.Wait | role_events.Signal | role_events.Expect | role_events.TmaLoad,
        ):
            raise unsupported(
                "an mbarrier is used before or after the roles",
                "use it within the roles",
                step.span,
            )
    return replace(kernel, roles=tuple(roles))


def steps(items: Sequence[role_events.Item]) -> Iterator[role_events.Step]:
    """All steps in the order of the text."""
    for item in items:
        match item:
            case role_events.Loop():
                yield from steps(item.body)
            case role_events.Step():
                yield item


def _resolve_lags(
    items: tuple[role_events.Item, ...],
    kernel: Kernel,
    facts: tuple[polynomial_values.Condition, ...],
) -> tuple[role_events.Item, ...]:
    waits = [(one, one.event) for one in steps(items) if isinstance(one.event, role_events.Wait)]
    lags: dict[role_events.Step, polynomial_values.Value] = {}
    for array in dict.fromkeys(event.barrier.array for _, event in waits):
        own = [(step, event) for step, event in waits if event.barrier.array == array]
        barriers = kernel.barriers[array]
        within, known = _in_scope(items, barriers.scope, facts)
        for step, event, count in _generations(within, own, barriers, known):
            lags[step] = _lag(step, event, count)
    return _with_lags(items, lags)


def _in_scope(
    items: tuple[role_events.Item, ...],
    scope: str,
    facts: tuple[polynomial_values.Condition, ...],
) -> tuple[tuple[role_events.Item, ...], tuple[polynomial_values.Condition, ...]]:
    """The items in which an mbarrier lasts, with the facts there: all, or a loop's body."""
    if not scope:
        return items, facts
    for item in items:
        if isinstance(item, role_events.Loop):
            number = polynomial_values.atom_value(item.counter)
            inside = (*facts, *between_bounds(0, number, item.trips))
            if item.counter.name == scope:
                return item.body, inside
            if (found := _in_scope(item.body, scope, inside))[0]:
                return found
    return (), ()


def _generations(
    items: tuple[role_events.Item, ...],
    waits: list[tuple[role_events.Step, role_events.Wait]],
    barriers: Barriers,
    facts: tuple[polynomial_values.Condition, ...],
) -> Iterator[tuple[role_events.Step, role_events.Wait, Count]]:
    """Each wait with the number of those before it on its element."""
    array = waits[0][1].barrier.array
    indices = [event.barrier.index.constant for _, event in waits]
    if barriers.count > 1 and all(index is not None for index in indices):
        for index in dict.fromkeys(indices):
            of_element = _waits_on(array, polynomial_values.integer_value(index or 0))
            found = _event_counts(items, of_element, waits[0][0], barriers, facts)
            for step, event in waits:
                if event.barrier.index.constant == index:
                    yield step, event, found[step]
        return
    found = _event_counts(items, _waits_on(array), waits[0][0], barriers, facts)
    turn = first_element(waits, found, barriers.count)
    if turn is None:
        raise unknown_value(
            f"{barriers.label} is waited for out of turn: this wait is number "
            f"{value_text(found[waits[0][0]].before)}, its slot "
            f"{value_text(waits[0][1].barrier.index)}",
            waits[0][0].span,
        )
    for step, event in waits:
        count = found[step]
        yield (
            step,
            event,
            replace(count, before=polynomial_values.floor(count.before, barriers.count)),
        )


def first_element(
    events: Sequence[tuple[role_events.Step, role_events.Event]],
    found: Mapping[role_events.Step, Count],
    count: int,
) -> int | None:
    """The element that is visited first, where all are visited in turn."""
    for first in range(count):
        if all(
            equal(
                found[s].facts,
                e.barrier.index,
                polynomial_values.remainder(found[s].before + first, count),
            )
            for s, e in events
            if isinstance(e, role_events.Wait | role_events.Signal | role_events.Expect)
        ):
            return first
    return None


def _waits_on(array: str, index: polynomial_values.Value | None = None) -> Counted:
    def is_counted(event: role_events.Event) -> bool:
        return (
            isinstance(event, role_events.Wait)
            and event.barrier.array == array
            and (index is None or event.barrier.index == index)
        )

    return is_counted


def _event_counts(
    items: tuple[role_events.Item, ...],
    counted: Counted,
    at: role_events.Step,
    barriers: Barriers,
    facts: tuple[polynomial_values.Condition, ...],
) -> Mapping[role_events.Step, Count]:
    found = counts(items, counted, facts=facts)
    if found is None:
        raise unsupported(
            f"a wait on {barriers.label} under a condition",
            "exogpu counts waits that always happen; move the wait out of the branch",
            at.span,
        )
    return found


def _lag(step: role_events.Step, wait: role_events.Wait, count: Count) -> polynomial_values.Value:
    """0 where the phase is that of the wait's own number, 1 where it is the other one."""
    for lag in (0, 1):
        if equal(count.facts, wait.phase, polynomial_values.remainder(count.before + lag, 2)):
            return polynomial_values.integer_value(lag)
    if not polynomial_values.is_bit(wait.phase):
        raise unknown_value(
            f"the phase {value_text(wait.phase)} is not known to be 0 or 1", step.span
        )
    return polynomial_values.remainder(count.before + wait.phase, 2)


def _with_lags(
    items: tuple[role_events.Item, ...], lags: Mapping[role_events.Step, polynomial_values.Value]
) -> tuple[role_events.Item, ...]:
    made: list[role_events.Item] = []
    for item in items:
        match item:
            case role_events.Loop():
                made.append(replace(item, body=_with_lags(item.body, lags)))
            case role_events.Step(event=role_events.Wait() as wait):
                made.append(replace(item, event=replace(wait, lag=lags[item])))
            case role_events.Step():
                made.append(item)
    return tuple(made)


# Collects the roles that arrive on each array of mbarriers, and those that wait for it.


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
    scope: str
    """The counter of the loop each of whose iterations has its own; empty for none."""

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
    items: Sequence[role_events.Item],
    barriers: Mapping[str, Barriers],
    runs: frozenset[str],
    taken: Iterable[str] = (),
) -> Usage:
    """Collects a kernel's uses of its mbarriers; their names are none of those already taken.

    Raises RefusedError (K104) where a phase does not take the arrivals that complete it.
    """
    found: dict[str, Use] = {}
    for array, declared in barriers.items():
        arrivals = _by_element(items, array, role_events.Signal | role_events.Expect)
        waits = _by_element(items, array, role_events.Wait)
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
            bool(_by_element(items, array, role_events.Signal)),
            array in runs,
            declared.scope,
        )
    return Usage(found)


def _by_element(
    items: Sequence[role_events.Item], array: str, kinds: type[role_events.Event] | object
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
