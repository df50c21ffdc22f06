"""The witness of a program: what ISL found, as the data that its obligations are made from.

A chain is found backwards, from a check to the grant that it relies on, to the sync that fired,
to the grant that it fired after, down to the record (`chains`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from exogpu.amir.nodes import Await, Check, CheckInitialised, Loop, Record
from exogpu.amir.walk import path_to
from exogpu.ir.expression_json import Json, condition_json, control_json
from exogpu.ir.nodes import CExpr, CVar
from exogpu.ir.render import identifier
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, substitute
from exogpu.solvers import isl, isl_functions, smt
from exogpu.symbolic.encode import witness as encode_witness
from exogpu.symbolic.encode.access_obligations import each_for_itself
from exogpu.symbolic.encode.count_lemmas import lemmas_on
from exogpu.symbolic.encode.encoder import Encoder
from exogpu.symbolic.encode.pieces import Pieces, pieces_at
from exogpu.symbolic.search.analysis import Evidence, frame_of
from exogpu.symbolic.search.barrier_balance import uses_of
from exogpu.symbolic.search.chain_expressions import Ends, Finder, parameters, sizes_of
from exogpu.symbolic.search.count_comparisons import Counting, Partners
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.search.instance_model import Model
from exogpu.symbolic.search.inversion import ELEMENT
from exogpu.symbolic.search.phase_orders import Ordering
from exogpu.symbolic.search.quasi_affine import pieces_of
from exogpu.symbolic.sites import Site, UndecidedError, counted_on

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
        self._finders: dict[tuple[Frame, encode_witness.Values], Finder] = {}
        self._countings: dict[Sym, Counting] = {}
        self._orderings: dict[Sym, Ordering] = {}
        self._totals: dict[str, Pieces | None] = {}
        self._counts: dict[tuple[int, bool], Pieces] = {}
        self._names: dict[tuple[tuple[Sym, ...], str], Mapping[Sym, CExpr]] = {}
        self._chains: dict[tuple[int, int], tuple[encode_witness.Chain, ...]] = {}
        self._written: dict[int, tuple[encode_witness.At, ...]] = {}
        self._near: dict[
            tuple[encode_witness.Aim, tuple[int, ...]], tuple[encode_witness.At, ...]
        ] = {}
        self._phased: dict[tuple[encode_witness.Order, int], tuple[encode_witness.After, ...]] = {}

    def witness(self) -> encode_witness.Witness:
        """All that was asked for."""
        return encode_witness.Witness(
            self._admitted(),
            {
                name: encode_witness.Nest(self.separate_loops(name), self.depth(name), total)
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

    def in_witness(self, values: Iterable[CExpr]) -> encode_witness.Values:
        """Expressions with what stands for the sizes."""
        return tuple(substitute(value, self._sizes) for value in values)

    def _counting_of(self, name: Sym) -> Counting:
        if name not in self._countings:
            frame = frame_of(self.model, name)
            assert frame is not None
            uses = uses_of(self.evidence.syncs(frame), name)
            self._countings[name] = Counting(self.model, uses)
        return self._countings[name]

    # --- pairs ----------------------------------------------------------------------------

    def chains(self, record: int, check: int) -> tuple[encode_witness.Chain, ...]:
        """In `first.`, `second.` and `element.`: candidates for what orders the two."""
        key = (record, check)
        return _compute_once(self._chains, key, lambda: tuple(self._chained(record, check)))

    def _chained(self, record: int, check: int) -> Iterator[encode_witness.Chain]:
        first, second = self.model.sites[record], self.model.sites[check]
        assert isinstance(first.op, Record) and isinstance(second.op, Check)
        one, other = self._names_of(first, "first"), self._names_of(second, "second")
        by_record, by_check = each_for_itself(first, second)
        element = encode_witness.element_names(
            len(self.model.variables[first.op.access.name].shape)
        )
        for found in self.evidence.discharged.get((record, check), ()):
            finder = self.finder(found.dependence.frame, other)
            ends = Ends(
                finder.dimension_values(first, one),
                encode_witness.witness_integer(f"first.{encode_witness.THREAD}")
                if by_record
                else None,
                finder.dimension_values(second, other),
                encode_witness.witness_integer(f"second.{encode_witness.THREAD}")
                if by_check
                else None,
                element,
            )
            for how in found.ordered:
                yield from finder.seen_candidates(how, ends)
            for cleared in found.cleared:
                yield from finder.clear_candidates(cleared, ends)

    def _names_of(self, site: Site, prefix: str) -> Mapping[Sym, CExpr]:
        key = (site.iterators, prefix)
        return _compute_once(
            self._names, key, lambda: encode_witness.names_of(site, prefix, self.model.called)
        )

    # --- initialised memory ---------------------------------------------------------------

    def writes(self, read: int) -> tuple[encode_witness.At, ...]:
        """In `here.` and `element.`: candidates for what has written an element that is read."""
        return _compute_once(self._written, read, lambda: tuple(self._writes(read)))

    def _writes(self, read: int) -> Iterator[encode_witness.At]:
        site = self.model.sites[read]
        assert isinstance(site.op, CheckInitialised)
        element = encode_witness.element_names(len(self.model.variables[site.op.access.name].shape))
        own = {**self._names_of(site, "here"), **dict(zip(ELEMENT, element, strict=False))}
        reached = self.evidence.reached.get(read)
        if reached is None:
            return
        for one in reached.written:
            if one.by is None:
                at = tuple(substitute(value, own) for value in one.at)
                yield encode_witness.At(one.write.number, at)
                continue
            finder = self.finder(reached.frame, own)
            inputs = (*finder.dimension_values(site, own), *element)
            for values in finder.values(isl_functions.largest(one.by), inputs):
                yield finder.instance(one.write, values)

    # --- counts ---------------------------------------------------------------------------

    def separate_loops(self, barrier: str) -> int:
        """Returns the number of outer loops whose iterations are counted apart; 0 outside nests."""
        self._totals.setdefault(barrier, None)
        return len(self._counting_of(self._barriers[barrier]).apart)

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
        counting = self._counting_of(counted_on(site).name)
        frame = counting.counts.frame
        own = encode_witness.names_of(site, "here", self.model.called)
        inputs = tuple(own[name] for name in site.iterators[frame.depth :])
        pieces = isl_functions.pieces(counting.count(site, arrivals=arrivals))
        return pieces_of(pieces, inputs, parameters(frame, own))

    def total(self, barrier: str) -> Pieces:
        """In `outer.` and `element.`: how many an iteration of the loops set apart has."""
        known = self._totals.get(barrier)
        if known is not None:
            return known
        counting = self._counting_of(self._barriers[barrier])
        frame = counting.counts.frame
        outer = encode_witness.names_of(counting.uses.arrives[0], "outer", self.model.called)
        element = encode_witness.element_names(len(self.model.variables[counting.name].shape))
        pieces = isl_functions.pieces(counting.totals())
        total = pieces_of(pieces, element, parameters(frame, outer))
        self._totals[barrier] = total
        return total

    # --- partners -------------------------------------------------------------------------

    def partners(self, aim: encode_witness.Aim, *sites: int) -> tuple[encode_witness.At, ...]:
        """In `here.` and, of a second site, `other.`; of the last in `outer.` and `element.`."""
        return _compute_once(self._near, (aim, sites), lambda: tuple(self._partners(aim, sites)))

    def _partners(
        self, aim: encode_witness.Aim, sites: tuple[int, ...]
    ) -> Iterator[encode_witness.At]:
        first, *rest = (self.model.sites[number] for number in sites)
        counting = self._counting_of(counted_on(first).name)
        found = Partners(self, counting.uses, counting)
        if aim == "enough":
            return found.sufficient_arrivals(first, rest[0])
        of: dict[encode_witness.Aim, Callable[[Site], Iterator[encode_witness.At]]] = {
            "previous": found.previous,
            "last": found.last_on_element,
            "awaited": found.awaits,
            "arrived": found.arrives,
            "trailed": found.trailed,
            "signals": found.signals,
        }
        return of[aim](first)

    def ordered(self, order: encode_witness.Order, site: int) -> tuple[encode_witness.After, ...]:
        """In `here.` and, of an arrival, `element.`: candidates for what PHASE asks for."""
        return _compute_once(self._phased, (order, site), lambda: tuple(self._ordered(order, site)))

    def _ordered(self, order: encode_witness.Order, number: int) -> Iterator[encode_witness.After]:
        site = self.model.sites[number]
        name = counted_on(site).name
        if name not in self._orderings:
            orders = self.evidence.orders[name]
            assert orders.depth is not None
            self._orderings[name] = Ordering(self, orders, orders.depth)
        found = self._orderings[name]
        of: dict[encode_witness.Order, Callable[[Site], Iterator[encode_witness.After]]] = {
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


# Counts the arrivals that each Await of a flag waits for, for code generation (decision `flags`).


def flag_waits(model: Model, seeker: Seeker) -> tuple[str, ...]:
    """By Await of a flag, in the order of the text: the number that the lemma COUNT is about, as
    `exogpu.diagnostics.verdict.Proof.waits` has it; empty where it is counted by iterations of a
    nest. An iterator is told by the number of loops around its own, loads included."""
    return tuple(
        _waited(model, seeker, site)
        for site in model.sites
        if isinstance(site.op, Await) and model.variables[site.op.barrier.name].counts_all
    )


def _waited(model: Model, seeker: Seeker, site: Site) -> str:
    assert isinstance(site.op, Await)
    name = site.op.barrier.name
    try:
        if seeker.separate_loops(model.called[name]):
            return ""
        told = model.is_numbered(name) or _is_counted(model, seeker, name, site)
        return _count(model, seeker, site) if told else ""
    except UndecidedError:
        return ""


def _is_counted(model: Model, seeker: Seeker, name: Sym, site: Site) -> bool:
    """Returns whether a solver confirms which arrival an Await waits for, on a flag whose
    arrivals the proof does not count."""
    lemmas = lemmas_on(Encoder(model, seeker), name)
    drafts = (draft for draft in lemmas if draft.second is site or not _waits(draft.second))
    return all(smt.ask_z3(draft.script).word == "unsat" for draft in drafts)


def _waits(site: Site | None) -> bool:
    return site is not None and isinstance(site.op, Await)


def _count(model: Model, seeker: Seeker, site: Site) -> str:
    names: dict[Sym, CExpr] = {
        encode_witness.witness_integer(model.called[size]).name: CVar(size) for size in model.sizes
    }
    own = encode_witness.names_of(site, "here", model.called)
    # A site has its loads last, and only those that tell something; the text has all in its order.
    around = [op.iterator for _, op in path_to(model.program.body, site.op) if isinstance(op, Loop)]
    elsewhere = {*site.iterators} - {*around}
    for iterator in site.iterators:
        at = iterator if iterator in elsewhere else Sym(f"@{around.index(iterator)}")
        names[own[iterator].name] = CVar(at)
    pieces = pieces_at(seeker.count(site.number, arrivals=True), names)
    read = (control_variables(where) | control_variables(value) for where, value in pieces)
    if any(elsewhere & some for some in read):
        return ""  # what is loaded elsewhere has no name at the Await
    listed: list[Json] = [[condition_json(where), control_json(value)] for where, value in pieces]
    return json.dumps(listed)
