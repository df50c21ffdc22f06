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
from typing import Final, TypeAlias, assert_never

import numpy as np

from exogpu.amir import nodes as amir
from exogpu.ir.affine import Affine, interval, mentions
from exogpu.ir.nodes import Access, And, BExpr, Compare, Not, Or, Truth
from exogpu.ir.types import Sym
from exogpu.machine.fast.accesses import Rule, after_rules, executed_by, is_one_transition, rule_of
from exogpu.machine.fast.affine_code import Scope, Values, number, numbers, truth, tuple_source
from exogpu.machine.fast.cells import ClassId, Store
from exogpu.machine.fast.configuration import Context, Nest, Step, mask_of
from exogpu.machine.fast.layout import bounds_of
from exogpu.machine.fast.records import EVERYONE, FAILS, StateId, Threads
from exogpu.machine.fast.signature import Parts, exact_values

MOST: Final = 1 << 18
"""Accesses of one loop at most; of a longer one its inner loops are looked at."""

LEAST: Final = 24
"""Fewer are just executed."""

CELLS: Final = 1 << 20
"""Cells that all accesses of a loop meet, at most; else it is just executed."""

TABLES: Final = 1 << 10
"""Values of outer iterators of which a loop remembers what it does."""

Array: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"


class _TooLongError(Exception):
    """The accesses of a loop meet too many cells."""


@dataclass(frozen=True, slots=True, eq=False)
class _One:
    """Neighbouring accesses to one window; where it begins and ends by dimension, and who executes
    them."""

    at: int
    store: Store
    bounds: Callable[[Values], tuple[int, ...]]
    offsets: Callable[[Values], tuple[int, ...]]
    shape: tuple[tuple[int, int], ...] | None
    """Pitch and extent of the axes of its threads; None of the host."""


@dataclass(frozen=True, slots=True, eq=False)
class _Several:
    """A loop, whose iterator has a slot; or a guard, whose condition is `hi`; or a load, which is a
    guard that holds."""

    slot: int | None
    lo: Callable[[Values], int]
    hi: Callable[[Values], int]
    size: int
    body: tuple[_One | _Several, ...]


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
    """Of all variables."""


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    """What becomes of some cells: by cell, a number; by number, the class and its successor."""

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
    if op.tasks or op.slot is not None:
        return None
    if op.source is not None:
        with scope.enter_load(op.iterator, op.source):
            return _in_block(context, op.body, around)
    lo, hi = scope.form(op.lo), scope.form(op.hi)
    if mentions(lo, around) or mentions(hi, around):
        return None
    extent = interval(hi, scope.ranges)[1] - interval(lo, scope.ranges)[0]
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
        self._tables: dict[tuple[int, ...], _Table | None] = {}
        self._chains: dict[bytes, _Chain] = {}
        self._codes: dict[tuple[int, Threads], int] = {}
        self._accesses: list[tuple[tuple[Rule, ...], Threads, dict[StateId, StateId]]] = []
        """By code: an access, who executes it, and what it makes of states."""

    def step(self, plain: Step) -> Step:
        """The step of the loop; `plain` executes one iteration after the other."""
        e, tables, key_of = self._machine.values, self._tables, self._key

        def step() -> None:
            key = key_of(e)
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
    ) -> tuple[_One | _Several, ...]:
        scope, layout, made = context.scope, context.machine.layout, list[_One | _Several]()
        for ops in self._groups(context, block):
            match ops[0]:
                case amir.Loop(source=Access() as source) as op:
                    with scope.enter_load(op.iterator, source):
                        inner = self._compiled(context, op.body, nest)
                    always = truth("True")
                    made.append(_Several(None, lambda e: 0, always, len(op.body), inner))
                case amir.Loop() as op:
                    own = layout.iterators[op]
                    lo, hi = scope.source(scope.form(op.lo)), scope.source(scope.form(op.hi))
                    with scope.enter_loop(op.iterator, own):
                        inner = self._compiled(context, op.body, nest)
                    slot, size = scope.slots[own], len(op.body)
                    made.append(_Several(slot, number(lo), number(hi), size, inner))
                case amir.Guard() as op:
                    holds = truth(_condition(op.condition, scope))
                    inner = self._compiled(context, op.body, nest)
                    made.append(_Several(None, lambda e: 0, holds, len(op.body), inner))
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

    def _access_window(self, context: Context, ops: Sequence[amir.OnWindow]) -> _One:
        """Neighbouring accesses to one window, which have the next number."""
        scope, access, executed = context.scope, ops[0].access, executed_by(ops)
        threads = None if executed is None else executed.origin.threads
        axes = () if threads is None else threads.axes
        bounds = [bound for coord in access.coords for bound in bounds_of(coord, scope)]
        return _One(
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
        walk = _Walk(e, self._code)
        try:
            walk.block(self._body, np.zeros(1, np.int64))
        except _TooLongError:
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
            rows, chain_of = _alike(codes, starts)
            chains = tuple(self._chain(codes) for codes in rows)
            met.append(_Met(store, _indices(cells[starts]), chain_of, chains))
        return _Table(tuple(met), walk.operations, sum(len(one.chains) for one in met))

    def _chain(self, codes: bytes) -> _Chain:
        found = self._chains.get(codes)
        if found is None:
            found = _Chain(tuple(np.frombuffer(codes, np.int64).tolist()))
            self._chains[codes] = found
        return found

    def _code(self, one: _One, offsets: tuple[int, ...]) -> int:
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
        """What the loop makes of the cells of one variable; None where a check fails."""
        cells, state_of = met.store.cells, self._machine.classes.state_of
        assert cells is not None
        held, width = cells[met.cells], len(state_of)
        pairs, number_of, counts = _distinct(met.chain_of * width + held, len(met.chains) * width)
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


def _indices(cells: Array) -> Array | slice:
    """Rising numbers of cells, as a slice where none is left out."""
    first, last = int(cells[0]), int(cells[-1]) + 1
    return slice(first, last) if last - first == len(cells) else cells


def _distinct(numbers: Array, end: int) -> tuple[list[int], Array, list[int]]:
    """The distinct ones of some numbers below `end`, which of them each is, and how often."""
    if end > 4 * len(numbers) + (1 << 16):
        found, which, counts = np.unique(numbers, return_inverse=True, return_counts=True)
        return found.tolist(), which.reshape(-1), counts.tolist()
    every = np.bincount(numbers, minlength=end)
    found = np.flatnonzero(every)
    place = np.empty(end, np.int64)
    place[found] = np.arange(len(found))
    return found.tolist(), place[numbers], every[found].tolist()


def _alike(codes: Array, starts: Array) -> tuple[list[bytes], Array]:
    """The distinct rows of a ragged array, of which each begins where it is told; and by row, its
    number among these."""
    lengths = np.diff(starts, append=len(codes))
    found, which = list[bytes](), np.empty(len(starts), np.int64)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        every = codes[starts[rows][:, None] + np.arange(length)]
        # Rows of one sum need not be alike: that is looked at.
        sums = every @ np.random.default_rng(0).integers(1 << 62, size=length)
        _, first, same = np.unique(sums, return_index=True, return_inverse=True)
        if not bool((every == every[first][same.reshape(-1)]).all()):
            _, first, same = np.unique(every, axis=0, return_index=True, return_inverse=True)
        which[rows] = len(found) + same.reshape(-1)
        found += [every[at].tobytes() for at in first.tolist()]
    return found, which


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


# --- all iterations at once ---------------------------------------------------------------------


class _Walk:
    """All iterations of a loop, as arrays: the values of inner iterators stand in `e`."""

    def __init__(self, e: Values, code: Callable[[_One, tuple[int, ...]], int]) -> None:
        self._e = e
        self._code = code
        self._slots: list[int] = []
        self._cells = 0
        self.operations = 0
        self.met: dict[Store, list[tuple[Array, Array, Array]]] = {}
        """By variable: cells, when they are met, and by which access."""

    def block(self, block: tuple[_One | _Several, ...], times: Array) -> int:
        """Walks a block at several iterations, given when each begins; returns how long it is."""
        length = 0
        for op in block:
            if isinstance(op, _One):
                self._access_window(op, times + length)
                length += 1
            elif op.slot is None:
                length += self._guard(op, times + length)
            else:
                length += self._loop(op, op.slot, times + length)
        return length

    def _loop(self, op: _Several, slot: int, times: Array) -> int:
        e, (lo, hi), count = self._e, (op.lo(self._e), op.hi(self._e)), len(times)
        extent = max(0, int(hi) - int(lo))
        if not extent or not count:
            return 0
        self.operations += op.size * extent * count
        before = [e[at] for at in self._slots]
        for at in self._slots:
            e[at] = np.repeat(e[at], extent)  # type: ignore[call-overload]
        e[slot] = np.tile(np.arange(int(lo), int(hi)), count)  # type: ignore[call-overload]
        self._slots.append(slot)
        # How long an iteration is does not depend on when it begins.
        length = _length(op.body, e)
        every = np.repeat(times, extent) + np.tile(np.arange(extent) * length, count)
        self.block(op.body, every)
        self._slots.pop()
        for at, old in zip(self._slots, before, strict=True):
            e[at] = old
        return extent * length

    def _guard(self, op: _Several, times: Array) -> int:
        e = self._e
        holds = np.flatnonzero(np.broadcast_to(op.hi(e), (len(times),)))
        self.operations += op.size * len(holds)
        before = [e[at] for at in self._slots]
        for at in self._slots:
            e[at] = e[at][holds]  # type: ignore[index]
        if len(holds):
            self.block(op.body, times[holds])
        for at, old in zip(self._slots, before, strict=True):
            e[at] = old
        return _length(op.body, e)

    def _access_window(self, op: _One, times: Array) -> None:
        count, bounds = len(times), op.bounds(self._e)
        rows: Array = np.arange(count)
        cells: Array = np.zeros(count, np.int64)
        for dim, (stride, breaks) in enumerate(zip(op.store.strides, op.store.breaks, strict=True)):
            lo = np.maximum(np.broadcast_to(bounds[2 * dim], (count,)), 0)
            hi = np.minimum(np.broadcast_to(bounds[2 * dim + 1], (count,)), op.store.shape[dim])
            if not isinstance(breaks, range):
                ends = np.array(breaks)
                lo, hi = np.searchsorted(ends, lo), np.searchsorted(ends, hi)
            lo, widths = lo[rows], np.maximum(hi - lo, 0)[rows]
            total = int(widths.sum())
            if self._cells + total > CELLS:
                raise _TooLongError
            within = np.arange(total) - np.repeat(np.cumsum(widths) - widths, widths)
            cells = np.repeat(cells + lo * stride, widths) + within * stride
            rows = np.repeat(rows, widths)
        self._cells += len(cells)
        codes = self._codes(op, count)[rows]
        self.met.setdefault(op.store, []).append((cells, times[rows], codes))

    def _codes(self, op: _One, count: int) -> Array:
        offsets = [np.broadcast_to(at, (count,)) for at in op.offsets(self._e)]
        if not offsets:
            return np.full(count, self._code(op, ()))
        several, which = np.unique(np.stack(offsets, axis=1), axis=0, return_inverse=True)
        codes = [self._code(op, tuple(at)) for at in several.tolist()]
        return np.array(codes, np.int64)[which.reshape(-1)]


def _length(block: tuple[_One | _Several, ...], e: Values) -> int:
    """Counts the accesses of a block, if every guard holds."""
    length = 0
    for op in block:
        if isinstance(op, _One):
            length += 1
        elif op.slot is None:
            length += _length(op.body, e)
        else:
            length += max(0, int(op.hi(e)) - int(op.lo(e))) * _length(op.body, e)
    return length
