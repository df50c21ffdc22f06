"""What is asked of threads, of levels and timelines, and of which pairs, each condition dropped."""

from __future__ import annotations

from exogpu.amir.nodes import Arrive, Check, Fence, Record
from exogpu.hw.timelines import ASYNC_PROXY
from exogpu.machine.literal_records import Grant, witness
from exogpu.symbolic.encode import access_obligations, chain_formulas, formulas
from exogpu.symbolic.encode.formulas import TRUE
from exogpu.symbolic.search.instance_model import Model
from tests.machine.build import (
    ATOMIC,
    CPU,
    Q1,
    Q2,
    TEMPORAL,
    TMA,
    add,
    mod,
    t,
)
from tests.symbolic.dropped import (
    Change,
    barrier,
    holds,
    killed,
    method,
    reads,
    unasked,
    write,
)

# --- programs: threads and rules ----------------------------------------------------------------


@killed("tasks share threads", holds(chain_formulas, "same_task"), "tasks_share_threads")
def _(b, count):
    x = b.data("x")
    with b.tasks("task", 0, count):
        reads(b, x, by=t(0))
        write(b, x)


@killed(
    "a value passes from task to task",
    holds(chain_formulas, "within_task"),
    "chains_lead_from_task_to_task",
)
def _(b, count):
    x = b.data("x", resident=True)
    b.alloc(x)
    with b.tasks("task", 0, count):
        reads(b, x, by=t(0))
        write(b, x)


@killed(
    "threads outside of tasks are the same",
    method(Model, "follows_a_task", lambda *_: False),
    "tasks_share_threads",
)
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.tasks("task", 0, count):
        pass
    reads(b, x, by=t(0))


@killed(
    "a chain needs no common thread",
    method(chain_formulas.Chains, "common_thread", lambda *_: TRUE),
)
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0, 2), Q1, Q1)
    b.fence(t(add(mod(count, 2), 1), 2), Q1, Q1, transitive=True)
    reads(b, x, by=t(2))


@killed(
    "any thread fires for a record",
    method(chain_formulas.Chains, "_by_the_record", lambda *_: TRUE),
)
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(mod(count, 2), 3), Q1, Q1)
    reads(b, x, by=t(2))


@killed("any thread's grant will do", method(chain_formulas.Chains, "_reaches", lambda *_: TRUE))
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0, 2), Q1, Q1)
    reads(b, x, by=t(add(mod(count, 2), 1)))


@killed(
    "any thread made the record",
    method(chain_formulas.Chains, "_made_by_the_check", lambda *_: TRUE),
)
def _(b, count):
    x = b.data("x")
    write(b, x)
    reads(b, x, by=t(mod(count, 2)))


@killed(
    "one thread hears for the CPU",
    lambda patch: patch.setattr(chain_formulas, "_needs_everyone", lambda _: False),
    "one_thread_suffices",
)
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0), Q1, Q1)
    b.check(x[()], CPU, Q1, mutates=True)


def _everyone(kind: type) -> Change:
    return lambda patch: patch.setattr(
        access_obligations, "everyone", lambda s: isinstance(s.op, kind) or formulas.everyone(s)
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


@killed(
    "every sync is transitive",
    lambda patch: patch.setattr(
        chain_formulas, "witness", lambda policy, _, *rest: witness(policy, True, *rest)
    ),
    "every_sync_is_transitive",
)
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0, 2), Q1, Q2)
    b.fence(t(1, 2), Q2, Q2)
    reads(b, x, by=t(2), q=Q2)


def _any_grant(rules, passed, label):
    op = rules.sites[passed.via.site].op
    if not isinstance(op, Fence | Arrive):
        return False
    seen = rules.record_after(passed.before)
    return (
        witness(rules.policy, op.transitive, chain_formulas.ONE, op.pre, seen) is not Grant.NOTHING
    )


@killed(
    "temporal order becomes full",
    method(chain_formulas.Rules, "fires", _any_grant),
    "temporal_becomes_full",
)
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0, 2), Q1, (), Q1)
    b.fence(t(1, 2), Q1, Q1, transitive=True)
    reads(b, x, by=t(2))


@killed(
    "everything is carried across the proxy",
    lambda patch: patch.setattr(chain_formulas, "carried_timelines", lambda *_: ASYNC_PROXY),
    "whoever_fires_has_crossed",
)
def _(b, count):
    x, z = b.data("x"), barrier(b)
    write(b, x)
    b.arrive(t(0), Q1, z[()], transitive=True)
    b.await_(z[()], t(1), Q1, TMA)
    reads(b, x, by=t(1), q=TMA)


@killed(
    "levels are not asked for",
    method(chain_formulas.Rules, "shows", lambda *_: True),
    "temporal_suffices_for_reads",
)
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0, 2), Q1, (), Q1)
    reads(b, x)


# --- programs: which pairs are asked ------------------------------------------------------------


@killed(
    "atomics never conflict",
    lambda patch: patch.setattr(
        access_obligations, "always_visible", lambda record, check: bool(record.atomic)
    ),
)
def _(b, count):
    x = b.data("x")
    write(b, x, atomic={Q1})
    b.check(x[()], t(1), Q1, mutates=True, level=TEMPORAL)


@killed(
    "atomics of other timelines agree",
    lambda patch: patch.setattr(
        access_obligations,
        "always_visible",
        lambda record, check: bool(record.atomic) and check.level is ATOMIC,
    ),
)
def _(b, count):
    x = b.data("x")
    write(b, x, atomic={Q1})
    b.check(x[()], t(1), Q2, mutates=True, level=ATOMIC)


@killed(
    "overwriting what is read is not asked",
    unasked(access_obligations, "_pair", lambda _, __, r, c: not c.op.mutates),
)
def _(b, count):
    x = b.data("x")
    b.record(x[()], t(0), Q1)
    b.check(x[()], t(1), Q1, mutates=False, level=TEMPORAL)


@killed(
    "loops are run once",
    unasked(access_obligations, "_pair", lambda _, __, r, c: c.number < r.number),
)
def _(b, count):
    x = b.data("x")
    with b.loop("k", 0, count):
        reads(b, x)
        write(b, x)


@killed("frees are not asked", unasked(access_obligations, "_pair", lambda _, __, r, c: c.op.free))
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
