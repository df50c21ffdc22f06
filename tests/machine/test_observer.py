"""What a run tells an observer, and what an observer may leave out."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from exogpu.amir import nodes as amir
from exogpu.amir.walk import (
    begins_tasks,
    is_task,
    loops_of,
    operations,
    path_to,
    rewritten,
    select_operations,
)
from exogpu.diagnostics.hazards import HazardKind
from exogpu.machine import fast, literal
from exogpu.machine.index_contents import loads
from exogpu.machine.literal_records import Given, Grant, VisibilityRecord
from exogpu.machine.observer import Arrival, First, Moment, Observer, Pairs, Waiting
from tests.machine import generate
from tests.machine.build import Q1, Builder, t

KINDS = tuple(generate.SHAPES)


def small(seed: int, kind: str) -> tuple[amir.Program, dict[str, int]]:
    """A generated program, and the first sizes at which it is run."""
    generated = generate.program(Random(seed), kind)
    return generated.program, generated.sizes[0]


class Diary(Observer):
    """Everything that a run tells, in order."""

    def __init__(self, asks: bool = True) -> None:
        super().__init__()
        self.asked = asks
        self.told: list[object] = []

    def asks(self, at: Moment) -> bool:
        return self.asked

    def recorded(self, at: Moment, made: list[VisibilityRecord]) -> list[VisibilityRecord]:
        self.told.append(("recorded", at.iteration, len(made)))
        return made

    def on_arrive(self, at: Moment, arrival: Arrival) -> None:
        self.told.append(arrival)

    def on_await(self, at: Moment, waiting: Waiting) -> None:
        self.told.append(waiting)

    def on_meeting(self, at: Moment, record: VisibilityRecord, given: Given) -> None:
        self.told.append((type(at.op).__name__, given.grant, given.rank))

    def on_check(self, at: Moment, record: Moment, unseen: list[VisibilityRecord]) -> None:
        self.told.append((record.op.origin.text, at.op.origin.text, len(unseen)))


def handed_over(awaiting: int) -> Builder:
    """Twice, threads 0 and 1 write x and arrive; then one reads it, after an Await of another."""
    b = Builder()
    name, z = b.data("x", 1), b.barrier("z", depth=9)
    b.alloc(z)
    with b.loop("k", 0, 2):
        b.record(name[0], t(0, 2), Q1, mutate=True)
        b.arrive(t(0, 2), Q1, z[()])
    b.await_(z[()], t(awaiting), Q1)
    b.check(name[0], t(3), Q1, mutates=True)
    return b


def test_a_run_tells_what_each_rule_does() -> None:
    diary = Diary()
    found = literal.run(handed_over(3).program(), {}, diary)
    element = next(e.element for e in diary.told if isinstance(e, Waiting))
    first, second = (Arrival(element, rank, (element,)) for rank in (0, 1))
    fires, waits = ("Arrive", Grant.FULL, None), ("Await", Grant.FULL, 0)
    missed = ("Await", Grant.NOTHING, None)
    assert diary.told[:-2] == [
        *(("recorded", (("k", 0),), 2), first, fires, fires),
        *(("recorded", (("k", 1),), 2), second, fires, fires, fires, fires),
        *(Waiting(element, 0), waits, waits, missed, missed),
    ]
    # What the first iteration made is seen; of the second, neither thread's record is.
    assert [told[-1] for told in diary.told[-2:] if isinstance(told, tuple)] == [0, 2]
    assert [violation.record_iteration for violation in found] == [(("k", 1),)]


def test_the_records_that_an_observer_goes_on_with() -> None:
    class One(Diary):
        def recorded(self, at: Moment, made: list[VisibilityRecord]) -> list[VisibilityRecord]:
            return made[:1]

    diary = One()
    literal.run(handed_over(3).program(), {}, diary)
    assert sum(isinstance(told, tuple) and told[0] == "Await" for told in diary.told) == 2
    assert diary.told[-1][-1] == 1


def test_the_iterations_that_an_observer_leaves_out() -> None:
    class Later(Observer):
        def iterations(self, loop: amir.Loop, values: range) -> Iterable[int]:
            return values[1:]

    assert literal.run(handed_over(3).program(), {}, Later()) == ()
    assert literal.run(handed_over(2).program(), {}, Later()) != ()


def test_the_step_at_which_an_observer_ends_the_run() -> None:
    class UntilAwait(Diary):
        def step(self, at: Moment) -> bool:
            return not isinstance(at.op, amir.Await)

    diary = UntilAwait()
    assert literal.run(handed_over(2).program(), {}, diary) == ()
    assert sum(isinstance(told, Arrival) for told in diary.told) == 2
    assert not any(isinstance(told, Waiting) for told in diary.told)


@pytest.mark.parametrize("kind", KINDS)
def test_counts_do_not_depend_on_what_is_asked(kind: str) -> None:
    """Without accesses barriers count as with them, and are balanced and blocked as with them."""
    counted = (HazardKind.BARRIER, HazardKind.DEADLOCK)
    for seed in range(12):
        program, sizes = small(seed, kind)
        if loads(program):
            continue  # contents are tried until some violate
        whole, bare = Diary(), Diary(asks=False)
        literal.run(program, sizes, whole)
        literal.run(program, sizes, bare)
        signals = [told for told in whole.told if isinstance(told, Arrival | Waiting)]
        assert [told for told in bare.told if not isinstance(told, tuple)] == signals
        assert not any(isinstance(told, tuple) for told in bare.told)
        assert list(bare.found) == [v for v in whole.found if v.kind in counted]


@pytest.mark.parametrize("kind", KINDS)
def test_what_each_observer_keeps(kind: str) -> None:
    for seed in range(12):
        program, sizes = small(seed, kind)
        every = literal.run(program, sizes, Observer())
        assert every == literal.run(program, sizes, collect=True)
        assert literal.run(program, sizes, First()) == every[:1]
        pairs = {(v.kind, v.check, v.record): v for v in reversed(every)}
        kept = literal.run(program, sizes, Pairs())
        assert set(kept) == set(pairs.values()) and len(kept) == len(pairs)
        assert kept == fast.run(program, sizes, keep=fast.Keep.PAIRS).violations


def test_a_long_ring_is_counted_in_its_length() -> None:
    """Of a thousand Awaits on one element those are kept that an Arrive may still be late for."""
    b = Builder()
    z = b.barrier("z", depth=9)
    b.alloc(z)
    with b.loop("k", 0, 1000):
        b.arrive(t(0), Q1, z[()])
        b.await_(z[()], t(1), Q1)
    (barrier,) = literal.execute(b.program(), {}, Diary(asks=False)).barriers.values()
    assert [len(awaits) for awaits in barrier.bounds.values()] == [1]
    assert list(barrier.arrives.values()) == list(barrier.awaits.values()) == [1000]


# --- the walk of the AMIR -----------------------------------------------------------------------


def nested() -> tuple[amir.Program, amir.Op, amir.Op]:
    """Two operations in loops, one of them in a task."""
    b = Builder()
    with b.loop("i", 0, 2):
        first = b.fence(t(0), Q1, Q1)
    with b.loop("m", 0, 2), b.tasks("n", 0, 2):
        second = b.fence(t(1), Q1, Q1)
    return b.program(), first, second


def test_the_walk_is_in_the_order_of_the_text() -> None:
    program, first, second = nested()
    names = [type(op).__name__ for op in operations(program.body)]
    assert names == ["Loop", "Fence", "Loop", "Loop", "IncTaskID", "Fence"]
    path = path_to(program.body, second)
    assert [place for place, _ in path] == [1, 0, 1]
    assert [loop.iterator.name for loop in loops_of(path)] == ["m", "n"]
    assert path_to(program.body[:1], second) == ()
    m, n = loops_of(path)
    assert (begins_tasks((m,)), is_task(m), is_task(n)) == (True, False, True)
    assert not begins_tasks(program.body[:1])
    assert first in tuple(operations(program.body[:1]))


def test_what_is_not_changed_stays_the_same() -> None:
    program, first, second = nested()
    changed = rewritten(program.body, {second: (second, first)})
    assert changed[0] is program.body[0]
    assert [op for op in operations(changed) if isinstance(op, amir.Fence)] == [
        *(first, second, first)
    ]
    assert rewritten(program.body, {program.body[0]: ()}) == program.body[1:]
    (left,) = select_operations(program.body, lambda op: op is first)
    assert isinstance(left, amir.Loop) and left.body == (first,)
