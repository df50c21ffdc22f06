"""Ranks under nested symbolic loops, where counts are products and no function of this kind.

Where all Arrives and Awaits on a barrier stand in common outer loops, and each iteration of these
has as many Arrives as Awaits on every element, the counts before an iteration are equal.  Then
the Await that follows w others meets the Arrive of rank w in its own iteration, found by counts
within the iteration, and ranks are compared by order: `rank(y) + m <= rank(z)` iff at least m
Arrives on the element lie after y, up to z.
"""

from __future__ import annotations

from collections.abc import Mapping

from exogpu.amir.nodes import Arrive, Await, Loop
from exogpu.ir.isltext import identifier
from exogpu.ir.names import Sym
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.find.counts import Counts
from exogpu.symbolic.find.frames import Frame
from exogpu.symbolic.sites import Site, UndecidedError, home_of, targets_of

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
        for site in self.awaits:
            assert isinstance(site.op, Await)
            if site.op.n >= 0:
                raise reason
        self.loops: tuple[Loop, ...] = ()
        """The common outer loops, each of whose iterations is balanced."""
        self.inner: Counts | None = None
        """The counts within one of these iterations."""
        self._meets = self._meetings()
        self._chains: dict[tuple[Site, int], dict[Site, isl.Map]] = {}

    def skip(self, await_: Site) -> int:
        """m of `Await(..., ~m)`."""
        assert isinstance(await_.op, Await)
        return -await_.op.n - 1

    # --- the Arrive that an Await meets -----------------------------------------------------

    def _meetings(self) -> dict[Site, dict[Site, isl.Map]]:
        """By Await and Arrive, the pairs of which the Arrive's rank is the Await's count w."""
        both = [*self.arrives, *self.awaits]
        outermost = self.frame.depth + 1
        shared = min((len(site.loops) for site in both), default=0)
        for depth in range(outermost, shared + 1):
            loops = both[0].loops[:depth]
            if any(site.loops[:depth] != loops for site in both):
                break
            try:
                return self._within(loops)
            except UndecidedError:
                continue
        raise self.reason

    def _within(self, loops: tuple[Loop, ...]) -> dict[Site, dict[Site, isl.Map]]:
        depth = len(loops)
        inside = tuple(s for s in self.frame.sites if s.loops[:depth] == loops)
        inner = Frame(self.frame.model, inside[0].loops[:depth], inside)
        counts = Counts(inner)
        arrives, awaits = counts.arrives(self.name), counts.awaits(self.name)
        if not counts.balanced(arrives, awaits):
            raise self.reason
        found: dict[Site, dict[Site, isl.Map]] = {}
        for await_, element in awaits:
            waited = rel.graph(counts.count(counts.at(await_, element), awaits))
            for arrive, home in arrives:
                same = rel.pairs(inner.cells(await_, element), inner.cells(arrive, home))
                equal = rel.pairs(waited, rel.graph(counts.arrivals(arrive, home)))
                met = isl.intersect_map(same, equal)
                names = [identifier(loop.iterator) for loop in loops[self.frame.depth :]]
                met = rel.params_to_both(met, names, (await_.tuple_name, arrive.tuple_name))
                found.setdefault(await_, {})[arrive] = met
        self.loops, self.inner = loops, counts
        return found

    def meets(self, await_: Site, arrive: Site) -> isl.Map:
        """The pairs of which the Arrive's rank is the number of earlier Awaits."""
        return self._meets[await_][arrive]

    # --- chains of Arrives ------------------------------------------------------------------

    def _later(self, site: Site, arrive: Site) -> isl.Map:
        """The pairs on one element of one allocation of which the Arrive comes later."""
        before = self.frame.before(site, arrive)
        before = self.frame.same_allocation(before, site, arrive, self.name)
        home, other = home_of(site), home_of(arrive)
        same = rel.pairs(self.frame.cells(site, home), self.frame.cells(arrive, other))
        return rel.coalesce(isl.intersect_map(before, same))

    def after(self, site: Site, count: int) -> Ends:
        """The Arrives z with at least `count` Arrives after the instance, up to z."""
        assert count >= 1
        key = (site, count)
        if key not in self._chains:
            found: dict[Site, isl.Map] = {}
            if count == 1:
                found = {arrive: self._later(site, arrive) for arrive in self.arrives}
            else:
                for middle, pairs in self.after(site, count - 1).items():
                    for arrive in self.arrives:
                        longer = isl.compose(pairs, self._later(middle, arrive))
                        _join(found, arrive, longer)
            self._chains[key] = found
        return self._chains[key]

    def beyond(self, site: Site, count: int) -> Ends:
        """The Arrives z on the element with `rank(z) >= rank(site) + count`.

        The rank of a Record with a trailing barrier is that of the next Arrive.
        """
        trailing = not isinstance(site.op, Arrive)
        if count >= (0 if trailing else 1):
            return self.after(site, count + trailing)
        found: dict[Site, isl.Map] = {}
        for arrive in self.arrives:
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
            return self.after(arrive, count)[site]
        if count == 1:
            return self._earlier(arrive, site)
        found = rel.empty_like(self._earlier(arrive, site))
        for last, pairs in self.after(arrive, count - 1).items():
            found = isl.union_map(found, isl.compose(pairs, self._earlier(last, site)))
        return found

    def _earlier(self, arrive: Site, site: Site) -> isl.Map:
        """The pairs on one element of one allocation of which the Arrive comes earlier."""
        before = self.frame.before(arrive, site)
        before = self.frame.same_allocation(before, arrive, site, self.name)
        home, other = home_of(arrive), home_of(site)
        same = rel.pairs(self.frame.cells(arrive, home), self.frame.cells(site, other))
        return rel.coalesce(isl.intersect_map(before, same))

    # --- comparisons ------------------------------------------------------------------------

    def released(self, site: Site, await_: Site, plus: int) -> isl.Map:
        """The pairs with `rank(site) <= bound(await_) + plus`."""
        self._single(site)
        found = rel.empty_like(self.frame.before(site, await_))
        for arrive, pairs in self.beyond(site, self.skip(await_) - plus).items():
            found = isl.union_map(
                found, isl.compose(pairs, isl.inverse(self._meets[await_][arrive]))
            )
        return found

    def deep(self, site: Site, depth: int) -> isl.Set:
        """The instances of an Arrive, or trailing Record, whose rank is at least `depth`."""
        self._single(site)
        found = rel.nowhere(self.frame.domain(site))
        if depth <= 0:
            return self.frame.domain(site)
        for arrive in self.arrives:
            if isinstance(site.op, Arrive):
                found = isl.union(found, isl.image(self.after(arrive, depth)[site]))
            else:
                found = isl.union(found, isl.image(self._lags(arrive, site, depth)))
        return found

    def waiting(self, await_: Site, least: int) -> isl.Set:
        """The Awaits whose bound is at least so large."""
        found = rel.nowhere(self.frame.domain(await_))
        for arrive, met in self._meets[await_].items():
            deep = self.deep(arrive, self.skip(await_) + least)
            found = isl.union(found, isl.domain(rel.restrict_range(met, deep)))
        return found

    def later_bound(self, await_: Site, other: Site, plus: int) -> isl.Map:
        """The pairs of Awaits with `bound(await_) + plus <= bound(other)`."""
        found = rel.empty_like(self.frame.before(await_, other))
        count = plus - self.skip(await_) + self.skip(other)
        for arrive, met in self._meets[await_].items():
            for last, pairs in self.beyond(arrive, count).items():
                ends = isl.inverse(self._meets[other][last])
                found = isl.union_map(found, isl.compose(isl.compose(met, pairs), ends))
        return found

    def _single(self, site: Site) -> None:
        """A multicast has several homes, whose counts order does not compare."""
        if targets_of(site) != (home_of(site),):
            raise self.reason


def _join(found: dict[Site, isl.Map], site: Site, pairs: isl.Map) -> None:
    found[site] = isl.union_map(found[site], pairs) if site in found else pairs
