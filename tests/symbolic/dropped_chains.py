"""What is asked of the instances of a chain, each condition dropped."""

from __future__ import annotations

from dataclasses import replace

from exogpu.amir import nodes as amir
from exogpu.amir.nodes import Arrive, Await, Clear, Fence, Record
from exogpu.ir.nodes import Add, FloorDiv, Int, Mul
from exogpu.ir.walk import substitute
from exogpu.symbolic.encode import chain_formulas, formulas
from exogpu.symbolic.encode.formulas import TRUE, Instance
from tests.machine.build import (
    COMMIT,
    Q1,
    Q2,
    TMA,
    UNORDERED,
    add,
    at_least,
    mod,
    sub,
    t,
)
from tests.symbolic.dropped import (
    Change,
    holds,
    is_value,
    killed,
    reads,
    write,
)

# --- programs: chains ---------------------------------------------------------------------------


@killed("a fence need not run", holds(chain_formulas, "exists", Fence))
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.when(at_least(count, 2)):
        b.fence(t(0, 2), Q1, Q1)
    reads(b, x)


@killed(
    "guards of a chain need not hold",
    lambda patch: patch.setattr(
        chain_formulas,
        "exists",
        lambda i: formulas.exists(Instance(replace(i.site, guards=()), i.values)),
    ),
)
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.when(at_least(count, 2)):
        b.clear(x[()], mutates=True)
    reads(b, x)


@killed("a clear need not run", holds(chain_formulas, "exists", Clear))
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.when(at_least(count, 2)):
        b.clear(x[()], mutates=True)
    reads(b, x)


@killed("an arrive need not run", holds(chain_formulas, "exists", Arrive))
def _(b, count):
    x, z = b.data("x"), b.barrier("z", mechanism=COMMIT)
    write(b, x)
    with b.when(at_least(count, 2)):
        b.arrive(t(0), Q1, z[()])
    b.arrive(t(1), Q1, z[()])
    b.await_(z[()], t(1), Q1)
    reads(b, x)


@killed("an await need not run", holds(chain_formulas, "exists", Await))
def _(b, count):
    x, z = b.data("x"), b.barrier("z", mechanism=COMMIT)
    write(b, x)
    b.arrive(t(0), Q1, z[()])
    with b.when(at_least(count, 2)):
        b.await_(z[()], t(1), Q1)
    reads(b, x)


@killed("a clear may come before the record", holds(chain_formulas, "runs_before", Clear, at=1))
def _(b, count):
    x = b.data("x")
    with b.loop("k", 0, 5) as k:
        with is_value(b, k, 3):
            b.clear(x[()], mutates=True)
        write(b, x)
    reads(b, x)


@killed("a clear may come after the check", holds(chain_formulas, "runs_before", Clear))
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.loop("k", 0, 5) as k:
        with is_value(b, k, 3):
            b.clear(x[()], mutates=True)
        reads(b, x)


@killed("a clear may be of another element", holds(chain_formulas, "lies_in_window", Clear))
def _(b, count):
    x = b.data("x", 2)
    with b.loop("k", 0, 2) as k:
        write(b, x, k)
    b.clear(x[mod(count, 2)], mutates=True)
    reads(b, x, 0)


@killed("a sync may fire before the record", holds(chain_formulas, "runs_before", Record))
def _(b, count):
    x = b.data("x")
    with b.loop("k", 0, 5) as k:
        with is_value(b, k, 3):
            b.fence(t(0, 2), Q1, Q1)
        write(b, x)
    reads(b, x)


@killed("a trailing tag may be awaited earlier", holds(chain_formulas, "runs_before", Record))
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


@killed("a chain may go back in time", holds(chain_formulas, "runs_before", Fence))
def _(b, count):
    x = b.data("x")
    with b.loop("k", 0, 5) as k:
        with is_value(b, k, 3):
            b.fence(t(1, 2), Q1, Q1, transitive=True)
        write(b, x)
        b.fence(t(0, 2), Q1, Q1)
    reads(b, x, by=t(2))


@killed("a grant may come after the check", holds(chain_formulas, "runs_before", Fence))
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.loop("k", 0, 5) as k:
        with is_value(b, k, 3):
            b.fence(t(0, 2), Q1, Q1)
        reads(b, x)


@killed("an arrive may tag another element", holds(chain_formulas, "lies_in_window", Arrive))
def _(b, count):
    x, z = b.data("x"), b.barrier("z", 2, mechanism=COMMIT)
    write(b, x)
    b.arrive(t(1), Q1, z[1])
    b.arrive(t(0), Q1, z[mod(count, 2)])
    b.await_(z[1], t(1), Q1, n=0)
    reads(b, x)


@killed(
    "a copy completes on every CTA's barrier",
    holds(chain_formulas, "lies_in_window", Record),
    "a_copy_completes_everywhere",
)
def _(b, count):
    x, z = b.data("x"), b.barrier("z", 2, mechanism=COMMIT)
    write(b, x, q=TMA, level=UNORDERED, trailing=amir.Trailing(z[0], (z[0],)))
    with b.loop("c", 0, 2) as c:
        b.arrive(t(0), (), z[c])
    b.await_(z[1], t(1), Q1, n=0)
    reads(b, x)


@killed("every arrival is awaited", holds(chain_formulas, "received"))
def _(b, count):
    x, z = b.data("x", 4), b.barrier("z", mechanism=COMMIT)
    with b.loop("k", 0, 4) as k:
        write(b, x, k)
        b.arrive(t(0), Q1, z[()])
    b.await_(z[()], t(0), Q2, n=1)
    reads(b, x, slice(0, 4), by=t(0), q=Q2)


def _up_to(policy, n, rank, bound):
    return formulas.at_most(rank, bound)


@killed(
    "an await receives earlier arrivals",
    lambda patch: patch.setattr(chain_formulas, "received", _up_to),
    "an_await_is_of_all_arrivals_up_to_its_own",
)
def _(b, count):
    x, z = b.data("x"), b.barrier("z", depth=2)
    write(b, x)
    b.arrive(t(0), Q1, z[()])
    b.arrive(t(2), Q1, z[()])
    b.await_(z[()], t(3), Q1)
    b.await_(z[()], t(1), Q1)
    reads(b, x)


@killed(
    "allocations of a barrier are one",
    holds(chain_formulas, "same_allocation"),
    "tags_outlive_their_barrier",
)
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


# --- programs: what formulas say of loops and threads --------------------------------------------


def _bounds(low: bool) -> Change:
    """Of a loop's two bounds, only one is asked of a chain's instances."""

    def exists(instance):
        site, values = instance.site, instance.values
        terms = []
        for loop in site.loops:
            value = values[loop.iterator]
            if low:
                terms.append(formulas.at_most(substitute(loop.lo, values), value))
            else:
                terms.append(formulas.less_than(value, substitute(loop.hi, values)))
        return formulas.conjunction_of(terms)

    return lambda patch: patch.setattr(chain_formulas, "exists", exists)


@killed("loops have no end", _bounds(True))
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.loop("k", 0, sub(count, 1)):
        b.fence(t(0, 2), Q1, Q1)
    reads(b, x)


@killed("loops have no beginning", _bounds(False))
def _(b, count):
    x = b.data("x")
    write(b, x)
    with b.loop("k", mod(count, 2), 1):
        b.fence(t(0, 2), Q1, Q1)
    reads(b, x)


def _executes(low: bool, high: bool, rest: bool) -> Change:
    """Of a thread's digit on the only axis, some of the three conditions are asked."""

    def executes(thread, instance):
        threads = instance.site.op.origin.threads
        if threads is None:
            return TRUE
        (axis,) = threads.axes
        first = substitute(axis.offset, instance.values)
        digit = FloorDiv(thread, axis.pitch)
        asked = [
            (low, formulas.at_most(first, digit)),
            (high, formulas.less_than(digit, Add(first, Int(axis.extent)))),
            (rest, formulas.equal(thread, Mul(axis.pitch, digit))),
        ]
        return formulas.conjunction_of(term for wanted, term in asked if wanted)

    return lambda patch: patch.setattr(chain_formulas, "executes", executes)


@killed("threads have no first", _executes(False, True, True))
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(mod(count, 2), 2), Q1, Q1)
    reads(b, x)


@killed("threads have no last", _executes(True, False, True))
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0, 2), Q1, Q1)
    reads(b, x, by=t(add(mod(count, 2), 1)))


@killed("threads have no pitch", _executes(True, True, False))
def _(b, count):
    x = b.data("x")
    write(b, x)
    b.fence(t(0, 2, 2), Q1, Q1)
    reads(b, x, by=t(add(mod(count, 2), 2)))
