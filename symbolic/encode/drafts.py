"""Material for obligations: the program, a witness, and a script that knows the sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exogpu.amir.nodes import Arrive, Await, CheckBarrier, Loop, Program, Record
from exogpu.ir.names import Sym
from exogpu.ir.nodes import CExpr, CVar, Int
from exogpu.result.hazards import HazardKind
from exogpu.result.proof import Lemma
from exogpu.symbolic.encode.expressions import Pieces, pieces_at, replaced
from exogpu.symbolic.encode.formulas import Instance, at_most
from exogpu.symbolic.encode.loads import Loads
from exogpu.symbolic.encode.meetings import Meetings
from exogpu.symbolic.encode.script import Script, Texts
from exogpu.symbolic.encode.witness import (
    THREAD,
    At,
    Chain,
    Sought,
    Values,
    WitnessError,
    element_names,
    named,
    names_of,
)
from exogpu.symbolic.placed import Placed
from exogpu.symbolic.sites import Site, home_of


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
    """Of the names in its chains."""
    chains: tuple[Chain, ...] = ()


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
    element: Values


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
    def counted(self) -> tuple[Site, ...]:
        """Returns the sites at which something is counted."""
        return (*self.arrives, *self.trailing, *self.awaits, *self.slots)


class Meaning:
    """Meanings of the names in a witness's expressions, in one obligation."""

    def __init__(self, encoder: Encoder, values: Mapping[Sym, CExpr]) -> None:
        self._sites = encoder.placed.sites
        self._values = values

    def site(self, at: At, kinds: tuple[type, ...]) -> Site:
        """The site of an instance, which is of these kinds.  Raises WitnessError."""
        if not 0 <= at.site < len(self._sites):
            raise WitnessError(f"there is no site {at.site}")
        site = self._sites[at.site]
        if not isinstance(site.op, kinds):
            raise WitnessError(f"line {site.op.origin.span.line} has no part there")
        if len(at.values) != len(site.loops):
            raise WitnessError(f"line {site.op.origin.span.line} has other iterators")
        return site

    def instance(self, at: At, *kinds: type) -> Instance:
        """An instance of a site of these kinds.  Raises WitnessError."""
        site = self.site(at, kinds)
        return Instance(site, dict(zip(site.iterators, self.values(at.values), strict=True)))

    def partner(self, at: At, sites: Sequence[Site]) -> Instance:
        """An instance of one of the sites.  Raises WitnessError."""
        found = self.instance(at, Arrive, Await, Record)
        if found.site not in sites:
            raise WitnessError(f"line {found.site.op.origin.span.line} is no partner there")
        return found

    def values(self, values: Values) -> Values:
        """Expressions of the obligation's own constants."""
        return tuple(self.value(value) for value in values)

    def value(self, value: CExpr) -> CExpr:
        """An expression of the obligation's own constants.  Raises WitnessError."""
        try:
            return replaced(value, self._values)
        except KeyError as unknown:
            raise WitnessError(f"{unknown.args[0]} is no name there") from None

    def pieces(self, pieces: Pieces) -> Pieces:
        """The same of an expression by cases.  Raises WitnessError."""
        try:
            return pieces_at(pieces, self._values)
        except KeyError as unknown:
            raise WitnessError(f"{unknown.args[0]} is no name there") from None


class Encoder:
    """The program, and what was found about it."""

    def __init__(self, placed: Placed, sought: Sought) -> None:
        self.placed = placed
        self.sought = sought
        self._shared: Texts = {}
        self.meetings = Meetings(placed, self.script)
        self._known: dict[tuple[int, str], tuple[tuple[Sym, Sym], ...]] = {}
        self._sizes: dict[Sym, CExpr] = {
            named(placed.called[p.name]).name: CVar(p.name) for p in placed.program.params
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
            names = names_of(site, prefix, self.placed.called)
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
        element: Values = (),
        outer: Mapping[Sym, CExpr] | None = None,
    ) -> Meaning:
        """Gives meaning to names with these prefixes: the instances' iterators and threads, and an
        element; iterators of loops set apart are called `outer.k`."""
        values = dict(self._sizes)
        for prefix, instance in instances.items():
            values |= {one: instance.values[at] for at, one in self._names(instance.site, prefix)}
        for prefix, thread in (threads or {}).items():
            if thread is not None:
                values[named(f"{prefix}.{THREAD}").name] = thread
        for at, value in (outer or {}).items():
            values[named(f"outer.{self.placed.called[at]}").name] = value
        of = zip(element_names(len(element)), element, strict=True)
        values |= {one.name: value for one, value in of}
        return Meaning(self, values)


def _trails(site: Site, name: Sym) -> bool:
    op = site.op
    return isinstance(op, Record) and op.trailing is not None and home_of(site).name == name
