"""Records, checks and clears: what an access does to the states of its elements.

Neighbouring operations on the same window by the same threads, such as the checks, clears and
record of one assignment, are one transition of the states they meet, found once for each state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from exogpu.ir.names import Sym
from exogpu.machine.amir import Check, Clear, Record, Trailing
from exogpu.machine.fast.cells import Classes, Store
from exogpu.machine.fast.context import Context, Elements, Masks, Step, Windows
from exogpu.machine.fast.control import Values
from exogpu.machine.fast.lifts import FULL, tagged
from exogpu.machine.fast.machine import Machine, Nest
from exogpu.machine.fast.parts import Parts
from exogpu.machine.fast.records import (
    EMPTY,
    FAILS,
    CheckFacts,
    FamilyId,
    RecordFacts,
    StateId,
    Tables,
    Tags,
    Threads,
    new_family,
    visible,
)
from exogpu.verdict import HazardKind

Access: TypeAlias = Record | Check | Clear
Pairs: TypeAlias = tuple[tuple[int, int], ...]


def access_steps(context: Context, ops: list[Access], nest: Nest, parts: Parts) -> list[Step]:
    """The steps of neighbouring accesses, without those that cannot matter."""
    steps: list[Step] = []
    group: list[Access] = []
    for op in ops:
        trailing = isinstance(op, Record) and op.trailing is not None
        if not context.machine.layout.matters(op) and not trailing:
            continue
        if group and not _together(context.machine, group[0], op):
            steps.append(_group_step(context, group, nest, parts))
            group = []
        group.append(op)
    if group:
        steps.append(_group_step(context, group, nest, parts))
    return steps


def _together(machine: Machine, first: Access, op: Access) -> bool:
    """Whether two accesses make one transition."""
    return (
        not machine.collect
        and machine.layout.matters(first)
        and machine.layout.matters(op)
        and op.access == first.access
        and op.origin.threads == first.origin.threads
    )


@dataclass(slots=True, eq=False)
class _Signal:
    """The trailing barrier of a Record."""

    op: Record
    name: Sym
    home: Elements
    targets: Elements


class _Group:
    """Accesses of one window by the same threads."""

    def __init__(self, context: Context, ops: list[Access], nest: Nest, parts: Parts) -> None:
        machine = context.machine
        self.machine = machine
        self.ops = ops
        self.nest = nest
        self.masks: Masks = context.masks(ops[0].origin.threads, parts)
        self.signals = [
            _signal(context, op, op.trailing, parts)
            for op in ops
            if isinstance(op, Record) and op.trailing is not None
        ]
        self.store: Store | None = None
        self.windows: Windows | None = None
        if machine.layout.matters(ops[0]):
            self.store = machine.layout.stores[ops[0].access.name]
            self.windows = context.windows(self.store, ops[0].access, parts)
        self.rules = [_rule(machine, op) for op in ops if machine.layout.matters(op)]
        self.known: dict[object, dict[StateId, StateId]] = {}

    def transition(
        self,
        state: StateId,
        threads: Threads,
        tags: tuple[Tags, ...],
        known: dict[StateId, StateId],
    ) -> StateId:
        """The state after all operations, or FAILS."""
        tables = self.machine.tables
        after, used = state, 0
        for rule in self.rules:
            mine: Tags = ()
            if isinstance(rule, _Made) and rule.op.trailing is not None:
                mine, used = tags[used], used + 1
            after = _apply(tables, rule, after, threads, mine)
            if after == FAILS:
                break
        known[state] = after
        return after

    def tags(self, e: Values) -> tuple[Tags, ...]:
        """The tags of each signal: `P(z, n) = {a}`, with the count of the home (decision 15)."""
        found = []
        for signal in self.signals:
            barrier = self.machine.barriers[signal.name]
            assert barrier is not None
            (home,) = signal.home(e)
            found.append(tagged((), barrier.tags(home, signal.targets(e)), FULL))
        return tuple(found)

    def signal(self, e: Values, threads: Threads) -> None:
        """What trailing barriers oblige to (decisions 3, 12)."""
        for signal in self.signals:
            barrier = self.machine.barriers[signal.name]
            assert barrier is not None
            (home,) = signal.home(e)
            found = barrier.check_trailing(home, signal.targets(e), threads, signal.op)
            self.machine.report_barrier(signal.op, self.nest, signal.name, found)

    def explain(self, e: Values, threads: Threads) -> None:
        """One operation after the other, until the one that fails has been reported."""
        machine = self.machine
        for op in self.ops:
            alone = _Group.__new__(_Group)
            alone.machine, alone.nest, alone.ops = machine, self.nest, [op]
            alone.signals = [s for s in self.signals if s.op is op]
            alone.store, alone.windows = self.store, self.windows
            alone.rules = [r for r in self.rules if r.op is op]
            alone.known = {}
            alone.run(e, threads)

    def run(self, e: Values, threads: Threads) -> None:
        """A single operation, its failures reported element by element."""
        store, windows, machine = self.store, self.windows, self.machine
        if self.signals:
            tags = self.tags(e)
            self.signal(e, threads)
        else:
            tags = ()
        if store is None or windows is None:
            return
        (rule,) = self.rules
        cells, classes = store.cells, machine.classes
        assert cells is not None
        window = [cell for first, last in windows(e) for cell in range(first, last)]
        if isinstance(rule, _Asked):
            failures = [
                (_hazard(rule.op), store.name, store.index(cell), machine.tables.facts[number].op)
                for cell in window
                for number in _failing(machine.tables, rule, classes.state_of[cells[cell]], threads)
            ]
            if failures:
                machine.report(rule.op, self.nest, failures)
            return
        known: dict[StateId, StateId] = {}
        for cell in window:
            state = classes.state_of[cells[cell]]
            after = known.get(state)
            if after is None:
                after = self.transition(state, threads, tags, known)
            _put(classes, cells, cell, after)


def _signal(context: Context, op: Record, trailing: Trailing, parts: Parts) -> _Signal:
    return _Signal(
        op,
        trailing.home.name,
        context.elements((trailing.home,), parts),
        context.elements(trailing.targets, parts),
    )


def _group_step(context: Context, ops: list[Access], nest: Nest, parts: Parts) -> Step:
    group = _Group(context, ops, nest, parts)
    machine, e = context.machine, context.machine.values
    masks = group.masks
    if machine.collect or group.store is None or group.windows is None:
        return lambda: group.run(e, masks(e))
    windows, known, classes, store = group.windows, group.known, machine.classes, group.store
    state_of = classes.state_of

    def step() -> None:
        threads = masks(e)
        tags: tuple[Tags, ...] = ()
        if group.signals:
            tags = group.tags(e)
            states = known.setdefault((threads, tags), {})
        else:
            states = known.setdefault(threads, {})
        cells = store.cells
        assert cells is not None
        runs = windows(e)
        if len(runs) == 1 and runs[0][1] - runs[0][0] == 1:
            held = cells[runs[0][0]]
            state = state_of[held]
            after = states.get(state)
            if after is None:
                after = group.transition(state, threads, tags, states)
            if after == FAILS:
                group.explain(e, threads)
                return
            if group.signals:
                group.signal(e, threads)
            if after != state:
                cells[runs[0][0]] = classes.hold(after)
                classes.drop(held)
            return
        changes: list[tuple[int, StateId]] = []
        for first, last in runs:
            for cell in range(first, last):
                state = state_of[cells[cell]]
                after = states.get(state)
                if after is None:
                    after = group.transition(state, threads, tags, states)
                if after == FAILS:
                    group.explain(e, threads)
                    return
                if after != state:
                    changes.append((cell, after))
        if group.signals:
            group.signal(e, threads)
        for cell, after in changes:
            held = cells[cell]
            cells[cell] = classes.hold(after)
            classes.drop(held)

    return step


def _put(classes: Classes, cells: list[int], cell: int, after: StateId) -> None:
    held = cells[cell]
    if classes.state_of[held] != after:
        cells[cell] = classes.hold(after)
        classes.drop(held)


# --- rules ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """CheckReads, CheckMutates."""

    op: Check
    facts: CheckFacts


@dataclass(frozen=True, slots=True, eq=False)
class _Cleared:
    """ClearReads, ClearMutates."""

    op: Clear


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """RecordRead, RecordMutate."""

    op: Record
    facts: RecordFacts


_Rule: TypeAlias = _Asked | _Cleared | _Made


def _rule(machine: Machine, op: Access) -> _Rule:
    match op:
        case Check():
            return _Asked(op, CheckFacts(op.level, op.convergent, op.timelines))
        case Clear():
            return _Cleared(op)
        case Record():
            return _Made(op, machine.layout.records[op])


def _apply(tables: Tables, rule: _Rule, state: StateId, threads: Threads, tags: Tags) -> StateId:
    match rule:
        case _Asked():
            return FAILS if _failing(tables, rule, state, threads) else state
        case _Cleared():
            reads, mutates = tables.states[state]
            return tables.state(reads, ()) if rule.op.mutates else tables.state((), mutates)
        case _Made():
            made: FamilyId = tables.family(new_family(rule.facts, threads, tags))
            reads, mutates = tables.states[state]
            if rule.op.mutate:
                return tables.state(reads, (*mutates, made))
            return tables.state((*reads, made), mutates)


def _failing(tables: Tables, rule: _Asked, state: StateId, threads: Threads) -> list[int]:
    """The Records, by number, of which the state has one that is not visible."""
    if state == EMPTY:
        return []
    reads, mutates = tables.states[state]
    families = [tables.families[f] for f in (mutates if rule.op.mutates else reads)]
    return [
        family[0]
        for family in families
        if not visible(rule.facts, threads, tables.facts[family[0]], family)
    ]


def _hazard(op: Check) -> HazardKind:
    """The hazard that a failing check is."""
    if op.free:
        return HazardKind.FREE
    if not op.mutates:
        return HazardKind.WAR
    return HazardKind.RAW if op.reads else HazardKind.WAW
