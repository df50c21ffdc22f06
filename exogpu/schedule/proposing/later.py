"""Waiting later: an Await of a commit group after what needs not wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.ir.nodes import Await, CVar, For, Point
from exogpu.schedule.proposing.drafts import Draft, after, is_sequential, is_tasks
from exogpu.schedule.proposing.groups import Group, awaits
from exogpu.schedule.rewrite import Path
from exogpu.schedule.silent import is_silent


def later(draft: Draft, wait: int) -> Iterator[Draft]:
    """The draft with an Await at each later place of the same iteration, the latest first."""
    path = draft.places[wait]
    stmt = draft.statements[wait]
    assert isinstance(stmt, Await)
    loops = _loops(draft, path, stmt)
    if loops is None:
        return
    group = Group(stmt.barrier.name, loops)
    for gap in _gaps(draft, path):
        made = draft.inserted([(gap, awaits(draft, group, gap, stmt.n))])
        yield made.without(made.places[wait])


def _loops(draft: Draft, path: Path, stmt: Await) -> tuple[For, ...] | None:
    """The loops whose iterators the Await names, one a dimension."""
    around = {s.iterator: s for s in draft.around(path) if isinstance(s, For)}
    found = []
    for coord in stmt.barrier.coords:
        if not isinstance(coord, Point) or not isinstance(coord.at, CVar):
            return None
        if coord.at.name not in around:
            return None
        found.append(around[coord.at.name])
    return tuple(found)


def _gaps(draft: Draft, path: Path) -> tuple[Path, ...]:
    """The places after a statement with some work in between, up to the end of the iteration that
    it is in; the last one first."""
    found: list[Path] = []
    worked = False
    while True:
        name, at = path[-1]
        block = draft.block(path)
        for n in range(at + 1, len(block)):
            worked |= not is_silent(block[n])
            found += [after((*path[:-1], (name, n)))] if worked else []
        path = path[:-1]
        if not path or is_sequential(draft.at(path)) or is_tasks(draft.at(path)):
            return tuple(reversed(found))
        found += [after(path)] if worked else []
