"""Chains as expressions: from the pairs that ISL found to be ordered, which instances order them.

A chain is found backwards, from a check to the grant that it relies on, to the sync that fired,
to the grant that it fired after, down to the record: each the smallest in ISL's order, as an
expression of what is already known.  Where that takes several expressions, all are candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from exogpu.amir.nodes import Clear, Fence
from exogpu.ir.nodes import CExpr
from exogpu.ir.render import identifier
from exogpu.ir.types import Sym
from exogpu.ir.walk import substitute
from exogpu.solvers import isl, isl_functions
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.encode import witness
from exogpu.symbolic.encode.formulas import everyone
from exogpu.symbolic.search.dependences import Cleared
from exogpu.symbolic.search.discharge import Ordered
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.search.instance_model import Model
from exogpu.symbolic.search.quasi_affine import expression
from exogpu.symbolic.search.sync_relations import Syncs
from exogpu.symbolic.search.visibility import Crossing, Step
from exogpu.symbolic.sites import Site, is_decided_by_loads, reads_slot

Pair: TypeAlias = tuple[witness.Values, witness.Values]
"""A record, by its inner iterators and its thread, where that is a coordinate; and what follows."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Values for a record and a check that meet: iterators that are dimensions of the frame,
    threads where each has its own, and the element."""

    record: witness.Values
    record_thread: CExpr | None
    """None where one record stands for all its threads."""
    check: witness.Values
    check_thread: CExpr | None
    """None where one thread of the check is enough."""
    element: witness.Values


class Finder:
    """The chains within one frame."""

    def __init__(
        self, syncs: Syncs, outer: Mapping[Sym, CExpr], least: isl_functions.Least
    ) -> None:
        self.syncs = syncs
        self.frame: Frame = syncs.frame
        self.outer = outer
        """Values of the frame's own iterators."""
        self._params = parameters(self.frame, outer)
        self._least = least

    def instance(self, site: Site, inner: witness.Values) -> witness.At:
        """The instance with these values of the frame's inner iterators."""
        around = tuple(self.outer[loop.iterator] for loop in self.frame.loops)
        return witness.At(site.number, (*around, *inner[: len(site.loops) - self.frame.depth]))

    def values(self, found: isl_functions.Function, inputs: witness.Values) -> list[witness.Values]:
        """The candidates for the value of a function."""
        return [
            tuple(expression(one, inputs, self._params) for one in choice)
            for choice in self._least.choices(found)
        ]

    def middle(self, left: isl.Map, right: isl.Map, pairs: isl.Map) -> isl_functions.Between:
        """For the pairs `a -> b`, what is reached from `a` by `left` and from `b` by `right`."""
        return isl_functions.least_between(left, right, pairs, self._least)

    def middles(
        self, site: Site, left: isl.Map, right: isl.Map, pairs: isl.Map
    ) -> tuple[isl_functions.Between, ...]:
        """The same as candidates for instances of a site: where a value from memory decides whether
        it is executed, it may be in the iteration of `a` or in that of `b`."""
        if not is_decided_by_loads(site):
            return (self.middle(left, right, pairs),)
        return isl_functions.either_between(left, right, pairs, self._least)

    def candidates_between(
        self, found: isl_functions.Between, first: witness.Values, second: witness.Values
    ) -> list[witness.Values]:
        """The candidates for an instance between two."""
        return self.values(found.function, found.inputs(first, second))

    # --- chains ---------------------------------------------------------------------------

    def seen_candidates(self, how: Ordered, ends: Ends) -> list[witness.Seen]:
        """The candidates for what orders these pairs."""
        record, check = ends.record, ends.check
        inputs = record
        if how.records.with_members:
            assert ends.record_thread is not None
            inputs = (*record, ends.record_thread)
        if how.granted is None:
            return [
                witness.Seen(None, self.common_threads(how.records.site, how.check, record, check))
            ]
        last = check
        if how.by_thread:
            assert ends.check_thread is not None
            last = (*check, ends.check_thread)
        found: list[witness.Seen] = []
        trail = Trail(self, how.records.site, how.records.each)
        for chosen in self.middles(how.granted, how.found, isl.inverse(how.reached), how.pairs):
            at = [(inputs, one) for one in self.candidates_between(chosen, inputs, last)]
            ways = trail.ways(how.granted, how.label, how.steps, chosen.left, at)
            found += (
                witness.Seen(
                    witness.Granted(self.instance(how.granted, one), how.label, tuple(way)),
                    self.common_threads(how.granted, how.check, one, check),
                )
                for (_, one), way in zip(at, ways, strict=True)
            )
        return found

    def clear_candidates(self, how: Cleared, ends: Ends) -> list[witness.Gone]:
        """The candidates for a Clear between these."""
        assert isinstance(how.clear.op, Clear)
        cells = self.frame.cells(how.clear, how.clear.op.access)
        inner = isl_functions.joined(isl.inverse(how.until), isl.inverse(cells))
        if reads_slot(how.clear):
            # The Clear of the check's own slot: where the record was does not matter.
            function = isl_functions.largest(inner)
            inputs = (*ends.check, *ends.element)
            return [
                witness.Gone(self.instance(how.clear, one)) for one in self.values(function, inputs)
            ]
        relation = isl_functions.joined(how.after, inner)
        function = isl_functions.smallest(isl_functions.among(relation, how.met))
        inputs = (*ends.record, *ends.check, *ends.element)
        return [
            witness.Gone(self.instance(how.clear, one)) for one in self.values(function, inputs)
        ]

    def dimension_values(self, site: Site, values: Mapping[Sym, CExpr]) -> witness.Values:
        """The values of the iterators that are dimensions of the frame's relations."""
        return tuple(values[name] for name in site.iterators[self.frame.depth :])

    def common_threads(
        self, first: Site, second: Site, one: witness.Values, other: witness.Values
    ) -> witness.Values:
        """Candidates for a thread that executes both; none at CPU scope."""
        if everyone(first) or everyone(second):
            return ()
        depth = self.frame.depth
        left = dict(zip(first.iterators[depth:], one, strict=True))
        right = dict(zip(second.iterators[depth:], other, strict=True))
        read, also_read, found = self.frame.sharing.joint(first, second)
        inputs = (*(left[name] for name in read), *(right[name] for name in also_read))
        return tuple(expression(choice[0], inputs, self._params) for choice in found)


def parameters(frame: Frame, outer: Mapping[Sym, CExpr]) -> dict[str, CExpr]:
    """Maps each parameter of a frame's relations to its expression."""
    sizes = sizes_of(frame.model)
    params: dict[str, CExpr] = {identifier(size): value for size, value in sizes.items()}
    params |= {
        identifier(name): substitute(expr, sizes)
        for expr, name in frame.model.definitions.names.items()
    }
    params |= {identifier(loop.iterator): outer[loop.iterator] for loop in frame.loops}
    return params


def sizes_of(model: Model) -> dict[Sym, CExpr]:
    """Maps each size to the variable that a witness calls it."""
    return {size: witness.witness_integer(model.called[size]) for size in model.sizes}


@dataclass(frozen=True, slots=True, eq=False)
class Trail:
    """The way back from grants to records of one site."""

    finder: Finder
    site: Site
    each: bool

    def ways(
        self,
        granted: Site,
        label: witness.Label,
        steps: Sequence[Step],
        needed: isl.Map,
        at: Sequence[Pair],
    ) -> list[list[witness.Passed]]:
        """For each record and instance, the candidates for how it came to be granted; `needed` are
        the pairs `record -> granted` that matter, whichever of these they are."""
        found: list[list[witness.Passed]] = [[] for _ in at]
        for number, step in enumerate(steps):
            if step.granted is not granted or step.label != label:
                continue
            here = isl.intersect_map(needed, step.pairs)
            if isl.is_empty(here):
                continue
            here = rel.coalesce(here)
            needed = isl.subtract_map(needed, step.pairs)
            if step.crossing is not None:
                self._crossed(step, step.crossing, steps[:number], here, at, found)
            elif step.before is None:
                self._first_sync(step, here, at, found)
            else:
                self._later_sync(step, step.before, steps[:number], here, at, found)
            if isl.is_empty(needed):
                break
        return found

    def _first_sync(
        self, step: Step, here: isl.Map, at: Sequence[Pair], found: list[list[witness.Passed]]
    ) -> None:
        """A sync that fires for the record's own threads."""
        finder, via = self.finder, step.via
        chosen: isl_functions.Between | None = None
        if via is not self.site and not isinstance(via.op, Fence):
            edge = isl.inverse(finder.syncs.edge(via, step.granted))
            chosen = finder.middle(step.base, edge, here)
        for (record, one), ways in zip(at, found, strict=True):
            if via is self.site:
                ways.append(witness.Passed(finder.instance(via, record), (), None))
                continue
            fired = [one]
            if chosen is not None:
                fired = finder.candidates_between(chosen, record, one)
            for inner in fired:
                own: witness.Values = ()
                if not self.each:
                    own = finder.common_threads(self.site, via, record, inner)
                ways.append(witness.Passed(finder.instance(via, inner), own, None))

    def _later_sync(
        self,
        step: Step,
        before: Site,
        earlier: Sequence[Step],
        here: isl.Map,
        at: Sequence[Pair],
        found: list[list[witness.Passed]],
    ) -> None:
        """A sync that fires after another has granted."""
        finder, via = self.finder, step.via
        hop = isl.inverse(finder.syncs.hop(before, via, step.granted))
        shared = finder.frame.pairs_sharing_thread(before, via)
        for last in finder.middles(before, step.base, hop, here):
            fires: isl_functions.Between | None = None
            if not isinstance(via.op, Fence):
                edge = isl.inverse(finder.syncs.edge(via, step.granted))
                fires = finder.middle(shared, edge, isl.inverse(last.right))
            starts = [
                [(record, start) for start in finder.candidates_between(last, record, one)]
                for record, one in at
            ]
            flat = [start for several in starts for start in several]
            ways = iter(self.ways(before, step.before_label, earlier, last.left, flat))
            for (_, one), several, into in zip(at, starts, found, strict=True):
                for _, start in several:
                    granted = witness.Granted(
                        finder.instance(before, start), step.before_label, tuple(next(ways))
                    )
                    fired = [one]
                    if fires is not None:
                        fired = finder.candidates_between(fires, start, one)
                    for inner in fired:
                        threads = finder.common_threads(before, via, start, inner)
                        into.append(witness.Passed(finder.instance(via, inner), threads, granted))

    def _crossed(
        self,
        step: Step,
        crossing: Crossing,
        earlier: Sequence[Step],
        here: isl.Map,
        at: Sequence[Pair],
        found: list[list[witness.Passed]],
    ) -> None:
        """A sync that fires by a thread that another sync has shown the record across the proxy."""
        finder, via = self.finder, step.via
        led = isl.inverse(finder.frame.with_thread(via))
        if not isinstance(via.op, Fence):
            led = isl.compose(led, finder.syncs.edge(via, step.granted))
        relation = isl_functions.joined(crossing.threads, isl.inverse(led))
        fires = isl_functions.smallest(isl_functions.among(relation, here))
        needed = isl_functions.first_of(isl_functions.graph(fires))
        for (record, one), ways in zip(at, found, strict=True):
            for *inner, thread in finder.values(fires, (*record, *one)):
                fired = finder.instance(via, tuple(inner))
                key = (record, (*inner, thread))
                shown = self._seen_by(
                    crossing.site, crossing.label, crossing.base, via, needed, key, earlier
                )
                if step.before is None:
                    ways += [witness.Passed(fired, (thread,), None, other) for other in shown]
                    continue
                for before in self._seen_by(
                    step.before, step.before_label, step.base, via, needed, key, earlier
                ):
                    ways += [witness.Passed(fired, (thread,), before, other) for other in shown]

    def _seen_by(
        self,
        site: Site,
        label: witness.Label,
        base: isl.Map,
        via: Site,
        threads: isl.Map,
        key: Pair,
        earlier: Sequence[Step],
    ) -> list[witness.Granted]:
        """The candidates for an instance of a granting sync that a thread of `via` has executed;
        `threads` are the pairs `record -> via[.., t]` that matter, `key` is one."""
        finder = self.finder
        heard = finder.frame.thread_after(site, via)
        relation = isl_functions.joined(base, isl.inverse(heard))
        last = isl_functions.smallest(isl_functions.among(relation, threads))
        record, fired = key
        starts = [(record, start) for start in finder.values(last, (*record, *fired))]
        needed = isl_functions.first_of(isl_functions.graph(last))
        ways = self.ways(site, label, earlier, needed, starts)
        return [
            witness.Granted(finder.instance(site, start), label, tuple(way))
            for (_, start), way in zip(starts, ways, strict=True)
        ]
