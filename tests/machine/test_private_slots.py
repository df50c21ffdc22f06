"""A slot that is private to its cluster has no meaning but as an index of what resides (decision
`private-slot`): neither interpreter, nor the prover, nor the encoder reads it as a number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from exogpu.amir import nodes as amir
from exogpu.amir.slot_privacy import PrivateSlotError, check_private_slots, with_comparisons
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy, Proof
from exogpu.ir.nodes import Compare, CVar, Int
from exogpu.machine import fast, literal
from exogpu.pipeline.check import answer
from exogpu.symbolic.prove import prove
from exogpu.symbolic.search import privacy_proof
from exogpu.symbolic.search.analysis import analyse
from tests.machine.build import Q1, Builder, Name, add, c, mod, mul, t
from tests.machine.shapes.loads import load
from tests.machine.shapes.slots import bound


class Kernel:
    """Memory that resides, of a task, and global; a barrier that resides, on which each task has
    some Arrives, and its slot."""

    def __init__(self) -> None:
        self.b = b = Builder()
        self.tasks = b.size("M")
        self.x = b.data("x", 3, resident=True)
        self.wide = b.data("wide", 6, resident=True)
        self.own = b.data("own", 3, shared=True)
        self.y = b.data("y", 6)
        self.z = b.barrier("z", depth=1, resident=True)
        self.others = b.barrier("others", 3, depth=1, resident=True)

    def with_slot(self, use: Callable[[Kernel, CVar], object]) -> amir.Program:
        b = self.b
        for name in (self.x, self.wide, self.z, self.others):
            b.alloc(name)
        with b.tasks("task", 0, self.tasks):
            b.alloc(self.own)
            with bound(b, self.z[()], 3) as slot:
                use(self, slot)
            b.arrive(t(0), Q1, self.z[()])
            b.await_(self.z[()], t(0), Q1)
            b.release(self.own)
        for name in (self.z, self.others):
            b.free_barrier(name)
        for name in (self.x, self.wide):
            b.release(name)
        return b.program(Policy.PTX, compared=False)


def guarded(k: Kernel, slot: CVar) -> None:
    with k.b.when(Compare("==", slot, Int(1))):
        k.b.write(k.y[0], t(0), Q1)


def looped(k: Kernel, slot: CVar) -> None:
    with k.b.loop("i", 0, slot) as i:
        k.b.write(k.y[i], t(0), Q1)


def loaded(k: Kernel, slot: CVar) -> None:
    table = k.b.data("table", 3)
    with load(k.b, table[slot], 0, 6) as at:
        k.b.write(k.y[at], t(0), Q1)


def signalled(k: Kernel, slot: CVar) -> None:
    tag = amir.Trailing(k.others[slot], (k.others[slot],))
    k.b.write(k.x[0], t(0), Q1, trailing=tag)


MISUSED: dict[str, Callable[[Kernel, CVar], object]] = {
    "an index of global memory": lambda k, s: k.b.write(k.y[s], t(0), Q1),
    "a window of global memory": lambda k, s: k.b.read(k.y[s : add(s, 1)], t(0), Q1),
    "an index of the task's memory": lambda k, s: k.b.write(k.own[s], t(0), Q1),
    "a condition": guarded,
    "a bound": looped,
    "a position": loaded,
    "a barrier that is signalled": signalled,
    "threads": lambda k, s: k.b.write(k.x[0], t(s), Q1),
    "a sum": lambda k, s: k.b.write(k.wide[add(s, 1)], t(0), Q1),
    "a multiple": lambda k, s: k.b.write(k.wide[mul(2, s)], t(0), Q1),
    "a remainder": lambda k, s: k.b.write(k.x[mod(add(s, 1), 3)], t(0), Q1),
    "a longer window": lambda k, s: k.b.write(k.wide[s : add(s, 2)], t(0), Q1),
    "a window up to it": lambda k, s: k.b.read(k.wide[0:s], t(0), Q1),
}


def refuse(program: amir.Program) -> None:
    """All that run or prove a program refuse it."""
    sizes = {"M": 2}
    for run in (literal.run, fast.run):
        with pytest.raises(PrivateSlotError):
            run(program, sizes)
    found = analyse(program)
    assert found.undecided and not found.violations and found.evidence is None


@pytest.mark.parametrize("what", MISUSED)
def test_nothing_reads_it_as_a_number(what: str) -> None:
    program = Kernel().with_slot(MISUSED[what])
    refuse(program)
    with pytest.raises(PrivateSlotError):
        with_comparisons(program)


RIGHT: dict[str, Callable[[Kernel, CVar], object]] = {
    "an index": lambda k, s: k.b.write(k.x[s], t(0), Q1),
    "a window of one element": lambda k, s: k.b.write(k.x[s : add(s, 1)], t(0), Q1),
    "an index of some of it": lambda k, s: k.b.write(k.wide[s], t(0), Q1),
    "beside other accesses": lambda k, s: k.b.write(k.y[0], t(0), Q1),
}


@pytest.mark.parametrize("what", RIGHT)
def test_it_indexes_what_resides(what: str) -> None:
    program = Kernel().with_slot(RIGHT[what])
    check_private_slots(program)
    assert with_comparisons(program) is program


def both(program: amir.Program, sizes: dict[str, int]) -> list[tuple[HazardKind, str, int | None]]:
    found = literal.run(program, sizes, collect=True)
    assert fast.run(program, sizes, collect=True).violations == found
    return [(v.kind, v.variable, v.task) for v in found]


def two_counts(more: int) -> tuple[Builder, Name]:
    """x is written by the slot of one barrier and read by that of another, on which each task has
    one Arrive more, or so many."""
    b = Builder()
    tasks = b.size("M")
    x = b.data("x", 3, resident=True)
    full, done = (b.barrier(n, depth=1, resident=True) for n in ("full", "done"))
    for name in (x, full, done):
        b.alloc(name)
    with b.tasks("task", 0, tasks):
        with bound(b, full[()], 3) as slot:
            b.write(x[slot], t(0), Q1)
        with bound(b, done[()], 3) as slot:
            b.read(x[slot], t(0), Q1)
        for barrier, count in ((full, 1), (done, 1 + more)):
            for _ in range(count):
                b.arrive(t(0), Q1, barrier[()])
                b.await_(barrier[()], t(0), Q1)
    for name in (full, done):
        b.free_barrier(name)
    b.release(x)
    return b, x


@pytest.mark.parametrize("more", range(5))
def test_slots_of_one_memory_count_alike(more: int) -> None:
    program = two_counts(more)[0].program()
    slots = [found for found in both(program, {"M": 3}) if found[0] is HazardKind.SLOT]
    alike = more % 3 == 0
    assert slots == ([] if alike else [(HazardKind.SLOT, "x", None)] * 2)
    found = answer(program)
    assert (found.proof is not None) == alike, found.reason
    if found.refutation is not None:
        assert found.refutation.sizes == {"M": 2}


def test_the_encoder_compares_counts_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the finder overlooks is not confirmed."""
    monkeypatch.setattr(privacy_proof, "slot_failures", lambda *_: iter(()))
    monkeypatch.setattr("exogpu.symbolic.search.analysis.slot_failures", lambda *_: iter(()))
    program = two_counts(3)[0].program()
    assert isinstance(prove(analyse(program)), Proof)
    program = two_counts(1)[0].program()
    assert not isinstance(prove(replace(analyse(program), violations=())), Proof)


def test_what_a_task_has_to_require_is_required() -> None:
    bare = two_counts(0)[0].program(compared=False)
    refuse(bare)
    for weaker in (Compare("==", Int(0), Int(0)), Compare("<=", Int(0), Int(1))):
        refuse(_requiring(with_comparisons(bare), weaker))


def _requiring(program: amir.Program, condition: Compare) -> amir.Program:
    """The program in which tasks require this instead."""

    def changed(op: amir.Op) -> amir.Op:
        if isinstance(op, amir.Require) and op.kind is HazardKind.SLOT:
            return replace(op, conditions=(condition,))
        if isinstance(op, amir.Loop | amir.Guard):
            return replace(op, body=tuple(map(changed, op.body)))
        return op

    return replace(program, body=tuple(map(changed, program.body)))


def named(place: int | None, arrives: int) -> amir.Program:
    """x is written by a slot, of a barrier on which each task arrives so often; and read by it, or
    at a place that the program names."""
    b = Builder()
    tasks = b.size("M")
    x, z = b.data("x", 3, resident=True), b.barrier("z", depth=1, resident=True)
    b.alloc(x)
    b.alloc(z)
    with b.tasks("task", 0, tasks):
        for step in range(arrives):
            with bound(b, z[()], 3) as slot:
                b.write(x[slot], t(0), Q1)
                if place is None:
                    b.read(x[slot], t(0), Q1)
            b.arrive(t(0), Q1, z[()])
            b.await_(z[()], t(0), Q1)
            if place == step:
                b.read(x[c(place)], t(0), Q1)
    b.free_barrier(z)
    b.release(x)
    return b.program()


@pytest.mark.parametrize("arrives", (1, 2, 3))
def test_an_element_is_named_where_tasks_have_whole_rings(arrives: int) -> None:
    for place in (None, 0):
        program = named(place, arrives)
        wrong = place is not None and arrives != 3
        found = [one for one in both(program, {"M": 3}) if one[0] is HazardKind.SLOT]
        assert bool(found) == wrong
        answered = answer(program)
        assert (answered.proof is None) == wrong, answered.reason
