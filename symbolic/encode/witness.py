"""The prover's findings as data: instances that order accesses, and counts of Arrives.

Nothing of it is believed.  Expressions are of named integers: the sizes, and the iterators, threads
and elements of the instances that an obligation is about (`first.k`, `second.t`, `element.0`).
Sites are told by their place in the program's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

from exogpu.ir.nodes import CExpr, CVar
from exogpu.ir.types import QualTL, Sym
from exogpu.machine.literal_records import Grant
from exogpu.symbolic.encode.pieces import Pieces
from exogpu.symbolic.sites import Site

Values: TypeAlias = tuple[CExpr, ...]

Key = TypeVar("Key")
Found = TypeVar("Found")


class WitnessError(ValueError):
    """A witness says what cannot be: a site that is none, a count that is missing."""


# --- names --------------------------------------------------------------------------------------

_NUMBER: Final = -1
"""The number of the variables of witnesses, which no program's variable has."""


def witness_integer(name: str) -> CVar:
    """The integer of that name in a witness's expressions."""
    return CVar(Sym(name, _NUMBER))


THREAD: Final = "t"
"""`first.t` is a thread: no iterator is called so (`isltext.is_free`)."""


def names_of(site: Site, prefix: str, called: Mapping[Sym, str]) -> dict[Sym, CVar]:
    """By iterator, the integers that stand for an instance of a site."""
    return {name: witness_integer(f"{prefix}.{called[name]}") for name in site.iterators}


def element_names(rank: int) -> tuple[CVar, ...]:
    """The integers that stand for an element."""
    return tuple(witness_integer(f"element.{at}") for at in range(rank))


# --- chains -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Label:
    """A label says how a Fence or Await shows a record to its threads: by a full or a temporal
    grant, and in full on a timeline of the async proxy carried to it."""

    grant: Grant
    carried: QualTL | None = None


FULL: Final = Label(Grant.FULL)
TEMPORAL: Final = Label(Grant.TEMPORAL)


@dataclass(frozen=True, slots=True)
class At:
    """An instance of a site: the values of the iterators around it, the outermost first."""

    site: int
    values: Values


@dataclass(frozen=True, slots=True)
class Passed:
    """A sync that fired for a record."""

    via: At
    """A Fence or Arrive; the Record itself, where its trailing barrier grants."""
    threads: Values
    """Candidates for a thread that executes it and what comes before; empty where none is
    asked for."""
    before: Granted | None
    """None where it fires for the threads that made the record."""
    crossing: Granted | None = None
    """Where it is not the one before: what shows the record across the proxy to such a thread."""


@dataclass(frozen=True, slots=True)
class Granted:
    """A Fence or Await that makes a record visible to its threads."""

    at: At
    label: Label
    ways: tuple[Passed, ...]
    """One of them holds."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A check that sees a record."""

    granted: Granted | None
    """None where the check's threads made the record."""
    threads: Values
    """Candidates for a thread that both execute, where one is enough."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A Clear between a record and a check."""

    clear: At


@dataclass(frozen=True, slots=True)
class After:
    """An Await or Arrive of an mbarrier, and what orders it in execution with another."""

    at: At
    granted: Granted | None
    """None where a thread executes both."""
    threads: Values
    """Candidates for a thread of the grant and of the Arrive, where one is enough."""


Chain: TypeAlias = Seen | Gone

Aim: TypeAlias = Literal["previous", "last", "awaited", "arrived", "trailed", "signals", "enough"]
"""The relation of a partner to an instance: the one counted before it, the last on an element, the
Await that waits for an Arrive, the Arrive that an Await waits for, the Arrive of a trailing
barrier's rank, any Arrive on an Await's element, a late enough Arrive of another's home."""

Order: TypeAlias = Literal["not_early", "not_ahead", "followed"]
"""(i), (iii) and (ii) of PHASE."""

AIMS: Final[tuple[Aim, ...]] = (
    *("previous", "last", "awaited", "arrived", "trailed", "signals", "enough"),
)
ORDERS: Final[tuple[Order, ...]] = ("not_early", "not_ahead", "followed")


# --- the whole ----------------------------------------------------------------------------------


class Sought(Protocol):
    """The encoder's queries, by the numbers of sites and the names of barriers.

    The prover answers while it searches, a witness from what it holds.
    """

    def chains(self, record: int, check: int) -> tuple[Chain, ...]:
        """In `first.`, `second.` and `element.`: candidates for what orders the two."""
        ...

    def writes(self, read: int) -> tuple[At, ...]:
        """In `here.` and `element.`: candidates for what has written an element that is read."""
        ...

    def separate_loops(self, barrier: str) -> int:
        """Returns the number of outer loops whose iterations are counted apart; 0 outside nests."""
        ...

    def depth(self, barrier: str) -> int | None:
        """The depth of an mbarrier's ring, where the program has none."""
        ...

    def count(self, site: int, *, arrivals: bool) -> Pieces:
        """In `here.`: how many Arrives, or Awaits, come before an instance on its element."""
        ...

    def total(self, barrier: str) -> Pieces:
        """In `outer.` and `element.`: how many an iteration of the loops set apart has."""
        ...

    def partners(self, aim: Aim, *sites: int) -> tuple[At, ...]:
        """In `here.` and, of a second site, `other.`; of the last in `outer.` and `element.`."""
        ...

    def ordered(self, order: Order, site: int) -> tuple[After, ...]:
        """In `here.` and, of an arrival, `element.`: candidates for what PHASE asks for."""
        ...


@dataclass(frozen=True, slots=True)
class Nest:
    """The counts of a barrier's Arrives and Awaits."""

    apart: int
    depth: int | None
    total: Pieces | None


@dataclass(frozen=True)
class Witness:
    """All that the prover found of a program."""

    sizes: Mapping[str, int]
    """Some that satisfy the preconditions."""
    nests: Mapping[str, Nest]
    counts: Mapping[tuple[int, bool], Pieces]
    chained: Mapping[tuple[int, int], tuple[Chain, ...]]
    written: Mapping[int, tuple[At, ...]]
    near: Mapping[tuple[Aim, tuple[int, ...]], tuple[At, ...]]
    phased: Mapping[tuple[Order, int], tuple[After, ...]]
    asked: set[object] = field(default_factory=set, compare=False, repr=False)
    """The questions that the encoder has asked."""

    def chains(self, record: int, check: int) -> tuple[Chain, ...]:
        self.asked.add((record, check))
        return self.chained.get((record, check), ())

    def writes(self, read: int) -> tuple[At, ...]:
        self.asked.add((read, "writes"))
        return self.written.get(read, ())

    def separate_loops(self, barrier: str) -> int:
        return self._nest(barrier).apart

    def depth(self, barrier: str) -> int | None:
        return self._nest(barrier).depth

    def total(self, barrier: str) -> Pieces:
        found = self._nest(barrier).total
        if found is None:
            raise WitnessError(f"the total of {barrier} is missing")
        return found

    def _nest(self, barrier: str) -> Nest:
        self.asked.add(barrier)
        if barrier not in self.nests:
            raise WitnessError(f"nothing is said of how {barrier} is counted")
        return self.nests[barrier]

    def count(self, site: int, *, arrivals: bool) -> Pieces:
        self.asked.add((site, arrivals, "count"))
        if (site, arrivals) not in self.counts:
            raise WitnessError(f"the count at site {site} is missing")
        return self.counts[site, arrivals]

    def partners(self, aim: Aim, *sites: int) -> tuple[At, ...]:
        self.asked.add((aim, sites))
        return self.near.get((aim, sites), ())

    def ordered(self, order: Order, site: int) -> tuple[After, ...]:
        self.asked.add((order, site))
        return self.phased.get((order, site), ())

    def unasked(self) -> list[str]:
        """Returns the keys that no obligation has asked for."""
        said: Iterable[object] = (
            *self.nests,
            *((site, arrivals, "count") for site, arrivals in self.counts),
            *self.chained,
            *((read, "writes") for read in self.written),
            *self.near,
            *self.phased,
        )
        return [str(key) for key in said if key not in self.asked]


def joined_witness(several: Sequence[Witness]) -> Witness:
    """One of several witnesses of a program, in the order of the program."""
    nests: dict[str, Nest] = {}
    for witness in several:
        for name, nest in witness.nests.items():
            known = nests.setdefault(name, nest)
            depth = nest.depth if known.depth is None else known.depth
            nests[name] = Nest(nest.apart, depth, known.total or nest.total)
    chained = _all(witness.chained for witness in several)
    counts = _all(witness.counts for witness in several)
    written = _all(witness.written for witness in several)
    near = _all(witness.near for witness in several)
    phased = _all(witness.phased for witness in several)
    return Witness(
        several[0].sizes,
        dict(sorted(nests.items())),
        {key: counts[key] for key in sorted(counts)},
        {key: chained[key] for key in sorted(chained)},
        {key: written[key] for key in sorted(written)},
        {key: near[key] for key in sorted(near)},
        {key: phased[key] for key in sorted(phased)},
    )


def _all(several: Iterable[Mapping[Key, Found]]) -> dict[Key, Found]:
    return {key: value for one in several for key, value in one.items()}
