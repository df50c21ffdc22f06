"""Barriers under guards that hold periodically, and in nests: counts by remainder, totals of all
iterations, minima without holes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import islpy
import pytest

from exogpu.amir import nodes as amir
from exogpu.diagnostics.verdict import Proof
from exogpu.ir.nodes import BExpr, CExpr, Compare, CVar, Int
from exogpu.solvers import isl_counting, isl_functions
from exogpu.symbolic.prove import prove
from tests.machine.build import Q1, Q2, TMA, Builder, add, at_least, div, mod, t
from tests.symbolic.agreement import Sizes, admitting_zero, check

pytestmark = pytest.mark.slow

Guard = Callable[[CVar], BExpr]


def compare(left: CExpr, op: str, right: int) -> BExpr:
    return Compare(op, left, Int(right))  # type: ignore[arg-type]


def proved(program: amir.Program, sizes: list[Sizes]) -> bool:
    findings = check(admitting_zero(program), sizes)
    assert (findings.violations, findings.undecided) == ((), ())
    return isinstance(prove(findings), Proof)


# --- one loop -----------------------------------------------------------------------------------


def guarded(guard: Guard, *, apart: bool, waits: Guard | None = None) -> amir.Program:
    """A producer and a consumer that meet where the guard holds, in one `if` or in two."""
    b = Builder()
    count = b.size("K")
    x, z = b.data("x"), b.barrier("z", depth=1)
    b.alloc(z)

    def consume() -> None:
        b.await_(z[()], t(0, 2), Q1)
        b.read(x[()], t(1), Q1)

    with b.loop("k", 0, count) as k:
        with b.when(guard(k)):
            b.write(x[()], t(0), Q1)
            b.arrive(t(0), Q1, z[()])
            if not apart:
                consume()
        if apart:
            with b.when((waits or guard)(k)):
                consume()
        b.fence(t(0, 2), Q1, Q1)
    b.free_barrier(z)
    return b.program()


GUARDS: dict[str, Guard] = {
    "k % 3 != 0": lambda k: compare(mod(k, 3), "!=", 0),
    "k % 5 != 2": lambda k: compare(mod(k, 5), "!=", 2),
    "k % 4 < 3": lambda k: compare(mod(k, 4), "<", 3),
    "k / 2 % 2 == 0": lambda k: compare(mod(div(k, 2), 2), "==", 0),
    "k / 3 % 2 == 1": lambda k: compare(mod(div(k, 3), 2), "==", 1),
    "k / 2 % 3 != 1": lambda k: compare(mod(div(k, 2), 3), "!=", 1),
}


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("guard", GUARDS)
def test_periodic_guards_are_proved(guard: str, apart: bool) -> None:
    assert proved(guarded(GUARDS[guard], apart=apart), [{"K": k} for k in range(9)])


def test_guards_that_differ_are_refuted() -> None:
    # As many in the long run; but the second Await of a period comes before its Arrive.
    program = guarded(GUARDS["k % 3 != 0"], apart=True, waits=lambda k: compare(mod(k, 3), "!=", 2))
    assert check(admitting_zero(program), [{"K": k} for k in range(9)]).violations


LINES = (
    "0 <= x < k and x mod 3 != 0",
    "0 <= x < k and floor(x / 2) mod 2 = 0",
    "0 <= x <= k and x mod 6 != 1 and x mod 2 = k mod 2",
    "k / 2 <= x < k and (x + k) mod 5 >= 3",
    "0 <= x < k and floor(floor(x / 3) / 2) mod 2 = 1",
)


@pytest.mark.parametrize("line", LINES)
def test_counts_are_those_of_enumeration(line: str) -> None:
    relation = islpy.Map(f"{{ S[k] -> [x] : {line} }}")
    count = isl_counting.count_outputs(relation)
    assert count is not None
    for k in range(40):
        outputs = islpy.Map(f"{{ S[k] -> [x] : k = {k} and {line} }}").range()
        points: list[object] = []
        outputs.foreach_point(points.append)
        here = count.as_map().intersect_domain(islpy.Set(f"{{ S[{k}] }}")).range()
        values: list[islpy.Point] = []
        here.foreach_point(values.append)
        found = [v.get_coordinate_val(islpy.dim_type.set, 0).to_python() for v in values]
        assert (found or [0]) == [len(points)]


# --- nests --------------------------------------------------------------------------------------


def nest(
    slots: int,
    *,
    depth: int | None = 2,
    guard: Guard | None = None,
    trips: Callable[[CVar, CVar], CExpr] = lambda i, inner: inner,
    slot: Callable[[CVar, CVar], CExpr] = lambda i, k: k,
) -> amir.Program:
    """A ring of `slots`, released slot by slot, under two loops."""
    b = Builder()
    outer, inner = b.size("I"), b.size("K")
    ring = b.data("ring", slots)
    full, empty = b.barrier("full", slots, depth=depth), b.barrier("empty", slots, depth=depth)
    with b.tasks("task", 0, 1):
        b.alloc(full)
        b.alloc(empty)
        with (
            b.loop("i", 0, outer) as i,
            b.when(guard(i)) if guard else nullcontext(),
            b.loop("k", 0, trips(i, inner)) as k,
        ):
            at = mod(slot(i, k), slots)
            b.await_(empty[at], t(0), (), (Q1, TMA), n=-2)
            b.write(ring[at], t(0), Q1)
            b.arrive(t(0), Q1, full[at])
            b.await_(full[at], t(1, 2), (Q1, TMA), Q2)
            b.read(ring[at], t(1, 2), TMA)
            b.fence(t(1, 2), TMA, Q1, transitive=True)
            b.arrive(t(1, 2), Q1, empty[at], transitive=True)
        b.free_barrier(full)
        b.free_barrier(empty)
    return b.program()


NESTS: dict[str, amir.Program] = {
    "every second iteration": nest(2, guard=lambda i: compare(mod(i, 2), "==", 0)),
    "after some iterations": nest(1, guard=lambda i: at_least(i, 2)),
    "half as many": nest(2, trips=lambda i, inner: div(i, 2)),
    "a triangle": nest(1, trips=lambda i, inner: i),
}


@pytest.mark.parametrize("name", NESTS)
def test_nested_rings_are_proved(name: str) -> None:
    sizes = [{"I": i, "K": k} for i in (0, 2, 5) for k in (1, 3)]
    assert proved(NESTS[name], sizes)


SHIFTED: dict[str, amir.Program] = {
    "every iteration": nest(2, depth=None, slot=add),
    "every second iteration": nest(
        2, depth=None, slot=add, guard=lambda i: compare(mod(i, 2), "==", 0)
    ),
    "a triangle": nest(2, depth=None, slot=add, trips=lambda i, inner: i),
    # Only Z3's older arithmetic decides the sums of these, in some seconds each.
    "half as many": nest(2, depth=None, slot=add, trips=lambda i, inner: div(i, 2)),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_shifted_slots_in_a_nest_are_proved(name: str) -> None:
    sizes = [{"I": i, "K": k} for i in (0, 2, 5) for k in (1, 3)]
    assert proved(SHIFTED[name], sizes)


@pytest.mark.parametrize("slots", [3, 4])
def test_more_shifted_slots_in_a_nest_are_not_refuted(slots: int) -> None:
    # Beyond Z3's budget: products of the slots' remainders in both loops.
    sizes = [{"I": i, "K": k} for i in (0, 2, 5) for k in (1, 3)]
    assert not check(admitting_zero(nest(slots, depth=None, slot=add)), sizes).violations


def test_a_ring_of_all_slots_shifted() -> None:
    # ISL's coalesce has crashed on the relations of this program.
    b = Builder()
    count, z = b.size("K"), b.barrier("z", 2)
    b.alloc(z)
    with b.loop("i", 0, 3) as i, b.loop("k", 0, count) as k:
        b.arrive(t(0), Q1, z[mod(add(i, k), 2)])
        b.await_(z[mod(add(i, k), 2)], t(0), Q1)
    b.free_barrier(z)
    assert proved(b.program(), [{"K": k} for k in range(5)])


def test_the_smallest_output_is_one_for_each_input() -> None:
    # Equalities that are only implied: lexmin used to drop the second part's inputs.
    relation = islpy.Map(
        "[N] -> { A[i, j] -> B[a] : a = i and 2j <= -2 + i and (j + a) mod 2 = 0 and 0 <= j;"
        " A[i, j] -> B[a] : a >= i and a <= i and 0 <= j < N and (i + j) mod 3 != 1 }"
    )
    found = isl_functions.graph(isl_functions.smallest(relation))
    assert found.is_single_valued() and found.is_subset(relation)
    assert found.domain().is_equal(relation.domain())
