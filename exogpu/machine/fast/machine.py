"""The configuration of the fast interpreter, and how it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from time import perf_counter
from typing import Final, TypeAlias

from exogpu.amir.nodes import Op
from exogpu.ir.names import Sym
from exogpu.machine.fast.arrivals import Barrier, Failure
from exogpu.machine.fast.cells import Classes
from exogpu.machine.fast.control import Values
from exogpu.machine.fast.layout import Layout
from exogpu.machine.fast.lifts import Lift, forget, next_task
from exogpu.machine.fast.records import StateId, Tables
from exogpu.machine.observer import Observer
from exogpu.machine.violation import Violation, rank
from exogpu.result.verdict import HazardKind

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
        """Whether every violation is wanted, element by element."""
        self.skip = skip
        self.skips = skip and not fine
        """Whether anything may be done at once."""
        self.values: Values = [0] * len(layout.scope.slots)
        self.operations = 0
        self.skipped = 0
        """Of the operations, those that were not executed."""
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
            tables, next_task(elements), elements=sum(1 << at for at in elements)
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
        for variable in layout.program.variables:
            if variable.name not in layout.allocated:
                self.allocate(variable.name)

    # --- steps that several operations share ----------------------------------------------

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

    def left(self, state: StateId) -> StateId:
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
            if not self.observer.failed(violation):
                raise Found

    def report_barrier(self, op: Op, nest: Nest, name: Sym, failures: list[Failure]) -> None:
        """As `report`, for elements of a barrier by number."""
        if failures:
            facts = self.layout.barriers[name]
            self.report(op, nest, [(k, name, facts.index(e), r) for k, e, r in failures])
