"""Every obligation of a program, made from the program and from what was found about it."""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.ir.names import Sym
from exogpu.ir.types import BarrierMechanism
from exogpu.symbolic.encode.barriers import barrier_obligations
from exogpu.symbolic.encode.counted import count_lemmas
from exogpu.symbolic.encode.drafts import Draft, Encoder
from exogpu.symbolic.encode.pairs import pairs
from exogpu.symbolic.encode.phases import phase_obligations
from exogpu.symbolic.encode.ranks import RankTable
from exogpu.symbolic.encode.witness import Sought
from exogpu.symbolic.placed import Placed
from exogpu.symbolic.sites import variables_of


def drafts(placed: Placed, sought: Sought) -> Iterator[Draft]:
    """Every obligation of a program.

    Whatever was found, the obligations are those that the program has, and each is a claim about
    the program alone: what was found can make it fail, and nothing else.  Raises UndecidedError
    where the program has what no obligation can be made for, WitnessError where what was found
    does not fit the program.
    """
    encoder = Encoder(placed, sought)
    tables: dict[Sym, RankTable] = {}

    def ranks(name: Sym) -> RankTable:
        if name not in tables:
            tables[name] = RankTable(encoder, name)
        return tables[name]

    yield from pairs(encoder, ranks)
    for variable in placed.program.variables:
        if variable.mechanism is None:
            continue
        if not any(variable.name in variables_of(site.op) for site in placed.sites):
            continue
        yield from count_lemmas(encoder, ranks(variable.name))
        yield from barrier_obligations(encoder, ranks(variable.name))
        if variable.mechanism is BarrierMechanism.MBARRIER:
            yield from phase_obligations(encoder, ranks(variable.name), ranks)
