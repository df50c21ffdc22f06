"""Repairs made in the procedure itself, as its text would be changed.

Each is made in every place in which its statement is read.  Whoever proposes one has it analysed
and tried: what is made here need not be well-formed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

from exogpu.amir import nodes as amir
from exogpu.diagnostics.errors import Span
from exogpu.explain import edits
from exogpu.explain import insertion_points as points
from exogpu.explain.patch import changes
from exogpu.explain.placement_repairs import hoisted
from exogpu.explain.ring_repairs import beside_loop, count_ring_steps, delayed, drained
from exogpu.explain.source_moves import (
    delete_in_source,
    exchange_in_source,
    known_targets,
    move_in_source,
    on_barrier,
    outermost_alone,
    removed_holders_text,
)
from exogpu.explain.value_repairs import filled, reindexed_slots
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism, Sym
from exogpu.ir.walk import accesses, walk
from exogpu.machine.observer import Violation

MOST = 8
"""Places on the way from one statement to another that are tried."""


def rewritten(
    proc: ir.Proc, program: amir.Program, repair: edits.Repair
) -> Iterator[points.Rewritten]:
    """Ways to make a repair of a program in the procedure that it was lowered from, whose variables
    are freed: the likeliest first."""
    match repair.edit:
        case edits.First(op, timeline):
            yield from _change_argument(proc, repair, op, lambda old: _with_first(old, timeline))
        case edits.Second(op, timeline):
            yield from _change_argument(proc, repair, op, lambda old: _with_second(old, timeline))
        case edits.Skip(op, n):
            yield from _change_argument(proc, repair, op, lambda old: _with_skip(old, n))
        case edits.OnElement(op, index):
            yield from _change_path(proc, repair, op, lambda path: _on_element(path, index, proc))
        case edits.NewFence(op, first, second, after):
            yield from _insert_statements(
                proc, op, after, lambda gap: (_fence(first, second, gap),)
            )
        case edits.NewAwait(op, barrier, timeline, n, after):
            tl = SYNC_TIMELINES[timeline]

            def wait(gap: points.Gap) -> tuple[ir.Stmt, ...] | None:
                of = points.known_at(barrier, gap, proc)
                return None if of is None else (ir.Await(of, tl, n, span=gap.anchor.span),)

            yield from _insert_statements(proc, op, after, wait)
        case edits.NewArrive(op, barrier, timeline, after, targets):
            some = targets or (barrier,)
            yield from _insert_statements(
                proc, op, after, lambda gap: _arrive(some, timeline, gap, proc)
            )
        case edits.NewGroup(op, first, second, group):
            yield from _grouped(proc, op, first, second, group)
        case edits.Between(violation, first, second):
            for gaps in _gaps_on_the_way(proc, program, violation):
                made = points.with_new(proc, gaps, lambda gap: (_fence(first, second, gap),))
                yield from () if made is None else (made,)
        case edits.Widened(violation, op):
            yield from _widen_in_source(proc, program, violation, op)
        case edits.Moved(op, to, after):
            yield from move_in_source(proc, repair, op, to, after)
        case edits.Drained(arrive):
            yield from drained(proc, arrive.origin.span)
        case edits.Delayed(arrive, wait_):
            yield from delayed(proc, arrive.origin.span, wait_.origin.span)
        case edits.Counted(record):
            yield from count_ring_steps(proc, record.access.name)
        case edits.Hoisted(op):
            yield from hoisted(proc, op, repair)
        case edits.Reindexed():
            yield from reindexed_slots(proc, repair.edit)
        case edits.Filled(record):
            yield from filled(proc, record)
        case edits.Deletion(op):
            yield from delete_in_source(proc, repair, op)
        case edits.MulticastTo(op, targets):
            yield from _change_path(
                proc, repair, op, lambda path: _with_targets(path, targets, proc)
            )
        case edits.Exchange(one, other):
            yield from exchange_in_source(proc, repair, one, other)
        case edits.BesideLoop(op, after):
            yield from beside_loop(proc, op.origin.span, after)
        case _:
            assert_never(repair.edit)


# --- one statement ------------------------------------------------------------------------------


def _change_argument(
    proc: ir.Proc, repair: edits.Repair, op: amir.Op, change: Callable[[ir.Stmt], ir.Stmt | None]
) -> Iterator[points.Rewritten]:
    """With another argument of a synchronisation statement."""
    yield from _change_path(proc, repair, op, lambda path: change(path[-1]))


def _change_path(
    proc: ir.Proc,
    repair: edits.Repair,
    op: amir.Op,
    change: Callable[[points.Path], ir.Stmt | None],
) -> Iterator[points.Rewritten]:
    """With another statement in the place of one, by where it stands."""
    anew: dict[int, tuple[ir.Stmt, ...]] = {}
    for path in points.paths_to(proc, op.origin.span):
        new = change(path)
        if new is None:
            return
        anew[id(path[-1])] = (new,)
    if anew:
        yield points.Rewritten(points.rebuilt(proc, anew), repair.text, changes(repair))


def _with_first(old: ir.Stmt, timeline: str) -> ir.Stmt | None:
    match old:
        case ir.Fence():
            return replace(old, pre=SYNC_TIMELINES[timeline])
        case ir.Arrive():
            return replace(old, timeline=SYNC_TIMELINES[timeline])
        case _:
            return None


def _with_second(old: ir.Stmt, timeline: str) -> ir.Stmt | None:
    match old:
        case ir.Fence():
            return replace(old, post=SYNC_TIMELINES[timeline])
        case ir.Await():
            return replace(old, timeline=SYNC_TIMELINES[timeline])
        case _:
            return None


def _with_skip(old: ir.Stmt, n: int) -> ir.Stmt | None:
    return replace(old, n=n) if isinstance(old, ir.Await) else None


def _on_element(path: points.Path, index: tuple[ir.CExpr, ...], proc: ir.Proc) -> ir.Stmt | None:
    old = path[-1]
    if not isinstance(old, ir.Await):
        return None
    return on_barrier(path, replace(old.barrier, coords=tuple(map(ir.Point, index))), proc)


def _with_targets(
    path: points.Path, targets: tuple[ir.Access, ...], proc: ir.Proc
) -> ir.Stmt | None:
    known = known_targets(targets, points.next_to(path, False), proc)
    if known is None or not isinstance(path[-1], ir.Arrive):
        return None
    return replace(path[-1], targets=known)


# --- new statements -----------------------------------------------------------------------------


def _fence(first: str, second: str, gap: points.Gap) -> ir.Fence:
    return ir.Fence(SYNC_TIMELINES[first], SYNC_TIMELINES[second], span=gap.anchor.span)


def _arrive(
    targets: Sequence[ir.Access], timeline: str, gap: points.Gap, proc: ir.Proc
) -> tuple[ir.Stmt, ...] | None:
    of = known_targets(targets, gap, proc)
    return None if of is None else (ir.Arrive(SYNC_TIMELINES[timeline], of, span=gap.anchor.span),)


def _insert_statements(
    proc: ir.Proc,
    op: amir.Op,
    after: bool,
    make: Callable[[points.Gap], tuple[ir.Stmt, ...] | None],
) -> Iterator[points.Rewritten]:
    """New statements next to that of an operation; where a variable ends, before it does."""
    span, end = op.origin.span, ""
    if op.origin.ends is None:
        gaps = [points.next_to(path, after) for path in points.paths_to(proc, span)]
    else:
        gaps = points.at_the_end(proc, span)
        named = op.access.name if isinstance(op, amir.Check) else None
        end = "" if named is None else f", before the memory of {named} ends"
    made = points.with_new(proc, gaps, make, end)
    yield from () if made is None else (made,)


def _grouped(
    proc: ir.Proc, op: amir.Op, first: str, second: str, group: ir.Access | None
) -> Iterator[points.Rewritten]:
    """An Arrive and an Await of a commit group; of a new one, its declaration too."""
    gaps = [points.next_to(path, True) for path in points.paths_to(proc, op.origin.span)]

    def sync_statements(of: ir.Access, gap: points.Gap) -> tuple[ir.Stmt, ...] | None:
        arrive, of_here = _arrive((of,), first, gap, proc), points.known_at(of, gap, proc)
        if arrive is None or of_here is None:
            return None
        return (*arrive, ir.Await(of_here, SYNC_TIMELINES[second], 0, span=gap.anchor.span))

    if group is not None:
        made = points.with_new(proc, gaps, lambda gap: sync_statements(group, gap))
        yield from () if made is None else (made,)
        return
    if not gaps:
        return
    loops = [
        s for s in gaps[0].around if isinstance(s, ir.For) and isinstance(s.mode, ir.CudaThreads)
    ]
    if not loops:
        return
    coords = tuple(ir.Point(ir.CVar(loop.iterator)) for loop in loops)
    for unused in _unused_groups(proc, len(loops)):
        made = points.with_new(proc, gaps, partial(sync_statements, ir.Access(unused, coords)))
        yield from () if made is None else (made,)
    taken = {name for stmt in walk(proc.body) for name in _declared(stmt)}
    name = Sym(next(n for n in ("cg", *(f"cg{i}" for i in range(2, 99))) if n not in taken))
    made = points.with_new(proc, gaps, lambda gap: sync_statements(ir.Access(name, coords), gap))
    outermost = next(stmt for stmt in gaps[0].around if stmt is loops[0])
    around = gaps[0].around[: [*gaps[0].around].index(outermost)]
    place = points.Gap(outermost, False, around)
    mechanism = BarrierMechanism.COMMIT_GROUP
    alloc = ir.BarrierAlloc(name, tuple(loop.hi for loop in loops), mechanism, span=outermost.span)
    if made is None or len(gaps) != 1:
        return
    (found,) = [
        path for path in points.paths_to(made.proc, outermost.span) if isinstance(path[-1], ir.For)
    ]
    with_both = points.rebuilt(made.proc, {id(found[-1]): (alloc, found[-1])})
    declared = points.joined(points.source(alloc))
    text = f"declare `{declared}` {points.in_words(place)}, and {made.text}"
    change = points.pasted(place, declared)
    whole = tuple((change, *one) for one in made.changes) if change is not None else ()
    yield points.Rewritten(with_both, text, whole)


def _unused_groups(proc: ir.Proc, rank: int) -> list[Sym]:
    """The commit groups of so many dimensions that nothing is committed to or waited for."""
    used = {access.name for stmt in walk(proc.body) for access in accesses(stmt)}
    return [
        stmt.name
        for stmt in walk(proc.body)
        if isinstance(stmt, ir.BarrierAlloc)
        and stmt.mechanism is BarrierMechanism.COMMIT_GROUP
        and len(stmt.shape) == rank
        and stmt.name not in used
    ]


def _declared(stmt: ir.Stmt) -> Iterator[str]:
    name = getattr(stmt, "name", None) or getattr(stmt, "iterator", None)
    if isinstance(name, Sym):
        yield name.name


# --- between two statements ---------------------------------------------------------------------


def _gaps_on_the_way(
    proc: ir.Proc, program: amir.Program, violation: Violation
) -> Iterator[Sequence[points.Gap]]:
    """The places on the way from one statement of a violation to the other; each where it is read
    again, too."""
    check, record = violation.check, violation.record
    if record is None:
        return
    theirs = _path_of(proc, program, record)
    if check.origin.ends is not None:
        yield from ([gap] for gap in points.at_the_end(proc, check.origin.span))
        return
    ours = _path_of(proc, program, check)
    if ours is None or theirs is None:
        return
    seen: set[tuple[Span, bool]] = set()
    for gap in points.gaps_between(proc, ours, theirs):
        if gap.key in seen or len(seen) == MOST:
            continue
        seen.add(gap.key)
        others = [
            points.next_to(path, gap.after) for path in points.paths_to(proc, gap.anchor.span)
        ]
        yield others or [gap]


def _path_of(proc: ir.Proc, program: amir.Program, op: amir.Op) -> points.Path | None:
    """The statement of an operation; of one that is read several times, the same reading."""
    found = points.paths_to(proc, op.origin.span)
    same = edits.copies_of_statement(program, op)
    if len(found) == len(same) and op in same:
        return found[same.index(op)]
    return found[0] if found else None


def _widen_in_source(
    proc: ir.Proc, program: amir.Program, violation: Violation, op: amir.Fence
) -> Iterator[points.Rewritten]:
    old = points.paths_to(proc, op.origin.span)
    if len(old) != 1 or not isinstance(old[0][-1], ir.Fence):
        return
    chain = outermost_alone(old[0])
    fence, whole = old[0][-1], chain[-1]
    for gaps in _gaps_on_the_way(proc, program, violation):
        if any(gap.anchor is one for gap in gaps for one in (*old[0], whole)):
            continue
        anew = {
            id(gap.anchor): points.insert_at(gap, replace(fence, span=gap.anchor.span))
            for gap in gaps
        }
        made = points.rebuilt(proc, {**anew, id(whole): ()})
        line = fence.span.line
        gone = removed_holders_text(chain[1:])
        text = f"move the Fence of line {line} to {points.in_words(gaps[0])}{gone}"
        yield points.Rewritten(
            made, text, changes(edits.Repair(text, edits.Widened(violation, op)))
        )
