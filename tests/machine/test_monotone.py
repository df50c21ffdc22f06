"""More synchronisation never hurts (decision `policies`): a property of random programs.

Each program is run twice: with a Fence that orders nothing, and with one that orders something,
at the same place.  Every violation of the second run must be one of the first.
"""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from exogpu.diagnostics.verdict import Policy
from exogpu.ir.types import Level, QualTL
from exogpu.machine import literal
from tests.machine.build import COMMIT, Q0, TMA, Builder, t

TIMELINES = (Q0, TMA)
"""An ordinary one and one of the async proxy; few, so that random syncs meet."""

timelines = st.sampled_from(TIMELINES)
sets = st.frozensets(timelines, min_size=1, max_size=2)
threads = st.sampled_from([(0, 1), (1, 1)])
wide = st.sampled_from([(0, 2), (0, 2), (0, 1), (1, 1)])
"""Threads of a sync: mostly both, so that random syncs meet."""
levels = st.sampled_from([Level.UNORDERED, Level.FULLY_ORDERED])
syncs = st.tuples(wide, sets, sets, sets, st.booleans())
operations = st.one_of(
    st.tuples(st.just("fence"), syncs),
    st.tuples(st.just("arrive"), threads, sets, st.booleans()),
    st.tuples(st.just("await"), threads, sets, sets),
)


def build(ops, place: int, extra) -> Builder:
    b = Builder()
    x, g = b.data("x"), b.barrier("g", mechanism=COMMIT)
    b.alloc(g)
    for at, op in enumerate([*ops, None]):
        if at == place:
            _fence(b, extra)
        match op:
            case ("read", who, tl, level):
                b.read(x[()], t(*who), tl, level=level)
            case (("write" | "update") as what, who, tl, level):
                b.write(x[()], t(*who), tl, reads=what == "update", level=level)
            case ("fence", sync):
                _fence(b, sync)
            case ("arrive", who, pre, transitive):
                b.arrive(t(*who), pre, g[()], transitive=transitive)
            case ("await", who, full, temporal):
                b.await_(g[()], t(*who), full, temporal, n=0)
    return b


def _fence(b: Builder, sync) -> None:
    who, pre, full, temporal, transitive = sync
    b.fence(t(*who), pre, full, temporal, transitive=transitive)


def violations(b: Builder, policy: Policy) -> set[tuple[object, ...]]:
    found = literal.run(b.program(policy), {}, collect=True)
    return {
        (v.kind, v.check.origin.span.line, v.record and v.record.origin.span.line) for v in found
    }


accesses = st.tuples(st.sampled_from(["read", "write", "update"]), threads, timelines, levels)
chains = st.tuples(accesses, st.lists(operations, min_size=1, max_size=3), accesses)
"""An access, what may order it, and another access: most random programs order nothing."""


@settings(derandomize=True, max_examples=400, deadline=None)
@given(chain=chains, place=st.integers(1, 5), extra=syncs, policy=st.sampled_from(list(Policy)))
@example(
    # The case that a single ordered level gets wrong: the temporal Fence would hide own access.
    chain=(
        ("write", (0, 1), TMA, Level.UNORDERED),
        [("fence", ((0, 2), frozenset({TMA}), frozenset({Q0}), frozenset(), True))],
        ("read", (1, 1), Q0, Level.FULLY_ORDERED),
    ),
    place=1,
    extra=((0, 1), frozenset({TMA}), frozenset(), frozenset({TMA}), False),
    policy=Policy.PTX,
)
def test_more_synchronisation_never_hurts(chain, place, extra, policy):
    first, middle, last = chain
    ops = [first, *middle, last]
    place = min(place, len(ops) - 1)
    nothing: frozenset[QualTL] = frozenset()
    less = violations(build(ops, place, ((0, 1), nothing, nothing, nothing, False)), policy)
    more = violations(build(ops, place, extra), policy)
    assert more <= less


@settings(derandomize=True, max_examples=300, deadline=None)
@given(chain=chains)
def test_strict_is_narrower_than_paper(chain):
    first, middle, last = chain
    b = build([first, *middle, last], -1, None)
    assert violations(b, Policy.PAPER) <= violations(b, Policy.PTX)
