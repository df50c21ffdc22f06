"""Proves by Z3 that programs store different tiles of global memory; else assumes it by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from exogpu.importing import events as ev
from exogpu.importing.proving import between, follows
from exogpu.importing.sizes import Size
from exogpu.importing.values import (
    FALSE,
    TRUE,
    Atom,
    Condition,
    Value,
    Variable,
    both,
    compare,
    condition_atoms,
    negation,
    of,
    replaced_in,
    unread_in,
)


@dataclass(frozen=True, slots=True)
class Store:
    """A TMA store: where, and what is known there."""

    tensor: str
    place: ev.Step
    coordinates: tuple[Value | None, ...]
    block: tuple[int, ...]
    facts: tuple[Condition, ...]
    counters: tuple[Variable, ...]


def assumed_tiles(
    items: Sequence[ev.Item],
    sizes: Sequence[Size],
    arguments: frozenset[str],
    axes: Sequence[int],
) -> Iterator[str]:
    """Yields the assumptions about the tiles that programs store, where proofs fail.

    Programs are told apart by their ids on these axes of the grid.
    """
    stores = list(_stores(items, (), ()))
    shared = _shared(sizes, arguments)
    for tensor in dict.fromkeys(one.tensor for one in stores):
        own = [one for one in stores if one.tensor == tensor]
        name = tensor.strip("%")
        pairs = [(one, other) for at, one in enumerate(own) for other in own[at:]]
        programs = [Variable(f"program{axis}", natural=True) for axis in axes]
        if not all(_apart(one, other, sizes, shared, programs) for one, other in pairs):
            yield f"programs store different tiles of {name}"
        if not all(_apart(one, other, sizes, shared, ()) for one, other in pairs):
            yield f"a program stores each tile of {name} once"


def _stores(
    items: Sequence[ev.Item], facts: tuple[Condition, ...], counters: tuple[Variable, ...]
) -> Iterator[Store]:
    for item in items:
        match item:
            case ev.Loop():
                within = (*facts, *between(0, of(item.counter), item.trips))
                yield from _stores(item.body, within, (*counters, item.counter))
            case ev.Step(event=ev.TmaStore() as store):
                known = facts if item.guard == TRUE else (*facts, item.guard)
                yield Store(store.tensor, item, store.coordinates, store.block, known, counters)
            case ev.Step():
                pass


def _shared(sizes: Sequence[Size], arguments: frozenset[str]) -> frozenset[str]:
    """The variables that all programs have alike."""
    found = set(arguments) | {f"programs{axis}" for axis in range(3)}
    for size in sizes:
        if all(one.name in found for one in size.trips.value.variables()):
            found.add(size.variable.name)
    return frozenset(found)


def _apart(
    one: Store,
    other: Store,
    sizes: Sequence[Size],
    shared: frozenset[str],
    programs: Sequence[Variable],
) -> bool:
    """Returns whether two stores are proved disjoint: of two programs, or of the same one where
    no ids tell programs apart."""
    same = not programs
    block = one.block
    if block != other.block or len(block) != len(one.coordinates) or None in one.coordinates:
        return False
    by = _primes((one, other), sizes, shared, same=same)
    by |= {id_: of(Variable(f"{id_.name}'", natural=True)) for id_ in programs}
    facts = [*one.facts, *(replaced_in(fact, by) for fact in other.facts)]
    if any(unread_in(fact) for fact in facts):
        facts = [fact for fact in facts if not unread_in(fact)]
    facts += _of_sizes(sizes, {}) + _of_sizes(sizes, by)
    for program in programs:
        programs_of = of(Variable(program.name.replace("program", "programs"), natural=True))
        facts += [compare("<=", id_ - programs_of + 1) for id_ in (of(program), by[program])]
    near: Condition = TRUE
    for here, there, extent in zip(one.coordinates, other.coordinates, block, strict=True):
        if here is None or there is None:
            return False
        distance = here - there.replaced(by)
        near = both(near, compare("<=", distance - (extent - 1)))
        near = both(near, compare("<=", distance * -1 - (extent - 1)))
    differ: Sequence[Variable] = programs
    if same:
        if one.place is not other.place:
            return follows((*facts, near), FALSE)
        differ = list(one.counters)
    return all(
        follows((*facts, near, negation(compare("==", of(v) - by.get(v, of(v))))), FALSE)
        for v in differ
    )


def _primes(
    stores: Sequence[Store], sizes: Sequence[Size], shared: frozenset[str], *, same: bool
) -> dict[Atom, Value]:
    """The variables of the second instance that may differ from those of the first."""
    variables: set[Variable] = set()
    for store in stores:
        for value in store.coordinates:
            variables |= value.variables() if value is not None else set()
        for fact in store.facts:
            variables |= _variables(fact)
        variables |= set(store.counters)
    for size in sizes:
        variables |= {size.variable, *size.trips.value.variables()}
    counters = {one for store in stores for one in store.counters}
    found: dict[Atom, Value] = {}
    for variable in variables:
        varies = variable in counters or bool(variable.within)
        if varies or (not same and variable.name not in shared):
            primed = Variable(f"{variable.name}'", variable.natural, bit=variable.bit)
            found[variable] = of(primed)
    return found


def _variables(condition: Condition) -> set[Variable]:
    return {atom for atom in condition_atoms(condition) if isinstance(atom, Variable)}


def _of_sizes(sizes: Sequence[Size], by: Mapping[Atom, Value]) -> list[Condition]:
    """Lists the conditions that each size is its trip count, or 0 where that is negative."""
    found: list[Condition] = []
    for size in sizes:
        count, trips = of(size.variable).replaced(by), size.trips.value.replaced(by)
        exact, none = compare("==", count - trips), compare("==", count)
        negative = both(none, compare("<=", trips))
        found.append(negation(both(negation(exact), negation(negative))))
    return found
