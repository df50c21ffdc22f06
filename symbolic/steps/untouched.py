"""Finds the variables that a step is about: of the others nothing has changed.

A variable is untouched if the same statements access it, each as itself, at the same instances and
elements, and in the same order among each other, and if no other statement stands for its elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from exogpu.ir.nodes import CExpr, CVar, Int
from exogpu.symbolic.steps.record import Program, Record

Time = tuple[CExpr, ...]


def touched(record: Record) -> frozenset[str]:
    """The variables of which anything may have changed, of both procedures."""
    old, new = record.old, record.new
    found: set[str] = set()
    itself: dict[int, int] = {}
    for image in record.images:
        was, now = old.statements[image.old], new.statements[image.new]
        plain = image.at == tuple(map(CVar, was.iterators)) and was.iterators == now.iterators
        in_order = image.reads == tuple(range(len(image.reads)))
        used = [[a.cell.variable for a in one.accesses] for one in (was, now)]
        if plain and not image.only and in_order and used[0] == used[1] and image.new not in itself:
            itself[image.new] = image.old
        else:
            found |= {a.cell.variable for one in (was, now) for a in one.accesses}
    for image in record.again:
        was, now = old.statements[image.old], new.statements[image.new]
        found |= {a.cell.variable for one in (was, now) for a in one.accesses}
        itself.pop(image.new, None)
    for copy in record.copies:
        found.add(copy.cell.variable)
    for number, statement in enumerate(new.statements):
        if number not in itself:
            found |= {a.cell.variable for a in statement.accesses}
    for name in (old.by_name.keys() | new.by_name.keys()) - found:
        before = _described(old, name, {n: n for n in range(len(old.statements))})
        if old.by_name.get(name) != new.by_name.get(name) or before != _described(
            new, name, itself
        ):
            found.add(name)
    return frozenset(found)


def _described(program: Program, name: str, numbers: dict[int, int]) -> list[object]:
    """All that counts of the accesses of a variable."""
    using = [
        number
        for number, statement in enumerate(program.statements)
        if any(a.cell.variable == name for a in statement.accesses)
    ]
    times = _compressed([program.statements[number].time for number in using])
    return [
        (
            numbers[number],
            program.statements[number].iterators,
            program.statements[number].holds,
            time,
            [
                (a.number, a.cell)
                for a in program.statements[number].accesses
                if a.cell.variable == name
            ],
        )
        for number, time in zip(using, times, strict=True)
    ]


def _compressed(times: Sequence[Time]) -> list[Time]:
    """Times in the same order, without what all have, and with small numbers."""
    depth = max(map(len, times), default=0)
    padded = [(*time, *[Int(0)] * (depth - len(time))) for time in times]
    columns: list[list[CExpr]] = []
    for column in zip(*padded, strict=True):
        numbers = sorted({c.value for c in column if isinstance(c, Int)})
        ranks = {number: Int(rank) for rank, number in enumerate(numbers)}
        if len(numbers) > 1 or not all(isinstance(c, Int) for c in column):
            columns.append([ranks[c.value] if isinstance(c, Int) else c for c in column])
    return [tuple(row) for row in zip(*columns, strict=True)] if columns else [()] * len(times)
