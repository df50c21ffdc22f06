"""The configuration of the fast interpreter, and how it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from time import perf_counter
from typing import Final, TypeAlias, TypeVar

from exogpu.amir.nodes import Loop, Op
from exogpu.analysis.threadmap import ThreadMap
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.affine import Affine
from exogpu.ir.nodes import Access
from exogpu.ir.types import Sym
from exogpu.machine.fast import visibility_updates
from exogpu.machine.fast.affine_code import LoadedArray, Values, numbers, tuple_source
from exogpu.machine.fast.arrivals import Barrier, Failure
from exogpu.machine.fast.cells import Classes, Run, Store
from exogpu.machine.fast.layout import Layout, Unsupported, bounds_of
from exogpu.machine.fast.records import EVERYONE, StateId, Tables, Threads
from exogpu.machine.fast.signature import Parts
from exogpu.machine.fast.visibility_updates import Lift, forget
from exogpu.machine.observer import Observer, Violation, rank

Nest: TypeAlias = tuple[tuple[str, int], ...]
"""The loops around an operation: name and slot of each iterator, outermost first."""

TICK: Final = 0.1
"""Seconds between two calls of the progress callback."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a check: `operations` and `tasks_done` include skipped ones."""

    operations: int
    tasks_done: int
    tasks: int


class WorkLimitError(Exception):
    """A run has done more work than it may."""


class Keep(Enum):
    """The violations that a run keeps."""

    FIRST = "stop at the first operation that fails: its first violation"
    PAIRS = "the first violation of each pair of a record and a check"
    ALL = "every violation; skips nothing"


class Found(Exception):
    """A violation ends the run."""


class Machine:
    """The configuration `(iota, sigma, rho)`, and what was found so far."""

    def __init__(
        self,
        layout: Layout,
        tables: Tables,
        observer: Observer,
        fine: bool,
        skip: bool,
        progress: Callable[[Progress], None] | None,
        tasks: int,
        most: int | None = None,
    ) -> None:
        self.layout = layout
        self.tables = tables
        self.observer = observer
        self.fine = fine
        """Every violation is wanted, element by element."""
        self.skip = skip
        self.skips = skip and not fine
        """Several iterations may be done at once."""
        self.values: Values = [0] * len(layout.scope.slots)
        self.operations = 0
        self.skipped = 0
        """The number of operations that were not executed."""
        self.most = most
        """Work at which the run ends."""
        self.task = 0
        self.follows = False
        """Told to the loop that is the next step: a task begins when it is done."""
        self.classes = Classes(tables, list(layout.stores.values()))
        self.barriers: dict[Sym, Barrier | None] = dict.fromkeys(layout.barriers)
        self._places = {op: place for place, op in enumerate(layout.ops)}
        self._progress = progress
        self._tasks = tasks
        self._last = perf_counter()
        resident = [b for name, b in layout.barriers.items() if layout.resident(name)]
        elements = frozenset(at for b in resident for at in range(b.first, b.first + b.size))
        self._next_task = Lift(
            tables, visibility_updates.next_task(elements), elements=sum(1 << at for at in elements)
        )
        self._forgets = {
            name: Lift(
                tables,
                forget(facts.first, facts.first + facts.size),
                0,
                ((1 << facts.size) - 1) << facts.first,
            )
            for name, facts in layout.barriers.items()
        }
        self.classes.renamers.append(self._rename)

    # --- steps that several operations share ----------------------------------------------

    def restart(self) -> None:
        """The configuration before the first operation; what has been learnt stays."""
        self.task, self.follows = 0, False
        variables = [variable.name for variable in self.layout.program.variables]
        for name in variables:
            self.release(name)
        for name in variables:
            if name not in self.layout.allocated:
                self.allocate(name)

    def load(self, name: Sym, array: LoadedArray) -> None:
        """Gives an array that values are loaded from its contents."""
        self.values[self.layout.scope.slots[name]] = array  # type: ignore[call-overload]

    def count(self, operations: int) -> None:
        """Operations without an effect, all at once; none of a loop that ends before it begins."""
        self.operations += max(0, operations)
        self.skipped += max(0, operations)

    def allocate(self, name: Sym) -> None:
        """Alloc: `rho' = rho[(x, n) -> (empty, empty, (0, 0))]`."""
        self.release(name)
        if name in self.layout.stores:
            self.classes.allocate(self.layout.stores[name])
        if name in self.barriers:
            self.barriers[name] = Barrier(self.layout.barriers[name], self.classes)

    def release(self, name: Sym) -> None:
        """The variable's state is dropped, and a barrier's tags in every record (decision
        `task-order`)."""
        if name in self.layout.stores:
            self.classes.release(self.layout.stores[name])
        barrier = self.barriers.get(name)
        if barrier is not None:
            self.close(name)
            self.classes.lift(self._forgets[name])

    def close(self, name: Sym) -> None:
        """The barrier's own state is dropped."""
        barrier = self.barriers[name]
        if barrier is not None and barrier.phase is not None:
            barrier.phase.close()
        self.barriers[name] = None

    def next_task(self) -> None:
        """InctaskID: `iota' = iota + 1`."""
        self.task += 1
        self.leave_task()
        self.tick()

    def leave_task(self) -> None:
        """The threads so far are threads of another task from here on."""
        self.classes.lift(self._next_task)

    def task_follows(self) -> bool:
        """Returns whether a task begins as soon as this loop is done; asked when it begins."""
        follows, self.follows = self.follows, False
        return follows

    def next_task_state(self, state: StateId) -> StateId:
        """The state once the next task has begun."""
        return self._next_task.states.get(state) or self._next_task.state(state)

    def _rename(self, into: dict[int, int]) -> None:
        for barrier in self.barriers.values():
            if barrier is not None and barrier.phase is not None:
                barrier.phase.rename(into)

    @property
    def work(self) -> int:
        """Operations executed, and states that syncs have changed: what a run takes, counted."""
        return self.operations - self.skipped + self.classes.changed

    # --- reports --------------------------------------------------------------------------

    def tick(self) -> None:
        """Calls the progress callback now and then; ends a run that does too much work."""
        if self.most is not None and self.work > self.most:
            raise WorkLimitError
        if self._progress is not None and perf_counter() - self._last > TICK:
            self._last = perf_counter()
            self._progress(Progress(self.operations, self.task, max(self._tasks, self.task)))

    def report(
        self,
        op: Op,
        nest: Nest,
        failures: Iterable[tuple[HazardKind, Sym, tuple[int, ...], Op | None]],
    ) -> None:
        """Tells the violations of one operation, in their order.

        Raises Found where the observer ends the run.
        """

        def order(
            failure: tuple[HazardKind, Sym, tuple[int, ...], Op | None],
        ) -> tuple[tuple[int, ...], int, int]:
            kind, _, index, record = failure
            return rank(kind, index, record, self._places)

        iteration = tuple((name, self.values[slot]) for name, slot in nest)
        task = None if op.origin.threads is None else self.task
        for kind, name, index, record in sorted(failures, key=order):
            violation = Violation(kind, name.name, index, task, op, iteration, record)
            if not self.observer.on_violation(violation):
                raise Found

    def report_barrier(self, op: Op, nest: Nest, name: Sym, failures: list[Failure]) -> None:
        """As `report`, for elements of a barrier by number."""
        if failures:
            facts = self.layout.barriers[name]
            self.report(op, nest, [(k, name, facts.index(e), r) for k, e, r in failures])


# Helpers for compiling one operation: its threads and its elements, as functions of iterators.

Step: TypeAlias = Callable[[], None]
Masks: TypeAlias = Callable[[Values], Threads]
Elements: TypeAlias = Callable[[Values], tuple[int, ...]]
Windows: TypeAlias = Callable[[Values], tuple[Run, ...]]

Made = TypeVar("Made")

KEPT: Final = 1 << 16
"""Entries that a cache keeps before it starts anew."""


class Context:
    """The machine that is being compiled for, and what control variables mean at this place."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.scope = machine.layout.scope
        self.swept = False
        """A loop around this place is executed by cell (`fast.sweeps`)."""
        self.at_once: set[Loop] = set()
        """The loops that begin with a task, and have some iteration whatever the iterators are."""

    def masks(self, threads: ThreadMap | None, parts: Parts) -> Masks:
        """`g(sigma, iota)`: the executing threads; everyone at CPU scope."""
        if threads is None:
            return lambda e: EVERYONE
        offsets = [self.scope.form(axis.offset) for axis in threads.axes]
        parts.exact |= dict.fromkeys(offsets)
        shape = [(axis.pitch, axis.extent) for axis in threads.axes]
        return self._cached(offsets, lambda at: mask_of(shape, at))

    def windows(self, store: Store, access: Access, parts: Parts) -> Windows:
        """The cells of an access; those outside the variable do not exist (decision `bounds`)."""
        bounds = tuple(bounds_of(coord, self.scope) for coord in access.coords)
        parts.windows.setdefault(access.name, {})[bounds] = None
        return self._cached([b for pair in bounds for b in pair], store.window)

    def elements(self, accesses: tuple[Access, ...], parts: Parts) -> Elements:
        """The numbers of barrier elements, within their variable, in rising order."""
        facts = self.machine.layout.barriers[accesses[0].name]
        bounds = [b for a in accesses for c in a.coords for b in bounds_of(c, self.scope)]
        parts.exact |= dict.fromkeys(bounds)
        parts.barriers.add(accesses[0].name)
        dims = len(facts.shape)

        def numbered(at: tuple[int, ...]) -> tuple[int, ...]:
            found: set[int] = set()
            for start in range(0, len(at) or 1, 2 * dims or 1):
                box = [0]
                for d, extent in enumerate(facts.shape):
                    lo, hi = at[start + 2 * d], at[start + 2 * d + 1]
                    box = [i * extent + j for i in box for j in range(max(lo, 0), min(hi, extent))]
                found.update(box)
            return tuple(sorted(found))

        return self._cached(bounds, numbered)

    def element(self, access: Access, parts: Parts) -> Callable[[Values], int]:
        """The number of the one element of an access.  Raises ValueError if it is not one."""
        elements = self.elements((access,), parts)

        def the(e: Values) -> int:
            (element,) = elements(e)
            return element

        return the

    def barrier(self, name: Sym) -> Callable[[], Barrier]:
        """The barrier's present allocation."""
        barriers = self.machine.barriers

        def current() -> Barrier:
            barrier = barriers[name]
            assert barrier is not None
            return barrier

        return current

    def _cached(
        self, values: list[Affine], make: Callable[[tuple[int, ...]], Made]
    ) -> Callable[[Values], Made]:
        """`make` of the values, made once for each."""
        if all(not value.terms for value in values):
            constant = make(tuple(value.constant for value in values))
            return lambda e: constant
        known: dict[tuple[int, ...], Made] = {}
        at = numbers(tuple_source([self.scope.source(value) for value in values]))

        def cached(e: Values) -> Made:
            key = at(e)
            found = known.get(key)
            if found is None:
                if len(known) >= KEPT:
                    known.clear()
                found = known[key] = make(key)
            return found

        return cached


def slot_value(context: Context, op: Loop, home: Access, parts: Parts) -> Callable[[], int]:
    """The value of a slot (decision `slots`): the Arrives on the element, modulo the ring."""
    machine, e = context.machine, context.machine.values
    element = context.element(home, parts)
    ring = context.scope.form(op.hi).constant

    def value() -> int:
        barrier = machine.barriers[home.name]
        return -1 if barrier is None else barrier.arrives[element(e)] % ring

    parts.slots[home, ring] = value
    parts.inner.add(machine.layout.iterators[op])
    return value


def mask_of(shape: Sequence[tuple[int, int]], at: tuple[int, ...]) -> Threads:
    """`{ sum pitch_i * (offset_i + j_i) }` as bits."""
    sums = [0]
    for (pitch, extent), offset in zip(shape, at, strict=True):
        sums = [s + pitch * (offset + j) for s in sums for j in range(extent)]
    if min(sums, default=0) < 0:
        raise Unsupported("a negative thread index")
    mask = 0
    for thread in sums:
        mask |= 1 << (thread + 1)
    return mask
