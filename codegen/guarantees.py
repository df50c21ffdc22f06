"""Guarantees of PTX for each row of the lowering table, on one access that came before it.

An access is followed from where it was issued: which rows complete it, which show it to the async
proxy or to wgmma, which take what is known of it to other threads.  The two tables are
transcribed from the PTX ISA and know nothing of timelines' rules; `exogpu.codegen.claims` holds
the abstract machine's rules against them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from exogpu.hw.timelines import SHORT
from exogpu.ir.types import QualTL

Place = Literal["fragment", "accumulator", "shared", "global"]
"""Registers of wgmma are fragments of A or accumulators: no variable is both."""
REGISTERS: Final = frozenset[Place]({"fragment", "accumulator"})
Proxy = Literal["generic", "async", "wgmma", "flag"]
"""The proxy of accesses: wgmma's own register accesses are asynchronous without a proxy, and
scale-d is a flag in a register of the program."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of access: what it is, its timeline, where it goes, whether it reads or writes."""

    name: str
    timeline: QualTL
    places: frozenset[Place]
    """Where its locations may lie."""
    how: Literal["r", "w", "rw"]
    proxy: Proxy

    def meets(self, other: Kind) -> bool:
        """Tests whether one location may be accessed in both ways, one of them not a read."""
        return bool(self.places & other.places) and (self.how, other.how) != ("r", "r")

    @property
    def issued(self) -> Facts:
        """Returns the facts about the access once its instruction has been executed."""
        return frozenset({Fact.DONE}) if self.timeline in _IN_ORDER else frozenset()


class Fact(Enum):
    """A fact about an access, known to the threads that go on."""

    DONE = "completed"
    PROXIED = "before the async proxy's accesses"
    FENCED = "before wgmma's register accesses"
    RELEASED = "released by an arrival"
    JOINED = "known to all threads of the second side"


Facts = frozenset[Fact]

_IN_ORDER: Final = frozenset({QualTL.CUDA1, QualTL.CUDA2, QualTL.WG_0})

_KINDS = """
ordinary register       | cuda1 | fragment accumulator | rw | generic
ordinary shared         | cuda2 | shared               | rw | generic
ordinary, another CTA's | cuda2 | shared               | rw | generic
ordinary global         | cuda2 | global               | rw | generic
cp.async source         | Sm80  | global               | r  | generic
cp.async destination    | Sm80  | shared               | w  | generic
TMA load source         | tmaS  | global               | r  | async
TMA load destination    | tmaS  | shared               | w  | async
TMA store source        | tmaR  | shared               | r  | async
TMA store destination   | tmaG  | global               | w  | async
wgmma shared operand    | wgS   | shared               | r  | async
wgmma register operand  | wgA   | fragment             | r  | wgmma
wgmma accumulator       | wgD   | accumulator          | rw | wgmma
scale-d                 | wg0   | accumulator          | w  | flag
"""


def _kinds() -> tuple[Kind, ...]:
    rows = [[cell.strip() for cell in line.split("|")] for line in _KINDS.strip().splitlines()]
    return tuple(
        Kind(name, SHORT[timeline], frozenset(places.split()), how, proxy)  # type: ignore[arg-type]
        for name, timeline, places, how, proxy in rows
    )


KINDS: Final = _kinds()
"""Every kind of access of a kernel.  A multicast load is a load, a bulk reduction is a store."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a row on accesses: it needs the facts `asks`, and adds `gives`."""

    timelines: str
    """The timelines of the accesses, by their short names, or "all"."""
    asks: Facts
    gives: Facts

    def apply_to(self, kind: Kind, known: Facts) -> Facts:
        """Returns the facts after the row."""
        mine = self.timelines == "all" or kind.timeline in map(SHORT.get, self.timelines.split())
        return known | self.gives if mine and self.asks <= known else known


_NONE: Final[Facts] = frozenset()
_DONE: Final = frozenset({Fact.DONE})
_RELEASED: Final = frozenset({Fact.RELEASED})
_JOINED: Final = frozenset({Fact.JOINED})

# fmt: off
EFFECTS: Final[Mapping[str, Effect]] = {
    # Barriers: what is completed before one is known after it (causality order; cumulative).
    "fence thread":                   Effect("all", _DONE, _JOINED),
    "fence warp":                     Effect("all", _DONE, _JOINED),
    "fence lanes":                    Effect("all", _DONE, _JOINED),
    "fence some lanes":               Effect("all", _DONE, _JOINED),
    "fence warps":                    Effect("all", _DONE, _JOINED),
    "fence cta":                      Effect("all", _DONE, _JOINED),
    "fence cta by role":              Effect("all", _DONE, _JOINED),
    "fence cluster":                  Effect("all", _DONE, _JOINED),
    # Completion: each names the asynchronous operations that it waits for.
    "drain cp.async":                 Effect("Sm80", _NONE, _DONE),
    "drain bulk":                     Effect("tmaG tmaR", _NONE, _DONE),
    "drain bulk, sources":            Effect("tmaR", _NONE, _DONE),
    "drain wgmma":                    Effect("wgA wgD wgS", _NONE, _DONE),
    # Between proxies; registers belong to none.
    "proxy fence":                    Effect("cuda2 Sm80", _DONE, frozenset({Fact.PROXIED})),
    "wgmma fence":                    Effect("cuda1 wgA wgD wg0", _NONE, frozenset({Fact.FENCED})),
    # Split barriers: the arrival releases, the wait acquires.
    "arrive named":                   Effect("all", _DONE, _RELEASED),
    "arrive mbarrier":                Effect("all", _DONE, _RELEASED),
    "arrive mbarrier of warps":       Effect("all", _DONE, _RELEASED),
    "arrive mbarrier with bytes":     Effect("all", _DONE, _RELEASED),
    "arrive mbarrier of CTAs":        Effect("all", _DONE, _RELEASED),
    "arrive mbarrier with bytes, by all": Effect("all", _DONE, _RELEASED),
    "arrive mbarrier of CTAs with bytes": Effect("all", _DONE, _RELEASED),
    "arrive mbarrier of CTAs with bytes, by all": Effect("all", _DONE, _RELEASED),
    "arrive mbarrier of CTAs, each thread": Effect("all", _DONE, _RELEASED),
    # Nothing of the generic proxy comes before it: `published` sees to that.
    "arrive mbarrier of CTAs, reads": Effect("tmaS tmaR wgS", _DONE, _RELEASED),
    "arrive mbarrier of cp.async":    Effect("Sm80", _NONE, _DONE | _RELEASED),
    "arrive cluster":                 Effect("all", _DONE, _RELEASED),
    "await named":                    Effect("all", _RELEASED, _JOINED),
    "await mbarrier":                 Effect("all", _RELEASED, _JOINED),
    "await mbarrier of CTAs":         Effect("all", _RELEASED, _JOINED),
    "await cluster":                  Effect("all", _RELEASED, _JOINED),
    # Flags: the barriers of both scopes, and what goes from CTA to CTA through global memory.
    "arrive flag":                    Effect("all", _DONE, _RELEASED),
    "await flag":                     Effect("all", _RELEASED, _JOINED),
    # The end of a launch: its grid has completed, and everything that it did is performed.
    "await launch":                   Effect("all", _NONE, _DONE | _JOINED),
    "await launch, for TMA":          Effect("all", _NONE, _DONE | _JOINED | {Fact.PROXIED}),
    # Groups: a thread waits for its own operations, a warpgroup for its own.
    "arrive cp.async":                Effect("Sm80", _NONE, _RELEASED),
    "await cp.async":                 Effect("Sm80", _RELEASED, _DONE),
    "arrive bulk":                    Effect("tmaG tmaR", _NONE, _RELEASED),
    "await bulk":                     Effect("tmaG tmaR", _RELEASED, _DONE),
    "await bulk, sources":            Effect("tmaR", _RELEASED, _DONE),
    "arrive wgmma":                   Effect("wgA wgD wgS", _NONE, _RELEASED),
    "await wgmma":                    Effect("wgA wgD wgS", _RELEASED, _DONE | _JOINED),
    # The bytes of a load complete on the mbarrier beside them.
    "trailing load":                  Effect("tmaS", _NONE, _DONE | _RELEASED),
}
# fmt: on


def facts_after(rows: Iterable[str], kind: Kind, known: Facts) -> Facts:
    """Returns the facts about an access after the rows, in order."""
    for row in rows:
        known = EFFECTS[row].apply_to(kind, known)
    return known


def ordering_facts(first: Kind, second: Kind) -> Facts:
    """Returns the facts about an access of the first kind that order one of the second after it, on
    one location (PTX ISA: memory consistency model, proxies; wgmma.fence).

    An access of the async proxy has a proxy fence implied where its completion is observed.
    """
    if second.proxy == "flag":
        return _NONE
    if first.places <= REGISTERS:
        if second.proxy == "wgmma":
            # Products of one shape on an accumulator are in order; code generation fences others.
            same = first.timeline is second.timeline is QualTL.WG_D
            return _NONE if same else frozenset({Fact.FENCED})
        return _DONE | (frozenset({Fact.FENCED}) if first.proxy == "flag" else _NONE)
    across = first.proxy == "generic" and second.proxy == "async"
    return _DONE | _JOINED | (frozenset({Fact.PROXIED}) if across else _NONE)
