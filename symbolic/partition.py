"""Splits the proof of a program into shares, which several processes analyse and prove at once.

What is said of two topics has nothing in common but what can be found twice, the order that the
synchronisation makes.  The shares follow from the program alone, and the solver is asked about
one share at a time: an answer does not depend on how many processes there are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from exogpu.amir.nodes import Check, Record
from exogpu.ir.types import Sym
from exogpu.symbolic.model import Placed


@dataclass(frozen=True, slots=True)
class Topic:
    """The subject of obligations: a variable, or the statements."""

    variable: Sym | None
    """None of what must hold whenever a statement is executed."""
    phase: bool = False
    """PHASE of an mbarrier alone; else all but that."""


Share: TypeAlias = frozenset[Topic]

MOST: Final = 32
"""Shares of a large program."""

WORTH: Final = 8
"""Weight for which a share is worth a turn: some hundredths of a second."""

Key = TypeVar("Key")


def topics(placed: Placed) -> list[Topic]:
    """All that a program is proved of."""
    found = []
    for variable in placed.variables.values():
        found.append(Topic(variable.name))
        if variable.mechanism is not None and variable.mechanism.phased:
            found.append(Topic(variable.name, phase=True))
    return [*found, Topic(None)]


def shares(placed: Placed) -> tuple[Share, ...]:
    """All topics, in one share or in several, what takes longest first."""
    weights = {topic: weight(placed, topic) for topic in topics(placed)}
    count = min(max(sum(weights.values()) // WORTH, 1), MOST)
    found = sorted(dealt(weights, count), key=lambda some: -sum(weights[topic] for topic in some))
    return tuple(frozenset(some) for some in found if some)


def dealt(weights: Mapping[Key, int], count: int) -> list[list[Key]]:
    """The keys in so many groups, the heaviest first, each to the lightest group so far."""
    groups: list[list[Key]] = [[] for _ in range(count)]
    total = [0] * count
    for key in sorted(weights, key=lambda one: -weights[one]):
        least = total.index(min(total))
        groups[least].append(key)
        total[least] += weights[key]
    return groups


def weight(placed: Placed, topic: Topic) -> int:
    """About how long a topic takes, in hundredths of a second: by the pairs of accesses that could
    meet and, of an mbarrier, by the accesses that signal it."""
    name = topic.variable
    if name is None:
        return len(placed.sites) // 4
    ops = [site.op for site in placed.uses[name]]
    trailing = sum(isinstance(op, Record) and op.trailing is not None for op in ops)
    if topic.phase:
        return 15 + 12 * trailing
    variable = placed.variables[name]
    if variable.mechanism is not None:
        return 2 * len(ops)
    records = [op for op in ops if isinstance(op, Record) and op.access.name == name]
    checks = [op for op in ops if isinstance(op, Check) and op.access.name == name]
    pairs = sum(_meet(record, checks) for record in records)
    if variable.owner is not None:
        return pairs * 3 // 4
    return 25 + pairs if pairs else 0


def _meet(record: Record, checks: Collection[Check]) -> int:
    return sum(check.mutates == record.mutate for check in checks)
