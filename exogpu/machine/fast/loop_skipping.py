"""Loops, and skipping iterations whose effect is known.

What an iteration does is a function of its signature, of the states in its boxes, of the barriers
it uses, and, if it has syncs, of the other states that are about: those it rewrites one by one.
When all of that has been met before, the effect is looked up instead of run again.  So the main
loop of a pipeline runs until it is periodic, and of many tasks that do the same one runs.  An inner
loop is looked up as a whole, too, where the tasks around it are not alike.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from exogpu.ir.types import Sym
from exogpu.machine.fast.affine_code import Values
from exogpu.machine.fast.arrivals import Barrier, BarrierKey
from exogpu.machine.fast.cells import ClassId, changed_states
from exogpu.machine.fast.configuration import Machine, Step
from exogpu.machine.fast.records import StateId
from exogpu.machine.fast.signature import Parts, Place, Signature, signature

WORTH: Final = 4
"""Loops of fewer iterations than these are just run; those without syncs, of four times as many
unless their boxes stay where they are."""

PATIENCE: Final = 48
"""Iterations looked up in vain before a loop runs as many without, and then twice as many."""

ROOM: Final = 20_000
"""Effects that a loop remembers before it starts anew."""

Contents: TypeAlias = bytes | None
"""States of a box's cells (`Classes.contents`); None while the variable is not allocated."""


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A loop: its iterator's slot, bounds, steps, how many operations its block has, whether the
    first of them begins a task, and whether there is never a second iteration that is alike."""

    slot: int
    lo: Callable[[Values], int]
    hi: Callable[[Values], int]
    steps: tuple[Step, ...]
    size: int
    begins_task: bool
    once: bool
    around_tasks: bool = False
    """Each iteration is one loop, of which the first operation begins a task."""


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """The effect of an iteration."""

    contents: tuple[Contents, ...]
    """The contents of each box, after it."""
    lifted: dict[StateId, StateId]
    """The new state for each state that was in use."""
    barriers: tuple[tuple[bool, BarrierKey | None], ...]
    """Pairs of each barrier in use: it is another allocation, and its state."""
    operations: int
    tasks: int
    left: tuple[Contents, ...] | None = None
    """The contents once another task has begun; of loops over tasks."""


@dataclass(slots=True, eq=False)
class Hope:
    """Decides whether a lookup is worth it: pauses grow while nothing is found."""

    misses: int = 0
    pause: int = 0
    length: int = PATIENCE

    def hit(self) -> None:
        self.misses, self.length = 0, PATIENCE

    def miss(self) -> None:
        self.misses += 1
        if self.misses >= PATIENCE:
            self.misses, self.pause, self.length = 0, self.length, 2 * self.length


def loop_step(machine: Machine, body: Body, parts: Parts) -> Step:
    """The step of a loop whose body depends on `parts`."""
    plain = _plain(machine, body)
    if machine.fine or not machine.skip or body.once or not body.steps:
        return plain
    signed = signature(machine.layout, parts)
    if body.slot in signed.distinct and not parts.tasks:
        return plain
    skipping = _Skipping(machine, body, parts, signed)
    least = 1 if parts.tasks else WORTH if parts.lifts or skipping.quiet else 4 * WORTH
    e = machine.values

    def step() -> None:
        lo, hi = body.lo(e), body.hi(e)
        if hi - lo < least:
            plain()
        elif skipping.quiet:
            skipping.run_quiet(lo, hi)
        else:
            skipping.run(lo, hi, machine.task_follows())

    return step


def whole_step(machine: Machine, step: Step, parts: Parts) -> Step:
    """The step of a loop that is looked up as a whole, `parts` being what it depends on with its
    bounds: an iteration of which the loop is all there is."""
    if not machine.skips or not parts.lifts or parts.tasks:
        return step
    once = Body(len(machine.values), lambda e: 0, lambda e: 1, (step,), 0, False, False)
    machine.values.append(0)
    skipping = _Skipping(machine, once, parts, signature(machine.layout, parts))
    return lambda: skipping.run(0, 1, False)


def _plain(machine: Machine, body: Body) -> Step:
    e, slot, steps, size = machine.values, body.slot, body.steps, body.size
    if not steps:
        return lambda: machine.count(size * (body.hi(e) - body.lo(e)))
    if body.around_tasks:
        (only,) = steps

        def run_iterations() -> None:
            outer, hi = machine.task_follows(), body.hi(e)
            for y in range(body.lo(e), hi):
                e[slot] = y
                machine.operations += size
                machine.follows = outer or y + 1 < hi
                only()

        return run_iterations

    def step() -> None:
        machine.task_follows()
        for y in range(body.lo(e), body.hi(e)):
            e[slot] = y
            machine.operations += size
            for inner in steps:
                inner()

    return step


@dataclass(slots=True, eq=False)
class _Watch:
    """The states that are about when an iteration begins, held to see what becomes of them."""

    states: list[StateId] = field(default_factory=list)
    held: list[ClassId] = field(default_factory=list)


class _Skipping:
    """One loop of a machine, and the effects of its iterations so far."""

    def __init__(self, machine: Machine, body: Body, parts: Parts, signed: Signature) -> None:
        self._machine = machine
        self._body = body
        self._parts = parts
        self._signed = signed
        self._barriers: tuple[Sym, ...] = tuple(parts.barriers)
        self._slots = tuple(parts.slots.values())
        self._hope = Hope()
        self._effects: dict[Hashable, Effect] = {}
        self._cost = ROOM
        self._watches: list[_Watch] = []
        moving = any(body.slot in box.slots for box in signed.boxes)
        self.quiet = not (moving or parts.lifts or parts.barriers or parts.tasks)
        self._numbers: dict[Hashable, int] = {}
        self._configurations: list[tuple[Contents, ...]] = []
        self._links: dict[tuple[int, tuple[int, ...]], tuple[int, int]] = {}
        machine.classes.renamers.append(self._rename)

    # --- loops in general -----------------------------------------------------------------

    def run(self, lo: int, hi: int, outer: bool) -> None:
        """The iterations `lo .. hi - 1`, each looked up or run; a task may follow on the last."""
        machine, hope, around_tasks = self._machine, self._hope, self._body.around_tasks
        e, slot = machine.values, self._body.slot
        for y in range(lo, hi):
            e[slot] = y
            follows = outer or y + 1 < hi
            if hope.pause:
                hope.pause -= 1
                machine.follows = around_tasks and follows
                self._iterate()
                continue
            places = [box.place_at(e) for box in self._signed.boxes]
            if sum(region.size for _, region in places) > self._room():
                machine.follows = around_tasks and follows
                self._iterate()
                continue
            if self._body.begins_task:
                # The first thing to happen anyway; after it the records of one task look like
                # those of another.
                machine.leave_task()
            bases = [b.bases() if b is not None else [] for b in self._current_barriers()]
            key = (self._key(places, bases), around_tasks and follows)
            effect = self._effects.get(key)
            if effect is None:
                hope.miss()
                machine.follows = around_tasks and follows
                self._learn(key, places, bases)
            else:
                hope.hit()
                # If a task is the next thing to happen, states of each thread of this one need not
                # be about until then.
                left = effect.left if follows else None
                self._apply(effect, places, bases, left or effect.contents)
            machine.tick()

    def _room(self) -> int:
        """Returns the number of cells worth looking at: in proportion to the cost of an
        iteration."""
        return 64 + 4 * self._cost

    def _iterate(self) -> None:
        machine, body = self._machine, self._body
        before = machine.operations
        machine.operations += body.size
        for step in body.steps:
            step()
        self._cost = machine.operations - before

    def _current_barriers(self) -> list[Barrier | None]:
        return [self._machine.barriers[name] for name in self._barriers]

    def _key(self, places: list[Place], bases: list[list[int]]) -> Hashable:
        """All that the effect of the present iteration depends on."""
        barriers = tuple(
            None if b is None else (tuple([min(n, b.facts.small) for n in base]), b.save(base))
            for b, base in zip(self._current_barriers(), bases, strict=True)
        )
        return (
            self._signed.values(self._machine.values),
            tuple([shape for shape, _ in places]),
            self._contents(places),
            barriers,
            tuple([slot() for slot in self._slots]),
            self._affected_states() if self._parts.lifts else None,
        )

    def _contents(self, places: list[Place]) -> tuple[Contents, ...]:
        classes = self._machine.classes
        return tuple(
            [
                None if box.store.cells is None else classes.contents(box.store, region)
                for box, (_, region) in zip(self._signed.boxes, places, strict=True)
            ]
        )

    def _affected_states(self) -> frozenset[StateId]:
        """The states that syncs of the body can change."""
        classes = self._machine.classes
        if self._parts.cpu:
            return frozenset(classes.live)
        inert = classes.tables.inert
        return frozenset([state for state in classes.live if not inert(state)])

    def _learn(self, key: Hashable, places: list[Place], bases: list[list[int]]) -> None:
        """Runs the iteration and remembers what it does."""
        machine, classes = self._machine, self._machine.classes
        before, operations, task = self._current_barriers(), machine.operations, machine.task
        watch = _Watch()
        if self._parts.lifts:
            watch.states = list(self._affected_states())
            watch.held = [classes.hold(state) for state in watch.states]
            self._watches.append(watch)
        self._iterate()
        if self._parts.lifts:
            self._watches.pop()
        lifted = {
            state: classes.state_of[held]
            for state, held in zip(watch.states, watch.held, strict=True)
        }
        barriers: list[tuple[bool, BarrierKey | None]] = []
        for old, new, base in zip(before, self._current_barriers(), bases, strict=True):
            fresh = new is not old
            if new is not None and fresh:
                base = [0] * new.facts.size
            barriers.append((fresh, None if new is None else new.save(base)))
        if len(self._effects) >= ROOM:
            self._effects.clear()
        contents = self._contents(places)
        self._effects[key] = Effect(
            contents,
            lifted,
            tuple(barriers),
            machine.operations - operations,
            machine.task - task,
            self._contents_left(contents) if self._body.begins_task else None,
        )
        for held in watch.held:
            classes.drop(held)

    def _contents_left(self, contents: tuple[Contents, ...]) -> tuple[Contents, ...]:
        """The contents once the next task has begun."""
        left = self._machine.next_task_state
        return tuple(
            [None if states is None else changed_states(states, left) for states in contents]
        )

    def _apply(
        self,
        effect: Effect,
        places: list[Place],
        bases: list[list[int]],
        contents: tuple[Contents, ...],
    ) -> None:
        """Does at once what the iteration does, with these contents after it."""
        machine, classes = self._machine, self._machine.classes
        machine.operations += effect.operations
        machine.skipped += effect.operations - 1
        machine.task += effect.tasks
        if effect.lifted:
            classes.rewrite(effect.lifted)
        for name, (fresh, key), base in zip(self._barriers, effect.barriers, bases, strict=True):
            if fresh:
                machine.close(name)
                if key is not None:
                    facts = machine.layout.barriers[name]
                    machine.barriers[name] = Barrier(facts, classes)
                    base = [0] * facts.size
            barrier = machine.barriers[name]
            if barrier is not None and key is not None:
                barrier.restore(key, base)
        self._fill(places, contents)

    def _fill(self, places: list[Place], contents: tuple[Contents, ...]) -> None:
        classes = self._machine.classes
        for box, (_, region), states in zip(self._signed.boxes, places, contents, strict=True):
            if states is None:
                classes.release(box.store)
                continue
            if box.store.cells is None:
                classes.allocate(box.store)
            classes.fill(box.store, region, states)

    def _rename(self, into: dict[ClassId, ClassId]) -> None:
        for watch in self._watches:
            watch.held = [into.get(held, held) for held in watch.held]

    # --- loops without syncs whose boxes stay where they are ----------------------------------

    def run_quiet(self, lo: int, hi: int) -> None:
        """As `run`: here the boxes' contents are all there is, so that they are numbered, and
        written back only where an iteration has to be run."""
        machine, hope, values = self._machine, self._hope, self._signed.values
        e, slot, links = machine.values, self._body.slot, self._links
        e[slot] = lo
        places = [box.place_at(e) for box in self._signed.boxes]
        if sum(region.size for _, region in places) > self._room():
            for y in range(lo, hi):
                e[slot] = y
                self._iterate()
            return
        here: int | None = None
        written = True
        for y in range(lo, hi):
            e[slot] = y
            if hope.pause:
                hope.pause -= 1
                if not written and here is not None:
                    self._fill(places, self._configurations[here])
                here, written = None, True
                self._iterate()
                continue
            if here is None:
                here = self._number(places)
            signed = values(e)
            link = links.get((here, signed))
            if link is not None:
                hope.hit()
                here, written = link[0], False
                machine.operations += link[1]
                machine.skipped += link[1] - 1
                continue
            hope.miss()
            if not written:
                self._fill(places, self._configurations[here])
            before, start = here, machine.operations
            self._iterate()
            here, written = self._number(places), True
            links[before, signed] = (here, machine.operations - start)
        if not written and here is not None:
            self._fill(places, self._configurations[here])
        machine.tick()

    def _number(self, places: list[Place]) -> int:
        contents = self._contents(places)
        key = (tuple([shape for shape, _ in places]), contents)
        found = self._numbers.get(key)
        if found is None:
            if len(self._configurations) >= ROOM:
                self._numbers.clear()
                self._links.clear()
                self._configurations.clear()
            found = self._numbers[key] = len(self._configurations)
            self._configurations.append(contents)
        return found
