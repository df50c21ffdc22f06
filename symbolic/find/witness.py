"""The witness of a program: what ISL found, as the data that its obligations are made from.

A chain is found backwards, from a check to the grant that it relies on, to the sync that fired,
to the grant that it fired after, down to the record (`chains`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from exogpu.amir.nodes import Check, CheckInitialised, Record
from exogpu.ir.isltext import identifier
from exogpu.ir.names import Sym
from exogpu.ir.nodes import CExpr
from exogpu.ir.walk import substitute
from exogpu.solvers import isl, isl_functions
from exogpu.symbolic.encode.expressions import Pieces
from exogpu.symbolic.encode.pairs import each_for_itself
from exogpu.symbolic.encode.witness import (
    THREAD,
    After,
    Aim,
    At,
    Chain,
    Nest,
    Order,
    Values,
    Witness,
    element_names,
    named,
    names_of,
)
from exogpu.symbolic.find.barriers import uses_of
from exogpu.symbolic.find.chains import Ends, Finder, parameters, sizes_of
from exogpu.symbolic.find.counting import Counting
from exogpu.symbolic.find.expressions import pieces_of
from exogpu.symbolic.find.frames import Frame
from exogpu.symbolic.find.inversion import ELEMENT
from exogpu.symbolic.find.orders import Ordering
from exogpu.symbolic.find.partners import Partners
from exogpu.symbolic.find.prover import Evidence, frame_of
from exogpu.symbolic.sites import Site, counted_on

Key = TypeVar("Key")
Found = TypeVar("Found")


class Seeker:
    """Answers what the encoder asks for (`encode.witness.Sought`) with ISL, and remembers it.

    Raises UndecidedError where a count is no expression.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.model = evidence.model
        self._sizes = sizes_of(self.model)
        self._barriers = {
            self.model.called[v.name]: v.name
            for v in self.model.program.variables
            if v.mechanism is not None
        }
        self._least = isl_functions.Least()
        self._finders: dict[tuple[Frame, Values], Finder] = {}
        self._countings: dict[Sym, Counting] = {}
        self._orderings: dict[Sym, Ordering] = {}
        self._totals: dict[str, Pieces | None] = {}
        self._counts: dict[tuple[int, bool], Pieces] = {}
        self._names: dict[tuple[tuple[Sym, ...], str], Mapping[Sym, CExpr]] = {}
        self._chains: dict[tuple[int, int], tuple[Chain, ...]] = {}
        self._written: dict[int, tuple[At, ...]] = {}
        self._near: dict[tuple[Aim, tuple[int, ...]], tuple[At, ...]] = {}
        self._phased: dict[tuple[Order, int], tuple[After, ...]] = {}

    def witness(self) -> Witness:
        """All that was asked for."""
        return Witness(
            self._admitted(),
            {
                name: Nest(self.apart(name), self.depth(name), total)
                for name, total in self._totals.items()
            },
            self._counts,
            _present(self._chains),
            _present(self._written),
            _present(self._near),
            _present(self._phased),
        )

    def _admitted(self) -> dict[str, int]:
        """Sizes that satisfy the preconditions; none where there are none."""
        found = isl.smallest(self.model.exact_context) or {}
        called = self.model.called
        return {called[name]: found[identifier(name)] for name in self.model.sizes if found}

    # --- what is common -------------------------------------------------------------------

    def finder(self, frame: Frame, own: Mapping[Sym, CExpr]) -> Finder:
        """The chains of a frame, whose own iterators have these values."""
        outer = {loop.iterator: own[loop.iterator] for loop in frame.loops}
        key = (frame, tuple(outer.values()))
        if key not in self._finders:
            self._finders[key] = Finder(self.evidence.syncs(frame), outer, self._least)
        return self._finders[key]

    def in_witness(self, values: Iterable[CExpr]) -> Values:
        """Expressions with what stands for the sizes."""
        return tuple(substitute(value, self._sizes) for value in values)

    def _counting(self, name: Sym) -> Counting:
        if name not in self._countings:
            frame = frame_of(self.model, name)
            assert frame is not None
            uses = uses_of(self.evidence.syncs(frame), name)
            self._countings[name] = Counting(self.model, uses)
        return self._countings[name]

    # --- pairs ----------------------------------------------------------------------------

    def chains(self, record: int, check: int) -> tuple[Chain, ...]:
        """In `first.`, `second.` and `element.`: candidates for what orders the two."""
        key = (record, check)
        return _compute_once(self._chains, key, lambda: tuple(self._chained(record, check)))

    def _chained(self, record: int, check: int) -> Iterator[Chain]:
        first, second = self.model.sites[record], self.model.sites[check]
        assert isinstance(first.op, Record) and isinstance(second.op, Check)
        one, other = self._names_of(first, "first"), self._names_of(second, "second")
        by_record, by_check = each_for_itself(first, second)
        element = element_names(len(self.model.variables[first.op.access.name].shape))
        for found in self.evidence.discharged.get((record, check), ()):
            finder = self.finder(found.dependence.frame, other)
            ends = Ends(
                finder.inner(first, one),
                named(f"first.{THREAD}") if by_record else None,
                finder.inner(second, other),
                named(f"second.{THREAD}") if by_check else None,
                element,
            )
            for how in found.ordered:
                yield from finder.seen(how, ends)
            for cleared in found.cleared:
                yield from finder.gone(cleared, ends)

    def _names_of(self, site: Site, prefix: str) -> Mapping[Sym, CExpr]:
        key = (site.iterators, prefix)
        return _compute_once(self._names, key, lambda: names_of(site, prefix, self.model.called))

    # --- initialised memory ---------------------------------------------------------------

    def writes(self, read: int) -> tuple[At, ...]:
        """In `here.` and `element.`: candidates for what has written an element that is read."""
        return _compute_once(self._written, read, lambda: tuple(self._writes(read)))

    def _writes(self, read: int) -> Iterator[At]:
        site = self.model.sites[read]
        assert isinstance(site.op, CheckInitialised)
        element = element_names(len(self.model.variables[site.op.access.name].shape))
        own = {**self._names_of(site, "here"), **dict(zip(ELEMENT, element, strict=False))}
        reached = self.evidence.reached.get(read)
        if reached is None:
            return
        for one in reached.written:
            if one.by is None:
                at = tuple(substitute(value, own) for value in one.at)
                yield At(one.write.number, at)
                continue
            finder = self.finder(reached.frame, own)
            inputs = (*finder.inner(site, own), *element)
            for values in finder.values(isl_functions.largest(one.by), inputs):
                yield finder.instance(one.write, values)

    # --- counts ---------------------------------------------------------------------------

    def apart(self, barrier: str) -> int:
        """Returns the number of outer loops whose iterations are counted apart; 0 outside nests."""
        self._totals.setdefault(barrier, None)
        return len(self._counting(self._barriers[barrier]).apart)

    def depth(self, barrier: str) -> int | None:
        """The depth of an mbarrier's ring, where the program has none."""
        name = self._barriers[barrier]
        if self.model.variables[name].depth is not None or name not in self.evidence.orders:
            return None
        return self.evidence.orders[name].depth

    def count(self, site: int, *, arrivals: bool) -> Pieces:
        """In `here.`: how many Arrives, or Awaits, come before an instance on its element."""
        return _compute_once(self._counts, (site, arrivals), lambda: self._count(site, arrivals))

    def _count(self, number: int, arrivals: bool) -> Pieces:
        site = self.model.sites[number]
        counting = self._counting(counted_on(site).name)
        frame = counting.counts.frame
        own = names_of(site, "here", self.model.called)
        inputs = tuple(own[name] for name in site.iterators[frame.depth :])
        pieces = isl_functions.pieces(counting.count(site, arrivals=arrivals))
        return pieces_of(pieces, inputs, parameters(frame, own))

    def total(self, barrier: str) -> Pieces:
        """In `outer.` and `element.`: how many an iteration of the loops set apart has."""
        known = self._totals.get(barrier)
        if known is not None:
            return known
        counting = self._counting(self._barriers[barrier])
        frame = counting.counts.frame
        outer = names_of(counting.uses.arrives[0], "outer", self.model.called)
        element = element_names(len(self.model.variables[counting.name].shape))
        pieces = isl_functions.pieces(counting.totals())
        total = pieces_of(pieces, element, parameters(frame, outer))
        self._totals[barrier] = total
        return total

    # --- partners -------------------------------------------------------------------------

    def partners(self, aim: Aim, *sites: int) -> tuple[At, ...]:
        """In `here.` and, of a second site, `other.`; of the last in `outer.` and `element.`."""
        return _compute_once(self._near, (aim, sites), lambda: tuple(self._partners(aim, sites)))

    def _partners(self, aim: Aim, sites: tuple[int, ...]) -> Iterator[At]:
        first, *rest = (self.model.sites[number] for number in sites)
        counting = self._counting(counted_on(first).name)
        found = Partners(self, counting.uses, counting)
        if aim == "enough":
            return found.enough(first, rest[0])
        of: dict[Aim, Callable[[Site], Iterator[At]]] = {
            "previous": found.previous,
            "last": found.last,
            "awaited": found.awaited,
            "arrived": found.arrived,
            "trailed": found.trailed,
            "signals": found.signals,
        }
        return of[aim](first)

    def ordered(self, order: Order, site: int) -> tuple[After, ...]:
        """In `here.` and, of an arrival, `element.`: candidates for what PHASE asks for."""
        return _compute_once(self._phased, (order, site), lambda: tuple(self._ordered(order, site)))

    def _ordered(self, order: Order, number: int) -> Iterator[After]:
        site = self.model.sites[number]
        name = counted_on(site).name
        if name not in self._orderings:
            orders = self.evidence.orders[name]
            assert orders.depth is not None
            self._orderings[name] = Ordering(self, orders, orders.depth)
        found = self._orderings[name]
        of: dict[Order, Callable[[Site], Iterator[After]]] = {
            "not_early": found.not_early,
            "not_ahead": found.not_ahead,
            "followed": found.followed,
        }
        return of[order](site)


def _compute_once(known: dict[Key, Found], key: Key, find: Callable[[], Found]) -> Found:
    if key not in known:
        known[key] = find()
    return known[key]


def _present(found: Mapping[Key, tuple[Found, ...]]) -> dict[Key, tuple[Found, ...]]:
    return {key: several for key, several in found.items() if several}
