"""Each careless reading of slots, as a mutant of the prover: some program must tell it apart.

Of slots the prover predicts more than happens.  So it is told apart where it finds nothing and the
machine does, or finds something in a program that is proved without the mistake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import pytest

from exogpu.amir import nodes as amir
from exogpu.diagnostics.verdict import Proof
from exogpu.symbolic.prove import prove
from exogpu.symbolic.search.analysis import analyse
from tests.machine.build import Q1, Builder, t
from tests.machine.shapes.slots import bound
from tests.symbolic.agreement import admitting_zero, generated, machine_set, prover_set
from tests.symbolic.careless_slots import MUTANTS

SIZES = ({"I": 1, "K": 3}, {"I": 2, "K": 1}, {"I": 4, "K": 2})


def ring(
    steps: int | None, slots: int, early: int = 0, read: str = "empty", *, one_element: bool = False
) -> amir.Program:
    """Tasks of so many steps, or K, through a ring: as it should be, or with slots that are filled
    too early or counted on the other barrier.  Each task writes an element of its own, or two
    tasks write one."""
    b = Builder()
    tasks, size = b.size("I"), b.size("K")
    data, y = b.data("ring", slots, resident=True), b.data("y", 4)
    full = b.barrier("full", depth=slots + 2, resident=True)
    empty = b.barrier("empty", depth=slots + 2, guard=full, resident=True)
    for name in (data, full, empty):
        b.alloc(name)
    with (
        b.tasks("i", 0, 2 if one_element else tasks) as task,
        b.loop("k", 0, size if steps is None else steps),
    ):
        b.await_(empty[()], t(0), (), Q1, -slots - 1 - early)
        with bound(b, full[()], slots) as slot:
            b.write(data[slot], t(0), Q1)
        b.arrive(t(0), Q1, full[()])
        b.await_(full[()], t(1), Q1, Q1)
        with bound(b, (empty if read == "empty" else full)[()], slots) as slot:
            b.read(data[slot], t(1), Q1)
        b.write(y[0 if one_element else task], t(1), Q1)
        b.arrive(t(1), Q1, empty[()])
    b.fence(t(0, 2), Q1, Q1)
    for name in (full, empty):
        b.free_barrier(name)
    b.release(data)
    return admitting_zero(b.program())


PROGRAMS = {
    "one step": ring(1, 2),
    "two steps, three slots": ring(2, 3),
    "steps": ring(None, 2),
    "one step, a slot too early": ring(1, 2, early=1),
    "two steps, three slots, a slot too early": ring(2, 3, early=1),
    "steps, a slot too early": ring(None, 3, early=1),
    "the reader counts what is filled": ring(1, 2, read="full"),
    "two tasks write one element": ring(1, 1, one_element=True),
}
DRAWN = [*(("slots", seed) for seed in range(8)), ("relays", 4), ("resident", 0), ("resident", 1)]


Suspect = tuple[amir.Program, bool, Sequence[tuple[Mapping[str, int], bool]]]
"""A program, whether it is proved, and whether the machine violates at each of some sizes."""


@cache
def suspects() -> Sequence[Suspect]:
    found: list[Suspect] = []
    drawn = [admitting_zero(generated(shape, seed)) for shape, seed in DRAWN]
    for program in (*PROGRAMS.values(), *drawn):
        findings = analyse(program)
        safe = not findings.undecided and isinstance(prove(findings), Proof)
        wrong = [(at, bool(machine_set(program, at))) for at in SIZES]
        assert not (safe and any(violates for _, violates in wrong))
        if not findings.undecided and (safe or any(violates for _, violates in wrong)):
            found.append((program, safe, wrong))
    return found


def told_apart() -> bool:
    """Whether the prover now misses what the machine finds, or finds what does not happen."""
    for program, safe, wrong in suspects():
        findings = analyse(program)
        if findings.undecided:
            continue
        if safe and findings.violations:
            return True
        if any(violates and not prover_set(findings, at) for at, violates in wrong):
            return True
    return False


@pytest.mark.slow
def test_unchanged_prover_agrees() -> None:
    safe = [safe for _, safe, _ in suspects()]
    assert safe[: len(PROGRAMS)] == [True] * 3 + [False] * 5
    assert safe.count(True) > 5
    assert not told_apart()


@pytest.mark.parametrize("name", MUTANTS)
def test_careless_reading_is_told_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    suspects()
    MUTANTS[name](monkeypatch)
    assert told_apart()
