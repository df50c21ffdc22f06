"""The repairs of `exogpu.explain` as changes of the procedure itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.amir.nodes import Program
from exogpu.explain.barrier_words import barrier_words
from exogpu.explain.edits import (
    Between,
    Edit,
    First,
    Moved,
    NewArrive,
    NewAwait,
    NewFence,
    NewGroup,
    OnElement,
    Second,
    Skip,
    Widened,
)
from exogpu.explain.link import broken_link
from exogpu.explain.repair import general_repairs
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Arrive,
    Await,
    BarrierAlloc,
    CExpr,
    ControlParam,
    CVar,
    Fence,
    For,
    Int,
    Point,
    Proc,
    Stmt,
)
from exogpu.ir.walk import control_variables, substitute_access
from exogpu.machine import fast
from exogpu.machine.violation import Violation
from exogpu.schedule.proposing.drafts import Draft, after, is_alone, number
from exogpu.schedule.proposing.fences import BETWEEN_WGMMA, between, fence
from exogpu.schedule.proposing.moves import Move
from exogpu.schedule.proposing.trial import Sizes
from exogpu.schedule.rewrite import Path, around, paths
from exogpu.schedule.scopes import out_of_scope


def repairs(draft: Draft, program: Program, sizes: Sizes, violation: Violation) -> Iterator[Move]:
    """Yields the changes that repair the broken link of a violation."""
    values = dict(sizes)
    located = fast.located(program, values, violation)
    words = barrier_words(program, values, located)
    if words is not None:
        found = words.repairs
    else:
        broken = broken_link(program, values, located)
        link = () if broken is None else broken.repairs
        found = (*link, *general_repairs(located, program))
    for repair in found:
        for made in _drafts(draft, repair.edit):
            if out_of_scope(made.proc) is None:
                yield Move("repair", 1, made)
        if isinstance(repair.edit, Skip):
            yield from _same_skips(draft, repair.edit.op.origin.span.line, repair.edit.n)


def _drafts(draft: Draft, edit: Edit) -> Iterator[Draft]:
    match edit:
        case First():
            yield from _changed(draft, edit.op.origin.span.line, first=edit.timeline)
        case Second():
            yield from _changed(draft, edit.op.origin.span.line, second=edit.timeline)
        case Skip():
            yield from _changed(draft, edit.op.origin.span.line, n=edit.n)
        case OnElement():
            path = draft.places.get(edit.op.origin.span.line)
            old = None if path is None else draft.at(path)
            if path is not None and isinstance(old, Await):
                coords = tuple(Point(Int(at)) for at in edit.index)
                yield draft.replaced(
                    path, replace(old, barrier=replace(old.barrier, coords=coords))
                )
        case NewFence():
            gap = _gap(draft, edit.op.origin.span.line, edit.after)
            if gap is not None:
                yield draft.inserted([(gap, fence((edit.first, edit.second)))])
        case Between() | Widened():
            yield from _placed(draft, edit)
        case NewAwait():
            gap = _gap(draft, edit.op.origin.span.line, edit.after)
            if gap is not None and edit.n < 0 and any(map(is_alone, draft.around(gap))):
                return  # threads of one CTA wait for an mbarrier together
            if gap is not None and (barrier := _here(draft, edit.barrier, gap)) is not None:
                wait = Await(barrier, SYNC_TIMELINES[edit.timeline], edit.n)
                yield draft.inserted([(gap, wait)])
        case NewArrive():
            gap = _gap(draft, edit.op.origin.span.line, edit.after)
            if gap is not None and (barrier := _here(draft, edit.barrier, gap)) is not None:
                arrive = Arrive(SYNC_TIMELINES[edit.timeline], (barrier,))
                yield draft.inserted([(gap, arrive)])
        case NewGroup() if edit.group is not None:
            gap = _gap(draft, edit.op.origin.span.line, True)
            if gap is not None and (barrier := _here(draft, edit.group, gap)) is not None:
                arrive = Arrive(SYNC_TIMELINES[edit.first], (barrier,))
                wait = Await(barrier, SYNC_TIMELINES[edit.second], 0)
                yield draft.inserted([(gap, arrive), (gap, wait)])
        case Moved():
            yield from moved(draft, edit.op.origin.span.line, edit.to.origin.span.line, edit.after)
        case _:
            pass


def _changed(
    draft: Draft, at: int, *, first: str = "", second: str = "", n: int | None = None
) -> Iterator[Draft]:
    """With another timeline, or another last operand."""
    path = draft.places.get(at)
    if path is None:
        return
    match draft.at(path):
        case Fence() as old:
            pre = SYNC_TIMELINES.get(first, old.pre)
            yield draft.replaced(
                path, replace(old, pre=pre, post=SYNC_TIMELINES.get(second, old.post))
            )
        case Arrive() as old if first:
            yield draft.replaced(path, replace(old, timeline=SYNC_TIMELINES[first]))
        case Await() as old:
            timeline = SYNC_TIMELINES.get(second, old.timeline)
            yield draft.replaced(path, replace(old, timeline=timeline, n=old.n if n is None else n))
        case _:
            pass


def _same_skips(draft: Draft, at: int, n: int) -> Iterator[Move]:
    """With the same last operand at every Await of the barrier."""
    old = draft.statements.get(at)
    if not isinstance(old, Await):
        return
    many = 0
    for path, stmt in paths(draft.proc):
        same = isinstance(stmt, Await) and stmt.barrier.name == old.barrier.name
        if same and isinstance(stmt, Await) and stmt.n != n:
            draft, many = draft.replaced(path, replace(stmt, n=n)), many + 1
    if many > 1:
        yield Move("repair", many, draft)


def _placed(draft: Draft, edit: Between | Widened) -> Iterator[Draft]:
    """A Fence between two statements; in the place of another one that is too narrow."""
    record, check = edit.violation.record, edit.violation.check
    if record is None:
        return
    free = bool(getattr(check, "free", False))
    gaps = between(draft, record.origin.span.line, check.origin.span.line, free=free)
    if isinstance(edit, Between):
        narrow_first = (edit.first, edit.second) == BETWEEN_WGMMA
        for gap in reversed(gaps) if narrow_first else gaps:
            yield draft.inserted([(gap, fence((edit.first, edit.second)))])
        return
    old = draft.places.get(edit.op.origin.span.line)
    narrow = None if old is None else draft.at(old)
    if old is None or not isinstance(narrow, Fence):
        return
    for gap in gaps:
        made = draft.inserted([(gap, Fence(narrow.pre, narrow.post))])
        yield made.without(made.places[number(narrow)])


def moved(draft: Draft, which: int, to: int, behind: bool) -> Iterator[Draft]:
    """With a statement of synchronisation moved next to another; as far out as what it names is
    known there."""
    old, target = draft.places.get(which), draft.places.get(to)
    if old is None or target is None or which == to:
        return
    stmt = draft.at(old)
    if not isinstance(stmt, Fence | Arrive | Await):
        return
    gap = after(target) if behind else target
    inner = _known(draft.proc, gap)
    loops = [s for s in draft.around(old) if isinstance(s, For) and s.iterator not in inner]
    new: Stmt = stmt
    names = _named(stmt)
    for loop in reversed(loops):
        if loop.iterator in names:
            if same := next((s for s in inner if s.name == loop.iterator.name), None):
                new = _renamed(new, {loop.iterator: CVar(same)})
            else:
                fresh = Sym(loop.iterator.name)
                new = _renamed(new, {loop.iterator: CVar(fresh)})
                new = For(fresh, loop.lo, loop.hi, loop.mode, (new,))
    made = draft.inserted([(gap, new)])
    yield made.without(made.places[which])


def _renamed(stmt: Stmt, values: dict[Sym, CExpr]) -> Stmt:
    match stmt:
        case Arrive():
            return replace(stmt, targets=tuple(substitute_access(a, values) for a in stmt.targets))
        case Await():
            return replace(stmt, barrier=substitute_access(stmt.barrier, values))
        case For():
            return replace(stmt, body=tuple(_renamed(s, values) for s in stmt.body))
        case _:
            return stmt


def _named(stmt: Stmt) -> frozenset[Sym]:
    match stmt:
        case Arrive():
            return frozenset[Sym]().union(*map(_variables, stmt.targets))
        case Await():
            return _variables(stmt.barrier)
        case _:
            return frozenset()


def _variables(access: Access) -> frozenset[Sym]:
    found: frozenset[Sym] = frozenset()
    for coord in access.coords:
        exprs = (coord.at,) if isinstance(coord, Point) else (coord.lo, coord.hi)
        found = found.union(*map(control_variables, exprs))
    return found


def _known(proc: Proc, gap: Path) -> list[Sym]:
    """The control variables at a place, the innermost first."""
    params = [p.name for p in proc.params if isinstance(p, ControlParam)]
    loops = [s.iterator for s in around(proc, gap) if isinstance(s, For)]
    return [*reversed(loops), *params]


def _gap(draft: Draft, at: int, behind: bool) -> Path | None:
    """The place next to a statement; that of a variable's free is the end of its block."""
    path = draft.places.get(at)
    if path is None:
        return None
    if isinstance(draft.at(path), Alloc | BarrierAlloc):
        return (*path[:-1], (path[-1][0], len(draft.block(path))))
    return after(path) if behind else path


def _here(draft: Draft, access: Access, gap: Path) -> Access | None:
    """The element with the iterators of the same names that are known at a place."""
    known = {s.name: s for s in reversed(_known(draft.proc, gap))}
    values: dict[Sym, CExpr] = {
        s: CVar(known[s.name]) for s in _variables(access) if s.name in known
    }
    if len(values) < len(_variables(access)):
        return None
    return substitute_access(access, values)
