"""Material for obligations: the program, a witness, and a script that knows the sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from exogpu.amir.nodes import Arrive, Await, CheckBarrier, Loop, Program, Record
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Lemma
from exogpu.ir.nodes import CExpr, CVar, Int
from exogpu.ir.types import Sym
from exogpu.symbolic.encode import witness
from exogpu.symbolic.encode.formulas import (
    FALSE,
    Instance,
    at_most,
    in_shape,
    runs_before,
    same_allocation,
)
from exogpu.symbolic.encode.pieces import Pieces, pieces_at, replace_variables
from exogpu.symbolic.encode.script import Loads, Script, Texts
from exogpu.symbolic.model import Placed
from exogpu.symbolic.sites import Site, home_of, order_of

# Common beginnings of the scripts of two accesses that meet; pairs share one if both places, the
# variable and the order in the text agree.


@dataclass(frozen=True, slots=True, eq=False)
class Meeting:
    """Instances of two accesses, the first earlier, of one allocation, and an element."""

    script: Script
    """The script of the claim, and nothing else."""
    first: Instance
    second: Instance
    element: tuple[CVar, ...]


class Meetings:
    """The beginnings of the scripts of one program's pairs."""

    def __init__(self, placed: Placed, begun: Callable[[], Script]) -> None:
        self._placed = placed
        self._begun = begun
        """A script that knows the sizes."""
        self._places: dict[int, int] = {}
        self._numbers: dict[object, int] = {}
        self._firsts: dict[int, tuple[Script, Instance]] = {}
        self._known: dict[object, Meeting | None] = {}

    def meeting_of(self, first: Site, second: Site, name: Sym) -> Meeting | None:
        """Returns the meeting of two accesses of a variable, with a script of its own; None if the
        first never comes earlier."""
        places = self._place(first), self._place(second)
        key = (name, *places, *order_of(first, second))
        if key not in self._known:
            self._known[key] = self._build_meeting(first, second, name)
        made = self._known[key]
        if made is None:
            return None
        return replace(
            made,
            script=made.script.copy(),
            first=Instance(first, made.first.values),
            second=Instance(second, made.second.values),
        )

    def _place(self, site: Site) -> int:
        """Sites with the same number have the same instances."""
        if site.number not in self._places:
            key = (site.loops, site.guards, site.residence)
            self._places[site.number] = self._numbers.setdefault(key, len(self._numbers))
        return self._places[site.number]

    def _build_meeting(self, record: Site, check: Site, name: Sym) -> Meeting | None:
        known, first = self._first_instance(record)
        script = known.copy()
        second = script.free(check, "second.")
        order = runs_before(first, second)
        if order == FALSE:
            return None
        rank = len(self._placed.variables[name].shape)
        element = tuple(script.constant(Sym(f"element{at}")) for at in range(rank))
        script.assume_exists(first)
        script.assume_exists(second)
        script.assume(order)
        script.assume(same_allocation(self._placed, first, second, name))
        script.assume(in_shape(self._placed, name, element))
        return Meeting(script, first, second, element)

    def _first_instance(self, record: Site) -> tuple[Script, Instance]:
        place = self._place(record)
        if place not in self._firsts:
            script = self._begun()
            self._firsts[place] = script, script.free(record, "first.")
        script, known = self._firsts[place]
        return script, Instance(record, known.values)


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """An obligation before it is answered."""

    kind: HazardKind | Lemma
    variable: Sym | None
    """None of threads that stay together."""
    first: Site | None
    second: Site | None
    claim: str
    script: str
    """Empty where the claim follows from the rules alone."""
    ends: Ends | None = None
    meaning: Meaning | None = None
    """The meaning of the names in its chains."""
    chains: tuple[witness.Chain, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """A record and a check that meet: their iterators, the threads where each has its own, and the
    element."""

    record: Instance
    record_thread: CExpr | None
    """None where one record stands for all its threads."""
    check: Instance
    check_thread: CExpr | None
    """None where one thread of the check is enough."""
    element: witness.Values


@dataclass(frozen=True, slots=True)
class Uses:
    """The operations of one barrier variable."""

    name: Sym
    arrives: tuple[Site, ...]
    awaits: tuple[Site, ...]
    trailing: tuple[Site, ...]
    frees: tuple[Site, ...]
    slots: tuple[Site, ...]

    @property
    def counted_sites(self) -> tuple[Site, ...]:
        """Returns the sites at which something is counted."""
        return (*self.arrives, *self.trailing, *self.awaits, *self.slots)


class Meaning:
    """Meanings of the names in a witness's expressions, in one obligation."""

    def __init__(self, encoder: Encoder, values: Mapping[Sym, CExpr]) -> None:
        self._sites = encoder.placed.sites
        self._values = values

    def site(self, at: witness.At, kinds: tuple[type, ...]) -> Site:
        """The site of an instance, which is of these kinds.  Raises WitnessError."""
        if not 0 <= at.site < len(self._sites):
            raise witness.WitnessError(f"there is no site {at.site}")
        site = self._sites[at.site]
        if not isinstance(site.op, kinds):
            raise witness.WitnessError(f"line {site.op.origin.span.line} has no part there")
        if len(at.values) != len(site.loops):
            raise witness.WitnessError(f"line {site.op.origin.span.line} has other iterators")
        return site

    def instance(self, at: witness.At, *kinds: type) -> Instance:
        """An instance of a site of these kinds.  Raises WitnessError."""
        site = self.site(at, kinds)
        return Instance(site, dict(zip(site.iterators, self.values(at.values), strict=True)))

    def partner(self, at: witness.At, sites: Sequence[Site]) -> Instance:
        """An instance of one of the sites.  Raises WitnessError."""
        found = self.instance(at, Arrive, Await, Record)
        if found.site not in sites:
            raise witness.WitnessError(f"line {found.site.op.origin.span.line} is no partner there")
        return found

    def values(self, values: witness.Values) -> witness.Values:
        """Expressions of the obligation's own constants."""
        return tuple(self.value(value) for value in values)

    def value(self, value: CExpr) -> CExpr:
        """An expression of the obligation's own constants.  Raises WitnessError."""
        try:
            return replace_variables(value, self._values)
        except KeyError as unknown:
            raise witness.WitnessError(f"{unknown.args[0]} is no name there") from None

    def pieces(self, pieces: Pieces) -> Pieces:
        """The same of an expression by cases.  Raises WitnessError."""
        try:
            return pieces_at(pieces, self._values)
        except KeyError as unknown:
            raise witness.WitnessError(f"{unknown.args[0]} is no name there") from None


class Encoder:
    """The program, and what was found about it."""

    def __init__(self, placed: Placed, sought: witness.Sought) -> None:
        self.placed = placed
        self.sought = sought
        self._shared: Texts = {}
        self.meetings = Meetings(placed, self.script)
        self._known: dict[tuple[int, str], tuple[tuple[Sym, Sym], ...]] = {}
        self._sizes: dict[Sym, CExpr] = {
            witness.witness_integer(placed.called[p.name]).name: CVar(p.name)
            for p in placed.program.params
        }

    @property
    def program(self) -> Program:
        return self.placed.program

    def script(self) -> Script:
        """A script that knows the sizes and the preconditions."""
        loads = Loads(self.placed) if self.placed.loads else None
        script = Script(self.placed.called, self._shared, loads)
        for parameter in self.program.params:
            size = script.constant(parameter.name)
            if parameter.kind == "size":
                script.assume(at_most(Int(self.placed.least(parameter.name)), size))
        for precondition in self.program.preconditions:
            script.assume(precondition)
        return script

    def _names(self, site: Site, prefix: str) -> tuple[tuple[Sym, Sym], ...]:
        """The iterators of a site, each with what it is called in a witness."""
        key = (site.number, prefix)
        if key not in self._known:
            names = witness.names_of(site, prefix, self.placed.called)
            self._known[key] = tuple((at, one.name) for at, one in names.items())
        return self._known[key]

    def uses(self, name: Sym) -> Uses:
        """The uses of a barrier."""
        sites = self.placed.uses[name]
        return Uses(
            name,
            tuple(s for s in sites if isinstance(s.op, Arrive) and s.op.home.name == name),
            tuple(s for s in sites if isinstance(s.op, Await)),
            tuple(s for s in sites if _trails(s, name)),
            tuple(s for s in sites if isinstance(s.op, CheckBarrier)),
            tuple(s for s in sites if isinstance(s.op, Loop)),
        )

    def meaning(
        self,
        instances: Mapping[str, Instance],
        threads: Mapping[str, CExpr | None] | None = None,
        element: witness.Values = (),
        outer: Mapping[Sym, CExpr] | None = None,
    ) -> Meaning:
        """Gives meaning to names with these prefixes: the instances' iterators and threads, and an
        element; iterators of loops set apart are called `outer.k`."""
        values = dict(self._sizes)
        for prefix, instance in instances.items():
            values |= {one: instance.values[at] for at, one in self._names(instance.site, prefix)}
        for prefix, thread in (threads or {}).items():
            if thread is not None:
                values[witness.witness_integer(f"{prefix}.{witness.THREAD}").name] = thread
        for at, value in (outer or {}).items():
            values[witness.witness_integer(f"outer.{self.placed.called[at]}").name] = value
        of = zip(witness.element_names(len(element)), element, strict=True)
        values |= {one.name: value for one, value in of}
        return Meaning(self, values)


def _trails(site: Site, name: Sym) -> bool:
    op = site.op
    return isinstance(op, Record) and op.trailing is not None and home_of(site).name == name
