"""Records, checks and clears, and what has been written: what an access does to the states of its
elements.

Neighbouring operations on the same window by the same threads, such as the checks, clears and
record of one assignment, are one transition of the states they meet, found once for each state.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from exogpu.amir import nodes as amir
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.types import Sym
from exogpu.machine.fast import configuration, records
from exogpu.machine.fast.affine_code import Values
from exogpu.machine.fast.arrivals import Barrier
from exogpu.machine.fast.cells import (
    ClassId,
    Run,
    Store,
    count_each,
    gather_cells,
    replace_each,
    scatter_cells,
)
from exogpu.machine.fast.signature import Parts
from exogpu.machine.fast.visibility_updates import FULL, Lift, tagged, trail
from exogpu.machine.literal import hazard


def access_steps(
    context: configuration.Context, ops: list[amir.OnWindow], nest: configuration.Nest, parts: Parts
) -> list[configuration.Step]:
    """The steps of neighbouring accesses, without those that cannot matter."""
    matters = context.machine.layout.matters
    steps: list[configuration.Step] = []
    group: list[amir.OnWindow] = []
    for op in ops:
        if not matters(op) and not (isinstance(op, amir.Record) and op.trailing is not None):
            continue
        if group and not is_one_transition(context.machine, group[0], op):
            steps.append(_step(context, group, nest, parts))
            group = []
        group.append(op)
    if group:
        steps.append(_step(context, group, nest, parts))
    return steps


def is_one_transition(
    machine: configuration.Machine, first: amir.OnWindow, op: amir.OnWindow
) -> bool:
    """Tests whether two accesses make one transition."""
    return (
        not machine.fine
        and machine.layout.matters(first)
        and machine.layout.matters(op)
        and op.access == first.access
        and op.origin.threads == first.origin.threads
    )


def executed_by(ops: Sequence[amir.OnWindow]) -> amir.Record | amir.Check | None:
    """Returns the operation whose threads matter to a transition; None if none does.

    Whether something has been written does not depend on who asks.
    """
    return next((op for op in ops if isinstance(op, amir.Record | amir.Check)), None)


# --- what one operation does ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _CheckAccess:
    """CheckReads, CheckMutates."""

    op: amir.Check
    facts: records.CheckFacts


@dataclass(frozen=True, slots=True, eq=False)
class _Cleared:
    """ClearReads, ClearMutates."""

    op: amir.Clear


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """RecordRead, RecordMutate; `facts` None if no check can meet its records."""

    op: amir.Record
    facts: records.RecordFacts | None
    signal: _Signal | None


@dataclass(frozen=True, slots=True, eq=False)
class _Initialised:
    """Initialise."""

    op: amir.Initialise


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """CheckInitialised."""

    op: amir.CheckInitialised


Rule: TypeAlias = _CheckAccess | _Cleared | _Made | _Initialised | _Read


@dataclass(slots=True, eq=False)
class _Signal:
    """The trailing barrier of a Record."""

    machine: configuration.Machine
    op: amir.Record
    nest: configuration.Nest
    name: Sym
    home: configuration.Elements
    targets: configuration.Elements
    lifts: dict[Hashable, Lift] = field(default_factory=dict)

    def barrier(self) -> Barrier:
        """The barrier's present allocation."""
        barrier = self.machine.barriers[self.name]
        assert barrier is not None
        return barrier

    def tags(self, e: Values) -> records.Tags:
        """`P(z, n) = {a}`, with the count of the home (decision `multicast-tags`)."""
        (home,) = self.home(e)
        return tagged((), self.barrier().tags(home, self.targets(e)), (FULL, ()))

    def send(self, e: Values, threads: records.Threads) -> None:
        """Sends the arrival of the trailing barrier: its obligations (decisions `await-counts`,
        `mbarrier-phase`), and its order of execution."""
        machine, barrier = self.machine, self.barrier()
        (home,), targets = self.home(e), self.targets(e)
        found = barrier.check_trailing(home, targets, threads, self.op)
        machine.report_barrier(self.op, self.nest, self.name, found)
        key = (threads, barrier.tags(home, targets))
        lift = self.lifts.get(key)
        if lift is None:
            if len(self.lifts) >= configuration.KEPT:
                self.lifts.clear()
            lift = self.lifts[key] = Lift(machine.tables, trail(*key), threads)
        machine.classes.lift(lift)


def rule_of(
    context: configuration.Context, op: amir.OnWindow, nest: configuration.Nest, parts: Parts
) -> Rule:
    """Returns what an operation does to the states of its elements."""
    match op:
        case amir.Check():
            return _CheckAccess(op, records.CheckFacts(op.level, op.convergent, op.timelines))
        case amir.Clear():
            return _Cleared(op)
        case amir.Record():
            return _Made(
                op, context.machine.layout.records.get(op), _signal(context, op, nest, parts)
            )
        case amir.Initialise():
            return _Initialised(op)
        case amir.CheckInitialised():
            return _Read(op)


def _signal(
    context: configuration.Context, op: amir.Record, nest: configuration.Nest, parts: Parts
) -> _Signal | None:
    if op.trailing is None:
        return None
    parts.lifts = True
    parts.cpu |= op.origin.threads is None
    home = context.elements((op.trailing.home,), parts)
    targets = context.elements(op.trailing.targets, parts)
    return _Signal(context.machine, op, nest, op.trailing.home.name, home, targets)


def _state_after(
    tables: records.Tables,
    rule: Rule,
    state: records.StateId,
    threads: records.Threads,
    tags: records.Tags,
) -> records.StateId:
    """The state after one operation; a check leaves it as it is."""
    match rule:
        case _CheckAccess() | _Read():
            return state
        case _Initialised():
            reads, mutates, _ = tables.states[state]
            return tables.state(reads, mutates, True)
        case _Cleared():
            reads, mutates, written = tables.states[state]
            if rule.op.mutates:
                return tables.state(reads, (), written)
            return tables.state((), mutates, written)
        case _Made():
            if rule.facts is None:
                return state
            made = tables.family(records.new_family(rule.facts, threads, tags))
            reads, mutates, written = tables.states[state]
            if rule.op.mutate:
                return tables.state(reads, (*mutates, made), written)
            return tables.state((*reads, made), mutates, written)


def _failing(
    tables: records.Tables,
    rule: _CheckAccess | _Read,
    state: records.StateId,
    threads: records.Threads,
) -> list[tuple[HazardKind, amir.Op | None]]:
    """Lists what is wrong for these threads: the Records that are not visible or hold a value of
    another task; or, without a Record, that nothing has been written."""
    if isinstance(rule, _Read):
        return [] if tables.states[state][2] else [(HazardKind.UNINIT, None)]
    if state == records.EMPTY:
        return []
    reads, mutates, _ = tables.states[state]
    found: list[tuple[HazardKind, amir.Op | None]] = []
    kind = hazard(rule.op)
    for family in (tables.families[f] for f in (mutates if rule.op.mutates else reads)):
        facts = tables.facts[family[0]]
        if rule.op.mutates and rule.op.reads and records.leaks(facts, family):
            found.append((HazardKind.LEAK, facts.op))
        elif not records.visible(rule.facts, threads, facts, family):
            found.append((kind, facts.op))
    return found


def after_rules(
    machine: configuration.Machine,
    rules: tuple[Rule, ...],
    state: records.StateId,
    threads: records.Threads,
    tags: tuple[records.Tags, ...],
) -> records.StateId:
    """The state after all operations, or FAILS: a check fails that has to be reported."""
    tables, left, wants = machine.tables, list(reversed(tags)), machine.observer.wants
    for rule in rules:
        if isinstance(rule, _CheckAccess | _Read):
            failing = _failing(tables, rule, state, threads)
            if any(wants(kind, rule.op, record) for kind, record in failing):
                return records.FAILS
        signals = isinstance(rule, _Made) and rule.signal is not None
        state = _state_after(tables, rule, state, threads, left.pop() if signals else ())
    return state


# --- steps ----------------------------------------------------------------------------------


def _step(
    context: configuration.Context, ops: list[amir.OnWindow], nest: configuration.Nest, parts: Parts
) -> configuration.Step:
    machine, first = context.machine, ops[0]
    executed = executed_by(ops)
    masks = _anyone if executed is None else context.masks(executed.origin.threads, parts)
    rules = tuple(rule_of(context, op, nest, parts) for op in ops)
    signals = tuple(r.signal for r in rules if isinstance(r, _Made) and r.signal is not None)
    e = machine.values
    if not machine.layout.matters(first):

        def only_signal() -> None:
            for signal in signals:
                signal.send(e, masks(e))

        return only_signal
    store = machine.layout.stores[first.access.name]
    windows = context.windows(store, first.access, parts)
    if machine.fine:
        return lambda: _one_by_one(machine, nest, rules, store, windows, masks(e))
    return _Transition(machine, nest, rules, signals, store, windows).step(masks)


def _anyone(e: Values) -> records.Threads:
    return records.EVERYONE


def _one_by_one(
    machine: configuration.Machine,
    nest: configuration.Nest,
    rules: tuple[Rule, ...],
    store: Store,
    windows: configuration.Windows,
    threads: records.Threads,
) -> None:
    """One operation after the other, failures reported element by element."""
    e, tables, classes = machine.values, machine.tables, machine.classes
    cells = store.cells
    assert cells is not None
    window = [cell for first, last in windows(e) for cell in range(first, last)]
    for rule in rules:
        if isinstance(rule, _CheckAccess | _Read):
            failures = [
                (kind, store.name, store.index(cell), record)
                for cell in window
                for kind, record in _failing(tables, rule, classes.state_of[cells[cell]], threads)
            ]
            if failures:
                machine.report(rule.op, nest, failures)
            continue
        tags: records.Tags = ()
        if isinstance(rule, _Made) and rule.signal is not None:
            tags = rule.signal.tags(e)
            rule.signal.send(e, threads)
        for cell in window:
            held = int(cells[cell])
            after = _state_after(tables, rule, classes.state_of[held], threads, tags)
            cells[cell] = classes.hold(after)
            classes.drop(held)


@dataclass(slots=True, eq=False)
class _Transition:
    """Operations on one window by the same threads, as one function of states."""

    machine: configuration.Machine
    nest: configuration.Nest
    rules: tuple[Rule, ...]
    signals: tuple[_Signal, ...]
    store: Store
    windows: configuration.Windows
    known: dict[Hashable, dict[records.StateId, records.StateId]] = field(default_factory=dict)
    """By threads and tags, the states met and those after."""

    def states(self, key: Hashable) -> dict[records.StateId, records.StateId]:
        """Returns the known results of the transition for these threads and tags."""
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= configuration.KEPT:
                self.known.clear()
            found = self.known[key] = {}
        return found

    def _in_runs(
        self,
        runs: tuple[Run, ...],
        states: dict[records.StateId, records.StateId],
        threads: records.Threads,
    ) -> bool:
        """Does the operations to cells of few classes, each class at once; nothing, and returns
        False, where a check fails."""
        cells, classes = self.store.cells, self.machine.classes
        assert cells is not None
        before = gather_cells(cells, runs)
        counts = dict(count_each(before))
        changes: dict[ClassId, records.StateId] = {}
        for held in counts:
            state = classes.state_of[held]
            after = states.get(state)
            if after is None:
                after = after_rules(self.machine, self.rules, state, threads, ())
                if after == records.FAILS:
                    return False
                states[state] = after
            if after != state:
                changes[held] = after
        if changes:
            into = {held: classes.hold(after, counts[held]) for held, after in changes.items()}
            scatter_cells(cells, runs, replace_each(before, into))
            for held in changes:
                classes.drop(held, counts[held])
        return True

    def step(self, masks: configuration.Masks) -> configuration.Step:
        """The step of the operations."""
        machine, store, windows, signals = self.machine, self.store, self.windows, self.signals
        e, classes = machine.values, machine.classes
        state_of = classes.state_of

        def step() -> None:
            threads = masks(e)
            if signals:
                tags = tuple([signal.tags(e) for signal in signals])
                states = self.states((threads, tags))
            else:
                tags = ()
                states = self.states(threads)
            cells = store.cells
            assert cells is not None
            runs = windows(e)
            if not signals and runs and (len(runs) > 8 or runs[0][1] - runs[0][0] > 8):
                if not self._in_runs(runs, states, threads):
                    _one_by_one(machine, self.nest, self.rules, store, windows, threads)
                    assert machine.observer.found, "the check that failed has passed"
                return
            changes: list[tuple[int, records.StateId]] = []
            for first, last in runs:
                for cell, held in enumerate(cells[first:last].tolist(), first):
                    state = state_of[held]
                    after = states.get(state)
                    if after is None:
                        after = after_rules(machine, self.rules, state, threads, tags)
                        if after == records.FAILS:
                            # Reports what fails, and does all operations.
                            _one_by_one(machine, self.nest, self.rules, store, windows, threads)
                            assert machine.observer.found, "the check that failed has passed"
                            return
                        states[state] = after
                    if after != state:
                        changes.append((cell, after))
            for signal in signals:
                signal.send(e, threads)
            for cell, after in changes:
                held = int(cells[cell])
                cells[cell] = classes.hold(after)
                classes.drop(held)

        return step
