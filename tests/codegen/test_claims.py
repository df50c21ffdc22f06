"""What the machine claims of a pair of timelines is what emitted synchronisation guarantees.

Decision `lowering-claims`.
"""

from __future__ import annotations

from itertools import product

import pytest

from exogpu.codegen.arrival_rows import Scope
from exogpu.codegen.claims import KERNEL, Lowering, all_claims, claims, open_claims, shown_timelines
from exogpu.codegen.guarantees import EFFECTS, KINDS, Fact, Kind
from exogpu.codegen.lowering_rows import ROWS
from exogpu.codegen.sync import fence_rows, unkept
from exogpu.diagnostics.verdict import Policy
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.types import Level, QualTL, SyncTL
from exogpu.machine import literal
from tests.machine.build import Builder, Name, t

pytestmark = pytest.mark.slow


def test_every_claim_is_guaranteed() -> None:
    found = all_claims()
    assert len(found) > 5000
    assert open_claims(found) == []


def test_every_kind_of_access_is_claimed() -> None:
    assert {claim.before for claim in all_claims()} == set(KINDS)
    assert {claim.after for claim in all_claims()} == set(KINDS)


def test_the_effects_are_those_of_the_lowering_table() -> None:
    others = {
        "proxy fence at free",
        "init mbarrier",
        "publish mbarriers",
        "let dependents begin",
        "meet CTAs",
        "proxy fence after others",
    }
    assert EFFECTS.keys() - {"trailing load"} == ROWS.keys() - others


@pytest.mark.parametrize("row", EFFECTS)
def test_no_row_is_idle(row: str) -> None:
    """Without it some claim is open."""
    assert any(row in claim.kept_by for claim in all_claims() if row in claim.sequence.rows)


def test_a_fence_of_wgmma_alone_keeps_no_other_pair() -> None:
    """Why `unkept` refuses wgmma_fence_1 before anything but wgmma_fence_2."""
    first = SYNC_TIMELINES["wgmma_fence_1"]
    for second in KERNEL:
        emitted = Lowering("Fence", first, second, ("wgmma fence",))
        refused = unkept(first, second) is not None
        assert refused == (second.name != "wgmma_fence_2")
        if second.name == "cuda_in_order":
            assert open_claims(tuple(claims(emitted)))


def test_loads_have_no_wait() -> None:
    """Why `unkept` refuses first timelines that are full in tmaS."""
    for first in KERNEL:
        if QualTL.TMA_S not in first.sets_under(Policy.PTX).full:
            continue
        for second in KERNEL:
            assert unkept(first, second) is not None
        rows = tuple(fence_rows(first, SYNC_TIMELINES["cuda_in_order"], Scope.CTA, by_role=False))
        emitted = Lowering("Fence", first, SYNC_TIMELINES["cuda_in_order"], rows)
        assert open_claims(tuple(claims(emitted)))


@pytest.mark.parametrize(
    ("first", "group"),
    [
        ("tma_to_gmem_async", "bulk"),
        ("tma_to_gmem_source", "bulk, sources"),
        ("Sm80_cp_async", "cp.async"),
    ],
)
def test_the_lanes_of_a_group_join(first: str, group: str) -> None:
    """Each has waited for its own operations: what another one made is not known to it."""
    pair = SYNC_TIMELINES[first], SYNC_TIMELINES["cuda_in_order"]
    rows = f"arrive {group.partition(',')[0]}", f"await {group}"
    assert open_claims(tuple(claims(Lowering("group", *pair, rows))))
    assert not open_claims(tuple(claims(Lowering("group", *pair, (*rows, "fence warp")))))


def test_a_wait_for_sources_says_nothing_of_what_is_stored() -> None:
    """The claims of a pair whose first timeline takes the reads alone are of reads alone."""
    found = [c for c in all_claims() if c.sequence.first.name == "tma_to_gmem_source"]
    asynchronous = {c.before.name for c in found if not c.carried}
    assert asynchronous == {"TMA store source"}


# --- the machine's own rules as the oracle ------------------------------------------------------


STARTS = (
    frozenset[Fact](),
    frozenset({Fact.DONE, Fact.JOINED}),
    frozenset({Fact.DONE, Fact.JOINED, Fact.PROXIED}),
)

Question = tuple[str, frozenset[Fact], str, Level]


def granted(first: SyncTL, second: SyncTL) -> set[Question]:
    """What a Fence of the pair grants to another thread, by the literal rules."""
    b = Builder()
    asked: dict[int, Question] = {}
    variables: dict[tuple[str, frozenset[Fact]], Name] = {}
    # The Fence is executed by thread 0, which goes on, and by an even one for each variable, which
    # made what is not carried; what is carried the odd one after it made.
    count = len(KINDS) * len(STARTS)
    for number, (kind, start) in enumerate(product(KINDS, STARTS), start=1):
        x = variables[kind.name, start] = b.data(f"x{number}")
        b.record(x[()], t(2 * number + bool(start)), kind.timeline, mutate=True)
        if start:
            b.fence(t(2 * number, 2), kind.timeline, shown_timelines(kind, start))
    b.fence_tl(t(0, count + 1, 2), first, second, Policy.PTX)
    levels = (Level.TEMPORALLY_ORDERED, Level.FULLY_ORDERED)
    for kind, start, later, level in product(KINDS, STARTS, KINDS, levels):
        x = variables[kind.name, start]
        check = b.check(x[()], t(0), later.timeline, mutates=True, level=level)
        asked[check.origin.span.line] = (kind.name, start, later.name, level)
    failed = {v.check.origin.span.line for v in literal.run(b.program(), {}, collect=True)}
    return {question for line, question in asked.items() if line not in failed}


@pytest.mark.parametrize("first", KERNEL, ids=lambda timeline: timeline.name)
def test_the_claims_are_the_machine_s(first: SyncTL) -> None:
    for second in KERNEL:
        emitted = Lowering("Fence of a CTA", first, second, ("fence cta",))
        claimed: set[Question] = set()
        for claim in claims(emitted):
            claimed.add((claim.before.name, claim.carried, claim.after.name, claim.level))
            weaker = Level.TEMPORALLY_ORDERED
            claimed.add((claim.before.name, claim.carried, claim.after.name, weaker))
        by_name = {kind.name: kind for kind in KINDS}
        machine = {
            (before, start, later, level)
            for before, start, later, level in granted(first, second)
            if by_name[before].meets(by_name[later]) and possible(by_name[before], start)
        }
        assert claimed == machine, second.name


def possible(kind: Kind, start: frozenset[Fact]) -> bool:
    """Whether an access can have been shown like that: the proxy fence is of the generic proxy
    alone, an access of the async proxy needs none, and a flag is shown to wgmma alone."""
    if not start:
        return True
    return kind.proxy == "generic" or (kind.proxy != "flag" and Fact.PROXIED not in start)
