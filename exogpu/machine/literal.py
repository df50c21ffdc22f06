"""The abstract machine, rule by rule (paper, section 5 and its appendix): slow, obviously right.

The oracle of the tests: one function a rule, on dicts and sets.  Its corrections of the figures,
each a test of that name in `tests/machine/decisions.py`:

 1. `windows_are_half_open`: W-Range is inclusive; windows here end before `hi`.
 2. `cpu_scope_is_everyone`: at CPU scope g is every thread of every task, and an access there
    is one record, convergent or not: the CPU is one thread that stands for all of them.
 3. `await_waits_for_all_but_the_newest` (n >= 0), `await_waits_for_the_numbered` (n < 0).
    `deadlock_at_await`, `deadlock_at_later_arrive`, `deadlock_of_a_trailing_tag`: an Await with
    bound Max >= 0 needs, before it in program order, an Arrive on its element, and more than Max
    from every home whose Arrives target it; a trailing tag needs a later home Arrive of its rank.
 4. `a_record_without_timeline_is_invisible`: a trailing barrier's own record.
    `an_arrive_without_timelines_tags_nothing`: yet it counts, and it orders execution.
 6. `empty_loops_and_trips_of_one` are ordinary.
 7. `proxy_needs_a_proxy_fence` (a), `temporal_stays_temporal` (b) under policy ptx, and
    `more_synchronisation_never_hurts`: own access, temporal and full are separate bits.
 9. `tags_die_with_their_barrier`, `tasks_are_never_ordered`.
12. `phase_*`: rings of mbarriers (`machine.literal_phase`).
13. `elements_outside_are_dropped` from every window.
15. `multicast_tags_carry_the_home_count`, trailing barriers' too.  That a copy completes on the
    barrier of its own CTA alone is said by the targets (`lower_args.recorded`).
17. `one_timeline_of_the_set_is_enough`.
27. `what_resides_is_handed_over`, `no_value_leaks_from_task_to_task`.
28. `a_slot_counts_arrivals`.
32. `a_value_is_what_the_array_has`.
41. `an_await_is_of_its_own_arrival` under policy ptx.
42. `a_slot_is_private_to_its_cluster`: of a barrier that resides it indexes what resides, and has
    no other meaning (`amir.slot_privacy`).
44. `what_is_read_has_been_written`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import assert_never

from exogpu.amir import nodes as amir
from exogpu.amir.slot_privacy import check_private_slots
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.nodes import Access
from exogpu.ir.types import Sym
from exogpu.ir.walk import evaluate, holds
from exogpu.machine import literal_barriers, literal_records, literal_state
from exogpu.machine.index_contents import Contents, loads, position, sample_contents
from exogpu.machine.literal_phase import (
    begin_await,
    forget_barrier,
    note_arrival,
    pass_arrive,
    pass_await,
    pass_fence,
)
from exogpu.machine.observer import Arrival, First, Moment, Observer, Violation, Waiting
from exogpu.machine.required_conditions import demands, is_met


def run(
    program: amir.Program,
    sizes: Mapping[str, int],
    observer: Observer | None = None,
    *,
    collect: bool = False,
    contents: Contents | None = None,
    watch: Callable[[], None] | None = None,
) -> tuple[Violation, ...]:
    """Executes the program at the given sizes; the violations found, none if it is safe.

    Stops at the first operation that fails and returns its first violation; with `collect` it
    carries on and returns all, in the order in which they were found.  An observer says itself
    what it keeps, and when the run ends.  The sizes are one for each parameter, and satisfy the
    preconditions (`frontend.sizes.check_sizes`).  Where values are loaded and no contents are
    given, several are tried, up to the first with a violation.  `watch` is called before each
    operation; an exception that it raises ends the run.
    """
    observer = observer or (Observer() if collect else First())
    if contents is None and loads(program):
        for one in sample_contents(program, sizes):
            execute(program, sizes, observer, one, watch)
            if observer.found:
                break
    else:
        execute(program, sizes, observer, contents, watch)
    return tuple(observer.found)


def execute(
    program: amir.Program,
    sizes: Mapping[str, int],
    observer: Observer,
    contents: Contents | None = None,
    watch: Callable[[], None] | None = None,
) -> literal_state.Machine:
    """As `run`: the configuration in which the run ends; with the first contents that are tried, if
    none are given.  Raises PrivateSlotError where a slot has no meaning."""
    check_private_slots(program)
    sigma = {parameter.name: sizes[parameter.name.name] for parameter in program.params}
    machine = literal_state.new_machine(program, sigma, observer)
    machine.watch = watch
    machine.contents = next(sample_contents(program, sizes), {}) if contents is None else contents
    step_block(machine, program.body)
    return machine


def step_block(machine: literal_state.Machine, block: amir.Block) -> bool:
    """Seq: `s1; s2`.  False once the run has to stop."""
    return all(step(machine, op) for op in block)


def step(machine: literal_state.Machine, op: amir.Op) -> bool:
    """One statement; False once the run has to stop."""
    if machine.watch is not None:
        machine.watch()
    at = literal_state.moment_of(machine, op)
    if not machine.observer.step(at):
        machine.going = False
        return False
    step_demands(machine, op, at)
    if not machine.going:
        return False
    match op:
        case amir.Loop():
            step_loop(machine, op)
        case amir.Guard():
            step_guard(machine, op)
        case amir.IncTaskID():
            step_inc_task_id(machine)
        case amir.Alloc():
            step_alloc(machine, op, at)
        case amir.Release():
            step_release(machine, op)
        case amir.Record():
            step_record(machine, op, at)
        case amir.Check():
            step_check(machine, op, at)
        case amir.Clear():
            step_clear(machine, op, at)
        case amir.Initialise():
            step_initialise(machine, op)
        case amir.CheckInitialised():
            step_check_initialised(machine, op, at)
        case amir.Fence():
            step_fence(machine, op, at)
        case amir.Arrive():
            step_arrive(machine, op, at)
        case amir.Await():
            step_await(machine, op, at)
        case amir.CheckBarrier():
            step_check_barrier(machine, op, at)
        case amir.Require():
            pass
        case _:
            assert_never(op)
    return machine.going


def step_demands(machine: literal_state.Machine, op: amir.Op, at: Moment) -> None:
    """Checks an operation's demands on its windows, and the condition of a Require: an error iff
    one does not hold. No figure has it: the source is in bounds there."""
    if op not in machine.demands:
        machine.demands[op] = demands(op, machine.variables)
    unmet = [d for d in machine.demands[op] if not is_met(d, machine.sigma)]
    if unmet and machine.observer.asks(at):
        literal_state.report(machine, at, [(d.kind, d.variable, (), None) for d in unmet])


# --- structure ----------------------------------------------------------------------------


def step_loop(machine: literal_state.Machine, op: amir.Loop) -> None:
    """LoopStep, LoopDone: the body once for each y in `[lo, hi)`; decision `slots`: of a slot, for
    the number of Arrives modulo hi; decision `loaded-values`: of a value from memory, for that
    value; where it is not in the range the kernel traps."""
    values = range(evaluate(op.lo, machine.sigma), evaluate(op.hi, machine.sigma))
    if op.slot is not None:
        barrier = machine.barriers[op.slot.name]
        count = barrier.arrives.get(literal_state.the_element(machine, op.slot), 0)
        values = range(count % values.stop, count % values.stop + 1)
    if op.source is not None:
        value = step_load(machine, op.source)
        if value not in values:
            machine.going = False
            return
        values = range(value, value + 1)
    loops, around = machine.loops, machine.values
    machine.loops = (*loops, op)
    for y in machine.observer.iterations(op, values):
        machine.sigma[op.iterator] = y
        machine.values = (*around, y)
        if not step_block(machine, op.body):
            break
    machine.loops, machine.values = loops, around


def step_load(machine: literal_state.Machine, source: Access) -> int:
    """Decision `loaded-values`: what the array has at the element."""
    name = source.name
    at = evaluate(position(source, machine.shapes[name]), machine.sigma)
    elements = machine.contents.get(name.name, ())
    return elements[at] if 0 <= at < len(elements) else 0


def step_guard(machine: literal_state.Machine, op: amir.Guard) -> None:
    """IF-True, IF-False."""
    if holds(op.condition, machine.sigma):
        step_block(machine, op.body)


def step_inc_task_id(machine: literal_state.Machine) -> None:
    """InctaskID: `iota' = iota + 1`; decision `resident-memory`: what resides is handed over."""
    machine.task += 1
    machine.executing.clear()
    literal_state.hand_over(machine, machine.task - 1)


def step_alloc(machine: literal_state.Machine, op: amir.Alloc, at: Moment) -> None:
    """Alloc: `rho' = rho[(x, n) -> (empty, empty, (0, 0))]`.  Decision `task-order`: tags are
    deleted."""
    _forget(machine, op.name)
    literal_state.allocate(machine, machine.variables[op.name], machine.observer.asks(at))


def step_release(machine: literal_state.Machine, op: amir.Release) -> None:
    """Decision `task-order`: the variable's state is dropped, and a barrier's tags in every
    record."""
    _forget(machine, op.name)


def _forget(machine: literal_state.Machine, name: Sym) -> None:
    for held in machine.cells.pop(name, {}).values():
        for recorded in (*held.reads, *held.mutates):
            _let_go(machine, recorded)
    if machine.barriers.pop(name, None) is not None:
        for recorded in machine.live:
            for record in recorded.records:
                literal_records.drop_tags(record, name)
        for barrier in machine.barriers.values():
            if barrier.phase is not None:
                forget_barrier(barrier.phase, name)


def _let_go(machine: literal_state.Machine, recorded: literal_state.Recorded) -> None:
    recorded.holders -= 1
    if recorded.holders == 0:
        del machine.live[recorded]


# --- accesses -----------------------------------------------------------------------------


def step_record(machine: literal_state.Machine, op: amir.Record, at: Moment) -> None:
    """RecordRead, RecordMutate: `rho(x, n).r union R(level, t, q, q*, W_ez, rho, g)`, where R is
    one record with S_G if t, else the records with S_{g} for g in G.

    Decision `figures-read`: at CPU scope one record stands for everyone.  Decision
    `multicast-tags`: `P(z, n) = {a}` with the count a of the home, for each target of the trailing
    barrier.
    """
    asked = machine.observer.asks(at)
    one = op.convergent or op.timeline is None or literal_records.EVERYONE in at.threads
    holders = [at.threads] if one else [frozenset({g}) for g in sorted(at.threads)]
    made = (
        literal_records.new_record(op.level, op.timeline, op.atomic, h) for h in holders if asked
    )
    recorded = literal_state.Recorded(at, list(made))
    if op.trailing is not None:
        tag_trailing(machine, at, op.trailing, recorded)
    window = literal_state.elements(machine, op.access) if asked else []
    if not window:
        return
    recorded.records = machine.observer.recorded(at, recorded.records)
    machine.live[recorded] = None
    recorded.holders = len(window)
    for index in window:
        held = literal_state.cell(machine, op.access.name, index)
        (held.mutates if op.mutate else held.reads).append(recorded)


def tag_trailing(
    machine: literal_state.Machine,
    at: Moment,
    trailing: amir.Trailing,
    recorded: literal_state.Recorded,
) -> None:
    """The tags of a trailing barrier (decision `multicast-tags`), and what they oblige to
    (decisions `await-counts`, `mbarrier-phase`).

    They order execution as an Arrive does: the Await that they release waits for an instruction
    that these threads have issued.
    """
    barrier = machine.barriers[trailing.home.name]
    home = literal_state.the_element(machine, trailing.home)
    rank = barrier.arrives.get(home, 0)
    targets = literal_state.elements_of(machine, trailing.targets)
    for record in recorded.records:
        for target in targets:
            record.tags.setdefault(target, set()).add(
                (rank, literal_records.Grant.FULL, frozenset())
            )
    barrier.trailing.append((home, rank, at))
    machine.observer.on_arrive(at, Arrival((trailing.home.name, home), rank, targets))
    literal_state.report(
        machine, at, literal_barriers.phase_at_arrival(machine.policy, barrier, at, targets, rank)
    )
    for other in machine.barriers.values():
        if other.phase is not None:
            pass_arrive(other.phase, at.threads, targets, rank)


def step_check(machine: literal_state.Machine, op: amir.Check, at: Moment) -> None:
    """CheckReads, CheckMutates: an error iff some record of some element of the window is not
    visible (`check_visible`)."""
    if not machine.observer.asks(at):
        return
    name = op.access.name
    unseen: dict[literal_state.Recorded, list[literal_records.VisibilityRecord]] = {}
    failures: literal_state.Failures = []
    for index in literal_state.elements(machine, op.access):
        held = literal_state.cell(machine, name, index)
        for recorded in held.mutates if op.mutates else held.reads:
            if recorded not in unseen:
                way = (op.level, op.convergent, op.timelines, at.threads)
                unseen[recorded] = [
                    r for r in recorded.records if not literal_records.check_visible(r, *way)
                ]
                machine.observer.on_check(at, recorded.moment, unseen[recorded])
            if op.mutates and op.reads and literal_state.leaks(machine, name, recorded, at):
                failures.append((HazardKind.LEAK, name, index, recorded.moment))
            elif unseen[recorded]:
                failures.append((hazard(op), name, index, recorded.moment))
    literal_state.report(machine, at, failures)


def hazard(op: amir.Check) -> HazardKind:
    """The hazard that a failing check is."""
    if op.free:
        return HazardKind.FREE
    if not op.mutates:
        return HazardKind.WAR
    return HazardKind.RAW if op.reads else HazardKind.WAW


def step_clear(machine: literal_state.Machine, op: amir.Clear, at: Moment) -> None:
    """ClearReads, ClearMutates: `rho[(x, n) -> (empty, m, b)]`, `(r, empty, b)`."""
    if not machine.observer.asks(at):
        return
    for index in literal_state.elements(machine, op.access):
        held = literal_state.cell(machine, op.access.name, index)
        cleared = held.mutates if op.mutates else held.reads
        for recorded in cleared:
            _let_go(machine, recorded)
        cleared.clear()


# --- initialised memory -------------------------------------------------------------------


def step_initialise(machine: literal_state.Machine, op: amir.Initialise) -> None:
    """Marks what a statement writes as written (decision `initialised`; no figure has it)."""
    machine.initialised[op.access.name].update(literal_state.elements(machine, op.access))


def step_check_initialised(
    machine: literal_state.Machine, op: amir.CheckInitialised, at: Moment
) -> None:
    """Reports elements that a statement reads and that have not been written since their
    allocation, in the order of the program (decision `initialised`; no figure has it)."""
    if not machine.observer.asks(at):
        return
    name = op.access.name
    written = machine.initialised[name]
    unwritten = (
        index for index in literal_state.elements(machine, op.access) if index not in written
    )
    literal_state.report(
        machine, at, [(HazardKind.UNINIT, name, index, None) for index in unwritten]
    )


# --- synchronisation ----------------------------------------------------------------------


def step_fence(machine: literal_state.Machine, op: amir.Fence, at: Moment) -> None:
    """Fence: `lambda = (r -> A(r, g, full, temp) if W(t, g, pre, r) else r)`, lifted."""
    for record in _records(machine):
        given = _fired(machine, op, at, record)
        post = (op.full, op.temporal, given.grant, given.carried)
        literal_records.augment(machine.policy, record, at.threads, *post)
    for barrier in machine.barriers.values() if op.joins else ():
        if barrier.phase is not None:
            pass_fence(barrier.phase, at.threads)


def _records(machine: literal_state.Machine) -> Iterator[literal_records.VisibilityRecord]:
    """Every visibility record of every element: what syncs are lifted to."""
    for recorded in machine.live:
        yield from recorded.records


def _fired(
    machine: literal_state.Machine,
    op: amir.Fence | amir.Arrive,
    at: Moment,
    record: literal_records.VisibilityRecord,
) -> literal_records.Given:
    """`W(t, g, pre, r)`: what the sync may give to the record, and carries on."""
    way = (machine.policy, op.transitive, at.threads, op.pre, record)
    grant = literal_records.witness(*way)
    given = (
        literal_records.Given(grant, literal_records.carried_timelines(*way))
        if grant is not literal_records.Grant.NOTHING
        else literal_records.NOTHING
    )
    machine.observer.on_meeting(at, record, given)
    return given


def step_arrive(machine: literal_state.Machine, op: amir.Arrive, at: Moment) -> None:
    """Arrive: `{(z, n)} = intersection of the targets`, W their union; `lambda` adds the count a
    to `r.p` at every element of W if `W(t, g, pre, r)`; then `rho(z, n).b = (a + 1, w)`.

    Decision `multicast-tags`: a is the home's count, for every target.
    """
    barrier = machine.barriers[op.home.name]
    home = literal_state.the_element(machine, op.home)
    rank = barrier.arrives.get(home, 0)
    targets = literal_state.elements_of(machine, op.targets)
    machine.observer.on_arrive(at, Arrival((op.home.name, home), rank, targets))
    failures = literal_barriers.phase_at_arrival(machine.policy, barrier, at, targets, rank)
    literal_state.report(
        machine, at, failures + literal_barriers.deadlock_at_arrive(barrier, targets, home, rank)
    )
    for record in _records(machine):
        given = _fired(machine, op, at, record)
        for target in targets if given.grant is not literal_records.Grant.NOTHING else ():
            record.tags.setdefault(target, set()).add((rank, given.grant, given.carried))
    mechanism = barrier.variable.mechanism
    assert mechanism is not None
    for other in machine.barriers.values() if mechanism.joins else ():
        if other.phase is not None:
            pass_arrive(other.phase, at.threads, targets, rank)
    if barrier.phase is not None:
        for _, index in targets:
            note_arrival(barrier.phase, index, rank, at.threads)
    barrier.arrives[home] = rank + 1


def step_await(machine: literal_state.Machine, op: amir.Await, at: Moment) -> None:
    """Await: `lambda = (r -> A(r, g, full, temp) if there is an i in r.p(z, n) with i <= Max,
    else r)`, lifted; then `rho(z, n).b = (a, New)`; Max and New are those of `await_counts`.

    Decision `await-own-arrival`, ptx: on an mbarrier with `i = Max` (`receives`).
    """
    barrier = machine.barriers[op.barrier.name]
    index = literal_state.the_element(machine, op.barrier)
    element = (op.barrier.name, index)
    bound, new = literal_barriers.await_counts(
        barrier.arrives.get(index, 0), barrier.awaits.get(index, 0), op.n
    )
    machine.observer.on_await(at, Waiting(element, bound))
    literal_state.report(
        machine, at, literal_barriers.failures_at_await(barrier, at, element, bound)
    )
    for record in _records(machine):
        given = literal_records.best_tag(machine.policy, record, element, op.n, bound)
        machine.observer.on_meeting(at, record, given)
        post = (op.full, op.temporal, given.grant, given.carried)
        literal_records.augment(machine.policy, record, at.threads, *post)
    for other in machine.barriers.values():
        if other.phase is not None:
            pass_await(machine.policy, other.phase, at.threads, element, op.n, bound)
    if barrier.phase is not None:
        begin_await(barrier.phase, index, bound, at)
    literal_barriers.note_await(barrier, at, index, bound)
    barrier.awaits[index] = new


def step_check_barrier(machine: literal_state.Machine, op: amir.CheckBarrier, at: Moment) -> None:
    """CheckBarrier: an error iff some element has `a != w`.

    Decision `await-counts`: or a trailing tag whose home has not arrived since.  Decision
    `mbarrier-phase`: or PHASE.
    """
    barrier = machine.barriers[op.name]
    failures = literal_barriers.balance_failures(barrier) + literal_barriers.trailing_failures(
        barrier
    )
    literal_state.report(machine, at, failures + literal_barriers.phase_at_free(barrier, at))
