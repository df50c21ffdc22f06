"""Decides whether a rewriting keeps the results, for all sizes: no other module decides it.

The new statements that are images of old ones make a program of their own: the old statements in
the new order.  That program does what the old one did if

1. each image is the old statement, with the same operator and as many accesses;
2. every old instance has exactly one image, but for those whose results nobody reads;
3. no dependence of the old program, on its own variables, is reversed; two `+=` have none.

The new procedure does what that program does if

4. each access, of an image or a copy, finds what it stands for: the last write of its new element
   stands for the same old element, and no image has written that one elsewhere since.

By induction over the new order every read then has the value it had.  Instances of statements
that stand for nothing may write what they like, as long as nobody reads it (4 says so) and they
divide no integers, which by zero have no value; what adds zero writes nothing.  A call is the
statements of its body.  Where a rewriting says that statements are to be read as others,
`exogpu.schedule.checking.laws` decides that these do the same in their place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from exogpu.analysis.domain import controls
from exogpu.hw.memories import DRAM
from exogpu.ir.nodes import Assign, CallProc, DataParam, Proc, Read, Stmt
from exogpu.ir.render import conjunction, identifier, isl_cond, isl_expr
from exogpu.ir.types import Sym
from exogpu.ir.walk import walk
from exogpu.schedule.checking.laws import Unlawful, assumption
from exogpu.schedule.checking.opened_procedure import program
from exogpu.schedule.checking.relations import Accessed, affected_variables, sharing
from exogpu.schedule.checking.statement_model import (
    Event,
    Place,
    Program,
    cell,
    divides,
    happens,
    is_alike,
    tuple_of,
)
from exogpu.schedule.checking.statement_pairs import Flow, Pair, rename_variables
from exogpu.schedule.checking.stored_terms import adding_zero
from exogpu.schedule.derivations import are_equivalent, assumptions
from exogpu.schedule.reparse import declared
from exogpu.schedule.rewrite import Again, Copy, Image, Rewrite
from exogpu.solvers import isl_unions
from exogpu.solvers.isl import IslGaveUpError, limited

BUDGET = 100_000_000
"""Operations of ISL for one rewriting."""


@dataclass(frozen=True, slots=True)
class Objection:
    """A reason to refuse a rewriting: the fault, between which statements, at which sizes.

    `kind` is SHAPE, TWICE, LOST, RAW, WAR, WAW, FLOW or UNDECIDED.  `first` and `second` are
    statements of the old procedure, or of the new one for FLOW.
    """

    kind: str
    message: str
    first: Stmt | None = None
    second: Stmt | None = None
    sizes: Mapping[str, int] | None = None
    element: str = ""
    """The element that it is about at those sizes."""


def objection(edit: Rewrite, *, everything: bool = False) -> Objection | None:
    """The first thing that speaks against a rewriting; None if it is right for all sizes.

    With `everything`, variables of which nothing has changed are looked at, too.
    """
    called: dict[CallProc, Proc] = {}
    for call, (made, known) in edit.equal.items():
        if made.ir is not call.proc or known.ir is None or not are_equivalent(made, known):
            message = "the procedure called is not known to do what the other does"
            return Objection("SHAPE", message, call)
        called[call] = known.ir
        edit.assumed.update(assumptions(made), assumptions(known))
    old = program(edit.old, "P", readings=edit.readings)
    new = program(edit.new, "Q", called, edit.readings)
    try:
        with limited(BUDGET):
            for call, message in sharing(new, called):
                return Objection("SHAPE", message, call)
            checker = Checker(edit, old, new, everything)
            return next(checker.objections(), None)
    except IslGaveUpError:
        return Objection("UNDECIDED", "ISL could not decide whether the results stay the same")


class Checker:
    """The conditions on a rewriting, as relations, for the variables that it is about."""

    def __init__(
        self,
        edit: Rewrite,
        old: Program,
        new: Program,
        everything: bool = False,
        about: Collection[Sym] | None = None,
    ) -> None:
        self.old, self.new = old, new
        self.params = new.params
        self.pairs: list[Pair] = []
        self.copies: list[tuple[Place, Copy]] = []
        self.again: list[Pair] = []
        self.edit = edit
        sites = {place.site: place for place in old.places}
        kept = {place.stmt for place in old.places}
        for place in new.places:
            origin = edit.origin(place.site, kept)
            if isinstance(origin, Copy):
                self.copies.append((place, origin))
                continue
            if isinstance(origin, Again):
                if (was := sites.get((origin.old,))) is not None:
                    self.again.append(Pair(place, was, Image(origin.old, origin.at)))
                continue
            for image in origin:
                was = sites.get((image.old, *image.inside))
                if was is not None:
                    self.pairs.append(Pair(place, was, image))
        every = frozenset((*old.variables, *new.variables))
        pairs = [(pair.new, pair.old, pair.image) for pair in (*self.pairs, *self.again)]
        if about is None:
            about = every if everything else affected_variables(old, new, pairs, self.copies)
        self.about = about
        self.was, self.now = Accessed(old, self.about), Accessed(new, self.about)
        self.events = {
            event.name: (place, event)
            for place in (*old.places, *new.places)
            for event in place.events
        }

    def objections(self) -> Iterator[Objection]:
        """Yields the objections, the simplest first."""
        yield from self.interface()
        yield from self.laws()
        yield from self.shapes()
        if not self.about:
            return
        for part in (self.clips, self.multiplicity, self.divisions, self.reversed, self.flow):
            yield from sorted(part(), key=_total)

    def interface(self) -> Iterator[Objection]:
        old, new = self.old.proc, self.new.proc
        # The memory of a parameter is an annotation.
        said = [replace(p, memory=DRAM) if isinstance(p, DataParam) else p for p in old.params]
        says = [replace(p, memory=DRAM) if isinstance(p, DataParam) else p for p in new.params]
        if said != says or old.preconditions != new.preconditions:
            yield Objection("SHAPE", "the parameters or preconditions would change")
        made = [v.name for reading in self.edit.readings.values() for v in reading.made]
        known = {*declared(old.body), *declared(new.body), *(p.name for p in old.params)}
        if len({*made}) < len(made) or known & {*made}:
            yield Objection("SHAPE", "a variable would be in two places")
        names = [*declared(new.body)]
        if len(set(names)) < len(names) or len(set(walk(new.body))) < len([*walk(new.body)]):
            yield Objection("SHAPE", "a statement or variable would be in two places")

    def laws(self) -> Iterator[Objection]:
        """Statements that are read as others do what these do."""
        for of in (self.old, self.new):
            for said in of.readings:
                try:
                    assumed = assumption(said, of.variables)
                except Unlawful as why:
                    stmt = said.whole[0].stmt if said.whole else None
                    yield Objection("SHAPE", str(why), stmt)
                else:
                    self.edit.assumed.update([assumed] if assumed is not None else [])

    # --- 1. images are the old statements -------------------------------------------------

    def shapes(self) -> Iterator[Objection]:
        for pair in (*self.pairs, *self.again):
            was, place = pair.old, pair.new
            known = {*pair.image.at, *place.iterators}
            alike = len(was.events) == len(place.events) and is_alike(
                was, self.old.variables, place, self.new.variables, pair.reads
            )
            if not alike or not known.issuperset(was.iterators):
                yield Objection("SHAPE", "a statement would become another", was.stmt, place.stmt)
                return
            for after, before in pair.events:
                a = self.old.variables[before.access.name]
                b = self.new.variables[after.access.name]
                if a.dtype is not b.dtype:
                    message = f"{a.name} is {a.dtype.value}, and {b.name} is {b.dtype.value}"
                    yield Objection("SHAPE", message, was.stmt, place.stmt)
        for pair in self.again:
            if any(e.within for events in pair.events for e in events):
                yield Objection("SHAPE", "a clipped operand would be read again", pair.new.stmt)
        for place, copy in self.copies:
            names = {copy.element.name}
            plain = place.plain
            if not (isinstance(plain, Assign) and isinstance(plain.value, Read)) or place.constants:
                yield Objection("SHAPE", "a copy must be `x[...] = y[...]`", place.stmt)
                return
            names |= {plain.target.name, plain.value.access.name}
            variables = {**self.new.variables, **self.old.variables}
            if len({variables[name].dtype for name in names}) > 1:
                yield Objection("SHAPE", "a copy would convert to another type", place.stmt)

    def clips(self) -> Iterator[Objection]:
        """Yields an objection if a read outside of a clipped operand, now zero, was not zero
        before."""
        for pair in self.pairs:
            there, premise = pair.old_names, pair.premise
            for new, old in pair.events:
                if new.writes or not (new.within or old.within) or not self.counts(new, old):
                    continue
                now = conjunction(map(isl_cond, new.within))
                then = rename_variables(conjunction(map(isl_cond, old.within)), there)
                odd = f"(({now}) and not ({then})) or (({then}) and not ({now}))"
                dims = ", ".join(there.values())
                piece = f"{tuple_of(pair.new, new)} -> {old.name}[{dims}] : {premise} and ({odd})"
                odd_pairs = isl_unions.relation(self.params, [piece])
                if not isl_unions.is_empty(odd_pairs):
                    message = "an element would be read as zero where it was not, or the reverse"
                    yield self.objected("FLOW", message, odd_pairs)

    def counts(self, new: Event, old: Event) -> bool:
        """Tests whether two events are of variables that have changed."""
        return new.access.name in self.about or old.access.name in self.about

    # --- 2. each old instance has one image -----------------------------------------------

    @cached_property
    def images(self) -> isl_unions.Relation:
        """From events of the new program to those of the old."""
        found = isl_unions.relation(self.params, [])
        for pair in self.pairs:
            names = [(new.name, old.name) for new, old in pair.events if self.counts(new, old)]
            if not names:
                continue
            dims = ", ".join(map(identifier, pair.new.iterators))
            piece = f"S[{dims}] -> T[{', '.join(pair.old_names.values())}] : {pair.premise}"
            found = isl_unions.union(found, isl_unions.repeated_pairs(self.params, piece, names))
        # Those of clipped operands, where both happen.
        if any(event.within for _, event in self.events.values()):
            found = isl_unions.of_outputs(
                isl_unions.of_inputs(found, self.now.events), self.was.events
            )
        return found

    def multiplicity(self) -> Iterator[Objection]:
        twice = isl_unions.two_of(isl_unions.inverse(self.images))
        if not isl_unions.is_empty(twice):
            yield self.objected("TWICE", "an instance of a statement would run twice", twice)
        unclear = isl_unions.two_of(self.images)
        if not isl_unions.is_empty(unclear):
            yield self.objected("TWICE", "a statement would stand for two instances", unclear)
        was = self.was
        lost = isl_unions.difference(was.events, self.kept_events)
        if isl_unions.is_empty(lost):
            return
        # What is lost may be what nobody reads.
        locations = was.cells
        kept_reads = isl_unions.of_inputs(
            isl_unions.of_inputs(locations, was.read_events), self.kept_events
        )
        seen = isl_unions.union(kept_reads, was.finals)
        overwriting = isl_unions.of_inputs(self.overwriting, self.kept_events)
        dropped = isl_unions.of_inputs(isl_unions.of_inputs(locations, was.write_events), lost)
        bad = isl_unions.subtract(
            was.earlier_events(seen, dropped),
            isl_unions.compose(
                was.earlier_events(seen, overwriting), was.earlier_events(overwriting, dropped)
            ),
        )
        if not isl_unions.is_empty(bad):
            yield self.objected("LOST", "a statement would not run, and its result is read", bad)

    @cached_property
    def kept_events(self) -> isl_unions.Points:
        """The events of the old program that have an image."""
        return isl_unions.outputs(self.images)

    @cached_property
    def overwriting(self) -> isl_unions.Relation:
        def assigns(place: Place, event: Event) -> bool:
            return event.writes and isinstance(place.plain, Assign)

        return self.was.cells_of(assigns)

    def divisions(self) -> Iterator[Objection]:
        """Integers are divided only where they were: by zero the result is no value at all."""
        dividing = self.now.points_of(lambda place, _: divides(place, self.new.variables))
        if isl_unions.is_empty(dividing):
            return
        known = isl_unions.union(isl_unions.inputs(self.images), isl_unions.inputs(self.sources))
        alone = isl_unions.difference(dividing, known)
        if not isl_unions.is_empty(alone):
            message = "an integer would be divided, maybe by zero, where it was not"
            yield self.objected("FLOW", message, isl_unions.identity_on(alone))

    # --- 3. no dependence is reversed -----------------------------------------------------

    def reversed(self) -> Iterator[Objection]:
        was = self.was
        known = isl_unions.of_inputs(was.cells, self.kept_events)
        writes = isl_unions.of_inputs(known, was.write_events)
        touches = isl_unions.of_inputs(known, was.read_events)
        summed = {e.name for p in self.old.places for e in p.events if e.reduces}
        for kind, later, sooner in (
            ("RAW", touches, writes),
            ("WAR", writes, touches),
            ("WAW", writes, writes),
        ):
            pairs = isl_unions.leaving_out(
                isl_unions.compose(later, isl_unions.inverse(sooner)), summed
            )
            pairs = was.earlier(pairs)
            there = isl_unions.compose(
                isl_unions.compose(self.images, pairs), isl_unions.inverse(self.images)
            )
            # `there` relates the later of a dependence to the sooner one, as new events.
            back = self.now.not_later(isl_unions.inverse(there))
            if not isl_unions.is_empty(back):
                message = f"a dependence ({kind}) would be reversed"
                yield self.objected(kind, message, back)

    # --- 4. every access finds what it stands for -----------------------------------------

    @cached_property
    def read_flow(self) -> Flow:
        """Finds the reads, and the last writes before them."""
        now = self.now
        stands = isl_unions.compose(self.images, self.was.cells)
        image_writes = isl_unions.of_inputs(stands, now.write_events)
        for place, copy in self.copies:
            stands = isl_unions.union(
                stands, isl_unions.relation(self.params, self.copied(place, copy))
            )
        if self.again:
            stands = isl_unions.union(stands, self.old_elements)
        starts, ends = now.initials, now.finals
        stands = isl_unions.union(stands, isl_unions.union(starts, ends))
        live = isl_unions.inputs(stands)
        cells = now.cells
        idle = adding_zero(now, live)
        if idle is not None:
            cells = isl_unions.of_inputs(cells, isl_unions.difference(now.events, idle))
        reads = isl_unions.of_inputs(
            isl_unions.union(isl_unions.of_inputs(cells, now.read_events), ends), live
        )
        writes = isl_unions.union(isl_unions.of_inputs(cells, now.write_events), starts)
        seen = now.earlier_events(reads, writes)
        hidden = isl_unions.compose(seen, now.earlier_events(writes, writes))
        return Flow(stands, image_writes, idle, reads, seen, isl_unions.subtract(seen, hidden))

    def flow(self) -> Iterator[Objection]:
        now, found = self.now, self.read_flow
        stands, image_writes, last = found.stands, found.image_writes, found.last
        if self.again:
            yield from self.out_of_date(image_writes)
        alike = isl_unions.compose(stands, isl_unions.inverse(stands))
        wrong = isl_unions.subtract(last, alike)
        if not isl_unions.is_empty(wrong):
            yield self.objected("FLOW", "a value would be read that is another's", wrong)
        since = isl_unions.compose(
            now.earlier_events(stands, image_writes), now.earlier_events(image_writes, stands)
        )
        stale = isl_unions.intersect(last, since)
        if not isl_unions.is_empty(stale):
            yield self.objected("FLOW", "a copy would be read that is out of date", stale)
        originals = isl_unions.union(image_writes, now.initials)
        unwritten = isl_unions.difference(
            isl_unions.inputs(found.reads), isl_unions.inputs(found.seen)
        )
        missing = isl_unions.of_inputs(now.earlier_events(stands, originals), unwritten)
        if not isl_unions.is_empty(missing):
            yield self.objected("FLOW", "a variable would be read before it is written", missing)

    def copied(self, place: Place, copy: Copy) -> Iterator[str]:
        variable = self.old.variables[copy.element.name]
        at = {s: isl_expr(e) for s, e in copy.at.items()}
        for event in place.events:
            stands = cell(variable, copy.element, at)
            yield f"{tuple_of(place, event)} -> {stands} : {happens(place, event)}"

    @cached_property
    def sources(self) -> isl_unions.Relation:
        """From the events of statements that compute once more what an old one did to its own."""
        pieces = []
        for pair in self.again:
            dims = ", ".join(pair.old_names.values())
            for new, old in pair.events:
                pieces.append(f"{tuple_of(pair.new, new)} -> {old.name}[{dims}] : {pair.premise}")
        return isl_unions.relation(self.params, pieces)

    @cached_property
    def old_elements(self) -> isl_unions.Relation:
        """From those events to the old elements that they stand for."""
        return isl_unions.compose(self.sources, self.was.cells)

    def out_of_date(self, writes: isl_unions.Relation) -> Iterator[Objection]:
        """Yields an objection if operands of a repeated computation have changed since the first
        time."""
        repeated = self.old_elements
        first = self.now.earlier(isl_unions.compose(self.sources, isl_unions.inverse(self.images)))
        alone = isl_unions.difference(isl_unions.inputs(repeated), isl_unions.inputs(first))
        if not isl_unions.is_empty(alone):
            message = "what is computed once more was not computed before"
            yield self.objected("FLOW", message, isl_unions.identity_on(alone))
        since = isl_unions.compose(
            isl_unions.inverse(first), self.now.earlier_events(repeated, writes)
        )
        changed = self.now.earlier(isl_unions.inverse(since))
        if not isl_unions.is_empty(changed):
            message = "what is computed once more has changed since"
            yield self.objected("FLOW", message, changed)

    # --- words ----------------------------------------------------------------------------

    def objected(self, kind: str, message: str, pairs: isl_unions.Relation) -> Objection:
        found = isl_unions.smallest_pair(pairs, self.params)
        if found is None:
            return Objection(kind, message)
        first, second, sizes = found
        names = {identifier(p.name): p.name.name for p in controls(self.new.proc)}
        at = {names[name]: value for name, value in sizes.items()}
        element = self.element(isl_unions.first_image(pairs, (first, second), sizes, self.elements))
        return Objection(kind, message, self.stmt(first), self.stmt(second), at, element)

    @cached_property
    def elements(self) -> isl_unions.Relation:
        """From every event, of either program, to its element."""
        found = isl_unions.union(self.was.cells, self.now.cells)
        return isl_unions.union(found, isl_unions.union(self.now.initials, self.now.finals))

    def element(self, found: tuple[str, tuple[int, ...]] | None) -> str:
        """`C[6]`"""
        if found is None:
            return ""
        name, at = found
        variables = {**self.old.variables, **self.new.variables}.values()
        variable = next(v for v in variables if identifier(v.name) == name)
        index = at[len(at) - len(variable.shape) :]
        shown = f"[{', '.join(map(str, index))}]" if index else ""
        return f"{variable.name.name}{shown}"

    def stmt(self, name: str) -> Stmt | None:
        found = self.events.get(name)
        return None if found is None else found[0].stmt


def _total(found: Objection) -> int:
    """Smaller sizes first."""
    return sum(map(abs, (found.sizes or {}).values()))
