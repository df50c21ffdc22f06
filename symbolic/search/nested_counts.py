"""Ranks under nested symbolic loops, where counts are products and no function of this kind.

Where all Arrives and Awaits on a barrier stand in common outer loops, and each iteration of these
has as many Arrives as Awaits on every element, the counts before an iteration are equal.  Then
the Await that follows w others meets the Arrive of rank w in its own iteration, found by counts
within the iteration, and ranks are compared by order: `rank(y) + m <= rank(z)` iff at least m
Arrives on the element lie after y, up to z.

An Await that waits for all but the newest n meets no Arrive: it releases what has at least n
Arrives between itself and the Await.
"""

from __future__ import annotations

from collections.abc import Mapping

from exogpu.amir.nodes import Arrive, Await, Loop
from exogpu.ir.render import identifier
from exogpu.ir.types import Sym
from exogpu.solvers import isl, isl_piecewise
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.search.counts import Counts
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.search.steady_counts import steady_comparisons
from exogpu.symbolic.sites import Site, UndecidedError, counted_on, home_of, targets_of, where_begun

Ends = Mapping[Site, isl.Map]
"""By Arrive, pairs (instance, Arrive)."""


class Nest:
    """The rank comparisons of one barrier, by order.

    Raises UndecidedError, with the reason it was given, where they do not apply.
    """

    def __init__(self, frame: Frame, name: Sym, reason: UndecidedError) -> None:
        self.frame = frame
        self.name = name
        self.reason = reason
        self.arrives = [
            s for s in frame.sites if isinstance(s.op, Arrive) and s.op.home.name == name
        ]
        self.awaits = [
            s for s in frame.sites if isinstance(s.op, Await) and s.op.barrier.name == name
        ]
        if not self.arrives or not self.awaits:
            raise reason
        signs = {site.op.n >= 0 for site in self.awaits if isinstance(site.op, Await)}
        if len(signs) > 1:
            raise reason
        self.newest = signs == {True}
        """Awaits wait for all but the newest."""
        self.loops: tuple[Loop, ...] = ()
        """The common outer loops that are set apart."""
        self.inner: Counts | None = None
        """The counts within one of these iterations."""
        self._meets: dict[Site, dict[Site, isl.Map]] = self._set_apart()
        self._chains: dict[tuple[Site, int], dict[Site, isl.Map]] = {}
        self._twinned: dict[Site, dict[Site, isl.Map]] = {}
        self.total = self._total()
        """From each element to how many Arrives an iteration has; None where elements differ."""
        self.steady = steady_comparisons(self)
        """Where all iterations count alike: the same comparisons in few pieces."""
        self._graphs: dict[tuple[int, bool], isl.Map] = {}

    def skip(self, await_: Site) -> int:
        """m of `Await(..., ~m)`."""
        assert isinstance(await_.op, Await)
        return -await_.op.n - 1

    # --- the Arrive that an Await meets -----------------------------------------------------

    def _set_apart(self) -> dict[Site, dict[Site, isl.Map]]:
        """Sets as few loops apart as will do; by Await and Arrive, the pairs of which the Arrive's
        rank is the Await's count w, where Awaits wait for numbered arrivals."""
        both = [*self.arrives, *self.awaits]
        outermost = self.frame.depth + 1
        shared = min((len(_separable_loops(site)) for site in both), default=0)
        for depth in range(outermost, shared + 1):
            loops = both[0].loops[:depth]
            if any(site.loops[:depth] != loops for site in both):
                break
            try:
                return self._all_counted(loops) if self.newest else self._counts_within(loops)
            except UndecidedError:
                continue
        raise self.reason

    def _iteration(self, loops: tuple[Loop, ...]) -> Frame:
        depth = len(loops)
        inside = tuple(s for s in self.frame.sites if s.loops[:depth] == loops)
        return Frame(self.frame.model, inside[0].loops[:depth], inside)

    def _all_counted(self, loops: tuple[Loop, ...]) -> dict[Site, dict[Site, isl.Map]]:
        """Within an iteration each count is an expression: no Await meets an Arrive."""
        counts = Counts(self._iteration(loops))
        for arrive in self.arrives:
            counts.arrivals(arrive, home_of(arrive))
        for await_ in self.awaits:
            counts.await_limit(await_)
        self.loops, self.inner = loops, counts
        return {}

    def _counts_within(self, loops: tuple[Loop, ...]) -> dict[Site, dict[Site, isl.Map]]:
        inner = self._iteration(loops)
        counts = Counts(inner)
        arrives, awaits = counts.arrives(self.name), counts.awaits(self.name)
        if not counts.is_balanced(arrives, awaits):
            raise self.reason
        found: dict[Site, dict[Site, isl.Map]] = {}
        for await_, element in awaits:
            waited = rel.graph(counts.count(counts.query_at(await_, element), awaits))
            for arrive, home in arrives:
                same = rel.pairs(inner.cells(await_, element), inner.cells(arrive, home))
                equal = rel.pairs(waited, rel.graph(counts.arrivals(arrive, home)))
                met = isl.intersect_map(same, equal)
                found.setdefault(await_, {})[arrive] = self._outside(inner, met, await_, arrive)
        self.loops, self.inner = loops, counts
        return found

    def _outside(self, inner: Frame, pairs: isl.Map, first: Site, second: Site) -> isl.Map:
        """Pairs within one iteration, with the iteration."""
        names = [identifier(loop.iterator) for loop in inner.loops[self.frame.depth :]]
        return rel.params_to_both(pairs, names, (first.tuple_name, second.tuple_name))

    def outside(self, pairs: isl.Map, first: Site, second: Site) -> isl.Map:
        """Pairs within one iteration of the loops that are set apart, with the iteration."""
        assert self.inner is not None
        return self._outside(self.inner.frame, pairs, first, second)

    def meets(self, await_: Site, arrive: Site) -> isl.Map:
        """The pairs of which the Arrive's rank is the number of earlier Awaits."""
        return self._meets[await_][arrive]

    # --- iterations -------------------------------------------------------------------------

    def _total(self) -> isl.Map | None:
        assert self.inner is not None
        elements = self.inner.frame.elements(self.name)
        found = rel.graph(self.inner.total_counts(self.inner.arrives(self.name), elements))
        return found if rel.is_constant(found) else None

    def whole_rings(self, ring: int) -> isl.Set | None:
        """The sizes at which each iteration has a multiple of so many Arrives on each element; None
        where that depends on the iteration."""
        names = [identifier(loop.iterator) for loop in self.loops[self.frame.depth :]]
        if self.total is None or not all(isl_piecewise.is_free_of(self.total, n) for n in names):
            return None
        total = self.total
        for name in names:
            total = isl_piecewise.for_any(total, name)
        return rel.params_with_multiples(total, ring)

    def is_like(self, other: Nest) -> bool:
        """Tests whether earlier iterations count equally on both barriers: same loops set apart,
        allocations within the same loops, as many Arrives an iteration."""
        if self is other:
            return True
        if self.total is None or other.total is None or self.loops != other.loops:
            return False
        span = self.reason.span
        around, others = (self.frame.model.scope(one.name, span) for one in (self, other))
        return around == others and isl.is_equal(isl.image(self.total), isl.image(other.total))

    def begins(self, site: Site) -> int | None:
        """In how many of the loops set apart a slot is bound before all that is counted there; None
        where it is counted within an iteration of all of them."""
        scope = self.frame.model.scope(self.name, self.reason.span)
        return where_begun(site, self.loops, (*self.arrives, *self.awaits), len(scope))

    def instances_after_first(self, site: Site) -> isl.Set:
        """The instances before which an earlier iteration has counted."""
        found = rel.nowhere(self.frame.domain(site))
        begins = self.begins(site)
        depth = len(self.loops) if begins is None else begins
        for arrive in self.arrives:
            earlier = self.frame.later_iteration(arrive, site, depth)
            earlier = self.frame.same_allocation(earlier, arrive, site, self.name)
            found = isl.union(found, isl.image(earlier))
        return found

    # --- chains of Arrives ------------------------------------------------------------------

    def _later_arrives(self, site: Site, arrive: Site) -> isl.Map:
        """The pairs on one element of one allocation of which the Arrive comes later."""
        before = self.frame.earlier(site, arrive, self.name)
        home, other = counted_on(site), home_of(arrive)
        same = rel.pairs(self.frame.cells(site, home), self.frame.cells(arrive, other))
        return rel.coalesce(isl.intersect_map(before, same))

    def arrives_after(self, site: Site, count: int) -> Ends:
        """The Arrives z with at least `count` Arrives after the instance, up to z."""
        assert count >= 1
        key = (site, count)
        if key not in self._chains:
            found: dict[Site, isl.Map] = {}
            least = count - (not isinstance(site.op, Arrive))
            direct = {arrive: self._separated_pairs(site, arrive, least) for arrive in self.arrives}
            if all(pairs is not None for pairs in direct.values()):
                found = {arrive: pairs for arrive, pairs in direct.items() if pairs is not None}
            elif count == 1:
                found = {arrive: self._later_arrives(site, arrive) for arrive in self.arrives}
            else:
                for middle, pairs in self.arrives_after(site, count - 1).items():
                    for arrive in self.arrives:
                        longer = isl.compose(pairs, self._later_arrives(middle, arrive))
                        _join(found, arrive, longer)
            self._chains[key] = found
        return self._chains[key]

    def arrives_beyond(self, site: Site, count: int) -> Ends:
        """The Arrives z on the element with `rank(z) >= rank(site) + count`.

        The rank of a Record with a trailing barrier is that of the next Arrive.
        """
        trailing = not isinstance(site.op, Arrive)
        if count >= (0 if trailing else 1):
            return self.arrives_after(site, count + trailing)
        found: dict[Site, isl.Map] = {}
        for arrive in self.arrives:
            direct = self._separated_pairs(site, arrive, count)
            if direct is not None:
                found[arrive] = direct
                continue
            home, other = home_of(site), home_of(arrive)
            same = rel.pairs(self.frame.cells(site, home), self.frame.cells(arrive, other))
            same = self.frame.same_allocation(same, site, arrive, self.name)
            _join(
                found,
                arrive,
                isl.subtract_map(same, isl.inverse(self._lags(arrive, site, 1 - count))),
            )
        return found

    def _lags(self, arrive: Site, site: Site, count: int) -> isl.Map:
        """The pairs with `rank(site) >= rank(arrive) + count`, count >= 1."""
        if isinstance(site.op, Arrive):
            return self.arrives_after(arrive, count)[site]
        direct = self._separated_pairs(arrive, site, count)
        if direct is not None:
            return direct
        if count == 1:
            return self._earlier(arrive, site)
        found = rel.empty_like(self._earlier(arrive, site))
        for last, pairs in self.arrives_after(arrive, count - 1).items():
            found = isl.union_map(found, isl.compose(pairs, self._earlier(last, site)))
        return found

    def _earlier(self, arrive: Site, site: Site) -> isl.Map:
        """The pairs on one element of one allocation of which the Arrive comes earlier."""
        before = self.frame.earlier(arrive, site, self.name)
        home, other = home_of(arrive), home_of(site)
        same = rel.pairs(self.frame.cells(arrive, home), self.frame.cells(site, other))
        return rel.coalesce(isl.intersect_map(before, same))

    # --- in closed form ---------------------------------------------------------------------

    def _separated_pairs(
        self, first: Site, second: Site, least: int, *, anywhere: bool = False
    ) -> isl.Map | None:
        """The pairs with `count(second) - count(first) >= least`, of ranks and numbers of Awaits,
        on one element of one allocation, or `anywhere`; None where iterations differ."""
        if self.steady is None:
            return None
        left, right = (first, self._graph(first)), (second, self._graph(second))
        found = self.steady.at_least(left, right, least)
        if found is None:
            return None
        frame = self.frame
        found = isl.restrict_domain(found, frame.domain(first))
        found = rel.restrict_range(found, frame.domain(second))
        found = frame.same_allocation(found, first, second, self.name)
        if not anywhere:
            home, other = counted_on(first), counted_on(second)
            same = rel.pairs(frame.cells(first, home), frame.cells(second, other))
            found = isl.intersect_map(found, same)
        return found

    def _graph(self, site: Site) -> isl.Map:
        """Within an iteration, the rank of an Arrive, or of what else counts Arrives, and the
        number of earlier Awaits at an Await."""
        key = (site.number, isinstance(site.op, Await))
        if key not in self._graphs:
            assert self.inner is not None
            if isinstance(site.op, Await) and not self.newest:
                count = rel.plus(self.inner.await_limit(site), self.skip(site))
            else:
                count = self.inner.arrivals(site, counted_on(site))
            self._graphs[key] = rel.graph(count)
        return self._graphs[key]

    # --- comparisons ------------------------------------------------------------------------

    def released_pairs(self, site: Site, await_: Site, plus: int) -> isl.Map:
        """The pairs with `rank(site) <= bound(await_) + plus`."""
        multicast = self._is_multicast(site)
        if not self.newest:
            least = self.skip(await_) - plus
            direct = self._separated_pairs(site, await_, least, anywhere=multicast)
            if direct is not None:
                return direct
        if not multicast:
            return self._released_at_home(site, await_, plus)
        found = rel.empty_like(self.frame.instances_before(site, await_))
        for twin, pairs in self.twins(site).items():
            found = isl.union_map(
                found, isl.compose(pairs, self._released_at_home(twin, await_, plus))
            )
        return found

    def _released_at_home(self, site: Site, await_: Site, plus: int) -> isl.Map:
        """The same of the element that is the site's home."""
        if self.newest:
            return self._all_but_newest(site, await_, plus)
        found = rel.empty_like(self.frame.instances_before(site, await_))
        for arrive, pairs in self.arrives_beyond(site, self.skip(await_) - plus).items():
            found = isl.union_map(
                found, isl.compose(pairs, isl.inverse(self._meets[await_][arrive]))
            )
        return found

    def _all_but_newest(self, site: Site, await_: Site, plus: int) -> isl.Map:
        """The pairs with at least `n - plus` Arrives between them, and for a trailing barrier,
        whose Arrive is yet to come, one more."""
        assert isinstance(await_.op, Await)
        between = await_.op.n - plus + (not isinstance(site.op, Arrive))
        if between < 0:
            raise self.reason
        if between == 0:
            return self._before_await(site, await_)
        found = rel.empty_like(self.frame.instances_before(site, await_))
        for last, pairs in self.arrives_after(site, between).items():
            found = isl.union_map(found, isl.compose(pairs, self._before_await(last, await_)))
        return found

    def _before_await(self, site: Site, await_: Site) -> isl.Map:
        """The pairs on one element of one allocation of which the Await comes later."""
        assert isinstance(await_.op, Await)
        before = self.frame.earlier(site, await_, self.name)
        element = self.frame.cells(await_, await_.op.barrier)
        same = rel.pairs(self.frame.cells(site, home_of(site)), element)
        return rel.coalesce(isl.intersect_map(before, same))

    def unwaited(self, arrive: Site) -> isl.Set:
        """The Arrives that no Await waits for, where Awaits wait for all but the newest."""
        left = self.frame.domain(arrive)
        for await_ in self.awaits:
            left = isl.subtract(left, isl.domain(self._all_but_newest(arrive, await_, 0)))
        return left

    def deep(self, site: Site, depth: int) -> isl.Set:
        """The instances of an Arrive, or trailing Record, whose rank is at least `depth`."""
        found = rel.nowhere(self.frame.domain(site))
        if depth <= 0:
            return self.frame.domain(site)
        for arrive in self.arrives:
            if isinstance(site.op, Arrive):
                found = isl.union(found, isl.image(self.arrives_after(arrive, depth)[site]))
            else:
                found = isl.union(found, isl.image(self._lags(arrive, site, depth)))
        return found

    def waiting(self, await_: Site, least: int) -> isl.Set:
        """The Awaits whose bound is at least so large."""
        found = rel.nowhere(self.frame.domain(await_))
        if self.newest:
            for arrive in self.arrives:
                found = isl.union(found, isl.image(self._all_but_newest(arrive, await_, -least)))
            return found
        for arrive, met in self._meets[await_].items():
            deep = self.deep(arrive, self.skip(await_) + least)
            found = isl.union(found, isl.domain(rel.restrict_range(met, deep)))
        return found

    def later_bound(self, await_: Site, other: Site, plus: int) -> isl.Map:
        """The pairs of Awaits with `bound(await_) + plus <= bound(other)`."""
        found = rel.empty_like(self.frame.instances_before(await_, other))
        count = plus - self.skip(await_) + self.skip(other)
        direct = None if self.newest else self._separated_pairs(await_, other, count)
        if direct is not None:
            return direct
        for arrive, met in self._meets[await_].items():
            for last, pairs in self.arrives_beyond(arrive, count).items():
                ends = isl.inverse(self._meets[other][last])
                found = isl.union_map(found, isl.compose(isl.compose(met, pairs), ends))
        return found

    # --- multicast --------------------------------------------------------------------------

    def _is_multicast(self, site: Site) -> bool:
        """Tests whether a site targets elements beside its home."""
        home = self.frame.cells(site, home_of(site))
        targets = (self.frame.cells(site, target) for target in targets_of(site))
        return not all(isl.is_equal_map(target, home) for target in targets)

    def twins(self, site: Site) -> Ends:
        """The Arrives of the same rank, on any element: order does not compare the counts of two
        elements, but in an iteration each has its own Arrive of a rank.

        Raises the reason where an iteration has not as many Arrives on all elements.
        """
        if site not in self._twinned:
            assert self.inner is not None
            counts, inner = self.inner, self.inner.frame
            if self.total is None:
                raise self.reason
            rank = rel.graph(counts.arrivals(site, home_of(site)))
            self._twinned[site] = {
                arrive: self._outside(
                    inner,
                    rel.pairs(rank, rel.graph(counts.arrivals(arrive, home_of(arrive)))),
                    site,
                    arrive,
                )
                for arrive in self.arrives
                if arrive.loops[: len(self.loops)] == site.loops[: len(self.loops)]
            }
        return self._twinned[site]


def _separable_loops(site: Site) -> tuple[Loop, ...]:
    """The loops around a site that may be set apart: not those of values from memory."""
    return tuple(loop for loop in site.loops if loop.source is None)


def _join(found: dict[Site, isl.Map], site: Site, pairs: isl.Map) -> None:
    found[site] = isl.union_map(found[site], pairs) if site in found else pairs
