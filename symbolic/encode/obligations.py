"""Every obligation of a program, made from the program and from what was found about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from exogpu.amir.nodes import Alloc, CheckInitialised, Record
from exogpu.ir.nodes import Access
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, holds
from exogpu.symbolic.encode.access_obligations import owner, pairs_of
from exogpu.symbolic.encode.barrier_obligations import barrier_obligations
from exogpu.symbolic.encode.count_lemmas import count_lemmas
from exogpu.symbolic.encode.encoder import Draft, Encoder
from exogpu.symbolic.encode.initialisation_obligations import reads_of
from exogpu.symbolic.encode.phase_obligations import phase_obligations
from exogpu.symbolic.encode.rank_table import RankTable
from exogpu.symbolic.encode.required_obligations import requirements
from exogpu.symbolic.encode.witness import Sought, WitnessError
from exogpu.symbolic.model import Placed
from exogpu.symbolic.partition import Topic
from exogpu.symbolic.sites import UndecidedError, variables_of


def check_sizes(placed: Placed, sizes: Mapping[str, int]) -> None:
    """Raises WitnessError where the sizes do not satisfy the preconditions: of a program that no
    sizes admit, everything could be proved."""
    params = placed.program.params
    if [placed.called[p.name] for p in params] != [*sizes]:
        raise WitnessError("it gives values to other sizes than the program has")
    values = dict(zip((p.name for p in params), sizes.values(), strict=True))
    least = (p.name for p in params if p.kind == "size")
    if any(values[name] < placed.least(name) for name in least):
        raise WitnessError("a size is less than it may be")
    if not all(holds(one, values) for one in placed.program.preconditions):
        raise WitnessError("its sizes do not satisfy the preconditions")


def _check_extents(placed: Placed) -> None:
    """Raises UndecidedError where the extents of a variable are not of sizes alone."""
    sizes = {p.name for p in placed.program.params}
    for site in placed.sites:
        for name in variables_of(site.op):
            extents = placed.variables[name].shape
            if not all(control_variables(extent) <= sizes for extent in extents):
                why = f"the extents of {placed.called[name]} change with an iterator"
                raise UndecidedError(why, site.op.origin.span)


def _check_loads(placed: Placed) -> None:
    """Raises UndecidedError where an array that values are loaded from, or a contract is on, is
    written: then an element has no one value (decision `loaded-values`)."""
    arrays = {one.array for one in placed.program.contracts}
    arrays |= {loop.source.name for loop in placed.loads if loop.source is not None}
    for site in placed.sites:
        match site.op:
            case Record(mutate=True, access=Access(name)) | Alloc(name) if name in arrays:
                why = f"{placed.called[name]}, from which values are loaded, changes here"
                raise UndecidedError(why, site.op.origin.span)
            case _:
                pass


@dataclass(frozen=True, slots=True)
class Unit:
    """Obligations that are made one after the other; those of two units know nothing of each
    other."""

    topic: Topic
    drafts: Callable[[], Iterator[Draft]]


def units(placed: Placed, sought: Sought) -> list[Unit]:
    """Every obligation of a program, in units.

    Whatever was found, the obligations are those that the program has, and each is a claim about
    the program alone: what was found can make it fail, and nothing else.  Raises UndecidedError
    where the program has what no obligation can be made for; so do the units, and WitnessError
    where what was found does not fit the program.
    """
    _check_extents(placed)
    _check_loads(placed)
    encoder = Encoder(placed, sought)
    tables: dict[Sym, RankTable] = {}

    def ranks(name: Sym) -> RankTable:
        if name not in tables:
            tables[name] = RankTable(encoder, name)
        return tables[name]

    def count_drafts(name: Sym) -> Iterator[Draft]:
        yield from count_lemmas(encoder, ranks(name))
        yield from barrier_obligations(encoder, ranks(name))

    def phased(name: Sym) -> Iterator[Draft]:
        yield from phase_obligations(encoder, ranks(name), ranks)

    found = [
        Unit(Topic(site.op.access.name), partial(pairs_of, encoder, ranks, site))
        for site in placed.sites
        if isinstance(site.op, Record)
    ]
    for variable in placed.program.variables:
        name, mechanism = variable.name, variable.mechanism
        if name in placed.barriers:
            found.append(Unit(Topic(name), partial(count_drafts, name)))
            if mechanism is not None and mechanism.phased:
                found.append(Unit(Topic(name, phase=True), partial(phased, name)))
    found += [
        Unit(Topic(variable.name), partial(reads_of, encoder, ranks, variable.name))
        for variable in placed.program.variables
        if any(isinstance(site.op, CheckInitialised) for site in placed.uses[variable.name])
    ]
    found += [
        Unit(Topic(variable.name), partial(owner, encoder, variable))
        for variable in placed.program.variables
        if variable.owner is not None
    ]
    return [*found, Unit(Topic(None), partial(requirements, encoder, ranks))]


def drafts(placed: Placed, sought: Sought) -> Iterator[Draft]:
    """Every obligation of a program (`units`), one after the other."""
    for unit in units(placed, sought):
        yield from unit.drafts()
