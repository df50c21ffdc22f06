"""Whether a rewriting keeps what is computed, for all sizes: the one place that decides it.

The new statements that are images of old ones make a program of their own: the old statements in
the new order.  That program does what the old one did if

1. each image is the old statement, with the same operator and as many accesses;
2. every old instance has exactly one image, but for those whose results nobody reads;
3. no dependence of the old program, on its own variables, is reversed; two `+=` have none.

The new procedure does what that program does if

4. each access, of an image or a copy, finds what it stands for: the last write of its new element
   stands for the same old element, and no image has written that one elsewhere since.

By induction over the new order every read then has the value it had.  Instances of statements
that stand for nothing may write what they like, as long as nobody reads it (4 says so).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from exogpu.analysis.instances import controls, entry
from exogpu.hw.memories import DRAM
from exogpu.ir.isltext import cexpr, conjunction, identifier
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Assign,
    CallInstr,
    CallProc,
    Const,
    CVar,
    DataParam,
    Interval,
    Read,
    Stmt,
)
from exogpu.ir.walk import walk
from exogpu.schedule.alike import is_alike
from exogpu.schedule.events import (
    Place,
    Program,
    cell,
    elements,
    inside,
    moment,
    program,
    tuple_of,
)
from exogpu.schedule.rewrite import Copy, Image, Rewrite, declared
from exogpu.solvers import isl_unions as un
from exogpu.solvers.isl_budget import IslGaveUpError, limited

BUDGET = 400_000_000
"""Operations of ISL for one rewriting."""


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a rewriting is refused: what would go wrong, between which statements, at which sizes.

    `kind` is SHAPE, TWICE, LOST, RAW, WAR, WAW, FLOW or UNDECIDED.  `first` and `second` are
    statements of the old procedure, or of the new one for FLOW.
    """

    kind: str
    message: str
    first: Stmt | None = None
    second: Stmt | None = None
    sizes: Mapping[str, int] | None = None


def objection(edit: Rewrite) -> Objection | None:
    """The first thing that speaks against a rewriting; None if it is right for all sizes."""
    if any(isinstance(s, CallProc) for p in (edit.old, edit.new) for s in walk(p.body)):
        return Objection("UNDECIDED", "procedures that call procedures are not scheduled")
    checker = _Checker(edit, program(edit.old, "P"), program(edit.new, "Q"))
    try:
        with limited(BUDGET):
            return next(checker.objections(), None)
    except IslGaveUpError:
        return Objection("UNDECIDED", "ISL could not decide whether the results stay the same")


class _Checker:
    def __init__(self, edit: Rewrite, old: Program, new: Program) -> None:
        self.old, self.new = old, new
        self.params = new.params
        self.pairs: list[tuple[Place, Place, Image]] = []
        self.copies: list[tuple[Place, Copy]] = []
        by_stmt = {place.stmt: place for place in old.places}
        for place in new.places:
            same = (Image(place.stmt),) if place.stmt in by_stmt else ()
            origin = edit.origins.get(place.stmt, same)
            if isinstance(origin, Copy):
                self.copies.append((place, origin))
            else:
                known = ((by_stmt.get(image.old), image) for image in origin)
                self.pairs += [(place, was, image) for was, image in known if was is not None]
        self.events = {
            event.name: (place, event)
            for place in (*old.places, *new.places)
            for event in place.events
        }

    def objections(self) -> Iterator[Objection]:
        """What is wrong, the simplest first."""
        yield from self.interface()
        yield from self.shapes()
        for part in (self.multiplicity, self.reversed, self.flow, self.operands):
            yield from sorted(part(), key=_total)

    def interface(self) -> Iterator[Objection]:
        old, new = self.old.proc, self.new.proc
        # The memory of a parameter is an annotation.
        said = [replace(p, memory=DRAM) if isinstance(p, DataParam) else p for p in old.params]
        says = [replace(p, memory=DRAM) if isinstance(p, DataParam) else p for p in new.params]
        if said != says or old.preconditions != new.preconditions:
            yield Objection("SHAPE", "the parameters or preconditions would change")
        names = [*declared(new.body)]
        if len(set(names)) < len(names) or len(set(walk(new.body))) < len([*walk(new.body)]):
            yield Objection("SHAPE", "a statement or variable would be in two places")

    # --- 1. images are the old statements -------------------------------------------------

    def shapes(self) -> Iterator[Objection]:
        for place, was, image in self.pairs:
            missing = [s for s in was.iterators if s not in image.at and s not in place.iterators]
            alike = is_alike(was.plain, place.plain) and not missing
            if alike and isinstance(was.plain, CallInstr):
                assert isinstance(place.plain, CallInstr)
                alike = self.same_call(place, was, image, place.plain, was.plain)
            if not alike:
                yield Objection("SHAPE", "a statement would become another", was.stmt, place.stmt)
            for before, after in zip(was.events, place.events, strict=False):
                a = self.old.variables[before.access.name]
                b = self.new.variables[after.access.name]
                if a.dtype is not b.dtype:
                    message = f"{a.name} is {a.dtype.value}, and {b.name} is {b.dtype.value}"
                    yield Objection("SHAPE", message, was.stmt, place.stmt)
        for place, copy in self.copies:
            names = {copy.element.name}
            if not (isinstance(place.plain, Assign) and isinstance(place.plain.value, Read)):
                yield Objection("SHAPE", "a copy must be `x[...] = y[...]`", place.stmt)
                return
            names |= {place.plain.target.name, place.plain.value.access.name}
            known = {**self.new.variables, **self.old.variables}
            if len({known[name].dtype for name in names}) > 1:
                yield Objection("SHAPE", "a copy would convert to another type", place.stmt)

    def same_call(
        self, place: Place, was: Place, image: Image, new: CallInstr, old: CallInstr
    ) -> bool:
        """Whether the control arguments and the extents of windows are the same."""
        premise = self.related(place, was, image)
        for before, after in zip(old.arguments, new.arguments, strict=True):
            if isinstance(before, Const) or isinstance(after, Const):
                if before != after:
                    return False
                continue
            if isinstance(before, Access) and isinstance(after, Access):
                a = [c for c in before.coords if isinstance(c, Interval)]
                b = [c for c in after.coords if isinstance(c, Interval)]
                if len(a) != len(b):
                    return False
                both = [
                    (f"{cexpr(x.hi)} - {cexpr(x.lo)}", f"{cexpr(y.hi)} - {cexpr(y.lo)}")
                    for x, y in zip(a, b, strict=True)
                ]
            elif isinstance(before, Access) or isinstance(after, Access):
                return False
            else:
                both = [(cexpr(before), cexpr(after))]
            for x, y in both:
                there = {s: f"old_{identifier(s)}" for s in was.iterators}
                x = _renamed(x, there)
                dims = ", ".join((*map(identifier, place.iterators), *there.values()))
                piece = f"S[{dims}] : {premise(there)} and {x} != {y}"
                if not un.is_empty(un.points(self.params, [piece])):
                    return False
        return True

    def related(self, place: Place, was: Place, image: Image) -> Callable[[Mapping[Sym, str]], str]:
        """The constraint that an instance of the new statement is that one of the old."""

        def text(there: Mapping[Sym, str]) -> str:
            equal = [f"{there[s]} = {cexpr(image.at.get(s, CVar(s)))}" for s in was.iterators]
            return conjunction((place.where, _renamed(was.where, there), *equal))

        return text

    # --- 2. each old instance has one image -----------------------------------------------

    @cached_property
    def images(self) -> un.Relation:
        """From events of the new program to those of the old."""
        return un.relation(self.params, self.image_pieces())

    def image_pieces(self) -> Iterator[str]:
        for place, was, image in self.pairs:
            there = {s: f"old_{identifier(s)}" for s in was.iterators}
            premise = self.related(place, was, image)(there)
            for new, old in zip(place.events, was.events, strict=True):
                dims = ", ".join((*there.values(), *elements(old)))
                whole = conjunction((premise, inside(new)))
                yield f"{tuple_of(place, new)} -> {old.name}[{dims}] : {whole}"

    def multiplicity(self) -> Iterator[Objection]:
        twice = un.two_of(un.inverse(self.images))
        if not un.is_empty(twice):
            yield self.objected("TWICE", "an instance of a statement would run twice", twice)
        unclear = un.two_of(self.images)
        if not un.is_empty(unclear):
            yield self.objected("TWICE", "a statement would stand for two instances", unclear)
        lost = un.without(self.all_events(self.old), self.kept)
        if un.is_empty(lost):
            return
        # What is lost may be what nobody reads.
        locations, ends = self.locations, self.finals(self.old)
        kept_reads = un.of_inputs(self.chosen(self.old, locations, writes=False), self.kept)
        seen = un.union(kept_reads, ends)
        overwriting = un.of_inputs(self.overwriting, self.kept)
        dropped = un.of_inputs(self.chosen(self.old, locations, writes=True), lost)
        times = self.times(self.old)
        bad = un.subtract(
            self.before(seen, dropped, times),
            un.compose(
                self.before(seen, overwriting, times), self.before(overwriting, dropped, times)
            ),
        )
        if not un.is_empty(bad):
            yield self.objected("LOST", "a statement would not run, and its result is read", bad)

    @cached_property
    def kept(self) -> un.Points:
        """The events of the old program that have an image."""
        return un.outputs(self.images)

    @cached_property
    def overwriting(self) -> un.Relation:
        assigned = [place for place in self.old.places if isinstance(place.plain, Assign)]
        return self.accessed(self.old, assigned, writes=True)

    # --- 3. no dependence is reversed -----------------------------------------------------

    def reversed(self) -> Iterator[Objection]:
        was = self.times(self.old)
        known = un.of_inputs(self.locations, self.kept)
        writes = self.chosen(self.old, known, writes=True)
        touches = self.chosen(self.old, known, writes=False)
        summed = {e.name for p in self.old.places for e in p.events if e.reduces}
        for kind, later, sooner in (
            ("RAW", touches, writes),
            ("WAR", writes, touches),
            ("WAW", writes, writes),
        ):
            pairs = self.before(later, sooner, was, commuting=summed)
            there = un.compose(un.compose(self.images, pairs), un.inverse(self.images))
            # `there` relates the later of a dependence to the sooner one, as new events.
            back = un.not_later(un.inverse(there), self.times(self.new))
            if not un.is_empty(back):
                message = f"a dependence ({kind}) would be reversed"
                yield self.objected(kind, message, back)

    # --- 4. every access finds what it stands for -----------------------------------------

    def flow(self) -> Iterator[Objection]:
        times, new = self.times(self.new), self.new
        stands = un.compose(self.images, self.locations)
        image_writes = self.chosen(new, stands, writes=True)
        for place, copy in self.copies:
            stands = un.union(stands, un.relation(self.params, self.copied(place, copy)))
        starts, ends = self.initials(new), self.finals(new)
        stands = un.union(stands, un.union(starts, ends))
        cells = self.cells
        live = un.inputs(stands)
        reads = un.of_inputs(un.union(self.chosen(new, cells, writes=False), ends), live)
        writes = un.union(self.chosen(new, cells, writes=True), starts)
        seen = self.before(reads, writes, times)
        hidden = un.compose(seen, self.before(writes, writes, times))
        last = un.subtract(seen, hidden)
        alike = un.compose(stands, un.inverse(stands))
        wrong = un.subtract(last, alike)
        if not un.is_empty(wrong):
            yield self.objected("FLOW", "a value would be read that is another's", wrong)
        since = un.compose(
            self.before(stands, image_writes, times), self.before(image_writes, stands, times)
        )
        stale = un.intersect(last, since)
        if not un.is_empty(stale):
            yield self.objected("FLOW", "a copy would be read that is out of date", stale)
        originals = un.union(image_writes, starts)
        unwritten = un.without(un.inputs(reads), un.inputs(seen))
        missing = un.of_inputs(self.before(stands, originals, times), unwritten)
        # What is outside a parameter has no write at all: an instruction may read it as zero.
        elsewhere = un.of_outputs(un.subtract(stands, cells), self.parameters)
        missing = un.union(missing, un.of_inputs(elsewhere, unwritten))
        if not un.is_empty(missing):
            yield self.objected("FLOW", "a variable would be read before it is written", missing)

    def operands(self) -> Iterator[Objection]:
        """Operands of one call overlap where they did, and clipped ones stay where they are."""
        for place, was, _ in self.pairs:
            if not isinstance(place.plain, CallInstr):
                continue
            for before, after in zip(was.events, place.events, strict=True):
                if before.clipped and before.access.name != after.access.name:
                    message = "an operand that the hardware clips would be another variable"
                    yield Objection("SHAPE", message, was.stmt, place.stmt)
            then = un.compose(self.images, self.overlaps(self.old, was))
            then = un.compose(then, un.inverse(self.images))
            now = self.overlaps(self.new, place)
            live = un.inputs(self.images)
            now = un.of_outputs(un.of_inputs(now, live), live)
            here = self.overlaps(self.new, place, anywhere=True)
            changed = un.union(un.subtract(now, then), un.subtract(un.intersect(then, here), now))
            if not un.is_empty(changed):
                yield self.objected("FLOW", "operands of a call would overlap otherwise", changed)

    def overlaps(self, of: Program, place: Place, *, anywhere: bool = False) -> un.Relation:
        """From each write of an instance of a call to its accesses of the same element.

        `anywhere`: of any element.
        """

        def pieces(writes: bool | None) -> Iterator[str]:
            instance = ", ".join(map(identifier, place.iterators))
            for event in place.events:
                variable = of.variables[event.access.name]
                element = "" if anywhere else f" -> {cell(variable, event.access, {})}"
                if writes is None or event.writes == writes:
                    target = f"[I[{instance}]{element}]" if element else f"I[{instance}]"
                    within = conjunction((place.where, inside(event)))
                    yield f"{tuple_of(place, event)} -> {target} : {within}"

        written = un.relation(self.params, pieces(True))
        return un.compose(written, un.inverse(un.relation(self.params, pieces(None))))

    @cached_property
    def parameters(self) -> un.Points:
        """Every element of the parameters, those out of range included."""
        return un.points(
            self.params,
            [
                f"{identifier(v.name)}[{', '.join(f'c{n}' for n in range(len(v.shape)))}]"
                for v in self.old.variables.values()
                if v.is_param
            ],
        )

    def copied(self, place: Place, copy: Copy) -> Iterator[str]:
        variable = self.old.variables[copy.element.name]
        at = {s: cexpr(e) for s, e in copy.at.items()}
        for event in place.events:
            stands = cell(variable, copy.element, at)
            yield f"{tuple_of(place, event)} -> {stands} : {place.where}"

    # --- relations ------------------------------------------------------------------------

    @cached_property
    def locations(self) -> un.Relation:
        """From events of the old program to the elements that they access."""
        return self.accessed(self.old, self.old.places)

    @cached_property
    def cells(self) -> un.Relation:
        """The same of the new program."""
        return self.accessed(self.new, self.new.places)

    def accessed(
        self, of: Program, places: tuple[Place, ...] | list[Place], writes: bool | None = None
    ) -> un.Relation:
        pieces = [
            f"{tuple_of(place, event)} -> {cell(of.variables[event.access.name], event.access, {})}"
            f" : {place.where} and {inside(event)}"
            for place in places
            for event in place.events
            if writes is None or event.writes == writes
        ]
        return un.relation(self.params, pieces)

    def chosen(self, of: Program, relation: un.Relation, writes: bool) -> un.Relation:
        """The part of a relation whose inputs write, or read."""
        pieces = [
            f"{tuple_of(place, event)} : {place.where} and {inside(event)}"
            for place in of.places
            for event in place.events
            if event.writes == writes
        ]
        return un.of_inputs(relation, un.points(self.params, pieces))

    def all_events(self, of: Program) -> un.Points:
        return un.inputs(self.locations if of is self.old else self.cells)

    def before(
        self,
        later: un.Relation,
        sooner: un.Relation,
        times: un.Schedule,
        commuting: set[str] | None = None,
    ) -> un.Relation:
        """From each event to the sooner ones on the same element."""
        pairs = un.compose(later, un.inverse(sooner))
        if commuting is not None:
            pairs = un.leaving_out(pairs, commuting)
        return un.earlier(pairs, times)

    def times(self, of: Program) -> un.Schedule:
        pieces = {
            event.name: f"{tuple_of(place, event)} -> {moment(of, place, event)}"
            for place in of.places
            for event in place.events
        }
        for edge, value in (("First", "-1"), ("Last", str(1 << 30))):
            for variable in of.variables.values():
                if variable.is_param:
                    name = f"{edge}_{identifier(variable.name)}"
                    dims = ", ".join(f"c{n}" for n in range(len(variable.shape)))
                    vector = ", ".join([value] + ["0"] * (of.depth - 1))
                    pieces[name] = f"{name}[{dims}] -> [{vector}]"
        return un.schedule(self.params, pieces)

    def initials(self, of: Program) -> un.Relation:
        """The parameters as they are given, as writes."""
        return self.edges(of, "First")

    def finals(self, of: Program) -> un.Relation:
        """The parameters as they are left, as reads."""
        return self.edges(of, "Last")

    def edges(self, of: Program, edge: str) -> un.Relation:
        pieces = []
        context = entry(self.new.proc).constraints
        for variable in of.variables.values():
            if variable.is_param:
                dims = ", ".join(f"c{n}" for n in range(len(variable.shape)))
                bounds = [f"0 <= c{n} < {cexpr(e)}" for n, e in enumerate(variable.shape)]
                name = identifier(variable.name)
                within = conjunction((*context, *bounds))
                pieces.append(f"{edge}_{name}[{dims}] -> {name}[{dims}] : {within}")
        return un.relation(self.params, pieces)

    # --- words ----------------------------------------------------------------------------

    def objected(self, kind: str, message: str, pairs: un.Relation) -> Objection:
        found = un.smallest_pair(pairs, self.params)
        if found is None:
            return Objection(kind, message)
        first, second, sizes = found
        names = {identifier(p.name): p.name.name for p in controls(self.new.proc)}
        at = {names[name]: value for name, value in sizes.items()}
        return Objection(kind, message, self.stmt(first), self.stmt(second), at)

    def stmt(self, name: str) -> Stmt | None:
        found = self.events.get(name)
        return None if found is None else found[0].stmt


def _total(found: Objection) -> int:
    """Smaller sizes first."""
    return sum(map(abs, (found.sizes or {}).values()))


def _renamed(text: str, names: Mapping[Sym, str]) -> str:
    """The text with other names of control variables."""
    known = {identifier(s): name for s, name in names.items()}
    return re.sub(r"(?<![^\W\d])[^\W\d]\w*", lambda word: known.get(word[0], word[0]), text)
