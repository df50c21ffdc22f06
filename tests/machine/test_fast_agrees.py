"""The fast interpreter finds what the literal rules find, on generated programs.

Hundreds of programs at two sizes each: the first violation, the whole set of violations, and one of
each pair of operations; and skipping changes nothing.  `campaigns/agreement.py` has thousands.
"""

from __future__ import annotations

from random import Random
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exogpu.analysis.slots import UncountedError
from exogpu.machine import fast, literal
from exogpu.machine.fast import loop_skipping, steps
from exogpu.machine.observer import Violation
from tests.machine import generate

pytestmark = pytest.mark.slow

PROGRAMS = dict.fromkeys(generate.BUILT, 60) | {
    "multicast": 24,
    "nests": 50,
    "casts": 10,
    "resident": 24,
    "slots": 24,
    "relays": 16,
    "unequal": 16,
    "flags": 14,
    "roles": 24,
    "turns": 30,
    "windows": 20,
}
"""Of each shape; clusters are slow on the literal machine, and sources are to be read."""

LONG = {
    "nests": (40, 17),
    "casts": (10, 9),
    "resident": (10, 9),
    "slots": (10, 9),
    "relays": (6, 9),
    "unequal": (6, 7),
    "windows": (20, 53),
}
"""Of some shapes, how many programs are run with many iterations to skip, and how many; of the
others 60, and 53."""


def facts(violations: tuple[Violation, ...]) -> list[tuple[object, ...]]:
    """What is compared, in a form that a failing test can print."""
    return [
        (
            v.kind.name,
            v.variable,
            v.index,
            v.task,
            v.check.origin.span.line,
            v.iteration,
            None if v.record is None else v.record.origin.span.line,
        )
        for v in violations
    ]


def located(violations: tuple[Violation, ...]) -> list[object]:
    return [(v.record_iteration, v.record_task) for v in violations]


def first_of_pairs(violations: tuple[Violation, ...]) -> list[tuple[object, ...]]:
    """The first violation of each pair of a record and a check."""
    pairs: dict[tuple[object, ...], Violation] = {}
    for violation in violations:
        pairs.setdefault((violation.kind, violation.check, violation.record), violation)
    return facts(tuple(pairs.values()))


def compare(generated: generate.Generated) -> None:
    program = generated.program
    for sizes in generated.sizes:
        try:
            every = literal.run(program, sizes, collect=True)
        except KeyError:
            continue  # a barrier that an earlier iteration has freed: no well-formed program
        first = literal.run(program, sizes)
        assert first == every[:1]
        outcome = fast.run(program, sizes)
        assert facts(outcome.violations) == facts(first)
        whole = fast.run(program, sizes, collect=True)
        assert set(whole.violations) == set(every), (
            facts(tuple(set(whole.violations) - set(every))),
            facts(tuple(set(every) - set(whole.violations))),
        )
        pairs = fast.run(program, sizes, keep=fast.Keep.PAIRS)
        assert sorted(facts(pairs.violations), key=repr) == sorted(first_of_pairs(every), key=repr)
        # Skipping accounts for every operation, and finds the same.
        plain = fast.run(program, sizes, skip=False)
        assert (facts(plain.violations), plain.operations) == (facts(first), outcome.operations)
        assert whole.operations == pairs.operations
        # The record's iteration and task are those that the literal rules name.
        assert located(outcome.violations) == located(first)


@pytest.mark.parametrize("shape", generate.SHAPES)
def test_agrees(shape: str) -> None:
    @settings(
        max_examples=PROGRAMS[shape],
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(seed=st.integers(0, 2**32 - 1))
    def agrees(seed: int) -> None:
        # A seed, and not hypothesis' own random numbers: those lean to extremes, and the literal
        # machine would take minutes for a single long program.
        compare(generate.program(Random(seed), shape))

    agrees()


@pytest.mark.parametrize(("seed", "shape"), [(4618, "tasked"), (3974, "waits")])
def test_the_record_is_located(seed: int, shape: str) -> None:
    """A check at CPU scope, whose record is a task's; an Await at odds with its own earlier one."""
    compare(generate.program(Random(seed), shape))


@pytest.mark.parametrize("shape", generate.SHAPES)
def test_skipping_changes_nothing(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which most iterations are skipped, in loops of any length."""
    monkeypatch.setattr(loop_skipping, "WORTH", 1)
    monkeypatch.setattr(steps, "LEAST", 1)
    programs, size = LONG.get(shape, (60, 53))
    for seed in range(programs):
        program = generate.program(Random(seed), shape).program
        sizes = {parameter.name.name: size for parameter in program.params}
        try:
            plain = fast.run(program, sizes, skip=False)
        except AssertionError:
            continue  # a barrier that an earlier iteration has freed
        skipped = fast.run(program, sizes)
        assert (facts(skipped.violations), skipped.operations) == (
            facts(plain.violations),
            plain.operations,
        )


def test_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,000 iterations of a correct ring only the first few are run."""
    runs = []
    iterate = loop_skipping._Skipping._iterate
    monkeypatch.setattr(
        loop_skipping._Skipping, "_iterate", lambda self: (runs.append(1), iterate(self))[1]
    )
    seed = next(
        seed
        for seed in range(100)
        if not fast.run(generate.program(Random(seed), "ring").program, {"K": 9}).violations
    )
    runs.clear()
    outcome = fast.run(generate.program(Random(seed), "ring").program, {"K": 1000})
    assert not outcome.violations
    # A ring of 4 slots and ring depths up to 32 that must be tried: periodic soon after that.
    assert len(runs) < 200
    assert outcome.operations > 20_000


class Enough(Exception):
    """A run has gone on for long enough."""


def stop(progress: fast.Progress) -> None:
    assert progress.tasks_done <= progress.tasks
    raise Enough


def test_progress_may_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from exogpu.machine.fast import configuration

    monkeypatch.setattr(configuration, "TICK", 0.0)
    program = generate.program(Random(0), "threads").program
    with pytest.raises(Enough):
        fast.run(program, {"K": 9}, progress=stop)


def test_progress_may_end_a_run_of_the_literal_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which executes what the fast one does not count."""

    def uncounted(program: object, sizes: object) -> NoReturn:
        raise UncountedError

    monkeypatch.setattr(fast, "TICK", 0.0)
    monkeypatch.setattr(fast, "without_slots", uncounted)
    program = generate.program(Random(0), "threads").program
    with pytest.raises(Enough):
        fast.run(program, {"K": 9}, progress=stop)
