"""Obligations for people: names, the two statements, and the chains in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from exogpu.amir.nodes import Arrive, Await, Clear, Fence, Record
from exogpu.amir.walk import access_name, short_names, synchronises
from exogpu.diagnostics.hazards import Occurrence
from exogpu.diagnostics.verdict import Link, Obligation, Role
from exogpu.ir.nodes import CExpr, CVar
from exogpu.ir.render import show
from exogpu.ir.types import Sym
from exogpu.ir.walk import substitute
from exogpu.symbolic.encode import witness as encode_witness
from exogpu.symbolic.encode.encoder import Draft
from exogpu.symbolic.encode.pieces import linear
from exogpu.symbolic.model import Placed
from exogpu.symbolic.sites import Site

MOST: Final = 8
"""Chains of one obligation that are told."""

Chain = tuple[Link, ...]


def named_obligations(placed: Placed, drafts: Iterable[Draft]) -> tuple[Obligation, ...]:
    """Obligations, each with a name of its own."""
    made = [*map(Telling(placed).obligation, drafts)]
    names = names_apart(one.name for one in made)
    return tuple(replace(one, name=name) for one, name in zip(made, names, strict=True))


def names_apart(names: Iterable[str]) -> Iterator[str]:
    """Such as `raw-tile-19-24`, and `raw-tile-19-24-2` for a second one."""
    given: set[str] = set()
    for plain in names:
        name, count = plain, 1
        while name in given:
            count += 1
            name = f"{plain}-{count}"
        given.add(name)
        yield name


class Telling:
    """Makes obligations of drafts; two that are alike have one name."""

    def __init__(self, placed: Placed) -> None:
        self._placed = placed
        self._statements: dict[Site, Occurrence] = {}
        self._ends: dict[tuple[Site, str], Link] = {}
        self._names: dict[tuple[tuple[Sym, ...], str], Mapping[Sym, CExpr]] = {}
        self._words: dict[tuple[tuple[Sym, ...], tuple[Sym, ...]], _Words] = {}
        self._sizes = {
            encode_witness.witness_integer(placed.called[size.name]).name: _reader(size.name.name)
            for size in placed.program.params
        }

    def obligation(self, draft: Draft) -> Obligation:
        """A draft as an obligation."""
        return Obligation(
            self._name(draft),
            draft.kind,
            "" if draft.variable is None else draft.variable.name,
            self._statement(draft.first),
            self._statement(draft.second),
            draft.claim,
            tuple(self._chains(draft)),
            draft.script,
        )

    def _name(self, draft: Draft) -> str:
        lines = [site.op.origin.span.line for site in (draft.first, draft.second) if site]
        about = [] if draft.variable is None else [self._placed.called[draft.variable]]
        parts = [draft.kind.value, *about, *map(str, lines)]
        return re.sub(r"[^A-Za-z0-9_-]+", "_", "-".join(parts)).lower()

    def _statement(self, site: Site | None) -> Occurrence | None:
        if site is None:
            return None
        if site not in self._statements:
            op, origin, variables = site.op, site.op.origin, self._placed.program.variables
            is_access = isinstance(op, Record) and not synchronises(op, variables)
            self._statements[site] = Occurrence(
                origin.span,
                origin.text,
                short_names(op) if is_access else "",
                _threads(site, {}),
                access=access_name(op, variables),
                ends=origin.ends,
            )
        return self._statements[site]

    def _chains(self, draft: Draft) -> Iterator[Chain]:
        if draft.first is None or draft.second is None:
            return
        words = self._interval_text(draft.first, draft.second)
        ends = self._end(words, draft.first, "first"), self._end(words, draft.second, "second")
        told: dict[tuple[object, ...], Chain] = {}
        for found in draft.chains:
            for chain in islice(words.chains(found, *ends), MOST):
                told.setdefault(tuple((link.role, link.span) for link in chain), chain)
        yield from islice(told.values(), MOST)

    def _interval_text(self, first: Site, second: Site) -> _Words:
        """The words for what lies between two accesses: `k` of the first, `k'` of the second."""
        key = (first.iterators, second.iterators)
        if key not in self._words:
            mine, others = (
                self._values_of(first, "first", ""),
                self._values_of(second, "second", "'"),
            )
            self._words[key] = _Words(self._placed.sites, {**self._sizes, **mine, **others})
        return self._words[key]

    def _values_of(self, site: Site, prefix: str, mark: str) -> Mapping[Sym, CExpr]:
        """Maps a witness's names for the iterators and the thread of one of the two to their
        values."""
        key = (site.iterators, prefix)
        if key not in self._names:
            own = encode_witness.names_of(site, prefix, self._placed.called)
            names = {value.name: _reader(name.name + mark) for name, value in own.items()}
            names[encode_witness.witness_integer(f"{prefix}.{encode_witness.THREAD}").name] = (
                _reader(f"{prefix}.thread")
            )
            self._names[key] = names
        return self._names[key]

    def _end(self, words: _Words, site: Site, prefix: str) -> Link:
        """One of the two accesses."""
        if (site, prefix) not in self._ends:
            own = encode_witness.names_of(site, prefix, self._placed.called)
            self._ends[site, prefix] = words.link(
                "access", encode_witness.At(site.number, tuple(own.values()))
            )
        return self._ends[site, prefix]


def _reader(name: str) -> CExpr:
    return CVar(Sym(name))


class _Words:
    """The instances of a chain as a reader names them: `k` of the first, `k'` of the second."""

    def __init__(self, sites: Sequence[Site], names: Mapping[Sym, CExpr]) -> None:
        self.sites = sites
        self.names = names
        self._links: dict[tuple[Role, encode_witness.At], Link] = {}

    def chains(
        self, witness: encode_witness.Seen | encode_witness.Gone, record: Link, check: Link
    ) -> Iterator[Chain]:
        """The chains of a witness, from the record to the check."""
        if isinstance(witness, encode_witness.Gone):
            yield (record, self.link("clear", witness.clear), check)
        elif witness.granted is None:
            yield (record, check)
        else:
            for chain in self._to(witness.granted):
                yield (record, *chain, check)

    def _to(self, granted: encode_witness.Granted) -> Iterator[Chain]:
        """The links from the record to a grant."""
        last = self.link(_role(self.sites[granted.at.site]), granted.at)
        for way in granted.ways:
            for chain in self._chains_through(way):
                if chain and chain[-1].role == "fence" and chain[-1].span == last.span:
                    chain = chain[:-1]
                yield (*chain, last)

    def _chains_through(self, way: encode_witness.Passed) -> Iterator[Chain]:
        via = self.link(_role(self.sites[way.via.site]), way.via)
        before = way.crossing or way.before
        if before is None:
            yield () if via.role == "trailing" else (via,)
            return
        for chain in self._to(before):
            yield (*chain, via)

    def link(self, role: Role, at: encode_witness.At) -> Link:
        """One instance."""
        if (role, at) not in self._links:
            self._links[role, at] = self._link(role, at)
        return self._links[role, at]

    def _link(self, role: Role, at: encode_witness.At) -> Link:
        site = self.sites[at.site]
        values = {
            name: linear(0, [(1, substitute(value, self.names))])
            for name, value in zip(site.iterators, at.values, strict=True)
        }
        iteration = tuple((name.name, show(value)) for name, value in values.items())
        return Link(
            role, site.op.origin.span, site.op.origin.text, iteration, _threads(site, values)
        )


def _role(site: Site) -> Role:
    match site.op:
        case Fence():
            return "fence"
        case Arrive():
            return "arrive"
        case Await():
            return "await"
        case Clear():
            return "clear"
        case _:
            return "trailing"


def _threads(site: Site, values: Mapping[Sym, CExpr]) -> str:
    """The executing threads: `384*m + 0..31`; empty at CPU scope."""
    threads = site.op.origin.threads
    if threads is None:
        return ""
    parts = []
    for axis in threads.axes:
        first = linear(0, [(axis.pitch, substitute(axis.offset, values))])
        text = show(first)
        if text != "0":
            parts.append(text)
        if axis.extent > 1:
            span = f"0..{axis.extent - 1}"
            parts.append(span if axis.pitch == 1 else f"{axis.pitch}*({span})")
    return f"threads {' + '.join(parts) or '0'}"
