"""Conditions of the certificates, each dropped or weakened: then a wrong program is certified.

Each program violates the machine's rules at some size and is not certified; without the one
condition it is.  Some need a careless analysis too, whose evidence only the condition refuses.
Conditions that honest evidence cannot miss are in `REDUNDANT`, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType

import pytest

from exogpu.ir.nodes import CVar, Int, Mod
from exogpu.machine import amir, literal
from exogpu.machine.amir import Arrive, Await, Check, CheckBarrier, Clear, Fence, Record
from exogpu.machine.literal_records import Grant, witness
from exogpu.solvers import isl_relations as rel
from exogpu.solvers import smt
from exogpu.symbolic import counts
from exogpu.symbolic.certify import barriers, chains, counted, formulas, pairs, phases, prove
from exogpu.symbolic.certify.drafts import Draft
from exogpu.symbolic.certify.formulas import FALSE, TRUE, Instance
from exogpu.symbolic.certify.ranks import same_element
from exogpu.symbolic.domains import Model
from exogpu.symbolic.prover import Evidence, analyse
from exogpu.symbolic.sites import UndecidedError
from tests.machine.build import (
    ATOMIC,
    COMMIT,
    CPU,
    Q1,
    Q2,
    TEMPORAL,
    TMA,
    UNORDERED,
    Builder,
    Name,
    add,
    at_least,
    mod,
    t,
)
from tests.symbolic.careless import MUTANTS as CARELESS

Patch = pytest.MonkeyPatch
Change = Callable[[Patch], None]


@dataclass(frozen=True)
class Case:
    """A condition dropped, and the program that it would let through."""

    name: str
    change: Change
    program: Callable[[Builder, CVar], None]
    careless: str | None = None


CASES: list[Case] = []


def killed(name: str, change: Change, careless: str | None = None):
    """The mutant is killed by the program that follows."""

    def register(program: Callable[[Builder, CVar], None]):
        CASES.append(Case(name, change, program, careless))
        return program

    return register


# --- changes ------------------------------------------------------------------------------------


def holds(module: ModuleType, name: str, *kinds: type, at: int = 0) -> Change:
    """A condition holds always; or where an instance, its argument `at`, is of these kinds."""
    kept = getattr(module, name)

    def condition(*given):
        if not kinds or isinstance(given[at].site.op, kinds):
            return TRUE
        return kept(*given)

    return lambda patch: patch.setattr(module, name, condition)


def method(cls: type, name: str, found: Callable[..., object]) -> Change:
    return lambda patch: patch.setattr(cls, name, found)


def unasked(owner: object, name: str, where: Callable[..., bool] = lambda *_: True) -> Change:
    """An obligation is taken to hold by the rules alone."""
    kept = getattr(owner, name)

    def draft(*given) -> Draft:
        made = kept(*given)
        return replace(made, script="") if where(*given) else made

    return lambda patch: patch.setattr(owner, name, draft)


# --- programs: chains ---------------------------------------------------------------------------


def write(b: Builder, x: Name, *index, by=None, q=Q1, **more) -> None:
    b.record(x[index], by or t(0), q, mutate=True, **more)


def reads(b: Builder, x: Name, *index, by=None, q=Q1, **more) -> None:
    b.check(x[index], t(1) if by is None else by, q, mutates=True, reads=True, **more)


def is_value(b: Builder, k, value: int):
    """A guard, for one iteration."""
    return b.when(amir_equal(k, value))


def amir_equal(k, value: int):
    low = at_least(k, value)
    return replace(low, op="==")


@killed("a fence need not run", holds(chains, "exists", Fence))
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.when(at_least(count, 2)):
        b.fence(t(0, 2), Q1, Q1)
    reads(b, x)


@killed("guards of a chain need not hold", lambda patch: patch.setattr(
    chains, "exists", lambda i: formulas.exists(Instance(replace(i.site, guards=()), i.values))
))
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.when(at_least(count, 2)):
        b.clear(x[()], mutates=True)
    reads(b, x)


@killed("a clear need not run", holds(chains, "exists", Clear))
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.when(at_least(count, 2)):
        b.clear(x[()], mutates=True)
    reads(b, x)


@killed("an arrive need not run", holds(chains, "exists", Arrive))
def _(b, count):
    x, z = b.data("x"), b.barrier("z", mechanism=COMMIT)
    write(b, x)
    with b.when(at_least(count, 2)):
        b.arrive(t(0), Q1, z[()])
    b.arrive(t(1), Q1, z[()])
    b.await_(z[()], t(1), Q1)
    reads(b, x)


@killed("an await need not run", holds(chains, "exists", Await))
def _(b, count):
    x, z = b.data("x"), b.barrier("z", mechanism=COMMIT)
    write(b, x)
    b.arrive(t(0), Q1, z[()])
    with b.when(at_least(count, 2)):
        b.await_(z[()], t(1), Q1)
    reads(b, x)


@killed("a clear may come before the record", holds(chains, "before", Clear, at=1))
def _(b, count):
    x = b.data("x")
    with b.loop("k", 0, 5) as k:
        with is_value(b, k, 3):
            b.clear(x[()], mutates=True)
        write(b, x)
    reads(b, x)


@killed("a clear may come after the check", holds(chains, "before", Clear))
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.loop("k", 0, 5) as k:
        with is_value(b, k, 3):
            b.clear(x[()], mutates=True)
        reads(b, x)


@killed("a clear may be of another element", holds(chains, "inside", Clear))
def _(b, count):
    x = b.data("x", 2)
    with b.loop("k", 0, 2) as k:
        write(b, x, k)
    b.clear(x[mod(count, 2)], mutates=True)
    reads(b, x, 0)


@killed("a sync may fire before the record", holds(chains, "before", Record))
def _(b, count):
    x = b.data("x")
    with b.loop("k", 0, 5) as k:
        with is_value(b, k, 3):
            b.fence(t(0, 2), Q1, Q1)
        write(b, x)
    reads(b, x)


@killed("a trailing tag may be awaited earlier", holds(chains, "before", Record))
def _(b, count):
    x, z = b.data("x"), b.barrier("z", 2, mechanism=COMMIT)
    with b.loop("i", 0, 5):
        b.arrive(t(1), (), z[1])
    with b.loop("k", 0, 5) as k:
        with is_value(b, k, 3):
            b.await_(z[1], t(1), Q1, n=0)
        tags = amir.Trailing(z[0], (z[0], z[1]))
        write(b, x, q=TMA, level=UNORDERED, trailing=tags)
    reads(b, x)


@killed("a chain may go back in time", holds(chains, "before", Fence))
def _(b, count):
    x = b.data("x")
    with b.loop("k", 0, 5) as k:
        with is_value(b, k, 3):
            b.fence(t(1, 2), Q1, Q1, transitive=True)
        write(b, x)
        b.fence(t(0, 2), Q1, Q1)
    reads(b, x, by=t(2))


@killed("a grant may come after the check", holds(chains, "before", Fence))
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.loop("k", 0, 5) as k:
        with is_value(b, k, 3):
            b.fence(t(0, 2), Q1, Q1)
        reads(b, x)


@killed("an arrive may tag another element", holds(chains, "inside", Arrive))
def _(b, count):
    x, z = b.data("x"), b.barrier("z", 2, mechanism=COMMIT)
    write(b, x)
    b.arrive(t(1), Q1, z[1])
    b.arrive(t(0), Q1, z[mod(count, 2)])
    b.await_(z[1], t(1), Q1, n=0)
    reads(b, x)


@killed("every arrival is awaited", holds(chains, "at_most"))
def _(b, count):
    x, z = b.data("x", 4), b.barrier("z", mechanism=COMMIT)
    with b.loop("k", 0, 4) as k:
        write(b, x, k)
        b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(0), Q1, n=1)
    reads(b, x, slice(0, 4), by=t(0), q=Q2)


@killed("allocations of a barrier are one", holds(chains, "same_allocation"), "tags_outlive_their_barrier")
def _(b, count):
    x, z = b.data("x"), b.barrier("z", mechanism=COMMIT)
    with b.loop("k", 0, count) as k:
        b.alloc(z)
        with b.when(at_least(0, k)):
            write(b, x)
            b.arrive(t(0), Q1, z[()])
        with b.when(at_least(k, 1)):
            b.arrive(t(1), Q1, z[()])
            b.await_(z[()], t(1), Q1, n=0)
            reads(b, x)
        b.release(z)


# --- programs: threads and rules ----------------------------------------------------------------


@killed("tasks share threads", holds(chains, "same_task"), "tasks_share_threads")
def _(b, count):
    x = b.data("x")
    with b.tasks("task", 0, count):
        reads(b, x, by=t(0))
        write(b, x)


@killed("threads outside of tasks are the same", lambda patch: patch.setattr(
    Model, "follows_a_task", lambda *_: False
))
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.tasks("task", 0, count):
        pass
    reads(b, x, by=t(0))


@killed("a chain needs no common thread", method(chains.Chains, "common", lambda *_: TRUE))
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0, 2), Q1, Q1)
    b.fence(t(add(mod(count, 2), 1), 2), Q1, Q1, transitive=True)
    reads(b, x, by=t(2))


@killed("any thread fires for a record", method(chains.Chains, "_by_the_record", lambda *_: TRUE))
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(mod(count, 2), 3), Q1, Q1)
    reads(b, x, by=t(2))


@killed("any thread's grant will do", method(chains.Chains, "_reaches", lambda *_: TRUE))
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0, 2), Q1, Q1)
    reads(b, x, by=t(add(mod(count, 2), 1)))


@killed("any thread made the record", method(chains.Chains, "_made_by_the_check", lambda *_: TRUE))
def _(b, count):
    x = b.data("x")
    write(b, x)
    reads(b, x, by=t(mod(count, 2)))


@killed(
    "one thread hears for the CPU",
    lambda patch: patch.setattr(chains, "_needs_everyone", lambda _: False),
    "one_thread_suffices",
)
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0), Q1, Q1)
    b.check(x[()], CPU, Q1, mutates=True)


def _everyone(kind: type) -> Change:
    return lambda patch: patch.setattr(
        pairs, "everyone", lambda s: isinstance(s.op, kind) or formulas.everyone(s)
    )


@killed("one record for all threads", _everyone(Record), "one_record_for_all_threads")
def _(b, count):
    x = b.data("x")
    write(b, x, by=t(0, 2))
    b.fence(t(1, 2), Q1, Q1)
    reads(b, x, by=t(2))


@killed("one thread of a check is enough", _everyone(Check), "one_thread_suffices")
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0, 2), Q1, Q1)
    reads(b, x, by=t(1, 2))


@killed("every sync is transitive", lambda patch: patch.setattr(
    chains, "witness", lambda policy, _, *rest: witness(policy, True, *rest)
), "every_sync_is_transitive")
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0, 2), Q1, Q2)
    b.fence(t(1, 2), Q2, Q2)
    reads(b, x, by=t(2), q=Q2)


def _any_grant(rules, before, via, full):
    if not isinstance(via.op, Fence | Arrive):
        return False
    seen = rules.after(before)
    found = witness(rules.policy, via.op.transitive, chains.ONE, via.op.pre, seen)
    return found is not Grant.NOTHING


@killed("temporal order becomes full", method(chains.Rules, "fires", _any_grant), "temporal_becomes_full")
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0, 2), Q1, (), Q1)
    b.fence(t(1, 2), Q1, Q1, transitive=True)
    reads(b, x, by=t(2))


@killed("levels are not asked for", method(chains.Rules, "shows", lambda *_: True), "temporal_suffices_for_reads")
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0, 2), Q1, (), Q1)
    reads(b, x)


# --- programs: which pairs are asked ------------------------------------------------------------


@killed("atomics never conflict", lambda patch: patch.setattr(
    pairs, "always_visible", lambda record, check: bool(record.atomic)
))
def _(b, count):
    x = b.data("x")
    write(b, x, atomic={Q1})
    b.check(x[()], t(1), Q1, mutates=True, level=TEMPORAL)


@killed("atomics of other timelines agree", lambda patch: patch.setattr(
    pairs, "always_visible", lambda record, check: bool(record.atomic) and check.level is ATOMIC
))
def _(b, count):
    x = b.data("x")
    write(b, x, atomic={Q1})
    b.check(x[()], t(1), Q2, mutates=True, level=ATOMIC)


@killed("overwriting what is read is not asked", unasked(pairs, "_pair", lambda _, r, c, *__: not c.op.mutates))
def _(b, count):
    x = b.data("x")
    b.record(x[()], t(0), Q1)
    b.check(x[()], t(1), Q1, mutates=False, level=TEMPORAL)


@killed("loops are run once", unasked(pairs, "_pair", lambda _, r, c, *__: c.number < r.number))
def _(b, count):
    x = b.data("x")
    with b.loop("k", 0, count):
        reads(b, x)
        write(b, x)


@killed("frees are not asked", unasked(pairs, "_pair", lambda _, r, c, *__: c.op.free))
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.free(x[()], t(1))


@killed("sizes are at least 2", method(Model, "least", lambda *_: 2))
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.loop("k", 1, count):
        b.fence(t(0, 2), Q1, Q1)
    reads(b, x)
