"""Arrivals and waits that balance at a kernel's end.

The language asks that every arrival is awaited; hardware does not.  What is left over at the end is
made up for there: waits that nobody executes, after which nothing comes, and arrivals that nobody
waits for.  Neither orders anything that the kernel does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from exogpu.importing import events as ev
from exogpu.importing.counting import total
from exogpu.importing.rings import steps
from exogpu.importing.usage import Usage
from exogpu.importing.values import TRUE, Compare, Condition, Value, compare, of, remainder, whole

MOST = 32
"""Arrivals or waits that are added at most."""


def balanced(
    items: tuple[ev.Item, ...], usage: Usage, labels: Mapping[str, str]
) -> tuple[tuple[ev.Item, ...], tuple[str, ...]]:
    """The items with what balances them, and what is said of it."""
    added: list[ev.Item] = []
    notes: list[str] = []
    for array, use in usage.barriers.items():
        new = _left_out(items, array) or _left_over(items, array, use.count)
        if new:
            added += new
            notes.append(
                f"{labels[array]}: {len(new)} arrivals or waits more than there are of the other "
                "are made up for at the end"
            )
    added += _last_copies(items)
    return (*items, *added), tuple(notes)


def _last_copies(items: Sequence[ev.Item]) -> list[ev.Item]:
    """Waits for the cp.async copies that are under way when the program ends."""
    last: dict[str, ev.Step] = {}
    for step in steps(items):
        if isinstance(step.event, ev.AsyncCommit | ev.AsyncWait):
            last[step.role] = step
    left = (step for step in last.values() if step.event != ev.AsyncWait(0))
    return [replace(step, event=ev.AsyncWait(0), guard=TRUE) for step in left]


def _on(event: ev.Event, array: str) -> bool:
    slot = getattr(event, "barrier", None)
    return isinstance(slot, ev.Slot) and slot.array == array


def _left_out(items: Sequence[ev.Item], array: str) -> list[ev.Item]:
    """The arrivals that a guard leaves out in a loop's first iterations, for the last waits."""
    found: list[ev.Item] = []
    for loop in items:
        if not isinstance(loop, ev.Loop):
            continue
        for step in loop.body:
            if not isinstance(step, ev.Step) or not isinstance(step.event, ev.Signal):
                continue
            if step.event.barrier.array != array or step.guard == TRUE:
                continue
            first = _first(step.guard, loop)
            if first is None or first > MOST:
                continue
            for at in range(first):
                last = {loop.counter: loop.trips + at}
                slot = ev.Slot(array, step.event.barrier.index.replaced(last))
                runs = compare("<=", whole(first - at) - loop.trips)
                found.append(replace(step, event=ev.Signal(slot), guard=runs))
    return found


def _first(guard: Condition, loop: ev.Loop) -> int | None:
    """The first iteration in which `counter >= c` holds."""
    if not isinstance(guard, Compare) or guard.op != "<=":
        return None
    return (guard.value + of(loop.counter)).constant


def _left_over(items: Sequence[ev.Item], array: str, count: int) -> list[ev.Item]:
    """Waits for the arrivals that nobody waits for, where there are as many more in all runs."""
    waits = [s for s in steps(items) if isinstance(s.event, ev.Wait) and _on(s.event, array)]
    arrived = total(items, lambda e: isinstance(e, ev.Signal | ev.Expect) and _on(e, array))
    waited = total(items, lambda e: isinstance(e, ev.Wait) and _on(e, array))
    if arrived is None or waited is None or not waits:
        return []
    more = (arrived - waited).constant
    roles = {step.role for step in waits}
    if more is None or not 0 < more <= MOST or len(roles) > 1:
        return []
    found: list[ev.Item] = []
    for at in range(more):
        event = waits[-1].event
        assert isinstance(event, ev.Wait)
        slot = ev.Slot(array, remainder(waited + at, count) if count > 1 else Value())
        found.append(replace(waits[-1], event=replace(event, barrier=slot, ghost=True), guard=TRUE))
    return found
