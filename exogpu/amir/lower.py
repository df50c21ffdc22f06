"""Conversion from GPU IR to AMIR (paper, figure T_s), one function a statement.

Takes the facts of a procedure, which is without windows and calls and has frees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, assert_never

import exogpu.amir.export  # noqa: F401  makes JSON of programs
from exogpu.amir import lower_arguments
from exogpu.amir import nodes as amir
from exogpu.amir.lower_arguments import is_on_host
from exogpu.amir.slot_privacy import PrivateSlotError, with_comparisons
from exogpu.analysis.barriers import home_of
from exogpu.analysis.derive_tiling import unit_threads
from exogpu.analysis.facts import Facts
from exogpu.analysis.launch import preceding, waits
from exogpu.analysis.operand_windows import Demand, demands
from exogpu.analysis.private_slots import COUNT_STEPS
from exogpu.analysis.roles import NO_ROLES, access_at, elements, spread
from exogpu.analysis.threadmap import ThreadMap
from exogpu.diagnostics.errors import Diagnostic, ExoGpuError
from exogpu.diagnostics.verdict import Policy
from exogpu.frontend.quote import quote_access
from exogpu.hw.timelines import ONLY_BEFORE, SYNC_TIMELINES
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism, Level, QualSet, QualTL, Space, Sym
from exogpu.ir.walk import control_variables, walk

Ops = Iterator[amir.Op]

_NO: Final[QualSet] = frozenset()


def lower(facts: Facts, policy: Policy) -> amir.Program:
    """The AMIR program of a procedure under a policy; only control parameters are kept.

    Raises ExoGpuError (D507) for an Arrive whose targets do not meet in one home barrier, and
    (D528) for a slot that is private to a cluster and has another meaning (decision
    `private-slot`).
    """
    proc = facts.proc
    inner = [s for s in walk(proc.body) if isinstance(s, ir.Alloc | ir.BarrierAlloc)]
    declared: list[lower_arguments.Declared] = [
        *(p for p in proc.params if isinstance(p, ir.DataParam)),
        *inner,
    ]
    asked: dict[ir.CallInstr, list[Demand]] = {}
    for demand in demands(proc, facts.variables):
        asked.setdefault(demand.call, []).append(demand)
    variables = {d.name: d for d in declared}
    pairs = preceding(proc)
    ends = {launch: Sym(f"launch{n or ''}") for n, launch in enumerate(pairs)}
    followed = {pairs[launch]: end for launch, end in ends.items()}
    awaited = {wait: end for launch, end in ends.items() for wait in waits(launch)}
    low = lower_arguments.Lowering(
        facts.collective, policy, variables, asked, facts.mechanisms, ends, followed, awaited
    )
    launched = (
        amir.Variable(end, (), BarrierMechanism.LAUNCH, task_local=False) for end in ends.values()
    )
    program = amir.Program(
        name=proc.name,
        params=tuple(p for p in proc.params if isinstance(p, ir.ControlParam)),
        preconditions=proc.preconditions,
        variables=(*_variables(facts, declared), *launched),
        body=_block(low, proc.body, None),
        policy=policy,
        contracts=proc.contracts,
        imported=proc.imported,
    )
    try:
        return with_comparisons(program)
    except PrivateSlotError as reason:
        raise ExoGpuError([Diagnostic("D528", reason.reason, reason.span, COUNT_STEPS)]) from None


def _variables(facts: Facts, declared: list[lower_arguments.Declared]) -> Iterator[amir.Variable]:
    in_task = {
        inner.name
        for stmt in walk(facts.proc.body)
        if isinstance(stmt, ir.DeviceFunction)
        for loop in stmt.body
        if isinstance(loop, ir.For)
        for inner in walk(loop.body)
        if isinstance(inner, ir.Alloc | ir.BarrierAlloc)
    }
    for d in declared:
        local = d.name in in_task
        shape = facts.extents.get(d.name, d.shape)
        if isinstance(d, ir.BarrierAlloc):
            depth = facts.ring_depths.get(d.name)
            yield amir.Variable(
                d.name, shape, d.mechanism, d.guard, depth, lower_arguments.is_shared(d), local
            )
        else:
            owner = _owner(facts, d)
            own = isinstance(d, ir.Alloc) and is_on_host(d)
            shared = lower_arguments.is_shared(d)
            yield amir.Variable(
                d.name, shape, shared=shared, task_local=local, owner=owner, host=own
            )


def _owner(facts: Facts, declared: ir.DataParam | ir.Alloc) -> int | None:
    """The threads of the unit that owns an element of a variable of registers."""
    unit = declared.memory.unit
    if declared.memory.space is not Space.REGISTER or unit is None:
        return None
    tilings = (s for s in facts.variables if s.declaration is declared)
    return next((unit_threads(s.where.tiling, unit) for s in tilings), None)


def _block(low: lower_arguments.Lowering, block: ir.Block, cluster: ThreadMap | None) -> amir.Block:
    """`T_s(s1; s2) = T_s(s1); T_s(s2)`; `cluster` is all threads of the launch around it."""
    ops: list[amir.Op] = []
    freed: set[Sym] = set()
    for at, stmt in enumerate(block):
        if not isinstance(stmt, ir.Free):
            ops += t_s(low, stmt, cluster)
        elif stmt.reused_by is None or low.policy is Policy.PAPER:
            if stmt.name not in freed:
                ops += t_free(low, stmt, cluster)
            freed.add(stmt.name)
        else:
            ops += t_reuse(low, stmt, _reusing(low, stmt.reused_by, block[at:], cluster))
    return tuple(ops)


def _reusing(
    low: lower_arguments.Lowering,
    warps: tuple[int, int, str],
    block: ir.Block,
    cluster: ThreadMap | None,
) -> ThreadMap | None:
    """The threads of the warps of a block, or all of the launch if a loop around selects them."""
    found = {
        low.facts.inner[stmt].thread_map()
        for stmt in walk(block)
        if isinstance(stmt, ir.Warps) and (stmt.lo, stmt.hi, stmt.group) == warps
    }
    threads = found.pop()
    varies = any(control_variables(axis.offset) for axis in threads.axes)
    return cluster if found or varies else threads


def t_s(low: lower_arguments.Lowering, stmt: ir.Stmt, cluster: ThreadMap | None) -> Ops:
    """`T_s : Stmt -> Stmt#`, after what the statement requires."""
    yield from lower_arguments.statement_requirements(low, stmt)
    match stmt:
        case ir.For():
            if isinstance(stmt.mode, ir.Loaded):
                yield from t_read(low, stmt.mode.source, lower_arguments.origin_of(low, stmt))
            yield t_loop(low, stmt, cluster)
        case ir.If():
            yield from t_if(low, stmt, cluster)
        case ir.DeviceFunction():
            yield from t_device_function(low, stmt)
        case ir.Warps():
            # The figure guards the body by `true`.
            yield from _block(low, stmt.body, cluster)
        case ir.Assign() | ir.Reduce():
            yield from t_assign(low, stmt)
        case ir.CallInstr():
            yield from t_call(low, stmt)
        case ir.Alloc() | ir.BarrierAlloc():
            yield amir.Alloc(stmt.name, lower_arguments.origin_of(low, stmt))
        case ir.Fence():
            yield t_wait(low, stmt) if stmt.launches else t_fence(low, stmt)
        case ir.Arrive():
            yield from t_arrive(low, stmt)
        case ir.Await():
            yield from t_await(low, stmt)
        case ir.Uninit():
            origin = lower_arguments.origin_of(low, stmt, f"uninit({quote_access(stmt.access)})")
            yield from lower_arguments.initialises(low, stmt.access, origin, uninit=True)
        case ir.Pass():
            return
        case ir.CallProc() | ir.WindowStmt():
            raise AssertionError(f"{stmt}: to be inlined before the conversion")
        case ir.Free():
            raise AssertionError(f"{stmt}: to be converted with its block")
        case _:
            assert_never(stmt)


def t_loop(low: lower_arguments.Lowering, stmt: ir.For, cluster: ThreadMap | None) -> amir.Loop:
    """`for y in loop(lo, hi) do T_s(s)`; of cuda_tasks `(IncTaskID; T_s(s))`.

    Of a nest of cuda_tasks loops the innermost alone begins a task (section "Programs").
    Decision `slots`: a slot counts on the first element of its barrier.
    """
    origin = lower_arguments.origin_of(low, stmt)
    body = _block(low, stmt.body, cluster)
    match stmt.mode:
        case ir.CudaTasks():
            nested = any(isinstance(s, ir.For) and s.mode == ir.CudaTasks() for s in stmt.body)
            first: amir.Block = () if nested else (amir.IncTaskID(origin),)
            return amir.Loop(stmt.iterator, stmt.lo, stmt.hi, (*first, *body), origin, tasks=True)
        case ir.CudaThreads():
            return amir.Loop(stmt.iterator, stmt.lo, stmt.hi, body, origin, threads=True)
        case ir.Seq():
            return amir.Loop(stmt.iterator, stmt.lo, stmt.hi, body, origin)
        case ir.Slot(barrier):
            coords = tuple(ir.Point(ir.Int(0)) for _ in low.variables[barrier].shape)
            counted = ir.Access(barrier, coords)
            return amir.Loop(stmt.iterator, stmt.lo, stmt.hi, body, origin, slot=counted)
        case ir.Loaded(source):
            return amir.Loop(stmt.iterator, stmt.lo, stmt.hi, body, origin, source=source)
        case _:
            assert_never(stmt.mode)


def t_if(low: lower_arguments.Lowering, stmt: ir.If, cluster: ThreadMap | None) -> Ops:
    """`if b then T_s(s)`; an `else` is a guard by the negation.  One that does nothing is none."""
    origin = lower_arguments.origin_of(low, stmt)
    for condition, side in ((stmt.condition, stmt.body), (ir.Not(stmt.condition), stmt.orelse)):
        if inside := _block(low, side, cluster):
            yield amir.Guard(condition, inside, origin)


def t_device_function(low: lower_arguments.Lowering, stmt: ir.DeviceFunction) -> Ops:
    """`Fence(true, Qcs + {cpu}, Qcs, Tcs); T_s(s); Fence(true, Qcs, Qcs, Tcs)`, with Qcs and Tcs
    the full and temporal sets of cuda_stream_sync.

    Decision `resident-memory`: before what resides is freed, all threads of the cluster meet.
    Decision `dependent-launch`: where a dependent launch follows, all threads arrive on the end of
    this one in place of the Fence.
    """
    sets = SYNC_TIMELINES["cuda_stream_sync"].sets_under(low.policy)
    origin = lower_arguments.origin_of(low, stmt)
    cluster = low.facts.inner[stmt].thread_map()
    before = sets.full | {QualTL.CPU}
    yield from lower_arguments.required_at_launch(low, stmt.body)
    none = amir.Fence(True, _NO, _NO, _NO, origin, launch=True)
    if stmt in low.ends:
        yield none
    else:
        yield amir.Fence(True, before, sets.full, sets.temporal, origin, launch=True)
    ends = next(
        (at for at, one in enumerate(stmt.body) if isinstance(one, ir.Free)), len(stmt.body)
    )
    yield from _block(low, stmt.body[:ends], cluster)
    if ends < len(stmt.body):
        yield _meeting(low, stmt, cluster)
    yield from _block(low, stmt.body[ends:], cluster)
    if stmt in low.followed:
        end = ir.Access(low.followed[stmt], ())
        yield none
        yield amir.Arrive(True, sets.full, end, (end,), origin, launch=True)
    else:
        yield amir.Fence(True, sets.full, sets.full, sets.temporal, origin, launch=True)


def t_wait(low: lower_arguments.Lowering, stmt: ir.Fence) -> amir.Await:
    """Decision `dependent-launch`:
    `Await(end of the launch before, T_qfull(post), T_qtmp(post), 0)`."""
    sets = stmt.post.sets_under(low.policy)
    end = ir.Access(low.awaited[stmt], ())
    return amir.Await(
        end, sets.full, sets.temporal, 0, lower_arguments.origin_of(low, stmt), launch=True
    )


def _meeting(
    low: lower_arguments.Lowering, stmt: ir.DeviceFunction, cluster: ThreadMap | None
) -> amir.Fence:
    """`Fence(cuda_in_order, cuda_in_order)` by all threads of the cluster."""
    sets = SYNC_TIMELINES["cuda_in_order"].sets_under(low.policy)
    origin = replace(lower_arguments.origin_of(low, stmt, "the end of the launch"), threads=cluster)
    return amir.Fence(True, sets.full, sets.full, sets.temporal, origin)


def t_assign(low: lower_arguments.Lowering, stmt: ir.Assign | ir.Reduce) -> Ops:
    """`x[c*] = e`, `x[c*] += e`: for each read of e `CheckMutates(full, false, e1, {qin});
    RecordRead(full, false, e1, qin)`; for x[c*] `CheckReads(temp); CheckMutates(pre); ClearReads;
    ClearMutates; RecordMutate(full, ...)`, pre = full if `+=`, else temp.

    Decision `assignment-reads`: the reads in e are checked fully ordered whatever the assignment
    is.
    """
    origin = lower_arguments.origin_of(low, stmt)
    on_cpu = origin.threads is None
    temporal = Level.TEMPORALLY_ORDERED
    for read in lower_arguments.t_e(stmt.value):
        yield from t_read(low, read, origin)
    if isinstance(stmt, ir.Reduce):
        yield from lower_arguments.initialised(low, (stmt.target,), origin)
    for access in lower_arguments.t_ex(low, (stmt.target,)):
        qin = lower_arguments.t_qin(low, access, on_cpu)
        too = isinstance(stmt, ir.Reduce)
        pre = Level.FULLY_ORDERED if too else temporal
        only = frozenset({qin})
        yield amir.Check(False, temporal, False, access, only, origin, reads=too)
        yield amir.Check(True, pre, False, access, only, origin, reads=too)
        yield amir.Clear(False, access, origin)
        yield amir.Clear(True, access, origin)
        yield _in_order(True, access, qin, origin)
    yield from lower_arguments.initialises(low, stmt.target, origin)


def t_read(low: lower_arguments.Lowering, read: ir.Access, origin: amir.Origin) -> Ops:
    """A read in an expression, or of a value from memory (decision `loaded-values`).

    What is read has been written (decision `initialised`).
    """
    yield from lower_arguments.initialised(low, (read,), origin)
    for access in lower_arguments.t_ex(low, (read,)):
        qin = lower_arguments.t_qin(low, access, origin.threads is None)
        full = Level.FULLY_ORDERED
        yield amir.Check(True, full, False, access, frozenset({qin}), origin, reads=True)
        yield _in_order(False, access, qin, origin)


def _in_order(
    mutate: bool, access: ir.Access, timeline: QualTL, origin: amir.Origin
) -> amir.Record:
    """`Record(fully-ordered, false, e, q, {}, {})`; at CPU scope one record stands for all."""
    return amir.Record(
        mutate=mutate,
        level=Level.FULLY_ORDERED,
        convergent=origin.threads is None,
        access=access,
        timeline=timeline,
        atomic=frozenset(),
        trailing=None,
        origin=origin,
        inside=True,
    )


def t_call(low: lower_arguments.Lowering, stmt: ir.CallInstr) -> Ops:
    """`g(c*, e*) >> e_z`: the trailing barrier's own record, then `T_arg` of each data argument;
    control arguments are ignored.

    What it reads has been written before it (decision `initialised`); the reads come before all
    that it writes.
    """
    yield from lower_arguments.t_trailing(low, stmt)
    data = [(at, p) for at, p in enumerate(stmt.instr.params) if isinstance(p, ir.DataParam)]
    for (position, param), mode in zip(data, stmt.instr.modes, strict=True):
        yield from lower_arguments.initialised_by_call(low, stmt, position)
        yield from lower_arguments.t_arg(low, stmt, position, param, mode)
    for position, _ in data:
        yield from lower_arguments.initialises_by_call(low, stmt, position)


def t_free(low: lower_arguments.Lowering, stmt: ir.Free, cluster: ThreadMap | None) -> Ops:
    """`free x`: for shared memory `CheckReads(temp, false, x[:*], {qin}); CheckMutates(...)`;
    `free z`: `CheckBarrier(z[:*])` first.

    Decision `shared-lifetime`: the checks take all threads of the cluster.  The state is dropped
    after them. Decision `host-lifetime`: the same checks on the CPU for memory of the host.
    Decision `flags`: a flag needs no balance, since its launch has ended.
    """
    variable = low.variables[stmt.name]
    origin = _origin_of_free(low, stmt, cluster)
    if isinstance(variable, ir.BarrierAlloc) and variable.mechanism is not BarrierMechanism.FLAG:
        yield amir.CheckBarrier(stmt.name, origin)
    if lower_arguments.is_shared(variable) or is_on_host(variable):
        yield from _checks_of_free(low, stmt, origin)
    yield amir.Release(stmt.name, origin)


def t_reuse(low: lower_arguments.Lowering, stmt: ir.Free, warps: ThreadMap | None) -> Ops:
    """`free x` before warps that alone use the bytes until x is freed for all.

    Decision `shared-lifetime`: the same checks, by these warps; no state is dropped.
    """
    yield from _checks_of_free(low, stmt, _origin_of_free(low, stmt, warps))


def _origin_of_free(
    low: lower_arguments.Lowering, stmt: ir.Free, threads: ThreadMap | None
) -> amir.Origin:
    ends = stmt.ends if stmt.ends.line else None
    origin = lower_arguments.origin_of(low, stmt, f"free {stmt.name}")
    return replace(origin, threads=threads, ends=ends)


def _checks_of_free(low: lower_arguments.Lowering, stmt: ir.Free, origin: amir.Origin) -> Ops:
    shape = low.variables[stmt.name].shape
    whole = ir.Access(stmt.name, tuple(ir.Interval(ir.Int(0), n) for n in shape))
    only = frozenset({lower_arguments.t_qin(low, whole, on_cpu=False)})
    level = Level.TEMPORALLY_ORDERED
    yield amir.Check(False, level, False, whole, only, origin, free=True)
    yield amir.Check(True, level, False, whole, only, origin, free=True)


def t_fence(low: lower_arguments.Lowering, stmt: ir.Fence) -> amir.Fence:
    """`Fence(T_tr(pre), T_qfull(pre), T_qfull(post), T_qtmp(post))`."""
    pre, post = stmt.pre.sets_under(low.policy), stmt.post.sets_under(low.policy)
    origin, joins = lower_arguments.origin_of(low, stmt), stmt.pre.name not in ONLY_BEFORE
    return amir.Fence(stmt.pre.transitive, pre.full, post.full, post.temporal, origin, joins=joins)


def t_arrive(low: lower_arguments.Lowering, stmt: ir.Arrive) -> Ops:
    """`for e in T_ex(e_z*): RecordRead(fully-ordered, false, e, T_qarr); Arrive(T_tr, T_qfull,
    T_e(e_z*))`; decision `shared-phases`: an Arrive for each role that awaits it."""
    origin = lower_arguments.origin_of(low, stmt)
    for access in lower_arguments.t_ex(low, stmt.targets):
        yield replace(
            _in_order(False, access, lower_arguments.t_qarr(low, stmt.timeline), origin),
            convergent=False,
        )
    pre = stmt.timeline.sets_under(low.policy).full
    name = stmt.targets[0].name
    roles = low.mechanisms.roles.get(name, NO_ROLES)
    for targets in spread(stmt, roles, low.variables[name].shape):
        home = home_of(targets)
        if home is None:
            raise ExoGpuError([_no_home(stmt)])
        yield amir.Arrive(stmt.timeline.transitive, pre, home, targets, origin)


def _no_home(stmt: ir.Arrive) -> Diagnostic:
    return Diagnostic(
        "D507",
        f"a dimension of {stmt.targets[0].name} is an interval in every target, so the arrive "
        "has no home",
        stmt.span,
        "name the arriving thread's own element too: Arrive(tl) >> z[cta, :] >> z[:, n]",
    )


def t_await(low: lower_arguments.Lowering, stmt: ir.Await) -> Ops:
    """`for e in T_ex(e_z): RecordRead(fully-ordered, false, e, T_qin(e)); Await(T_e(e_z),
    T_qfull, T_qtmp, n)`; decision `shared-phases`: an Await of each role that arrives."""
    origin = lower_arguments.origin_of(low, stmt)
    for access in lower_arguments.t_ex(low, (stmt.barrier,)):
        yield replace(
            _in_order(False, access, lower_arguments.t_qin(low, access, False), origin),
            convergent=False,
        )
    sets = stmt.timeline.sets_under(low.policy)
    name = stmt.barrier.name
    roles = low.mechanisms.roles.get(name, NO_ROLES)
    for index in elements(roles.arriving, low.variables[name].shape):
        barrier = lower_arguments.one_element(access_at(stmt.barrier, index))
        yield amir.Await(barrier, sets.full, sets.temporal, stmt.n, origin)
