"""Checks barriers for all sizes: balance at the free and no DEADLOCK (decision `await-counts`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from exogpu.amir.nodes import Arrive, Await, CheckBarrier
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir.nodes import Access, Int, Interval
from exogpu.ir.types import Sym
from exogpu.solvers import isl, isl_counting
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.search.counts import Query
from exogpu.symbolic.search.dependences import Finding
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.search.rank_comparisons import Ranks
from exogpu.symbolic.search.sync_relations import Syncs
from exogpu.symbolic.sites import Site, UndecidedError, home_of, slot_of, targets_of


@dataclass(frozen=True, slots=True)
class BarrierUses:
    """The operations of one barrier variable within the frame of its allocation."""

    name: Sym
    frame: Frame
    ranks: Ranks
    arrives: tuple[Site, ...]
    awaits: tuple[Site, ...]
    trailing: tuple[Site, ...]
    frees: tuple[Site, ...]
    slots: tuple[Site, ...]


def uses_of(syncs: Syncs, name: Sym) -> BarrierUses:
    """The uses of a barrier."""
    sites = syncs.frame.sites
    return BarrierUses(
        name,
        syncs.frame,
        syncs.ranks,
        tuple(s for s in sites if isinstance(s.op, Arrive) and s.op.home.name == name),
        tuple(s for s in sites if isinstance(s.op, Await) and s.op.barrier.name == name),
        tuple(s for s in syncs.trailing if home_of(s).name == name),
        tuple(s for s in sites if isinstance(s.op, CheckBarrier) and s.op.name == name),
        tuple(s for s in sites if s.op in syncs.frame.model.slots and slot_of(s).name == name),
    )


def targets(uses: BarrierUses, site: Site) -> isl.Map:
    """The elements that an Arrive, or a Record's trailing barrier, targets."""
    accesses = targets_of(site)
    first, *rest = (uses.frame.cells(site, access) for access in accesses)
    for relation in rest:
        first = isl.union_map(first, relation)
    return first


def element(uses: BarrierUses, site: Site) -> isl.Map:
    """The element of an Await."""
    assert isinstance(site.op, Await)
    return uses.frame.cells(site, site.op.barrier)


def every_element(uses: BarrierUses, site: Site) -> isl.Map:
    """Every element of the barrier, at every instance of a site."""
    shape = uses.frame.model.variables[uses.name].shape
    window = Access(uses.name, tuple(Interval(Int(0), extent) for extent in shape))
    return uses.frame.cells(site, window)


def earlier(uses: BarrierUses, first: Site, second: Site) -> isl.Map:
    """The pairs within one allocation of which the first comes earlier."""
    return uses.frame.earlier(first, second, uses.name)


def barrier_failures(syncs: Syncs, name: Sym) -> Iterator[Finding]:
    """Yields the sizes and instances at which a barrier is out of balance at its free or may
    deadlock.

    Raises UndecidedError where its counts are not quasi-affine.
    """
    uses = uses_of(syncs, name)
    for free in uses.frees:
        yield from _unbalanced(uses, free)
        yield from _tags_without_arrive(uses, free)
    for await_ in uses.awaits if uses.frame.model.is_numbered(name) else ():
        yield from _awaits_too_much(uses, await_)
    for arrive in uses.arrives:
        yield from _arrives_too_late(uses, arrive)


def _finding(
    uses: BarrierUses, kind: HazardKind, check: Site, record: Site | None, failing: isl.Map
) -> Iterator[Finding]:
    if isl.is_empty(failing):
        return
    failing = rel.restrict_parameters(failing, uses.frame.context())
    if not isl.is_empty(failing):
        yield Finding(kind, uses.frame, uses.name, check, record, rel.coalesce(failing))


# --- balance ------------------------------------------------------------------------------------


def _at_free(uses: BarrierUses, free: Site) -> Query:
    return uses.ranks.at_elements(free, every_element(uses, free))


def _unbalanced(uses: BarrierUses, free: Site) -> Iterator[Finding]:
    """CheckBarrier: `exists (a, w) in rho(W).b | a != w`."""
    query = _at_free(uses, free)
    try:
        arrived = uses.ranks.count(query, uses.ranks.arrives(uses.name))
        waited = _waited(uses, query)
    except UndecidedError as reason:
        # Each iteration of the nest is balanced, if its Awaits wait for numbered arrivals.
        nest = uses.ranks.nest(uses.name, reason)
        for arrive in uses.arrives if nest.newest else ():
            home = uses.frame.cells(arrive, home_of(arrive))
            left = isl.restrict_domain(home, nest.unwaited(arrive))
            failing = isl.compose(isl.inverse(earlier(uses, arrive, free)), left)
            yield from _finding(uses, HazardKind.BARRIER, free, None, failing)
        return
    failing = rel.unwrap(rel.where_different(arrived, waited))
    yield from _finding(uses, HazardKind.BARRIER, free, None, failing)


def _waited(uses: BarrierUses, query: Query) -> rel.Count:
    """`w`: the number of Awaits, or with n >= 0 the largest `a - n` of them, and 0."""
    awaits = uses.ranks.awaits(uses.name)
    if all(isinstance(site.op, Await) and site.op.n < 0 for site, _ in awaits):
        return uses.ranks.count(query, awaits)
    values = rel.graph(isl_counting.total((), query.domain))
    for site, access in awaits:
        before = isl.compose(query.instance, isl.inverse(earlier(uses, site, query.site)))
        same = rel.pairs(query.element, uses.frame.cells(site, access))
        bound = rel.graph(rel.plus(uses.ranks.await_limit(site), 1))
        values = isl.union_map(values, isl.compose(isl.intersect_map(before, same), bound))
    return rel.largest_value(values)


# --- DEADLOCK -----------------------------------------------------------------------------------


def _tags_without_arrive(uses: BarrierUses, free: Site) -> Iterator[Finding]:
    """Decision `await-counts`: a trailing tag needs a later home Arrive of its rank."""
    if not uses.trailing:
        return
    for site in uses.trailing:
        home = uses.frame.cells(site, home_of(site))
        late = earlier(uses, site, free)
        for arrive in uses.arrives:
            same = rel.pairs(home, uses.frame.cells(arrive, home_of(arrive)))
            next_arrive = isl.intersect_map(same, earlier(uses, site, arrive))
            late = isl.subtract_map(late, isl.compose(next_arrive, earlier(uses, arrive, free)))
        failing = isl.compose(isl.inverse(late), home)
        yield from _finding(uses, HazardKind.DEADLOCK, free, site, failing)


def _awaits_too_much(uses: BarrierUses, await_: Site) -> Iterator[Finding]:
    """Decision `await-counts`, DEADLOCK: no Arrive targets the element yet, or a home whose Arrives
    do has no more than `bound`."""
    waiting = uses.ranks.waiting(await_)
    if isl.is_empty(waiting):
        return
    own = isl.restrict_domain(element(uses, await_), waiting)
    if uses.ranks.is_nest(uses.name):
        yield from _awaits_later_arrives(uses, await_, own)
        return
    bound = uses.ranks.await_limit(await_)
    starved, late = own, rel.empty_like(own)
    for arrive in uses.arrives:
        met = isl.intersect_map(
            rel.pairs(own, targets(uses, arrive)), isl.inverse(earlier(uses, arrive, await_))
        )
        if isl.is_empty(met):
            continue
        starved = isl.intersect_map(
            starved, isl.restrict_domain(own, isl.subtract(waiting, isl.domain(met)))
        )
        homes = isl.compose(met, uses.frame.cells(arrive, home_of(arrive)))
        query = uses.ranks.at_elements(await_, homes)
        arrived = rel.graph(uses.ranks.count(query, uses.ranks.arrives(uses.name)))
        few = isl.intersect_map(rel.at_most(arrived, rel.graph(bound)), query.instance)
        late = isl.union_map(late, isl.restrict_domain(own, isl.image(few)))
    failing = isl.union_map(starved, late)
    yield from _finding(uses, HazardKind.DEADLOCK, await_, None, failing)


def _awaits_later_arrives(uses: BarrierUses, await_: Site, own: isl.Map) -> Iterator[Finding]:
    """The same in a nest, where each Arrive has one target: some Arrive that the Await needs does
    not come before it."""
    for arrive in uses.arrives:
        needed = isl.intersect_map(
            rel.pairs(targets(uses, arrive), own), uses.ranks.released_pairs(arrive, await_, 0)
        )
        late = isl.subtract_map(needed, earlier(uses, arrive, await_))
        failing = isl.restrict_domain(own, isl.image(late))
        yield from _finding(uses, HazardKind.DEADLOCK, await_, None, failing)


def _arrives_too_late(uses: BarrierUses, arrive: Site) -> Iterator[Finding]:
    """Decision `await-counts`: an earlier Await on a target needed this very arrival, or a later
    one of the same home.  Decision `flags`: of a flag it needs all arrivals."""
    of_all = uses.frame.model.variables[uses.name].counts_all
    for await_ in uses.awaits:
        met = isl.intersect_map(
            rel.pairs(targets(uses, arrive), element(uses, await_)),
            isl.inverse(earlier(uses, await_, arrive)),
        )
        needed = met
        if not of_all:
            needed = isl.intersect_map(met, uses.ranks.released_pairs(arrive, await_, 0))
        if not isl.is_empty(needed):
            failing = isl.compose(needed, element(uses, await_))
            yield from _finding(uses, HazardKind.DEADLOCK, arrive, await_, failing)
