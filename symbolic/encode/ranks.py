"""Arrive and await counts as expressions of an instance's iterators.

Under nested symbolic loops a count is no such expression.  There the common outer loops of a
barrier's sites are set apart: each of their iterations has as many Arrives as Awaits on every
element, `total`, and a count is `before + inner`: what the iterations before have counted, an
unknown, and an expression.  Of the unknowns only this is used: in the first few iterations they
are the sum of the totals before; they are equal in one iteration, and grow by at least its total
from one to a later one, by exactly the totals between to the next few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from exogpu.amir.nodes import Arrive, Await, Loop
from exogpu.ir.names import Sym
from exogpu.ir.nodes import BExpr, CExpr, CVar, Int
from exogpu.ir.walk import substitute, substitute_bool
from exogpu.solvers import isl, isl_functions
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.encode.expressions import Pieces, linear, pieces_of
from exogpu.symbolic.encode.formulas import (
    TRUE,
    Instance,
    agree,
    at_most,
    element_of,
    equal,
    every,
    exists,
    less,
    plus,
    same_allocation,
)
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.encode.witness import parameters
from exogpu.symbolic.find.counts import Counts
from exogpu.symbolic.find.domains import Model
from exogpu.symbolic.find.nests import Nest
from exogpu.symbolic.find.ranks import Ranks
from exogpu.symbolic.find.sites import Site, UndecidedError, home_of

ITERATIONS: Final = 4
"""Of a nest's first so many iterations it is said what those before have counted."""


def own_element(instance: Instance) -> tuple[CExpr, ...]:
    """The element on which an instance counts: the home of an Arrive or trailing barrier."""
    op = instance.site.op
    access = op.barrier if isinstance(op, Await) else home_of(instance.site)
    return element_of(instance, access)


def same_element(first: Instance, second: Instance) -> BExpr:
    """Both count on one element."""
    pairs = zip(own_element(first), own_element(second), strict=True)
    return every(equal(one, other) for one, other in pairs)


@dataclass(frozen=True, slots=True, eq=False)
class _Based:
    """An instance in a nest, with what is known of the iterations before its own."""

    instance: Instance
    exists: str
    before: CExpr
    totals: tuple[CExpr, ...]
    """Of its own iteration, its own and the next, ..."""


class RankTable:
    """The counts of one barrier, at each of its sites.

    Raises UndecidedError where they are not of the form that is described above.
    """

    def __init__(self, model: Model, name: Sym, ranks: Ranks, sites: Sequence[Site]) -> None:
        self.model = model
        self.name = name
        self.ranks = ranks
        self.counts: Counts = ranks
        self.nest: Nest | None = None
        self.outer: tuple[Loop, ...] = ()
        """The loops that are set apart."""
        try:
            for site in sites:
                self._all_counts(site)
        except UndecidedError as reason:
            self.nest = ranks.nest(name, reason)
            assert self.nest.inner is not None
            self.counts = self.nest.inner
            self.outer = self.nest.loops[ranks.frame.depth :]
            depth = len(self.nest.loops)
            # One allocation lives through all iterations of the last of these loops.
            if len(model.scope(name, reason.span)) >= depth:
                raise
            if any(site.loops[:depth] != self.nest.loops for site in sites):
                raise
        self._found: dict[tuple[int, bool], Pieces] = {}
        self._total: tuple[tuple[Sym, ...], Pieces] | None = None
        self._based: WeakKeyDictionary[Script, list[_Based]] = WeakKeyDictionary()

    def _all_counts(self, site: Site) -> None:
        if isinstance(site.op, Await):
            self.ranks.bound(site)
        else:
            self.ranks.arrivals(site, home_of(site))

    # --- in scripts -----------------------------------------------------------------------

    def arrivals(self, script: Script, instance: Instance, label: str) -> CExpr:
        """How many Arrives are homed at the element before an instance: the rank of an Arrive or
        trailing barrier, and `a` of an Await."""
        value = script.define(f"{label}.rank", self.inner(instance, arrivals=True))
        return self._with_before(script, instance, label, value)

    def awaits(self, script: Script, instance: Instance, label: str) -> CExpr:
        """How many Awaits on the element come before an Await."""
        value = script.define(f"{label}.count", self.inner(instance, arrivals=False))
        return self._with_before(script, instance, label, value)

    def bound(self, script: Script, instance: Instance, label: str) -> CExpr:
        """Max of an Await: `a - (n + 1)` for n >= 0, `w + n + 1` for n < 0 (decision 3)."""
        op = instance.site.op
        assert isinstance(op, Await)
        if op.n >= 0:
            return plus(self.arrivals(script, instance, label), -(op.n + 1))
        return plus(self.awaits(script, instance, label), op.n + 1)

    # --- expressions ----------------------------------------------------------------------

    def inner(self, instance: Instance, *, arrivals: bool) -> Pieces:
        """The count within one iteration of the loops that are set apart."""
        site = instance.site
        key = (site.number, arrivals)
        if key not in self._found:
            frame = self.counts.frame
            own: Mapping[Sym, CExpr] = {name: CVar(name) for name in site.iterators}
            inputs = tuple(own[name] for name in site.iterators[frame.depth :])
            count = self.count(site, arrivals=arrivals)
            pieces = isl_functions.pieces(count)
            self._found[key] = pieces_of(pieces, inputs, parameters(frame, own))
        return _at(self._found[key], instance.values)

    def count(self, site: Site, *, arrivals: bool) -> rel.Count:
        """The same as a function of ISL."""
        if arrivals:
            access = site.op.barrier if isinstance(site.op, Await) else home_of(site)
            return self.counts.arrivals(site, access)
        assert isinstance(site.op, Await) and site.op.n < 0
        return rel.plus(self.counts.bound(site), -(site.op.n + 1))

    def totals(self) -> rel.Count:
        """How many Arrives an iteration of the outer loops has on each element."""
        return self.counts.whole(
            self.counts.arrives(self.name), self.counts.frame.elements(self.name)
        )

    def total(self, outer: Mapping[Sym, CExpr], element: Sequence[CExpr]) -> Pieces:
        """The same as an expression."""
        if self._total is None:
            frame = self.counts.frame
            names = tuple(Sym(f"e{at}") for at in range(len(element)))
            own: dict[Sym, CExpr] = {loop.iterator: CVar(loop.iterator) for loop in frame.loops}
            inputs = [CVar(name) for name in names]
            pieces = isl_functions.pieces(self.totals())
            self._total = (names, pieces_of(pieces, inputs, parameters(frame, own)))
        names, found = self._total
        return _at(found, {**outer, **dict(zip(names, element, strict=True))})

    # --- what is known of the iterations before -------------------------------------------

    def _with_before(self, script: Script, instance: Instance, label: str, value: CExpr) -> CExpr:
        if not self.outer:
            return value
        based = self._based.setdefault(script, [])
        for known in based:
            if known.instance is instance:
                return linear(0, [(1, known.before), (1, value)])
        one = self._new(script, instance, label, value)
        based.append(one)
        return linear(0, [(1, one.before), (1, value)])

    def relate(self, script: Script, one: Instance, other: Instance) -> None:
        """Says how the counts of two instances are related; in nests alone it needs saying."""
        found = {known.instance: known for known in self._based.get(script, ())}
        if one in found and other in found:
            for first, second in ((found[one], found[other]), (found[other], found[one])):
                for premise, conclusion in self._related(first, second):
                    script.imply([first.exists, second.exists], premise, conclusion)

    def _new(self, script: Script, instance: Instance, label: str, value: CExpr) -> _Based:
        """Declares what the iterations before have counted, for an instance."""
        before = script.constant(Sym(f"{label}.before"))
        values, element = instance.values, own_element(instance)
        outer = {loop.iterator: values[loop.iterator] for loop in self.counts.frame.loops}
        last = self.outer[-1]
        totals: list[CExpr] = []
        for number in range(ITERATIONS):
            at = {**outer, last.iterator: plus(values[last.iterator], number)}
            total = script.define(f"{label}.total", self.total(at, element))
            totals.append(linear(0, [(1, one) for one in (*totals[-1:], total)]))
        there = script.node(f"{label}.exists", [exists(instance)])
        script.assume(at_most(Int(0), before))
        for number, (premise, sum_of) in enumerate(self._first_iterations(values, element)):
            sums = [script.define(f"{label}.total", one) for one in sum_of]
            script.imply([there], premise, equal(before, linear(0, [(1, one) for one in sums])))
            assert len(sums) == number
        counted = isinstance(instance.site.op, Arrive | Await)
        fits = less(value, totals[0]) if counted else at_most(value, totals[0])
        script.imply([there], TRUE, fits)
        return _Based(instance, there, before, tuple(totals))

    def _first_iterations(
        self, values: Mapping[Sym, CExpr], element: Sequence[CExpr]
    ) -> Iterator[tuple[BExpr, list[Pieces]]]:
        """That an instance lies in the first, second, ... iteration, and the totals of those
        before."""
        *around, last = self.outer
        lo = substitute(last.lo, values)
        first = [equal(values[loop.iterator], substitute(loop.lo, values)) for loop in around]
        outer = {loop.iterator: values[loop.iterator] for loop in self.counts.frame.loops}
        totals: list[Pieces] = []
        for number in range(ITERATIONS + 1):
            at = plus(lo, number)
            yield every([*first, equal(values[last.iterator], at)]), list(totals)
            totals.append(self.total({**outer, last.iterator: at}, element))

    def _related(self, first: _Based, second: _Based) -> Iterator[tuple[BExpr, BExpr]]:
        one, other = first.instance, second.instance
        same = every([same_allocation(self.model, one, other, self.name), same_element(one, other)])
        after = linear(0, [(1, first.before), (1, first.totals[0])])
        names = [loop.iterator for loop in self.outer]
        yield every([same, agree(one, other, names)]), equal(first.before, second.before)
        for at, name in enumerate(names):
            around = every([same, agree(one, other, names[:at])])
            left, right = one.values[name], other.values[name]
            yield every([around, less(left, right)]), at_most(after, second.before)
        around = every([same, agree(one, other, names[:-1])])
        left, right = one.values[names[-1]], other.values[names[-1]]
        for steps, total in enumerate(first.totals, 1):
            exact = equal(linear(0, [(1, first.before), (1, total)]), second.before)
            yield every([around, equal(plus(left, steps), right)]), exact

    # --- candidates -----------------------------------------------------------------------

    def graph(self, site: Site, *, arrivals: bool) -> isl.Map:
        """`site -> [count]`, outside nests."""
        return rel.graph(self.count(site, arrivals=arrivals))

    def meeting(self, arrive: Site, await_: Site) -> isl.Map:
        """The pairs of an Arrive and the Await that counts as many before it."""
        if self.nest is not None:
            return isl.inverse(self.nest.meets(await_, arrive))
        return rel.pairs(self.graph(arrive, arrivals=True), self.graph(await_, arrivals=False))

    def trailed(self, site: Site, arrive: Site) -> isl.Map:
        """The pairs of a trailing barrier and the Arrive of its rank."""
        if self.nest is not None:
            return self.nest.after(site, 1)[arrive]
        return rel.pairs(self.graph(site, arrivals=True), self.graph(arrive, arrivals=True))

    def released(self, arrive: Site, await_: Site) -> isl.Map:
        """The pairs with `rank <= Max`."""
        return self.ranks.released(arrive, await_, 0)

    def enough(self, await_: Site, arrive: Site, pairs: isl.Map) -> isl.Map:
        """The pairs `await_ -> arrive`, of those given, with `Max <= rank`."""
        return isl.subtract_map(pairs, isl.inverse(self.ranks.released(arrive, await_, -1)))


def _at(pieces: Pieces, values: Mapping[Sym, CExpr]) -> Pieces:
    return tuple(
        (substitute_bool(where, values), linear(0, [(1, substitute(value, values))]))
        for where, value in pieces
    )
