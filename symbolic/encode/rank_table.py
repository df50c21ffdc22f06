"""Arrive and await counts as expressions of an instance's iterators.

Under nested symbolic loops a count is no such expression.  There the common outer loops of a
barrier's sites are set apart: each of their iterations has `total` Arrives on an element, and as
many Awaits where these wait for numbered arrivals; and a count is `before + inner`: what the
iterations before have counted, an unknown, and an expression.  Of the unknowns only this is used:
in the first few iterations they are the sum of the totals before; they are equal in one iteration,
and grow by at least its total from one to a later one, by exactly the totals between to the next
few.  Where the total is the same in all iterations and 0, they are 0; where it is the same on all
elements, so are they.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final
from weakref import WeakKeyDictionary

from exogpu.amir.nodes import Arrive, Await, Loop
from exogpu.ir.nodes import BExpr, CExpr, CVar, Int, Mod
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, substitute
from exogpu.symbolic.encode import formulas
from exogpu.symbolic.encode.encoder import Encoder
from exogpu.symbolic.encode.pieces import Pieces, linear
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.encode.witness import WitnessError, element_names, witness_integer
from exogpu.symbolic.sites import Site, UndecidedError, counted_on, where_begun

ITERATIONS: Final = 4
"""The number of a nest's first iterations of which it is said what those before have counted."""

MOST: Final = 12
"""The same, however long a ring is."""


def own_element(instance: formulas.Instance) -> tuple[CExpr, ...]:
    """The element on which an instance counts: the home of an Arrive or trailing barrier."""
    return formulas.element_of(instance, counted_on(instance.site))


def same_element(first: formulas.Instance, second: formulas.Instance) -> BExpr:
    """Both count on one element."""
    pairs = zip(own_element(first), own_element(second), strict=True)
    return formulas.conjunction_of(formulas.equal(one, other) for one, other in pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Based:
    """An instance in a nest, with what is known of the iterations before its own."""

    asked: formulas.Instance
    """As it was given."""
    instance: formulas.Instance
    """In the iteration of all loops set apart that it comes in, or first after it."""
    exists: str
    before: CExpr
    totals: tuple[CExpr, ...]
    """The totals of its own iteration, its own and the next, ..."""
    inside: bool
    """True if its iteration is one of the nest's; False for what comes before all of some."""


class RankTable:
    """The counts of one barrier, at each of its sites, as a witness has them.

    Raises WitnessError where the loops that it sets apart are not around all of them.
    """

    def __init__(self, encoder: Encoder, name: Sym, *, numbered: bool = False) -> None:
        self.encoder = encoder
        self.placed = encoder.placed
        self.name = name
        self.called = encoder.placed.called[name]
        self.uses = encoder.uses(name)
        if len({site.op.n >= 0 for site in self.uses.awaits if isinstance(site.op, Await)}) > 1:
            span = self.uses.awaits[0].op.origin.span
            raise UndecidedError("Awaits with n >= 0 and n < 0 on one barrier", span)
        self.numbered = numbered or encoder.placed.is_numbered(name)
        """True if its Arrives are numbered; else all are number 0, for which each Await waits."""
        self.apart = self._separate_loops(
            encoder.sought.separate_loops(self.called) if self.numbered else 0
        )
        """The loops whose iterations are counted apart, those of the allocation among them."""
        self.outer: tuple[Loop, ...] = ()
        """The loops of those within the allocation."""
        if self.apart:
            self.outer = self.apart[len(self._scope()) :]
        self.iterations = ITERATIONS
        """The number of iterations of which it is said what those before have counted."""
        if self.placed.slots:  # A ring may then be as many iterations long.
            depths = (variable.depth or 0 for variable in self.placed.variables.values())
            self.iterations = max(ITERATIONS, *depths)
        self._based: WeakKeyDictionary[Script, list[Based]] = WeakKeyDictionary()

    def follow(self, depth: int) -> None:
        """Lets it be said of as many iterations as a ring of this depth is long; where they take
        turns at the elements, so many times."""
        if self.outer:
            elements = [n.value for n in self._shape if isinstance(n, Int)]
            turns = 1 if self._uniform else prod(elements)
            self.iterations = max(self.iterations, min(depth * turns, MOST))

    @property
    def _shape(self) -> tuple[CExpr, ...]:
        return self.placed.variables[self.name].shape

    @cached_property
    def _rings(self) -> frozenset[int]:
        """The depths of the rings that its slots index, of which more than one element."""
        loops = (site.op for site in self.uses.slots if isinstance(site.op, Loop))
        depths = (loop.hi.value for loop in loops if isinstance(loop.hi, Int))
        return frozenset(depth for depth in depths if depth > 1)

    def _scope(self) -> tuple[Loop, ...]:
        return self.placed.scope(self.name, self.uses.counted_sites[0].op.origin.span)

    def _separate_loops(self, depth: int) -> tuple[Loop, ...]:
        """A nest has Arrives and Awaits, in loops within one allocation."""
        self._begun: dict[Site, int] = {}
        """Slots that are bound as an iteration begins of some of these loops, before all others."""
        if depth == 0:
            return ()
        uses = self.uses
        if not uses.arrives or not uses.awaits:
            raise WitnessError(f"{self.called} has no Arrives or no Awaits to be set apart")
        loops = uses.arrives[0].loops[:depth]
        if not len(self._scope()) < depth == len(loops):
            raise WitnessError(f"no loops of {self.called} can be set apart")
        loaded = {load.iterator for load in self.placed.loads}
        ends = [end for loop in loops for end in (CVar(loop.iterator), loop.lo, loop.hi)]
        if any(control_variables(end) & loaded for end in ends):
            span = uses.arrives[0].op.origin.span
            raise UndecidedError("a nest of loops that a value from memory bounds", span)
        for site in uses.slots:
            begun = where_begun(site, loops, (*uses.arrives, *uses.awaits), len(self._scope()))
            if begun is not None:
                self._begun[site] = begun
        inside = (site for site in uses.counted_sites if site not in self._begun)
        if any(site.loops[:depth] != loops for site in inside):
            raise WitnessError(f"the loops set apart are not around all uses of {self.called}")
        return loops

    # --- in scripts -----------------------------------------------------------------------

    def arrivals(self, script: Script, instance: formulas.Instance, label: str) -> CExpr:
        """Counts the Arrives homed at the element before an instance: the rank of an Arrive or
        trailing barrier, and `a` of an Await."""
        if not self.numbered:
            return Int(0)
        value = script.define(f"{label}.rank", self.inner_count(instance, arrivals=True))
        return self._with_before(script, instance, label, value)

    def awaits(self, script: Script, instance: formulas.Instance, label: str) -> CExpr:
        """Counts the Awaits on the element before an Await."""
        value = script.define(f"{label}.count", self.inner_count(instance, arrivals=False))
        return self._with_before(script, instance, label, value)

    def await_bound(self, script: Script, instance: formulas.Instance, label: str) -> CExpr:
        """Max of an Await: `a - (n + 1)` for n >= 0, `w + n + 1` for n < 0 (decision
        `await-counts`)."""
        op = instance.site.op
        assert isinstance(op, Await)
        if not self.numbered:
            return Int(0)
        if op.n >= 0:
            return formulas.plus(self.arrivals(script, instance, label), -(op.n + 1))
        return formulas.plus(self.awaits(script, instance, label), op.n + 1)

    # --- expressions ----------------------------------------------------------------------

    def inner_count(self, instance: formulas.Instance, *, arrivals: bool) -> Pieces:
        """The count within one iteration of the loops that are set apart."""
        if instance.site in self._begun:
            return ((formulas.TRUE, Int(0)),)
        found = self.encoder.sought.count(instance.site.number, arrivals=arrivals)
        return self.encoder.meaning({"here": instance}).pieces(found)

    def total(self, outer: Mapping[Sym, CExpr], element: Sequence[CExpr]) -> Pieces:
        """Counts the Arrives on an element in one iteration of the loops set apart."""
        found = self.encoder.sought.total(self.called)
        meaning = self.encoder.meaning({}, element=tuple(element), outer=outer)
        return meaning.pieces(found)

    @cached_property
    def _total_reads(self) -> frozenset[Sym]:
        found = self.encoder.sought.total(self.called)
        reads = (control_variables(one) for piece in found for one in piece)
        return frozenset().union(*reads)

    @property
    def _is_steady(self) -> bool:
        """Tests whether the total is the same in all iterations within one allocation."""
        called = self.placed.called
        names = {witness_integer(f"outer.{called[loop.iterator]}").name for loop in self.outer}
        return not names & self._total_reads

    @cached_property
    def _rectangular(self) -> bool:
        """True if the last loop that is set apart has as many iterations whatever the others."""
        if len(self.outer) < 2:
            return False
        last = self.outer[-1]
        others = {loop.iterator for loop in self.apart[:-1]}
        return not (control_variables(last.lo) | control_variables(last.hi)) & others

    @property
    def _uniform(self) -> bool:
        """Tests whether the total is the same on all elements."""
        names = element_names(len(self._shape))
        return not {one.name for one in names} & self._total_reads

    def in_iteration(self, instance: formulas.Instance) -> formulas.Instance:
        """An instance in an iteration of all loops that are set apart: the first after it, where it
        comes before all that is counted in an iteration of some of them."""
        if instance.site not in self._begun:
            return instance
        values = dict(instance.values)
        for loop in self.apart[self._begun[instance.site] :]:
            values[loop.iterator] = substitute(loop.lo, values)
        return formulas.Instance(instance.site, values)

    # --- what is known of the iterations before -------------------------------------------

    def _with_before(
        self, script: Script, instance: formulas.Instance, label: str, value: CExpr
    ) -> CExpr:
        if not self.outer:
            return value
        based = self._based.setdefault(script, [])
        for known in based:
            if known.asked is instance:
                return linear(0, [(1, known.before), (1, value)])
        one = self._declare_base(script, instance, label, value)
        based.append(one)
        return linear(0, [(1, one.before), (1, value)])

    def relate(self, script: Script, one: formulas.Instance, other: formulas.Instance) -> None:
        """Says how the counts of two instances are related; in nests alone it needs saying."""
        found = {known.asked: known for known in self._based.get(script, ())}
        if one in found and other in found:
            self.compare(script, found[one], found[other])

    def based(self, script: Script) -> Sequence[Based]:
        """The instances of a script in which iterations before are counted."""
        return self._based.get(script, ())

    def is_like(self, other: RankTable) -> bool:
        """Tests whether earlier iterations count equally on both barriers: same loops set apart,
        allocations within the same loops, one total on all elements of both."""
        if self is other:
            return True
        if not self.outer or (self.apart, self.outer) != (other.apart, other.outer):
            return False
        totals = (self.encoder.sought.total(table.called) for table in (self, other))
        return self._uniform and other._uniform and len(set(totals)) == 1

    def compare(self, script: Script, one: Based, other: Based) -> None:
        """Says how the counts of two instances are related, of barriers that are alike."""
        for first, second in ((one, other), (other, one)):
            for premise, conclusion in self._related(first, second):
                script.imply([first.exists, second.exists], premise, conclusion)

    def _declare_base(
        self, script: Script, instance: formulas.Instance, label: str, value: CExpr
    ) -> Based:
        """Declares what the iterations before have counted, for an instance."""
        before = script.constant(Sym(f"{label}.before"))
        full = self.in_iteration(instance)
        values, element = full.values, own_element(instance)
        outer = {loop.iterator: values[loop.iterator] for loop in self.apart}
        last = self.outer[-1]
        totals: list[CExpr] = []
        for number in range(self.iterations):
            at = {**outer, last.iterator: formulas.plus(values[last.iterator], number)}
            total = script.define(f"{label}.total", self.total(at, element))
            totals.append(linear(0, [(1, one) for one in (*totals[-1:], total)]))
        # Of elements outside, totals say nothing.
        counts = [formulas.exists(instance), formulas.in_shape(self.placed, self.name, element)]
        there = script.node(f"{label}.exists", counts)
        script.assume(formulas.at_most(Int(0), before))
        for number, (premise, sum_of) in enumerate(self._first_iterations(values, element)):
            sums = [script.define(f"{label}.total", one) for one in sum_of]
            script.imply(
                [there], premise, formulas.equal(before, linear(0, [(1, one) for one in sums]))
            )
            assert len(sums) == number
        fits = (
            formulas.less_than(value, totals[0])
            if _counts(instance.site)
            else formulas.at_most(value, totals[0])
        )
        script.imply([there], formulas.TRUE, fits)
        if self._is_steady and self._rectangular:
            for premise, sums_of in self._first_rounds(values, totals):
                script.imply([there], premise, formulas.equal(before, sums_of))
        if self._is_steady:
            script.imply([there], formulas.equal(totals[0], Int(0)), formulas.equal(before, Int(0)))
            for ring in sorted(self._rings):  # As many as each iteration has, again and again.
                whole = formulas.equal(Mod(totals[0], ring), Int(0))
                script.imply([there], whole, formulas.equal(Mod(before, ring), Int(0)))
        inside = instance.site not in self._begun
        return Based(instance, full, there, before, tuple(totals), inside)

    def _first_iterations(
        self, values: Mapping[Sym, CExpr], element: Sequence[CExpr]
    ) -> Iterator[tuple[BExpr, list[Pieces]]]:
        """Yields the condition that an instance lies in the first, second, ... iteration, with the
        totals of earlier ones. iteration, and the totals of those before."""
        *around, last = self.outer
        lo = substitute(last.lo, values)
        first = [
            formulas.equal(values[loop.iterator], substitute(loop.lo, values)) for loop in around
        ]
        outer = {loop.iterator: values[loop.iterator] for loop in self.apart}
        totals: list[Pieces] = []
        for number in range(self.iterations + 1):
            at = formulas.plus(lo, number)
            yield (
                formulas.conjunction_of([*first, formulas.equal(values[last.iterator], at)]),
                list(totals),
            )
            totals.append(self.total({**outer, last.iterator: at}, element))

    def _first_rounds(
        self, values: Mapping[Sym, CExpr], totals: Sequence[CExpr]
    ) -> Iterator[tuple[BExpr, CExpr]]:
        """The same where the loop around the last one has gone on a few times."""
        *around, outside, last = self.outer
        first = [
            formulas.equal(values[loop.iterator], substitute(loop.lo, values)) for loop in around
        ]
        begun = substitute(outside.lo, values)
        for rounds in range(1, self.iterations + 1):
            round_ = formulas.equal(values[outside.iterator], formulas.plus(begun, rounds))
            for steps, total in enumerate(totals, 1):
                many = formulas.equal(self._iterations_between(last, values, rounds), Int(steps))
                yield formulas.conjunction_of([*first, round_, many]), total

    def _iterations_between(
        self, last: Loop, values: Mapping[Sym, CExpr], rounds: int, since: CExpr | None = None
    ) -> CExpr:
        """Counts the iterations of the last loop, up to that of an instance.

        The loop around it has gone on `rounds` times.  The count begins at the first iteration, or
        at `since`.
        """
        lo, hi = substitute(last.lo, values), substitute(last.hi, values)
        whole = [(rounds, hi), (-rounds, lo)]
        return linear(0, [(1, values[last.iterator]), (-1, lo if since is None else since), *whole])

    def _related(self, first: Based, second: Based) -> Iterator[tuple[BExpr, BExpr]]:
        one, other = first.instance, second.instance
        one_element = formulas.TRUE if self._uniform else same_element(one, other)
        same = formulas.conjunction_of(
            [formulas.same_allocation(self.placed, one, other, self.name), one_element]
        )
        # Of an iteration that may not be there nothing is counted.
        own = [(1, first.totals[0])] if first.inside else []
        after = linear(0, [(1, first.before), *own])
        names = [loop.iterator for loop in self.outer]
        yield (
            formulas.conjunction_of([same, formulas.agree(one, other, names)]),
            formulas.equal(first.before, second.before),
        )
        for at, name in enumerate(names):
            around = formulas.conjunction_of([same, formulas.agree(one, other, names[:at])])
            left, right = one.values[name], other.values[name]
            yield (
                formulas.conjunction_of([around, formulas.less_than(left, right)]),
                formulas.at_most(after, second.before),
            )
        around = formulas.conjunction_of([same, formulas.agree(one, other, names[:-1])])
        left, right = one.values[names[-1]], other.values[names[-1]]
        for steps, total in enumerate(first.totals, 1):
            exact = formulas.equal(linear(0, [(1, first.before), (1, total)]), second.before)
            yield (
                formulas.conjunction_of(
                    [around, formulas.equal(formulas.plus(left, steps), right)]
                ),
                exact,
            )
        if self._is_steady and self._rectangular:
            yield from self._around_the_last(first, second, same)

    def _around_the_last(
        self, first: Based, second: Based, same: BExpr
    ) -> Iterator[tuple[BExpr, BExpr]]:
        """The same where the loop around the last one goes on: as many iterations lie between as
        the last one has, as often as the other has gone on.  All have one total."""
        one, other = first.instance.values, second.instance.values
        *around, outside, last = self.outer
        here = formulas.conjunction_of(
            [same, formulas.agree(first.instance, second.instance, (a.iterator for a in around))]
        )
        name, inner = outside.iterator, last.iterator
        for rounds in range(1, self.iterations + 1):
            between = self._iterations_between(last, other, rounds, one[inner])
            round_ = formulas.equal(formulas.plus(one[name], rounds), other[name])
            for steps, sums in enumerate(first.totals, 1):
                exact = formulas.equal(linear(0, [(1, first.before), (1, sums)]), second.before)
                yield (
                    formulas.conjunction_of([here, round_, formulas.equal(between, Int(steps))]),
                    exact,
                )


def _counts(site: Site) -> bool:
    """Tests whether earlier instances count a site: an Arrive, or an Await that waits for all but
    the newest Arrives."""
    return isinstance(site.op, Arrive) or (isinstance(site.op, Await) and site.op.n < 0)
