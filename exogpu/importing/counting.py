"""Counts the earlier events of a kind that a role executes before each of them, as exact values.

In nested loops the counts are products of trip counts, which are polynomials here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from exogpu.importing import events as ev
from exogpu.importing.proving import between
from exogpu.importing.values import TRUE, Condition, Value, of, whole

Counted = Callable[[ev.Event], bool]


@dataclass(frozen=True, slots=True)
class Count:
    """The number of earlier steps that count before one step, and the facts at its place."""

    before: Value
    facts: tuple[Condition, ...]


def total(items: Sequence[ev.Item], counted: Counted) -> Value | None:
    """Counts the events; None where their number depends on guards."""
    found = Value()
    for item in items:
        match item:
            case ev.Loop():
                inside = total(item.body, counted)
                if inside is None:
                    return None
                found = found + item.trips * inside
            case ev.Step() if counted(item.event):
                if item.guard != TRUE:
                    return None
                found = found + 1
            case ev.Step():
                pass
    return found


def counts(
    items: Sequence[ev.Item],
    counted: Counted,
    start: Value | None = None,
    facts: tuple[Condition, ...] = (),
) -> Mapping[ev.Step, Count] | None:
    """The count before every step, of those that count or not; None where guards decide it."""
    now = Value() if start is None else start
    found: dict[ev.Step, Count] = {}
    for item in items:
        match item:
            case ev.Loop():
                inside = total(item.body, counted)
                if inside is None:
                    return None
                number = of(item.counter)
                within = (*facts, *between(0, number, item.trips))
                body = counts(item.body, counted, now + number * inside, within)
                if body is None:
                    return None
                found |= body
                now = now + item.trips * inside
            case ev.Step():
                known = facts if item.guard == TRUE else (*facts, item.guard)
                found[item] = Count(now, known)
                if counted(item.event):
                    if item.guard != TRUE:
                        return None
                    now = now + whole(1)
    return found
