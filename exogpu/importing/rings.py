"""Finds the arrival that each wait on an mbarrier waits for, from its slot and its phase.

The hardware's wait names a parity.  A wait is the w-th of its element, counted exactly; if its
phase is the parity of w, it waits for arrival w, otherwise for the one before it.  Elements are
visited in turn, or have constant numbers; anything else is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from exogpu.importing import events as ev
from exogpu.importing.counting import Count, Counted, counts
from exogpu.importing.kernel import Barriers, Kernel
from exogpu.importing.proving import equal
from exogpu.importing.refusing import unknown_value, unsupported
from exogpu.importing.showing import shown
from exogpu.importing.values import Value, floor, is_bit, remainder, whole


def resolved(kernel: Kernel) -> Kernel:
    """The kernel with the lag of every wait.  Raises RefusedError where one is not known."""
    roles = []
    for role in kernel.roles:
        items = (*kernel.before, *role.items, *kernel.after) if not kernel.roles[1:] else role.items
        roles.append(replace(role, items=_resolved(items, kernel)))
    if not kernel.roles[1:]:
        return replace(kernel, before=(), roles=tuple(roles), after=())
    for step in (*steps(kernel.before), *steps(kernel.after)):
        if isinstance(step.event, ev.Wait | ev.Signal | ev.Expect | ev.TmaLoad):
            raise unsupported(
                "an mbarrier is used before or after the roles",
                "use it within the roles",
                step.span,
            )
    return replace(kernel, roles=tuple(roles))


def steps(items: Sequence[ev.Item]) -> Iterator[ev.Step]:
    """All steps in the order of the text."""
    for item in items:
        match item:
            case ev.Loop():
                yield from steps(item.body)
            case ev.Step():
                yield item


def _resolved(items: tuple[ev.Item, ...], kernel: Kernel) -> tuple[ev.Item, ...]:
    waits = [(one, one.event) for one in steps(items) if isinstance(one.event, ev.Wait)]
    lags: dict[ev.Step, Value] = {}
    for array in dict.fromkeys(event.barrier.array for _, event in waits):
        own = [(step, event) for step, event in waits if event.barrier.array == array]
        for step, event, count in _generations(items, own, kernel.barriers[array]):
            lags[step] = _lag(step, event, count)
    return _with_lags(items, lags)


def _generations(
    items: tuple[ev.Item, ...], waits: list[tuple[ev.Step, ev.Wait]], barriers: Barriers
) -> Iterator[tuple[ev.Step, ev.Wait, Count]]:
    """Each wait with the number of those before it on its element."""
    array = waits[0][1].barrier.array
    indices = [event.barrier.index.constant for _, event in waits]
    if barriers.count > 1 and all(index is not None for index in indices):
        for index in dict.fromkeys(indices):
            of_element = _waits_on(array, whole(index or 0))
            found = _counted(items, of_element, waits[0][0], barriers)
            for step, event in waits:
                if event.barrier.index.constant == index:
                    yield step, event, found[step]
        return
    found = _counted(items, _waits_on(array), waits[0][0], barriers)
    turn = _turn(waits, found, barriers.count)
    if turn is None:
        raise unknown_value(
            f"{barriers.label} is waited for out of turn: this wait is number "
            f"{shown(found[waits[0][0]].before)}, its slot {shown(waits[0][1].barrier.index)}",
            waits[0][0].span,
        )
    for step, event in waits:
        count = found[step]
        yield step, event, replace(count, before=floor(count.before, barriers.count))


def _turn(
    waits: list[tuple[ev.Step, ev.Wait]], found: Mapping[ev.Step, Count], count: int
) -> int | None:
    """The element that is visited first, where all are visited in turn."""
    for first in range(count):
        if all(
            equal(found[s].facts, e.barrier.index, remainder(found[s].before + first, count))
            for s, e in waits
        ):
            return first
    return None


def _waits_on(array: str, index: Value | None = None) -> Counted:
    def counted(event: ev.Event) -> bool:
        return (
            isinstance(event, ev.Wait)
            and event.barrier.array == array
            and (index is None or event.barrier.index == index)
        )

    return counted


def _counted(
    items: tuple[ev.Item, ...], counted: Counted, at: ev.Step, barriers: Barriers
) -> Mapping[ev.Step, Count]:
    found = counts(items, counted)
    if found is None:
        raise unsupported(
            f"a wait on {barriers.label} under a condition",
            "exogpu counts waits that always happen; move the wait out of the branch",
            at.span,
        )
    return found


def _lag(step: ev.Step, wait: ev.Wait, count: Count) -> Value:
    """0 where the phase is that of the wait's own number, 1 where it is the other one."""
    for lag in (0, 1):
        if equal(count.facts, wait.phase, remainder(count.before + lag, 2)):
            return whole(lag)
    if not is_bit(wait.phase):
        raise unknown_value(f"the phase {shown(wait.phase)} is not known to be 0 or 1", step.span)
    return remainder(count.before + wait.phase, 2)


def _with_lags(items: tuple[ev.Item, ...], lags: Mapping[ev.Step, Value]) -> tuple[ev.Item, ...]:
    made: list[ev.Item] = []
    for item in items:
        match item:
            case ev.Loop():
                made.append(replace(item, body=_with_lags(item.body, lags)))
            case ev.Step(event=ev.Wait() as wait):
                made.append(replace(item, event=replace(wait, lag=lags[item])))
            case ev.Step():
                made.append(item)
    return tuple(made)
