"""Loops of accesses alone, executed by cell: without syncs in it, all that a loop does to a cell is
what its own accesses do, in their order.

for t in threads(0, 128):             tile[0, 0..15]: write by thread 0
    for j in seq(0, 16):        ->    tile[1, 0..15]: write by thread 1
        tile[t, j] = 0.0              ...

Which accesses meet which cell is found once for all iterations of outer loops that agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

import numpy as np

from exogpu.amir import nodes as amir
from exogpu.ir.affine import Affine, interval, mentions
from exogpu.ir.nodes import Access, And, BExpr, Compare, Not, Or, Truth
from exogpu.ir.types import Sym
from exogpu.machine.fast.accesses import Rule, after_rules, executed_by, is_one_transition, rule_of
from exogpu.machine.fast.affine_code import (
    Array,
    Scope,
    Values,
    number,
    numbers,
    truth,
    tuple_source,
)
from exogpu.machine.fast.cells import ClassId, Store
from exogpu.machine.fast.configuration import Context, Nest, Step, mask_of, slot_value
from exogpu.machine.fast.layout import bounds_of
from exogpu.machine.fast.records import EVERYONE, FAILS, StateId, Threads
from exogpu.machine.fast.signature import Parts, exact_values
from exogpu.machine.fast.sweep_cells import (
    One,
    Several,
    TooLongError,
    Walk,
    cell_index,
    group_numbers,
    group_rows,
)

MOST: Final = 1 << 18
"""Accesses of one loop at most; of a longer one its inner loops are looked at."""

LEAST: Final = 24
"""Fewer are just executed."""

TABLES: Final = 1 << 10
"""Values of outer iterators of which a loop remembers what it does."""


@dataclass(slots=True, eq=False)
class _Chain:
    """Accesses that meet one cell, in their order, as a function of its state."""

    codes: tuple[int, ...]
    known: dict[StateId, StateId] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Met:
    """Cells of a variable, and by cell the number of the chain of accesses that meet it."""

    store: Store
    cells: Array | slice
    chain_of: Array
    chains: tuple[_Chain, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """The effect of a loop, by cell, and the number of its operations."""

    met: tuple[_Met, ...]
    operations: int
    chains: int
    """The number of chains of all variables."""


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    """The change of some cells: by cell, a number; by number, the class and its successor."""

    met: _Met
    number_of: Array
    held: list[ClassId]
    counts: list[int]
    after: list[StateId]


# --- which loops ----------------------------------------------------------------------------


def instances(context: Context, op: amir.Loop) -> int | None:
    """Counts the accesses of a loop at most; None if it has anything else in it, or inner
    loops whose bounds depend on its iterators."""
    return _in_loop(context, op, [])


def _in_loop(context: Context, op: amir.Loop, around: list[Sym]) -> int | None:
    scope = context.scope
    if op.tasks:
        return None
    if op.source is not None:
        with scope.enter_load(op.iterator, op.source):
            return _in_block(context, op.body, around)
    lo, hi = scope.form(op.lo), scope.form(op.hi)
    if mentions(lo, around) or mentions(hi, around):
        return None
    extent = interval(hi, scope.ranges)[1] - interval(lo, scope.ranges)[0]
    if op.slot is not None:
        extent = 1
    own = context.machine.layout.iterators[op]
    with scope.enter_loop(op.iterator, own):
        inner = _in_block(context, op.body, [*around, own])
    return None if inner is None else max(extent, 0) * inner


def _in_block(context: Context, block: amir.Block, around: list[Sym]) -> int | None:
    total = 0
    for op in block:
        match op:
            case amir.Loop():
                found = _in_loop(context, op, around)
            case amir.Guard():
                found = _in_block(context, op.body, around)
            case (
                amir.Record(trailing=None)
                | amir.Check()
                | amir.Clear()
                | amir.Initialise()
                | amir.CheckInitialised()
            ):
                found = 1
            case amir.Require():
                found = 0
            case _:
                found = None
        if found is None:
            return None
        total += found
    return total


# --- what they do ---------------------------------------------------------------------------


class Sweep:
    """A loop of accesses alone."""

    def __init__(self, context: Context, op: amir.Loop, nest: Nest, parts: Parts) -> None:
        self._machine = context.machine
        self._rules: list[tuple[Rule, ...]] = []
        """By number, neighbouring accesses to one window by the same threads."""
        self._masks: dict[tuple[tuple[tuple[int, int], ...], tuple[int, ...]], Threads] = {}
        self._body = self._compiled(context, (op,), nest)
        ends = [context.scope.form(op.lo), context.scope.form(op.hi)]
        self._key = exact_values(context.machine.layout, parts, ends)
        self._slots = tuple(parts.slots.values())
        self._tables: dict[tuple[int, ...], _Table | None] = {}
        self._chains: dict[bytes, _Chain] = {}
        self._codes: dict[tuple[int, Threads], int] = {}
        self._accesses: list[tuple[tuple[Rule, ...], Threads, dict[StateId, StateId]]] = []
        """By code: an access, who executes it, and what it makes of states."""

    def step(self, plain: Step) -> Step:
        """The step of the loop; `plain` executes one iteration after the other."""
        e, tables, key_of, slots = self._machine.values, self._tables, self._key, self._slots

        def step() -> None:
            key = (*key_of(e), *[slot() for slot in slots])
            table = tables.get(key)
            if table is None:
                if len(tables) > TABLES:
                    tables.clear()
                if key not in tables:
                    table = tables[key] = self._table()
            if table is None or not self._swept(table):
                plain()  # reports what fails

        return step

    def _compiled(
        self, context: Context, block: amir.Block, nest: Nest
    ) -> tuple[One | Several, ...]:
        scope, layout, made = context.scope, context.machine.layout, list[One | Several]()
        for ops in self._groups(context, block):
            match ops[0]:
                case amir.Loop(source=Access() as source) as op:
                    with scope.enter_load(op.iterator, source):
                        inner = self._compiled(context, op.body, nest)
                    always = truth("True")
                    made.append(Several(None, lambda e: 0, always, len(op.body), inner))
                case amir.Loop() as op:
                    own = layout.iterators[op]
                    lo, hi = (number(scope.source(scope.form(end))) for end in (op.lo, op.hi))
                    if op.slot is not None:
                        lo, hi = _one_iteration(slot_value(context, op, op.slot, Parts()))
                    with scope.enter_loop(op.iterator, own):
                        inner = self._compiled(context, op.body, nest)
                    made.append(Several(scope.slots[own], lo, hi, len(op.body), inner))
                case amir.Guard() as op:
                    holds = truth(_condition(op.condition, scope))
                    inner = self._compiled(context, op.body, nest)
                    made.append(Several(None, lambda e: 0, holds, len(op.body), inner))
                case _:
                    accesses = [op for op in ops if isinstance(op, amir.OnWindow)]
                    made.append(self._access_window(context, accesses))
                    rules = (rule_of(context, op, nest, Parts()) for op in accesses)
                    self._rules.append(tuple(rules))
        return tuple(made)

    def _groups(self, context: Context, block: amir.Block) -> list[list[amir.Op]]:
        """The loops and guards of a block by themselves, and its accesses by transition."""
        layout, found = context.machine.layout, list[list[amir.Op]]()
        for op in block:
            if isinstance(op, amir.Loop | amir.Guard):
                found.append([op])
            elif isinstance(op, amir.OnWindow) and layout.matters(op):
                first = found[-1][0] if found else None
                if isinstance(first, amir.OnWindow) and is_one_transition(self._machine, first, op):
                    found[-1].append(op)
                else:
                    found.append([op])
        return found

    def _access_window(self, context: Context, ops: Sequence[amir.OnWindow]) -> One:
        """Neighbouring accesses to one window, which have the next number."""
        scope, access, executed = context.scope, ops[0].access, executed_by(ops)
        threads = None if executed is None else executed.origin.threads
        axes = () if threads is None else threads.axes
        bounds = [bound for coord in access.coords for bound in bounds_of(coord, scope)]
        return One(
            len(self._rules),
            context.machine.layout.stores[access.name],
            _values(bounds, scope),
            _values([scope.form(axis.offset) for axis in axes], scope),
            None if threads is None else tuple((a.pitch, a.extent) for a in axes),
        )

    def _table(self) -> _Table | None:
        """Finds the effect of the loop at these values of the outer iterators; None if that is
        too long."""
        e = self._machine.values
        before = list(e)
        walk = Walk(e, self._code)
        try:
            walk.block(self._body, np.zeros(1, np.int64))
        except TooLongError:
            return None
        finally:
            e[:] = before
        met: list[_Met] = []
        for store, parts in walk.met.items():
            cells, times, codes = (np.concatenate(each) for each in zip(*parts, strict=True))
            if not len(cells):
                continue
            order = np.lexsort((times, cells))
            cells, codes = cells[order], codes[order]
            starts = np.flatnonzero(np.diff(cells, prepend=-1))
            rows, chain_of = group_rows(codes, starts)
            chains = tuple(self._chain(codes) for codes in rows)
            met.append(_Met(store, cell_index(cells[starts]), chain_of, chains))
        return _Table(tuple(met), walk.operations, sum(len(one.chains) for one in met))

    def _chain(self, codes: bytes) -> _Chain:
        found = self._chains.get(codes)
        if found is None:
            found = _Chain(tuple(np.frombuffer(codes, np.int64).tolist()))
            self._chains[codes] = found
        return found

    def _code(self, one: One, offsets: tuple[int, ...]) -> int:
        threads = EVERYONE
        if one.shape is not None:
            found = self._masks.get((one.shape, offsets))
            if found is None:
                found = self._masks[one.shape, offsets] = mask_of(one.shape, offsets)
            threads = found
        key = (one.at, threads)
        code = self._codes.get(key)
        if code is None:
            code = self._codes[key] = len(self._accesses)
            self._accesses.append((self._rules[one.at], threads, {}))
        return code

    def _state_after(self, chain: _Chain, state: StateId) -> StateId:
        """The state after all accesses of a chain, or FAILS."""
        after = state
        for code in chain.codes:
            rules, threads, known = self._accesses[code]
            found = known.get(after)
            if found is None:
                found = after_rules(self._machine, rules, after, threads, ())
                if found == FAILS:
                    return FAILS
                known[after] = found
            after = found
        chain.known[state] = after
        return after

    def _swept(self, table: _Table) -> bool:
        """Executes the loop, or leaves everything as it is where something fails."""
        machine, classes = self._machine, self._machine.classes
        changes: list[_Change] = []
        for met in table.met:
            change = self._change(met)
            if change is None:
                return False
            changes.append(change)
        for change in changes:
            state_of, cells = classes.state_of, change.met.store.cells
            assert cells is not None
            new, moved = list(change.held), list[tuple[ClassId, int]]()
            for at, (held, count, after) in enumerate(
                zip(change.held, change.counts, change.after, strict=True)
            ):
                if state_of[held] != after:
                    new[at] = classes.hold(after, count)
                    moved.append((held, count))
            if moved:
                cells[change.met.cells] = np.array(new, np.int32)[change.number_of]
            for held, count in moved:
                classes.drop(held, count)
        machine.operations += table.operations
        machine.skipped += max(0, table.operations - table.chains)
        return True

    def _change(self, met: _Met) -> _Change | None:
        """Returns what the loop makes of the cells of one variable; None where a check fails."""
        cells, state_of = met.store.cells, self._machine.classes.state_of
        assert cells is not None
        held, width = cells[met.cells], len(state_of)
        pairs, number_of, counts = group_numbers(
            met.chain_of * width + held, len(met.chains) * width
        )
        classes, after = list[ClassId](), list[StateId]()
        for pair in pairs:
            number, one = divmod(pair, width)
            chain, state = met.chains[number], state_of[one]
            found = chain.known.get(state)
            if found is None:
                found = self._state_after(chain, state)
                if found == FAILS:
                    return None
            classes.append(one)
            after.append(found)
        return _Change(met, number_of, classes, counts, after)


def _one_iteration(
    value: Callable[[], int],
) -> tuple[Callable[[Values], int], Callable[[Values], int]]:
    """Returns the bounds of a loop of one iteration, of this value."""
    return lambda e: value(), lambda e: value() + 1


def _values(forms: list[Affine], scope: Scope) -> Callable[[Values], tuple[int, ...]]:
    return numbers(tuple_source([scope.source(form) for form in forms]))


def _condition(expr: BExpr, scope: Scope) -> str:
    """As `Scope.condition`, of arrays of values, too."""
    match expr:
        case Truth():
            return str(expr.value)
        case And():
            return f"({_condition(expr.left, scope)} & {_condition(expr.right, scope)})"
        case Or():
            return f"({_condition(expr.left, scope)} | {_condition(expr.right, scope)})"
        case Not():
            return f"({_condition(expr.term, scope)} ^ True)"
        case Compare():
            return f"({scope.source(scope.difference(expr))} {expr.op} 0)"
        case _:
            assert_never(expr)
