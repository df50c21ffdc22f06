"""Rings under nested symbolic loops, where counts are products: compared by order.

The ring is correct for all sizes; mutants of it are compared with the literal machine.
"""

from __future__ import annotations

from random import Random

import pytest

from exogpu.amir import nodes as amir
from exogpu.diagnostics.verdict import Policy
from exogpu.symbolic.search.analysis import analyse
from tests.codegen.nested_kernels import pipelined, relay
from tests.machine.build import Q1, Q2, TMA, UNORDERED, Builder, mod, t
from tests.machine.generate import mutate
from tests.symbolic.agreement import admitting_zero, check

SIZES = [{"I": i, "K": k} for i in range(4) for k in range(5)]


def nest(slots: int, depth: int | None, *, trailing: bool) -> amir.Program:
    """`I` times `K` trips through a ring whose barriers count on across the outer loop."""
    b = Builder()
    outer, inner = b.size("I"), b.size("K")
    ring = b.data("ring", slots)
    full, empty = b.barrier("full", slots, depth=depth), b.barrier("empty", slots, depth=depth)
    with b.tasks("task", 0, 1):
        b.alloc(full)
        b.alloc(empty)
        with b.loop("i", 0, outer), b.loop("k", 0, inner) as k:
            slot = mod(k, slots)
            b.await_(empty[slot], t(0), (), (Q1, TMA), n=-2)
            if trailing:
                tag = amir.Trailing(full[slot], (full[slot],))
                b.write(ring[slot], t(0), TMA, level=UNORDERED, trailing=tag)
                b.arrive(t(0), (), full[slot])
            else:
                b.write(ring[slot], t(0), Q1)
                b.arrive(t(0), Q1, full[slot])
            b.await_(full[slot], t(1, 2), (Q1, TMA), Q2)
            b.read(ring[slot], t(1, 2), TMA)
            b.fence(t(1, 2), TMA, Q1, transitive=True)
            b.arrive(t(1, 2), Q1, empty[slot], transitive=True)
        b.free_barrier(full)
        b.free_barrier(empty)
    return admitting_zero(b.program(Policy.PTX))


@pytest.mark.parametrize("trailing", [False, True])
@pytest.mark.parametrize("depth", [2, None])
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_nested_ring_is_safe(slots: int, depth: int | None, trailing: bool) -> None:
    # The count at (i, k) is i * ceil(K / slots) + floor(k / slots): no quasi-affine function.
    program = nest(slots, depth, trailing=trailing)
    findings = check(program, SIZES)
    assert (findings.violations, findings.undecided) == ((), ())


@pytest.mark.parametrize("seed", range(24))
def test_mutated_nests_agree(seed: int) -> None:
    random = Random(seed)
    program = nest(random.choice((1, 2)), random.choice((1, 2)), trailing=random.random() < 0.5)
    for _ in range(random.choice((1, 1, 2))):
        program = mutate(random, program)
    check(program, SIZES)


def test_unbalanced_iterations_are_undecided() -> None:
    # Without the consumer's Arrive the outer iterations do not release what they wait for: the
    # counts at an iteration's start differ, and order says nothing.
    b = Builder()
    outer, inner = b.size("I"), b.size("K")
    z = b.barrier("z", depth=1)
    b.alloc(z)
    with b.loop("i", 0, outer):
        with b.loop("k", 0, inner):
            b.arrive(t(0), Q1, z[()])
        b.await_(z[()], t(0), Q1)
    findings = analyse(b.program(Policy.PTX))
    (reason,) = {u.reason for u in findings.undecided}
    assert "no quasi-affine function" in reason
    assert {u.span.line for u in findings.undecided} == {4}, "the Arrive is named"


# --- commit groups ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("in_flight", "last", "kinds"),
    [
        (0, 0, set()),
        (1, 0, set()),
        (2, 0, {"RAW", "WAW"}),
        (1, 1, {"RAW", "WAW", "FREE", "BARRIER"}),
    ],
)
def test_commit_groups_in_nests(in_flight: int, last: int, kinds: set[str]) -> None:
    found = pipelined(in_flight, last).check()
    assert found.word == ("refuted" if kinds else "proved")
    assert {hazard.kind.name for hazard in found.hazards} == kinds


# --- multicast ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("ctas", "skip"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_multicast_in_nests(ctas: int, skip: int) -> None:
    found = relay(ctas, skip).check()
    assert found.word == ("proved" if skip == 1 else "refuted"), found.reason
    assert skip == 1 or "WAW" in {hazard.kind.name for hazard in found.hazards}
