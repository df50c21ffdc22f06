"""What is asked of barriers, their counts and PHASE, each condition dropped."""

from __future__ import annotations

from dataclasses import replace

from exogpu.amir import nodes as amir
from exogpu.amir.nodes import Await, CheckBarrier
from exogpu.diagnostics.verdict import Lemma
from exogpu.ir.nodes import Int
from exogpu.solvers import isl_counting
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.encode import (
    barrier_obligations,
    chain_formulas,
    count_lemmas,
    formulas,
    obligations,
    phase_obligations,
    rank_table,
)
from exogpu.symbolic.encode.encoder import Draft
from exogpu.symbolic.encode.formulas import FALSE, TRUE
from exogpu.symbolic.encode.rank_table import same_element
from exogpu.symbolic.search import counts, nested_counts
from tests.machine.build import (
    Q1,
    Q2,
    TMA,
    UNORDERED,
    at_least,
    mod,
    t,
)
from tests.symbolic.dropped import (
    COUNTS,
    Change,
    Patch,
    barrier,
    equals,
    holds,
    is_value,
    killed,
    method,
    reads,
    unasked,
    write,
)

# --- programs: barriers -------------------------------------------------------------------------


@killed("arrives need not be awaited", unasked(barrier_obligations._Barrier, "arrive_is_awaited"))
def _(b, count):
    z = barrier(b)
    b.arrive(t(0), Q1, z[()])
    b.free_barrier(z)


@killed("awaits need no arrive", unasked(barrier_obligations._Barrier, "await_is_arrived"))
def _(b, count):
    z = barrier(b)
    b.await_(z[()], t(0), Q1, n=-2)
    b.free_barrier(z)


@killed("tags need no arrive", unasked(barrier_obligations._Barrier, "trailing_arrives"))
def _(b, count):
    x, z = b.data("x"), barrier(b)
    write(b, x, q=TMA, trailing=amir.Trailing(z[()], (z[()],)))
    b.free_barrier(z)


@killed("awaits may wait for ever", unasked(barrier_obligations._Barrier, "await_has_arrives"))
def _(b, count):
    z = barrier(b)
    b.await_(z[()], t(0), Q1)


@killed(
    "some arrive will come",
    method(barrier_obligations._Barrier, "_some_arrive", lambda *_: ["true"]),
)
def _(b, count):
    z = barrier(b)
    b.await_(z[()], t(0), Q1)


@killed(
    "one home is enough",
    method(barrier_obligations._Barrier, "_earlier_arrives", lambda *_: ["true"]),
)
def _(b, count):
    z = barrier(b, 2)
    b.arrive(t(0), Q1, z[0], z[1])
    b.arrive(t(1), Q1, z[1])
    b.arrive(t(1), Q1, z[1])
    b.await_(z[1], t(0), Q1, n=0)


@killed("arrives may come late", unasked(barrier_obligations._Barrier, "arrive_is_not_late"))
def _(b, count):
    z = barrier(b, 2)
    b.arrive(t(1), Q1, z[1])
    b.await_(z[1], t(1), Q1)
    b.arrive(t(0), Q1, z[0], z[1])


@killed(
    "only the home waits",
    method(
        barrier_obligations._Barrier,
        "hits",
        lambda self, arrive, await_: same_element(arrive, await_),
    ),
)
def _(b, count):
    z = barrier(b, 2)
    b.arrive(t(1), Q1, z[1])
    b.await_(z[1], t(1), Q1)
    b.arrive(t(0), Q1, z[0], z[1])


@killed("another element balances", holds(barrier_obligations, "same_element"))
def _(b, count):
    z = barrier(b, 2)
    b.arrive(t(0), Q1, z[0])
    b.await_(z[mod(count, 2)], t(0), Q1, n=-2)
    b.free_barrier(z)


@killed("any await balances", holds(barrier_obligations, "equal"))
def _(b, count):
    z = barrier(b)
    with b.loop("k", 0, count):
        b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(0), Q1, n=-2)
    b.free_barrier(z)


@killed("groups may stay in flight", holds(barrier_obligations, "at_most"))
def _(b, count):
    z = barrier(b)
    with b.loop("k", 0, count):
        b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(0), Q1, n=1)
    b.free_barrier(z)


@killed("what balances need not run", holds(barrier_obligations, "exists"))
def _(b, count):
    z = barrier(b)
    b.arrive(t(0), Q1, z[()])
    with b.when(at_least(count, 2)):
        b.await_(z[()], t(0), Q1, n=-2)
    b.free_barrier(z)


@killed(
    "what balances may follow the check",
    holds(barrier_obligations, "runs_before", CheckBarrier, at=1),
)
def _(b, count):
    z = barrier(b)
    with b.loop("k", 0, count):
        b.arrive(t(0), Q1, z[()])
        b.emit(amir.CheckBarrier(z.sym, b.origin("check", t(0))))
        b.await_(z[()], t(0), Q1, n=-2)


# --- programs: counts ---------------------------------------------------------------------------


def _nothing_is_counted(patch: Patch) -> None:
    patch.setattr(
        counts.Counts, "count", lambda self, query, _: isl_counting.total((), query.domain)
    )


def _all_is_counted_late(patch: Patch) -> None:
    kept = counts.Counts.count
    patch.setattr(counts.Counts, "count", lambda *given: rel.plus(kept(*given), -1))


def _more_is_awaited(patch: Patch) -> None:
    kept = counts.Counts.count

    def count(self, query, sites):
        return rel.plus(kept(self, query, sites), int(isinstance(query.site.op, Await)))

    patch.setattr(counts.Counts, "count", count)


COUNTS |= {
    "nothing is counted": _nothing_is_counted,
    "all is counted late": _all_is_counted_late,
    "more is awaited": _more_is_awaited,
}


def _compares(kept: bool) -> Change:
    """Of the two comparisons of a lemma, the one with 1 is kept, or the other."""

    def at_most(left, right):
        return formulas.at_most(left, right) if (left == Int(1)) is kept else FALSE

    return lambda patch: patch.setattr(count_lemmas, "at_most", at_most)


@killed(
    "counts need no proof",
    lambda patch: patch.setattr(obligations, "count_lemmas", lambda *_: iter(())),
    "nothing is counted",
)
def _(b, count):
    z = barrier(b)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(0), Q1)
    b.await_(z[()], t(0), Q1)


@killed("counts need not grow", _compares(True), "nothing is counted")
def _(b, count):
    z = barrier(b)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(0), Q1)
    b.await_(z[()], t(0), Q1)


@killed(
    "counts may be below zero",
    lambda patch: patch.setattr(count_lemmas, "less_than", lambda *_: FALSE),
    "all is counted late",
)
def _(b, count):
    z = barrier(b)
    b.await_(z[()], t(0), Q1)


@killed("counts may skip", _compares(False), "more is awaited")
def _(b, count):
    x, z = b.data("x"), barrier(b)
    b.arrive(t(0), Q1, z[()])
    write(b, x)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(0), Q2, n=1)
    reads(b, x, by=t(0), q=Q2)


# --- programs: nests ----------------------------------------------------------------------------


def _every_iteration_is_balanced(patch: Patch) -> None:
    patch.setattr(counts.Counts, "is_balanced", lambda *_: True)


COUNTS["every iteration is balanced"] = _every_iteration_is_balanced


@killed(
    "iterations need no balance",
    method(
        count_lemmas._Lemmas,
        "total",
        lambda self: Draft(Lemma.TOTAL, self.uses.name, None, None, "", ""),
    ),
    "every iteration is balanced",
)
def _(b, count):
    z = barrier(b)
    with b.loop("i", 0, count):
        with b.loop("k", 0, count):
            b.arrive(t(0), Q1, z[()])
        with b.loop("k", 0, count):
            b.await_(z[()], t(0), Q1)
        b.await_(z[()], t(0), Q1)


def _order_is_enough(patch: Patch) -> None:
    patch.setattr(
        nested_counts.Nest,
        "_all_but_newest",
        lambda self, site, await_, _: self._before_await(site, await_),
    )


def _totals_are_the_same(patch: Patch) -> None:
    patch.setattr(rel, "is_constant", lambda _: True)


COUNTS["order is enough"] = _order_is_enough
COUNTS["totals are the same"] = _totals_are_the_same


@killed(
    "an await for all but the newest is among what it counts",
    lambda patch: patch.setattr(rank_table, "_counts", lambda _: True),
    "order is enough",
)
def _(b, count):
    x, z = b.data("x"), barrier(b)
    with b.loop("i", 0, count):
        with b.loop("k", 0, count):
            write(b, x, q=TMA, level=UNORDERED)
            b.arrive(t(0), TMA, z[()])
        b.await_(z[()], t(0), Q1, n=1)
        reads(b, x, by=t(0))


@killed(
    "every element has as many arrives",
    lambda patch: patch.setattr(rank_table.RankTable, "_uniform", True),
    "totals are the same",
)
def _(b, count):
    z = barrier(b, 2)
    with b.loop("i", 0, count):
        with b.loop("k", 0, count):
            b.arrive(t(0), Q1, z[0], z[1])
            b.await_(z[0], t(0), Q1)
            b.arrive(t(1), Q1, z[1])
            b.await_(z[1], t(1), Q1, n=-2)
        b.arrive(t(1), Q1, z[1])
        b.await_(z[1], t(1), Q1, n=-2)


@killed(
    "every iteration has as many arrives",
    lambda patch: patch.setattr(rank_table.RankTable, "_is_steady", True),
    "totals are the same",
)
def _(b, count):
    z = barrier(b, 2)
    with b.loop("i", 0, count) as i:
        with is_value(b, mod(i, 2), 0):
            b.arrive(t(0), Q1, z[0], z[1])
            with b.loop("k", 0, count):
                b.arrive(t(0), Q1, z[1])
        with is_value(b, mod(i, 2), 1):
            b.await_(z[1], t(0), Q1, n=0)


# --- programs: PHASE ----------------------------------------------------------------------------


@killed("arrivals may run ahead", unasked(phase_obligations._Phase, "not_early"))
def _(b, count):
    z = barrier(b, depth=1)
    b.arrive(t(0), Q1, z[()])
    b.arrive(t(0), Q1, z[()])


@killed("waiters need no answer", unasked(phase_obligations._Phase, "followed"))
def _(b, count):
    z = barrier(b, depth=1)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(1, 2))
    b.fence(t(0, 2), ())
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(1, 2))
    b.free_barrier(z)


@killed(
    "what joins no threads passes order on",
    method(chain_formulas.ExecutionOrder, "fires", lambda *_: True),
    "phase_takes_a_wgmma_fence_for_a_barrier",
)
def _(b, count):
    z = barrier(b, depth=1)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(1))
    b.fence(t(0, 2), (), joins=False)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(1))
    b.free_barrier(z)


def _deeper(patch: Patch) -> None:
    kept = phase_obligations._Phase.__init__

    def deeper(self, encoder, table, ranks, depth):
        kept(self, encoder, table, ranks, depth + 1)

    patch.setattr(phase_obligations._Phase, "__init__", deeper)


@killed("rings are deeper", _deeper)
def _(b, count):
    z = barrier(b, depth=1)
    b.arrive(t(0), Q1, z[()])
    b.arrive(t(0), Q1, z[()])


@killed("an await of a phase need not run", holds(phase_obligations, "exists"))
def _(b, count):
    z = barrier(b, depth=1)
    b.arrive(t(0), Q1, z[()])
    with b.when(at_least(count, 2)):
        b.await_(z[()], t(0, 2))
    with b.when(at_least(1, count)):
        b.await_(z[()], t(1))
    b.arrive(t(0, 2), Q1, z[()])


@killed("an await of a phase may come later", holds(phase_obligations, "runs_before"))
def _(b, count):
    z = barrier(b, depth=1)
    b.arrive(t(0), Q1, z[()])
    with b.loop("k", 0, 5) as k:
        with is_value(b, k, 3):
            b.await_(z[()], t(0))
        with b.when(equals(k, mod(count, 5))):
            b.arrive(t(0), Q1, z[()])


@killed("a phase is of every task", holds(phase_obligations, "same_task"), "tasks_share_threads")
def _(b, count):
    z = b.barrier("z", depth=1)
    with b.tasks("task", 0, count):
        b.arrive(t(0), Q1, z[()])
        b.await_(z[()], t(0))


@killed("any thread may wait for a phase", holds(phase_obligations, "executes"))
def _(b, count):
    z = barrier(b, depth=1)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(mod(count, 2)))
    b.arrive(t(0), Q1, z[()])


@killed(
    "any earlier await is enough",
    lambda p: p.setattr(phase_obligations, "received", lambda *_: TRUE),
)
def _(b, count):
    z = barrier(b, depth=1)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(0))
    with b.loop("k", 0, count):
        b.arrive(t(0), Q1, z[()])


def _or_later(policy, n, rank, bound):
    return formulas.at_most(rank, bound)


@killed(
    "an await of a later arrival is enough",
    lambda patch: patch.setattr(phase_obligations, "received", _or_later),
    "an_await_is_of_all_arrivals_up_to_its_own",
)
def _(b, count):
    z = barrier(b, depth=2)
    with b.loop("k", 0, 2):
        b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(1), Q1)
    b.await_(z[()], t(0), Q1)
    b.arrive(t(0, 2), Q1, z[()])
    b.await_(z[()], t(1), Q1)
    b.free_barrier(z)


@killed("an await of any element is enough", holds(phase_obligations, "conjunction_of"))
def _(b, count):
    z = barrier(b, 2, depth=1)
    b.arrive(t(0), Q1, z[0])
    b.arrive(t(0), Q1, z[1])
    b.await_(z[mod(count, 2)], t(0))
    b.arrive(t(0), Q1, z[0])


@killed("waiters may run ahead", unasked(phase_obligations._Phase, "not_ahead"))
def _(b, count):
    z = barrier(b, depth=1)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(0))
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(1))
    b.free_barrier(z)


def _any_phase(patch: Patch) -> None:
    kept = phase_obligations._Phase._await_candidates

    def awaited(self, asked):
        return kept(self, replace(asked, suits=lambda bound: TRUE))

    patch.setattr(phase_obligations._Phase, "_await_candidates", awaited)


@killed("any phase before is enough", _any_phase, "any_phase_of_the_ring_is_enough")
def _(b, count):
    z, y = barrier(b, depth=2), b.barrier("y", 2, depth=1)
    b.alloc(y)
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(1))
    b.arrive(t(1), Q1, y[0])
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(2))
    b.arrive(t(2), Q1, y[1])
    b.await_(y[0], t(0))
    b.await_(y[1], t(0))
    b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(2))
    b.free_barrier(z)
