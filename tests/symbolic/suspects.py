"""Programs on which a prover may be wrong: those of the machine's tests, and some with a size."""

from __future__ import annotations

from functools import cache
from itertools import product
from types import ModuleType

from exogpu.amir import nodes as amir
from exogpu.diagnostics.verdict import Policy
from exogpu.machine import literal
from tests.machine.build import COMMIT, CPU, Q1, Q2, UNORDERED, Builder, at_least, t
from tests.symbolic.agreement import Key, Sizes, admitting_zero, machine_set

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
