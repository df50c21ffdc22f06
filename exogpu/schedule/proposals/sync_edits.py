"""Changes of the synchronisation that is there: other skips, other places, less of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.amir.nodes import Check, Program, Record
from exogpu.explain import edits as explain_edits
from exogpu.explain.barrier_hazards import barrier_words
from exogpu.explain.broken_link import broken_link
from exogpu.explain.repairs import general_repairs
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, substitute_access
from exogpu.machine import fast
from exogpu.machine.observer import Violation
from exogpu.schedule.checking.opened_procedure import is_silent
from exogpu.schedule.proposals.bench import Sizes
from exogpu.schedule.proposals.drafts import (
    Draft,
    is_alone,
    is_sequential,
    is_tasks,
    number,
    path_after,
)
from exogpu.schedule.proposals.fences_and_groups import (
    BETWEEN_WGMMA,
    Group,
    Move,
    awaits,
    fence,
    paths_between,
)
from exogpu.schedule.reparse import out_of_scope
from exogpu.schedule.rewrite import Path, enclosing_statements, paths

# Waiting later: an Await of a commit group after what needs not wait for it.


def later_awaits(draft: Draft, wait: int) -> Iterator[Draft]:
    """The draft with an Await at each later place of the same iteration, the latest first."""
    path = draft.places[wait]
    stmt = draft.statements[wait]
    assert isinstance(stmt, ir.Await)
    loops = _loops(draft, path, stmt)
    if loops is None:
        return
    group = Group(stmt.barrier.name, loops)
    for gap in _gaps(draft, path):
        made = draft.inserted([(gap, awaits(draft, group, gap, stmt.n))])
        yield made.remove_statement(made.places[wait])


def _loops(draft: Draft, path: Path, stmt: ir.Await) -> tuple[ir.For, ...] | None:
    """The loops whose iterators the Await names, one a dimension."""
    around = {s.iterator: s for s in draft.enclosing(path) if isinstance(s, ir.For)}
    found = []
    for coord in stmt.barrier.coords:
        if not isinstance(coord, ir.Point) or not isinstance(coord.at, ir.CVar):
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
            found += [path_after((*path[:-1], (name, n)))] if worked else []
        path = path[:-1]
        if (
            not path
            or is_sequential(draft.statement_at(path))
            or is_tasks(draft.statement_at(path))
        ):
            return tuple(reversed(found))
        found += [path_after(path)] if worked else []


# The repairs of `exogpu.explain` as changes of the procedure itself.


def repairs(draft: Draft, program: Program, sizes: Sizes, violation: Violation) -> Iterator[Move]:
    """Yields the changes that repair the broken link of a violation; none of what no order mends,
    such as a read of what nobody writes."""
    values = dict(sizes)
    located = fast.located(program, values, violation)
    words = barrier_words(program, values, located)
    if words is not None:
        found = words.repairs
    elif not (isinstance(located.check, Check) and isinstance(located.record, Record)):
        return
    else:
        broken = broken_link(program, values, located)
        link = () if broken is None else broken.repairs
        found = (*link, *general_repairs(located, program))
    for repair in found:
        for made in _drafts(draft, repair.edit):
            if out_of_scope(made.proc) is None:
                yield Move("repair", 1, made)
        if isinstance(repair.edit, explain_edits.Skip):
            yield from _same_skips(draft, repair.edit.op.origin.span.line, repair.edit.n)


def _drafts(draft: Draft, edit: explain_edits.Edit) -> Iterator[Draft]:
    match edit:
        case explain_edits.First():
            yield from _change_operands(draft, edit.op.origin.span.line, first=edit.timeline)
        case explain_edits.Second():
            yield from _change_operands(draft, edit.op.origin.span.line, second=edit.timeline)
        case explain_edits.Skip():
            yield from _change_operands(draft, edit.op.origin.span.line, n=edit.n)
        case explain_edits.OnElement():
            path = draft.places.get(edit.op.origin.span.line)
            old = None if path is None else draft.statement_at(path)
            if path is not None and isinstance(old, ir.Await):
                coords = tuple(map(ir.Point, edit.index))
                yield draft.replace_statement(
                    path, replace(old, barrier=replace(old.barrier, coords=coords))
                )
        case explain_edits.NewFence():
            gap = _gap(draft, edit.op.origin.span.line, edit.after)
            if gap is not None:
                yield draft.inserted([(gap, fence((edit.first, edit.second)))])
        case explain_edits.Between() | explain_edits.Widened():
            yield from _insert_fences(draft, edit)
        case explain_edits.NewAwait():
            gap = _gap(draft, edit.op.origin.span.line, edit.after)
            if gap is not None and edit.n < 0 and any(map(is_alone, draft.enclosing(gap))):
                return  # threads of one CTA wait for an mbarrier together
            if (
                gap is not None
                and (barrier := _element_at_gap(draft, edit.barrier, gap)) is not None
            ):
                wait = ir.Await(barrier, SYNC_TIMELINES[edit.timeline], edit.n)
                yield draft.inserted([(gap, wait)])
        case explain_edits.NewArrive():
            gap = _gap(draft, edit.op.origin.span.line, edit.after)
            if (
                gap is not None
                and (barrier := _element_at_gap(draft, edit.barrier, gap)) is not None
            ):
                arrive = ir.Arrive(SYNC_TIMELINES[edit.timeline], (barrier,))
                yield draft.inserted([(gap, arrive)])
        case explain_edits.NewGroup() if edit.group is not None:
            gap = _gap(draft, edit.op.origin.span.line, True)
            if gap is not None and (barrier := _element_at_gap(draft, edit.group, gap)) is not None:
                arrive = ir.Arrive(SYNC_TIMELINES[edit.first], (barrier,))
                wait = ir.Await(barrier, SYNC_TIMELINES[edit.second], 0)
                yield draft.inserted([(gap, arrive), (gap, wait)])
        case explain_edits.Moved():
            yield from move_synchronisation(
                draft, edit.op.origin.span.line, edit.to.origin.span.line, edit.after
            )
        case _:
            pass


def _change_operands(
    draft: Draft, at: int, *, first: str = "", second: str = "", n: int | None = None
) -> Iterator[Draft]:
    """With another timeline, or another last operand."""
    path = draft.places.get(at)
    if path is None:
        return
    match draft.statement_at(path):
        case ir.Fence() as old:
            pre = SYNC_TIMELINES.get(first, old.pre)
            yield draft.replace_statement(
                path, replace(old, pre=pre, post=SYNC_TIMELINES.get(second, old.post))
            )
        case ir.Arrive() as old if first:
            yield draft.replace_statement(path, replace(old, timeline=SYNC_TIMELINES[first]))
        case ir.Await() as old:
            timeline = SYNC_TIMELINES.get(second, old.timeline)
            yield draft.replace_statement(
                path, replace(old, timeline=timeline, n=old.n if n is None else n)
            )
        case _:
            pass


def _same_skips(draft: Draft, at: int, n: int) -> Iterator[Move]:
    """With the same last operand at every Await of the barrier."""
    old = draft.statements.get(at)
    if not isinstance(old, ir.Await):
        return
    many = 0
    for path, stmt in paths(draft.proc):
        same = isinstance(stmt, ir.Await) and stmt.barrier.name == old.barrier.name
        if same and isinstance(stmt, ir.Await) and stmt.n != n:
            draft, many = draft.replace_statement(path, replace(stmt, n=n)), many + 1
    if many > 1:
        yield Move("repair", many, draft)


def _insert_fences(
    draft: Draft, edit: explain_edits.Between | explain_edits.Widened
) -> Iterator[Draft]:
    """A Fence between two statements; in the place of another one that is too narrow."""
    record, check = edit.violation.record, edit.violation.check
    if record is None:
        return
    free = bool(getattr(check, "free", False))
    gaps = paths_between(draft, record.origin.span.line, check.origin.span.line, free=free)
    if isinstance(edit, explain_edits.Between):
        narrow_first = (edit.first, edit.second) == BETWEEN_WGMMA
        for gap in reversed(gaps) if narrow_first else gaps:
            yield draft.inserted([(gap, fence((edit.first, edit.second)))])
        return
    old = draft.places.get(edit.op.origin.span.line)
    narrow = None if old is None else draft.statement_at(old)
    if old is None or not isinstance(narrow, ir.Fence):
        return
    for gap in gaps:
        made = draft.inserted([(gap, ir.Fence(narrow.pre, narrow.post))])
        yield made.remove_statement(made.places[number(narrow)])


def move_synchronisation(draft: Draft, which: int, to: int, behind: bool) -> Iterator[Draft]:
    """With a statement of synchronisation moved next to another; as far out as what it names is
    known there."""
    old, target = draft.places.get(which), draft.places.get(to)
    if old is None or target is None or which == to:
        return
    stmt = draft.statement_at(old)
    if not isinstance(stmt, ir.Fence | ir.Arrive | ir.Await):
        return
    gap = path_after(target) if behind else target
    inner = _control_variables(draft.proc, gap)
    loops = [s for s in draft.enclosing(old) if isinstance(s, ir.For) and s.iterator not in inner]
    new: ir.Stmt = stmt
    names = _barriers_of(stmt)
    for loop in reversed(loops):
        if loop.iterator in names:
            if same := next((s for s in inner if s.name == loop.iterator.name), None):
                new = _renamed(new, {loop.iterator: ir.CVar(same)})
            else:
                fresh = Sym(loop.iterator.name)
                new = _renamed(new, {loop.iterator: ir.CVar(fresh)})
                new = ir.For(fresh, loop.lo, loop.hi, loop.mode, (new,))
    made = draft.inserted([(gap, new)])
    yield made.remove_statement(made.places[which])


def _renamed(stmt: ir.Stmt, values: dict[Sym, ir.CExpr]) -> ir.Stmt:
    match stmt:
        case ir.Arrive():
            return replace(stmt, targets=tuple(substitute_access(a, values) for a in stmt.targets))
        case ir.Await():
            return replace(stmt, barrier=substitute_access(stmt.barrier, values))
        case ir.For():
            return replace(stmt, body=tuple(_renamed(s, values) for s in stmt.body))
        case _:
            return stmt


def _barriers_of(stmt: ir.Stmt) -> frozenset[Sym]:
    match stmt:
        case ir.Arrive():
            return frozenset[Sym]().union(*map(_variables, stmt.targets))
        case ir.Await():
            return _variables(stmt.barrier)
        case _:
            return frozenset()


def _variables(access: ir.Access) -> frozenset[Sym]:
    found: frozenset[Sym] = frozenset()
    for coord in access.coords:
        exprs = (coord.at,) if isinstance(coord, ir.Point) else (coord.lo, coord.hi)
        found = found.union(*map(control_variables, exprs))
    return found


def _control_variables(proc: ir.Proc, gap: Path) -> list[Sym]:
    """The control variables at a place, the innermost first."""
    params = [p.name for p in proc.params if isinstance(p, ir.ControlParam)]
    loops = [s.iterator for s in enclosing_statements(proc, gap) if isinstance(s, ir.For)]
    return [*reversed(loops), *params]


def _gap(draft: Draft, at: int, behind: bool) -> Path | None:
    """The place next to a statement; that of a variable's free is the end of its block."""
    path = draft.places.get(at)
    if path is None:
        return None
    if isinstance(draft.statement_at(path), ir.Alloc | ir.BarrierAlloc):
        return (*path[:-1], (path[-1][0], len(draft.block(path))))
    return path_after(path) if behind else path


def _element_at_gap(draft: Draft, access: ir.Access, gap: Path) -> ir.Access | None:
    """The element with the iterators of the same names that are known at a place."""
    known = {s.name: s for s in reversed(_control_variables(draft.proc, gap))}
    values: dict[Sym, ir.CExpr] = {
        s: ir.CVar(known[s.name]) for s in _variables(access) if s.name in known
    }
    if len(values) < len(_variables(access)):
        return None
    return substitute_access(access, values)


def edits(draft: Draft) -> Iterator[Move]:
    """Every small change of one statement of synchronisation, or of all Awaits of one barrier."""
    for path, stmt in paths(draft.proc):
        if isinstance(stmt, ir.Await):
            for n in _adjacent_numbers(stmt.n):
                yield Move("skip", 1, draft.replace_statement(path, replace(stmt, n=n)))
        if isinstance(stmt, ir.Fence | ir.Arrive | ir.Await):
            for made in _other_places(draft, path, stmt):
                if out_of_scope(made.proc) is None:
                    yield Move("place", 1.5, made)


def removals(draft: Draft, broken: int) -> Iterator[Move]:
    """Without the barrier of a statement: every Arrive and Await on it."""
    stmt = draft.statements.get(broken)
    match stmt:
        case ir.Arrive():
            name = stmt.targets[0].name
        case ir.Await():
            name = stmt.barrier.name
        case ir.Fence():
            yield Move("removal", 1, draft.remove_statement(draft.places[broken]))
            return
        case _:
            return
    made, many = draft, 0
    while True:
        found = next((p for p, s in paths(made.proc) if _uses_barrier(s, name)), None)
        if found is None:
            break
        made, many = made.remove_statement(found), many + 1
    yield Move("removal", many, made)


def _uses_barrier(stmt: ir.Stmt, name: object) -> bool:
    match stmt:
        case ir.Arrive():
            return stmt.targets[0].name == name
        case ir.Await():
            return stmt.barrier.name == name
        case _:
            return False


def _adjacent_numbers(n: int) -> Iterator[int]:
    for other in (n + 1, n - 1):
        if (n < 0) == (other < 0):
            yield other


def _other_places(draft: Draft, path: Path, stmt: ir.Stmt) -> Iterator[Draft]:
    """The statement before its neighbour, after it, and out of what holds it."""
    block, at = draft.block(path), path[-1][1]
    which = number(stmt)
    if at > 0:
        yield from move_synchronisation(draft, which, number(block[at - 1]), False)
    if at + 1 < len(block):
        yield from move_synchronisation(draft, which, number(block[at + 1]), True)
    if len(path) > 1:
        holder = number(draft.statement_at(path[:-1]))
        yield from move_synchronisation(draft, which, holder, False)
        yield from move_synchronisation(draft, which, holder, True)
