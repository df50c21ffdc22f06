"""Applies an edit to a program.

An edit is `None` where it cannot be made: a barrier that has ended, an iterator that is not known
there, a pair of timelines that no lowering keeps (decision `lowering-claims`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar, assert_never

from exogpu.amir import nodes as amir
from exogpu.amir import walk
from exogpu.amir.walk import Path, operations, path_to
from exogpu.analysis.thread_names import group_kind
from exogpu.analysis.threadmap import ThreadAxis, ThreadMap, threads_of
from exogpu.explain import edits
from exogpu.hw.timelines import ONLY_BEFORE, SYNC_TIMELINES
from exogpu.ir.nodes import Access, CVar, Int, Point
from exogpu.ir.types import BarrierMechanism, Sym, SyncTL
from exogpu.ir.walk import control_variables, read_by, substitute_access
from exogpu.machine.observer import Violation

Sync = TypeVar("Sync", bound=amir.Fence | amir.Arrive | amir.Await)
Changed = TypeVar("Changed", bound=amir.Op)


def apply_edit(program: amir.Program, edit: edits.Edit) -> amir.Program | None:
    """The program after the edit, in each place where its statements stand; None where it cannot be
    made."""
    places = edits.each_place(program, edit)
    if isinstance(edit, edits.Moved) and len(_copies(program, edit.op)) != len(places):
        return None
    made: amir.Program | None = program
    for one in places:
        made = None if made is None else _change_program(made, one)
    return made


def _change_program(program: amir.Program, edit: edits.Edit) -> amir.Program | None:
    match edit:
        case edits.First():
            return _with_first(program, edit)
        case edits.Second():
            return _with_second(program, edit)
        case edits.Skip():
            return _with_skip(program, edit)
        case edits.NewFence():
            fence = _fence(program, edit.first, edit.second, edit.op.origin)
            return None if fence is None else _next_to(program, edit.op, (fence,), edit.after)
        case edits.Between():
            return _insert_between(program, edit)
        case edits.Widened():
            return _widen_fence(program, edit)
        case edits.NewAwait():
            sets = SYNC_TIMELINES[edit.timeline].sets_under(program.policy)
            wait = amir.Await(edit.barrier, sets.full, sets.temporal, edit.n, edit.op.origin)
            waiting = _next_to(program, edit.op, (wait,), edit.after)
            return None if waiting is None else _deepened(program, waiting, edit.barrier.name)
        case edits.NewArrive():
            if edit.timeline in ONLY_BEFORE:
                return None
            first = SYNC_TIMELINES[edit.timeline]
            home, pre = edit.barrier, first.sets_under(program.policy).full
            targets = edit.targets or (home,)
            arrive = amir.Arrive(first.transitive, pre, home, targets, edit.op.origin)
            return _next_to(program, edit.op, (arrive,), edit.after)
        case edits.NewGroup():
            return _grouped(program, edit)
        case edits.Moved():
            return _move_statement(program, edit)
        case edits.OnElement():
            to = tuple(map(Point, edit.index))
            wait = replace(edit.op, barrier=replace(edit.op.barrier, coords=to))
            return _rewritten(program, {edit.op: (wait,)})
        case edits.Drained() | edits.Delayed() | edits.Counted() | edits.Hoisted():
            return None
        case edits.Reindexed() | edits.Filled():
            return None
        case edits.Deletion() | edits.MulticastTo() | edits.BesideLoop() | edits.Exchange():
            return None
        case _:
            assert_never(edit)


# --- changes of one statement -------------------------------------------------------------------


def _with_first(program: amir.Program, edit: edits.First) -> amir.Program | None:
    first = SYNC_TIMELINES[edit.timeline]
    pre, second = first.sets_under(program.policy).full, ONLY_BEFORE.get(edit.timeline)
    copies = _copies(program, edit.op)
    if second is not None and not all(_is_second(program, op, second) for op in copies):
        return None
    if isinstance(edit.op, amir.Arrive) and _is_group(program, edit.op.home.name):
        # Its timeline says which kind of group it is (decision `solitary-mechanisms`).
        kinds = {group_kind(tl) for tl in SYNC_TIMELINES.values() if _has(edit.op, tl, program)}
        if group_kind(first) not in kinds:
            return None

    def rewritten(op: amir.Fence | amir.Arrive) -> amir.Fence | amir.Arrive:
        made = replace(op, pre=pre, transitive=first.transitive)
        return replace(made, joins=second is None) if isinstance(made, amir.Fence) else made

    return _rewritten(program, {op: (rewritten(op),) for op in copies})


def _has(op: amir.Arrive, timeline: SyncTL, program: amir.Program) -> bool:
    """Returns whether an Arrive may be on this timeline."""
    return (op.pre, op.transitive) == (
        timeline.sets_under(program.policy).full,
        timeline.transitive,
    )


def _is_group(program: amir.Program, name: Sym) -> bool:
    group = BarrierMechanism.COMMIT_GROUP
    return any(v.name == name and v.mechanism is group for v in program.variables)


def _with_second(program: amir.Program, edit: edits.Second) -> amir.Program | None:
    sets = SYNC_TIMELINES[edit.timeline].sets_under(program.policy)
    copies = _copies(program, edit.op)
    for first, second in ONLY_BEFORE.items():
        pre = SYNC_TIMELINES[first].sets_under(program.policy).full
        if edit.timeline != second and any(
            isinstance(op, amir.Fence) and op.pre == pre for op in copies
        ):
            return None
    return _rewritten(
        program,
        {op: (replace(op, full=sets.full, temporal=sets.temporal),) for op in copies},
    )


def _is_second(program: amir.Program, op: amir.Fence | amir.Arrive, timeline: str) -> bool:
    sets = SYNC_TIMELINES[timeline].sets_under(program.policy)
    return isinstance(op, amir.Fence) and (op.full, op.temporal) == (sets.full, sets.temporal)


def _with_skip(program: amir.Program, edit: edits.Skip) -> amir.Program | None:
    changed = {op: (replace(op, n=edit.n),) for op in _copies(program, edit.op)}
    return _deepened(program, _rewritten(program, changed), edit.op.barrier.name)


def _deepened(program: amir.Program, made: amir.Program, name: Sym) -> amir.Program:
    """With the ring depths that the skips of a barrier's guard group give now (decision
    `mbarrier-phase`)."""
    (variable,) = (v for v in program.variables if v.name == name)
    guard = variable.guard or variable.name
    group = {v.name for v in program.variables if guard in (v.name, v.guard)}
    deeper = _skips(made, group) - _skips(program, group)

    def deepen(v: amir.Variable) -> amir.Variable:
        same = v.name in group and v.depth is not None
        return replace(v, depth=(v.depth or 0) + deeper) if same else v

    return replace(made, variables=tuple(map(deepen, made.variables)))


def _skips(program: amir.Program, group: set[Sym]) -> int:
    """Returns the sum that the ring depth of a guard group is."""
    most = dict.fromkeys(group, 0)
    for op in operations(program.body):
        if isinstance(op, amir.Await) and op.barrier.name in group and op.n < 0:
            most[op.barrier.name] = max(most[op.barrier.name], -op.n - 1)
    return sum(most.values())


def _copies(program: amir.Program, op: Sync) -> list[Sync]:
    """The operations that one synchronisation statement was lowered to."""
    return [
        other
        for other in operations(program.body)
        if isinstance(other, type(op)) and other.origin.span == op.origin.span
    ]


# --- new statements -----------------------------------------------------------------------------


def _fence(
    program: amir.Program, first: str, second: str, origin: amir.Origin
) -> amir.Fence | None:
    if ONLY_BEFORE.get(first, second) != second:
        return None
    pre, post = SYNC_TIMELINES[first], SYNC_TIMELINES[second].sets_under(program.policy)
    full = pre.sets_under(program.policy).full
    joins = first not in ONLY_BEFORE
    return amir.Fence(pre.transitive, full, post.full, post.temporal, origin, joins=joins)


def _next_to(
    program: amir.Program, op: amir.Op, new: amir.Block, after: bool
) -> amir.Program | None:
    """With operations before or after the statement of another one."""
    path = path_to(program.body, op)
    iterators = {o.iterator for _, o in path[:-1] if isinstance(o, amir.Loop)}
    known = {p.name for p in program.params} | iterators
    named = {name.name: CVar(name) for name in iterators}
    new = tuple(_renamed(one, known, named) for one in new)
    if not all(_names(one) <= known for one in new):
        return None
    barriers = (_barrier_of(one) for one in operations(new))
    if not all(_lives(program, path, barrier.name) for barrier in barriers if barrier is not None):
        return None
    first, last = _statement(program, path)
    at = last + 1 if after else first
    return _inserted(program, path[:-1], at, new)


def _renamed(op: amir.Op, known: set[Sym], named: Mapping[str, CVar]) -> amir.Op:
    """With iterators of the same name for those that are not known at its place."""
    barrier = _barrier_of(op)
    if barrier is None:
        return op
    others = {n: named[n.name] for n in read_by(barrier) - known if n.name in named}
    if not others:
        return op
    match op:
        case amir.Await():
            return replace(op, barrier=substitute_access(op.barrier, others))
        case amir.Arrive():
            targets = tuple(substitute_access(target, others) for target in op.targets)
            return replace(op, home=substitute_access(op.home, others), targets=targets)
        case _:
            return op


def _inserted(program: amir.Program, around: Path, at: int, new: amir.Block) -> amir.Program | None:
    """With operations at a place of the block that the path leads to; None where their threads
    are not known there."""
    known = {p.name for p in program.params}
    known |= {op.iterator for _, op in around if isinstance(op, amir.Loop)}
    if any(not _offsets(op.origin.threads) <= known for op in new if op.origin.threads):
        return None

    def insert_at(block: amir.Block, path: Path) -> amir.Block:
        if not path:
            return (*block[:at], *new, *block[at:])
        place, op = path[0]
        assert isinstance(op, amir.Loop | amir.Guard)
        inner = replace(op, body=insert_at(op.body, path[1:]))
        return (*block[:place], inner, *block[place + 1 :])

    return replace(program, body=insert_at(program.body, around))


def _statement(program: amir.Program, path: Path) -> tuple[int, int]:
    """Returns the positions at which the operations of a statement begin and end in their block."""
    block = program.body
    for _, op in path[:-1]:
        assert isinstance(op, amir.Loop | amir.Guard)
        block = op.body
    place, op = path[-1]
    first = last = place
    while first > 0 and block[first - 1].origin == op.origin:
        first -= 1
    while last + 1 < len(block) and block[last + 1].origin == op.origin:
        last += 1
    return first, last


def _grouped(program: amir.Program, edit: edits.NewGroup) -> amir.Program | None:
    group = edit.group
    if group is None:
        # One for each thread that has a loop of its own.
        around = [op for _, op in path_to(program.body, edit.op) if isinstance(op, amir.Loop)]
        loops = [op for op in around if op.threads]
        shape = tuple(op.hi for op in loops)
        if not all(isinstance(extent, Int) for extent in shape):
            return None
        name = Sym("cg")
        group = Access(name, tuple(Point(CVar(op.iterator)) for op in loops))
        variable = amir.Variable(name, shape, BarrierMechanism.COMMIT_GROUP)
        program = replace(program, variables=(*program.variables, variable))
    first = SYNC_TIMELINES[edit.first]
    post = SYNC_TIMELINES[edit.second].sets_under(program.policy)
    pre = first.sets_under(program.policy).full
    arrive = amir.Arrive(first.transitive, pre, group, (group,), edit.op.origin)
    wait = amir.Await(group, post.full, post.temporal, 0, edit.op.origin)
    return _next_to(program, edit.op, (arrive, wait), after=True)


# --- between two statements ---------------------------------------------------------------------


def _insert_between(program: amir.Program, edit: edits.Between) -> amir.Program | None:
    fence = _fence(program, edit.first, edit.second, edit.violation.check.origin)
    return None if fence is None else _insert_fence(program, edit.violation, fence, edit.widest)


def _widen_fence(program: amir.Program, edit: edits.Widened) -> amir.Program | None:
    if len(_copies(program, edit.op)) != 1:
        return None
    placed = _insert_fence(program, edit.violation, replace(edit.op))
    return None if placed is None else _rewritten(placed, {edit.op: ()})


def _insert_fence(
    program: amir.Program, violation: Violation, fence: amir.Fence, widest: bool = False
) -> amir.Program | None:
    """With a Fence on the way from one statement to the other, by the threads of both."""
    if violation.record is None or violation.record_iteration is None:
        return None
    if violation.record is violation.check:
        return None
    ours = path_to(program.body, violation.check)
    theirs = path_to(program.body, violation.record)
    if not ours or not theirs:
        return None
    values = (violation.iteration, violation.record_iteration)
    common = 0
    apart: int | None = None
    loops = 0
    for (_, mine), (_, other) in zip(ours, theirs, strict=False):
        if mine is not other:
            break
        common += 1
        if isinstance(mine, amir.Loop):
            if values[0][loops][1] != values[1][loops][1] and apart is None:
                if not mine.threads:
                    apart = common
                else:
                    common -= 1
                    break
            loops += 1
    back = ours[common][0] <= theirs[common][0]
    while not back and isinstance(ours[common][1], amir.Guard):
        common += 1
    block = program.body if common == 0 else _body(ours[common - 1][1])
    on_cpu = violation.check.origin.threads is None and violation.record.origin.threads is None
    threads = None if on_cpu else _threads(violation, ours[:common], block, widest)
    if threads is None and not on_cpu:
        return None
    fence = replace(fence, origin=replace(fence.origin, threads=threads))
    if apart is not None and back:
        inside = ours[:apart]
        return _inserted(program, inside, len(_body(inside[-1][1])), (fence,))
    at, _ = _statement(program, ours[: common + 1])
    return _inserted(program, ours[:common], at, (fence,))


def places(program: amir.Program, op: amir.Op) -> tuple[amir.Op, ...]:
    """Before which statements threads may wait for an operation: the cuda_threads loops around it
    from the outermost on, and what is in them, down to itself."""
    around = [other for _, other in path_to(program.body, op)]
    first = next((at for at, o in enumerate(around) if isinstance(o, amir.Loop) and o.threads), -1)
    return tuple(around[first:])


def _body(op: amir.Op) -> amir.Block:
    assert isinstance(op, amir.Loop | amir.Guard)
    return op.body


def _threads(
    violation: Violation, around: Path, block: amir.Block, widest: bool
) -> ThreadMap | None:
    """The smallest or widest scope at a block with the threads of both statements; None at CPU
    scope."""
    check, record = violation.check.origin.threads, violation.record
    if check is None or record is None or record.origin.threads is None:
        return None
    mine, theirs = dict(violation.iteration), dict(violation.record_iteration or ())
    wanted = {*_threads_at(check, mine), *_threads_at(record.origin.threads, theirs)}
    known = {op.iterator for _, op in around if isinstance(op, amir.Loop)}
    scopes = [op.origin.threads for op in (*block, *(op for _, op in around))]
    found: list[tuple[int, ThreadMap]] = []
    for scope in scopes:
        if scope is None or not _offsets(scope) <= known:
            continue
        members = set(_threads_at(scope, mine))
        if wanted <= members:
            found.append((len(members), scope))
    if found:
        return (max if widest else min)(found, key=lambda one: one[0])[1]
    low, high = min(wanted), max(wanted)
    axes = (ThreadAxis(1, Int(low), high - low + 1),)
    return ThreadMap(axes, check.cluster_dim, check.block_dim)


def _offsets(threads: ThreadMap) -> frozenset[Sym]:
    return frozenset[Sym]().union(*(control_variables(axis.offset) for axis in threads.axes))


def _threads_at(threads: ThreadMap, values: dict[str, int]) -> tuple[int, ...]:
    names = _offsets(threads)
    if any(name.name not in values for name in names):
        return ()
    return threads_of(threads, {name: values[name.name] for name in names})


# --- moves --------------------------------------------------------------------------------------


def _move_statement(program: amir.Program, edit: edits.Moved) -> amir.Program | None:
    """The operations of a statement, its own uses of barriers included, next to another's; with
    the loops and guards that hold it alone, as far as it names what is not known there."""
    if edit.op.origin == edit.to.origin:
        return None
    path = path_to(program.body, edit.op)
    first, last = _statement(program, path)
    block = program.body if len(path) == 1 else _body(path[-2][1])
    ops = block[first : last + 1]
    while True:
        taken = _rewritten(program, dict.fromkeys(ops, ()))
        if not path_to(taken.body, edit.to):
            return None
        made = _next_to(taken, edit.to, ops, edit.after)
        path = path[:-1]
        if made is not None or not path or len(_body(path[-1][1])) != len(ops):
            return made
        ops = (path[-1][1],)


# --- parts --------------------------------------------------------------------------------------


def _rewritten(program: amir.Program, changed: Mapping[Changed, amir.Block]) -> amir.Program:
    """With other operations for some, by operation."""
    return replace(program, body=walk.rewritten(program.body, dict(changed.items())))


def _barrier_of(op: amir.Op) -> Access | None:
    match op:
        case amir.Arrive():
            return op.home
        case amir.Await():
            return op.barrier
        case _:
            return None


def _names(op: amir.Op) -> set[Sym]:
    """The sizes and iterators that an operation reads, and has not bound itself."""
    if isinstance(op, amir.Loop | amir.Guard):
        inside = set[Sym]().union(*map(_names, op.body))
        if isinstance(op, amir.Guard):
            return inside | control_variables(op.condition)
        return inside - {op.iterator} | control_variables(op.lo) | control_variables(op.hi)
    barrier = _barrier_of(op)
    return set() if barrier is None else set(read_by(barrier))


def _lives(program: amir.Program, path: Path, name: Sym) -> bool:
    """Tests whether a barrier is allocated at the end of the path."""
    block, alive = program.body, False
    for place, op in path:
        for earlier in block[:place]:
            if isinstance(earlier, amir.Alloc | amir.Release) and earlier.name == name:
                alive = isinstance(earlier, amir.Alloc)
        if isinstance(op, amir.Loop | amir.Guard):
            block = op.body
    return alive or all(
        not (isinstance(o, amir.Alloc) and o.name == name) for o in operations(program.body)
    )
