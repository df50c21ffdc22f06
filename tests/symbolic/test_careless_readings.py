"""Each careless reading of the rules, as a mutant of the prover: some program must tell it apart.

A reading that a pitfall warns of is told apart by one of the pitfalls' programs; the others by a
program of the decisions' tests, or by a generated one.  A mutant that agreed with the machine on
all of them would show that the tests do not look at the rule at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from types import ModuleType

import pytest

from exogpu.amir import nodes as amir
from exogpu.ir.types import Policy
from exogpu.machine import literal
from exogpu.symbolic.find.prover import analyse
from tests.machine import test_decisions, test_pitfalls
from tests.machine.build import COMMIT, CPU, Q1, Q2, UNORDERED, Builder, at_least, t
from tests.symbolic.agreement import Key, Sizes, admitting_zero, generated, machine_set, prover_set
from tests.symbolic.careless import MUTANTS

Suspect = tuple[amir.Program, list[tuple[Sizes, set[Key]]]]
"""A program, and the machine's violations at some sizes."""


@cache
def told_by(module: ModuleType) -> tuple[Suspect, ...]:
    """The programs that the tests of a module run, at their sizes."""
    asked: list[tuple[amir.Program, dict[str, int]]] = []

    def run(program, sizes, *, collect=False):
        if collect:
            asked.append((admitting_zero(program), dict(sizes)))
        return literal.run(program, sizes, collect=collect)

    for name, test in vars(module).items():
        if not name.startswith("test_") or "run" not in test.__code__.co_varnames:
            continue
        marks = [mark.args for mark in getattr(test, "pytestmark", ())]
        for values in product(*(choices for _, choices in marks)):
            arguments: dict[str, object] = {}
            for (names, _), value in zip(marks, values, strict=True):
                names = names.split(",") if isinstance(names, str) else names
                many = value if len(names) > 1 else (value,)
                arguments |= dict(zip((n.strip() for n in names), many, strict=True))
            test(run, **arguments)
    return tuple((program, [(at, machine_set(program, at))]) for program, at in asked)


def never_ordered() -> Builder:
    """Pitfall 14: the only sync stands in a loop, which may run no times."""
    b = Builder()
    trips, x = b.size("K"), b.data("x")
    b.write(x[()], t(0), Q1)
    with b.loop("k", 0, trips):
        b.fence(t(0, 2), Q1, Q1)
    b.read(x[()], t(1), Q1)
    return b


def barrier_of_a_trip() -> Builder:
    """Pitfall 11: the Arrive of the first trip's barrier is not the one that later trips await."""
    b = Builder()
    trips, x, z = b.size("K"), b.data("x"), b.barrier("z", mechanism=COMMIT)
    with b.loop("k", 0, trips) as k:
        b.alloc(z)
        with b.when(at_least(0, k)):
            b.write(x[()], t(0), Q1)
            b.arrive(t(0), Q1, z[()])
        with b.when(at_least(k, 1)):
            b.arrive(t(1), Q1, z[()])
            b.await_(z[()], t(1), Q1, n=0)
            b.read(x[()], t(1), Q1)
        b.release(z)
    return b


def own_access_in_flight() -> Builder:
    """A thread does not see its own unfinished access."""
    b = Builder()
    x = b.data("x", 4)
    with b.loop("k", 0, b.size("K")) as k:
        b.write(x[k], t(0), Q2, level=UNORDERED)
        b.read(x[k], t(0), Q2)
    return b


def chain_through_the_stream() -> Builder:
    """Between kernels: what a Fence of a task granted, a Fence of the stream passes on."""
    b = Builder()
    trips, x = b.size("K"), b.data("x")
    with b.tasks("first", 0, trips):
        b.write(x[()], t(0), Q2, level=UNORDERED)
        b.fence(t(0), Q2, Q1)
    b.fence(CPU, Q1, Q1, transitive=True)
    with b.tasks("second", 0, 1):
        b.read(x[()], t(0), Q1)
    return b


@cache
def told() -> tuple[Suspect, ...]:
    made = []
    for build in (
        never_ordered,
        barrier_of_a_trip,
        own_access_in_flight,
        chain_through_the_stream,
    ):
        for policy in Policy:
            program = admitting_zero(build().program(policy))
            sizes: list[Sizes] = [{"K": k} for k in range(4)]
            made.append((program, [(at, machine_set(program, at)) for at in sizes]))
    return tuple(made)


@cache
def drawn(shape: str, seed: int) -> Suspect:
    program = admitting_zero(generated(shape, seed))
    sizes: list[Sizes] = [{"K": k} for k in (1, 2, 5)] if program.params else [{}]
    return program, [(at, machine_set(program, at)) for at in sizes]


def suspects(pitfall: int | None) -> Iterator[Suspect]:
    yield from told()
    yield from told_by(test_pitfalls)
    if pitfall is None:
        yield from told_by(test_decisions)
        for seed in range(500, 515):
            for shape in ("chains", "fences", "straight_line", "groups", "tasked", "ring"):
                yield drawn(shape, seed)


def told_apart(pitfall: int | None = None) -> bool:
    """Whether some program's violations now differ from the machine's."""
    for program, expected in suspects(pitfall):
        findings = analyse(program)
        if findings.undecided:
            continue
        if any(prover_set(findings, at) != theirs for at, theirs in expected):
            return True
    return False


def test_unchanged_prover_agrees() -> None:
    assert len(told_by(test_pitfalls)) > 50 and len(told_by(test_decisions)) > 50
    assert not told_apart()


@pytest.mark.parametrize("name", MUTANTS)
def test_careless_reading_is_told_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pitfall, apply = MUTANTS[name]
    apply(monkeypatch)
    assert told_apart(pitfall)
