"""Shows the threads of a cluster, scope by scope."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import Final

from exogpu.amir.lower_arguments import statement_text
from exogpu.analysis.derive_tiling import unit_threads
from exogpu.analysis.distribution import is_of_cluster
from exogpu.analysis.facts import Facts
from exogpu.analysis.ownership import Declared, distributed_dims, element, owners, relation
from exogpu.analysis.thread_names import CollectiveFacts, listing, thread_names
from exogpu.analysis.threadmap import threads_of
from exogpu.analysis.tiling import Tiling
from exogpu.ir.affine import constant
from exogpu.ir.nodes import Alloc, DeviceFunction, For, Proc, Warps
from exogpu.ir.types import Space
from exogpu.ir.walk import walk
from exogpu.report.report_data import Bar, Cluster, Group, Owned, Scope
from exogpu.report.trace import Event

ITERATIONS: Final = 4096
"""Instances of a scope of which all threads are drawn."""


def clusters(proc: Proc, facts: CollectiveFacts) -> tuple[Cluster, ...]:
    """The launches of a procedure with their scopes, in program order; equal scopes are listed
    once."""
    found: list[tuple[DeviceFunction, list[Scope]]] = []
    opening = [s for s in walk(proc.body) if _opens(s, facts)]
    for stmt, line in zip(opening, listing(proc, facts), strict=True):
        assert isinstance(stmt, For | Warps | DeviceFunction)
        tiling = facts.inner[stmt]
        if isinstance(stmt, DeviceFunction):
            found.append((stmt, []))
        ctas = tuple(_bars(tiling))
        scopes, at = found[-1][1], (line.span.line,)
        scope = Scope(line.depth, at, line.opens, line.executors, tiling.block_dim, ctas)
        for place, other in enumerate(scopes):
            if replace(other, lines=at) == scope:
                scopes[place] = replace(other, lines=tuple(dict.fromkeys((*other.lines, *at))))
                break
        else:
            scopes.append(scope)
    return tuple(_cluster(launch, scopes) for launch, scopes in found)


def _opens(stmt: object, facts: CollectiveFacts) -> bool:
    return isinstance(stmt, For | Warps | DeviceFunction) and stmt in facts.inner


def _cluster(launch: DeviceFunction, scopes: list[Scope]) -> Cluster:
    groups, at = [], 0
    for group in launch.warps:
        groups.append(Group(group.name, at, 32 * group.count))
        at += 32 * group.count
    return Cluster(
        launch.span.line, launch.cluster_dim, launch.block_dim, tuple(groups), tuple(scopes)
    )


def _bars(tiling: Tiling) -> Iterator[tuple[Bar, ...]]:
    """By CTA, the runs of threads that execute the first instance or any other."""
    mapping = tiling.thread_map()
    first = frozenset(threads_of(mapping, {r.iterator: r.lo for r in tiling.ranges}))
    all_threads = set(first)
    values = product(*(range(r.lo, r.lo + r.count) for r in tiling.ranges))
    for _, chosen in zip(range(ITERATIONS), values, strict=False):
        env = {r.iterator: value for r, value in zip(tiling.ranges, chosen, strict=True)}
        all_threads.update(threads_of(mapping, env))
    for cta in range(tiling.cluster_dim):
        base = cta * tiling.block_dim
        states = [
            (t, 2 if base + t in first else 1 if base + t in all_threads else 0)
            for t in range(tiling.block_dim)
        ]
        runs = [(state, list(run)) for state, run in groupby(states, key=lambda s: s[1])]
        yield tuple(Bar(run[0][0], len(run), state == 2) for state, run in runs if state)


# The lanes of a timeline: threads that take part in the same statements, as few as fit.

MOST: Final = 12
"""Lanes of a timeline."""


@dataclass(frozen=True, slots=True)
class Role:
    """A lane: its threads, and their name in three parts."""

    threads: frozenset[int]
    cta: str
    group: str
    within: str
    """The threads of the CTA, in words."""


def roles(events: Iterable[Event], launch: DeviceFunction) -> tuple[Role, ...]:
    """Classes of threads that no statement divides, in thread order.

    Statements of single threads and, if there are still too many classes, those of fewer threads
    than a warp, a warpgroup or a CTA do not count as dividing.
    """
    sets = {event.threads for event in events if event.threads}
    everyone = frozenset().union(*sets)
    for least in (1, 32, 128, launch.block_dim, launch.block_dim * launch.cluster_dim):
        classes = _classes(everyone, [s for s in sets if len(s) >= least], launch.block_dim)
        if len(classes) <= MOST:
            break
    # Threads that do nothing alone are no role.
    active = [c for c in classes if any(c & s and s != everyone for s in sets)] or classes
    return tuple(Role(c, *_names(c, launch)) for c in sorted(active, key=min))


def lanes_of(event: Event, lanes: tuple[Role, ...]) -> tuple[int, ...]:
    """The lanes whose threads execute an event, or some of them."""
    return tuple(i for i, role in enumerate(lanes) if role.threads & event.threads)


def _classes(
    everyone: frozenset[int], sets: list[frozenset[int]], block_dim: int
) -> list[frozenset[int]]:
    by_sets: dict[tuple[int, ...], set[int]] = {}
    member: Mapping[int, list[int]] = {thread: [thread // block_dim] for thread in everyone}
    for number, threads in enumerate(sets):
        for thread in threads:
            member[thread].append(number)
    for thread, numbers in member.items():
        by_sets.setdefault(tuple(numbers), set()).add(thread)
    return [frozenset(found) for found in by_sets.values()]


def _names(threads: frozenset[int], launch: DeviceFunction) -> tuple[str, str, str]:
    """`CTA 0`, `producer` and `threads 0 to 31`."""
    block = launch.block_dim
    ctas = sorted({t // block for t in threads})
    where = f"CTA {ctas[0]}" if len(ctas) == 1 else f"CTAs {ctas[0]} to {ctas[-1]}"
    inside = sorted({t % block for t in threads})
    words, at = thread_names(inside, block, 1), 0
    for group in launch.warps:
        if at <= inside[0] and inside[-1] < at + 32 * group.count:
            return where, group.name, words
        at += 32 * group.count
    return where, "", words


# Ownership of distributed variables: which index lives where.

SHOWN: Final = 8
"""Elements of a variable that are listed."""

_UNITS: Final = {1: "a thread", 32: "a warp", 128: "a warpgroup"}


def distributed_variables(facts: Facts) -> tuple[Owned, ...]:
    """The variables that are spread over several owners, in program order."""
    return tuple(
        found
        for declared in facts.variables
        if isinstance(declared.declaration, Alloc) and declared.uses
        for found in _ownership(declared, declared.declaration)
    )


def _ownership(declared: Declared, alloc: Alloc) -> Iterator[Owned]:
    tiling = declared.where.tiling
    match alloc.memory.space:
        case Space.REGISTER:
            assert alloc.memory.unit is not None
            size = unit_threads(tiling, alloc.memory.unit)
        case Space.SHARED if is_of_cluster(declared):
            return  # each index says itself whose it is
        case Space.SHARED if tiling.cluster_dim > 1:
            size = tiling.block_dim
        case _:
            size = None
    dims = () if size is None else distributed_dims(declared, declared.uses, size)
    extents = [constant(alloc.shape[d]) for d in dims]
    if size is None or not dims or None in extents:
        return
    use = next(u for u in declared.uses if distributed_dims(declared, [u], size) == dims)
    found = relation(use, declared, {f"i{d}": d for d in dims}, "u", None, size)
    indices = list(product(*(range(n) for n in extents if n is not None)))
    rows = []
    for index in indices[:SHOWN]:
        point = {f"i{d}": value for d, value in zip(dims, index, strict=True)}
        point |= {name: 0 for name in found.params}
        rows.append((element(declared, dims, point), owners(found, point, size, tiling)))
    owner = "a CTA" if size == tiling.block_dim else _UNITS.get(size, f"{size} threads")
    yield Owned(
        alloc.name.name,
        statement_text(alloc),
        alloc.span.line,
        owner,
        tuple(rows),
        len(indices) - len(rows),
    )
