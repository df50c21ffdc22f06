"""Proves by Z3 that programs store different tiles of global memory; else assumes it by name.

Where two programs, or two iterations, are proved to store overlapping tiles whatever the arguments
are, the kernel is refuted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from exogpu.importing import polynomial_values, role_events
from exogpu.importing.trip_counts import Size
from exogpu.importing.value_proofs import between_bounds, follows, possible_together


@dataclass(frozen=True, slots=True)
class Store:
    """A TMA store: where, and what is known there."""

    tensor: str
    place: role_events.Step
    coordinates: tuple[polynomial_values.Value | None, ...]
    block: tuple[int, ...]
    facts: tuple[polynomial_values.Condition, ...]
    counters: tuple[polynomial_values.Variable, ...]


def assumed_tiles(
    items: Sequence[role_events.Item],
    sizes: Sequence[Size],
    arguments: frozenset[str],
    axes: Sequence[int],
) -> Iterator[str]:
    """Yields the assumptions about the tiles that programs store, where proofs fail.

    Programs are told apart by their ids on these axes of the grid; without axes there is only one.
    """
    stores = list(_stores(items, (), ()))
    shared = _shared_variables(sizes, arguments)
    for tensor in dict.fromkeys(one.tensor for one in stores):
        own = [one for one in stores if one.tensor == tensor]
        name = tensor.strip("%")
        pairs = [(one, other) for at, one in enumerate(own) for other in own[at:]]
        programs = [polynomial_values.Variable(f"program{axis}", natural=True) for axis in axes]
        if axes and not all(
            _are_disjoint(one, other, sizes, shared, programs) for one, other in pairs
        ):
            yield f"programs store different tiles of {name}"
        if not all(_are_disjoint(one, other, sizes, shared, ()) for one, other in pairs):
            yield f"a program stores each tile of {name} once"


@dataclass(frozen=True, slots=True)
class Collision:
    """Two stores of overlapping tiles, for all arguments of the kernel."""

    first: role_events.Step
    second: role_events.Step
    who: str


def collision(
    items: Sequence[role_events.Item],
    sizes: Sequence[Size],
    arguments: frozenset[str],
    axes: Sequence[int],
    *,
    ordered: bool,
) -> Collision | None:
    """Finds two stores that are proved to overlap: of programs 0 and 1, or of two iterations.

    Stores of one program are left out where they may be `ordered` by waits for their writes; and
    programs on axes of the grid that the kernel does not read, since there may be only one.
    """
    stores = list(_stores(items, (), ()))
    shared = _shared_variables(sizes, arguments)
    pairs = [(a, b) for at, a in enumerate(stores) for b in stores[at:] if a.tensor == b.tensor]
    every = [polynomial_values.Variable(f"program{axis}", natural=True) for axis in axes]
    for one, other in pairs:
        for axis, program in zip(axes, every, strict=True):
            alone = {id_: (0, 1 if id_ == program else 0) for id_ in every}
            if _overlap(one, other, sizes, shared, alone):
                return Collision(one.place, other.place, f"programs 0 and 1 of axis {'xyz'[axis]}")
        if not ordered and one is other and one.counters:
            turns = {one.counters[-1]: (0, 1)}
            if _overlap(one, other, sizes, shared, turns, same=True):
                return Collision(one.place, one.place, "two iterations of one program")
    return None


def _overlap(
    one: Store,
    other: Store,
    sizes: Sequence[Size],
    shared: frozenset[str],
    at: Mapping[polynomial_values.Variable, tuple[int, int]],
    *,
    same: bool = False,
) -> bool:
    """Returns whether two instances of stores overlap for all arguments: these values apart, all
    counters are 0."""
    near = _near(one, other)
    if near is None:
        return False
    by = _primes((one, other), sizes, shared, same=same)
    by |= {
        v: polynomial_values.atom_value(polynomial_values.Variable(f"{v.name}'", natural=True))
        for v in at
    }
    facts = [*one.facts, *(polynomial_values.replaced_in(fact, by) for fact in other.facts)]
    if any(polynomial_values.unread_in(fact) for fact in facts):
        return False
    facts += _of_sizes(sizes, {}) + _of_sizes(sizes, by)
    for counter in {*one.counters, *other.counters}:
        if counter not in at:
            facts += [
                polynomial_values.compare("==", polynomial_values.atom_value(counter)),
                polynomial_values.compare(
                    "==", by.get(counter, polynomial_values.atom_value(counter))
                ),
            ]
    for variable, (first, second) in at.items():
        facts += [
            polynomial_values.compare("==", polynomial_values.atom_value(variable) - first),
            polynomial_values.compare("==", by[variable] - second),
        ]
    claims = near(by)
    return all(follows(facts, claim) for claim in claims) and possible_together(facts)


def _near(
    one: Store, other: Store
) -> (
    Callable[
        [Mapping[polynomial_values.Atom, polynomial_values.Value]],
        tuple[polynomial_values.Condition, ...],
    ]
    | None
):
    """The conditions under which the tiles of two stores overlap; None where that is not known."""
    block = one.block
    if block != other.block or len(block) != len(one.coordinates):
        return None
    pairs = list(zip(one.coordinates, other.coordinates, block, strict=True))
    if any(here is None or there is None for here, there, _ in pairs):
        return None

    def conditions(
        by: Mapping[polynomial_values.Atom, polynomial_values.Value],
    ) -> tuple[polynomial_values.Condition, ...]:
        found: list[polynomial_values.Condition] = []
        for here, there, extent in pairs:
            assert here is not None and there is not None
            distance = here - there.substitute(by)
            found.append(polynomial_values.compare("<=", distance - (extent - 1)))
            found.append(polynomial_values.compare("<=", distance * -1 - (extent - 1)))
        return tuple(found)

    return conditions


def _stores(
    items: Sequence[role_events.Item],
    facts: tuple[polynomial_values.Condition, ...],
    counters: tuple[polynomial_values.Variable, ...],
) -> Iterator[Store]:
    for item in items:
        match item:
            case role_events.Loop():
                within = (
                    *facts,
                    *between_bounds(0, polynomial_values.atom_value(item.counter), item.trips),
                )
                yield from _stores(item.body, within, (*counters, item.counter))
            case role_events.Step(event=role_events.TmaStore() as store):
                known = facts if item.guard == polynomial_values.TRUE else (*facts, item.guard)
                yield Store(store.tensor, item, store.coordinates, store.block, known, counters)
            case role_events.Step():
                pass


def _shared_variables(sizes: Sequence[Size], arguments: frozenset[str]) -> frozenset[str]:
    """The variables that all programs have alike."""
    found = set(arguments) | {f"programs{axis}" for axis in range(3)}
    for size in sizes:
        if all(one.name in found for one in size.trips.value.variables()):
            found.add(size.variable.name)
    return frozenset(found)


def _are_disjoint(
    one: Store,
    other: Store,
    sizes: Sequence[Size],
    shared: frozenset[str],
    programs: Sequence[polynomial_values.Variable],
) -> bool:
    """Returns whether two stores are proved disjoint: of two programs, or of the same one where
    no ids tell programs apart."""
    same = not programs
    overlapping = _near(one, other)
    if overlapping is None or all(map(_is_opaque, one.coordinates)):
        return False
    by = _primes((one, other), sizes, shared, same=same)
    by |= {
        id_: polynomial_values.atom_value(polynomial_values.Variable(f"{id_.name}'", natural=True))
        for id_ in programs
    }
    facts = [*one.facts, *(polynomial_values.replaced_in(fact, by) for fact in other.facts)]
    if any(polynomial_values.unread_in(fact) for fact in facts):
        facts = [fact for fact in facts if not polynomial_values.unread_in(fact)]
    facts += _of_sizes(sizes, {}) + _of_sizes(sizes, by)
    for program in programs:
        programs_of = polynomial_values.atom_value(
            polynomial_values.Variable(program.name.replace("program", "programs"), natural=True)
        )
        facts += [
            polynomial_values.compare("<=", id_ - programs_of + 1)
            for id_ in (polynomial_values.atom_value(program), by[program])
        ]
    near: polynomial_values.Condition = polynomial_values.TRUE
    for condition in overlapping(by):
        near = polynomial_values.both_hold(near, condition)
    differ: Sequence[polynomial_values.Variable] = programs
    if same:
        if one.place is not other.place:
            return follows((*facts, near), polynomial_values.FALSE)
        differ = list(one.counters)
    return all(
        follows(
            (
                *facts,
                near,
                polynomial_values.negation(
                    polynomial_values.compare(
                        "==",
                        polynomial_values.atom_value(v)
                        - by.get(v, polynomial_values.atom_value(v)),
                    )
                ),
            ),
            polynomial_values.FALSE,
        )
        for v in differ
    )


def _is_opaque(coordinate: polynomial_values.Value | None) -> bool:
    """Returns whether a coordinate has a value in it that is not known, and differs in iterations
    of a loop: no two are proved to differ."""
    own = () if coordinate is None else coordinate.variables()
    return any(one.within and one.name not in one.within for one in own)


def _primes(
    stores: Sequence[Store], sizes: Sequence[Size], shared: frozenset[str], *, same: bool
) -> dict[polynomial_values.Atom, polynomial_values.Value]:
    """The variables of the second instance that may differ from those of the first."""
    variables: set[polynomial_values.Variable] = set()
    for store in stores:
        for value in store.coordinates:
            variables |= value.variables() if value is not None else set()
        for fact in store.facts:
            variables |= _variables(fact)
        variables |= set(store.counters)
    for size in sizes:
        variables |= {size.variable, *size.trips.value.variables()}
    counters = {one for store in stores for one in store.counters}
    found: dict[polynomial_values.Atom, polynomial_values.Value] = {}
    for variable in variables:
        varies = variable in counters or bool(variable.within)
        if varies or (not same and variable.name not in shared):
            primed = polynomial_values.Variable(
                f"{variable.name}'", variable.natural, bit=variable.bit
            )
            found[variable] = polynomial_values.atom_value(primed)
    return found


def _variables(condition: polynomial_values.Condition) -> set[polynomial_values.Variable]:
    return {
        atom
        for atom in polynomial_values.condition_atoms(condition)
        if isinstance(atom, polynomial_values.Variable)
    }


def _of_sizes(
    sizes: Sequence[Size], by: Mapping[polynomial_values.Atom, polynomial_values.Value]
) -> list[polynomial_values.Condition]:
    """Lists the conditions that each size is its trip count, or 0 where that is negative."""
    found: list[polynomial_values.Condition] = []
    for size in sizes:
        count, trips = (
            polynomial_values.atom_value(size.variable).substitute(by),
            size.trips.value.substitute(by),
        )
        exact, none = (
            polynomial_values.compare("==", count - trips),
            polynomial_values.compare("==", count),
        )
        negative = polynomial_values.both_hold(none, polynomial_values.compare("<=", trips))
        found.append(
            polynomial_values.negation(
                polynomial_values.both_hold(
                    polynomial_values.negation(exact), polynomial_values.negation(negative)
                )
            )
        )
    return found
