"""Shows the threads of a cluster, scope by scope."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, product
from typing import Final

from exogpu.analysis.executors import CollectiveFacts
from exogpu.analysis.listing import listing
from exogpu.analysis.threadmap import threads_of
from exogpu.analysis.tiling import Tiling
from exogpu.ir.nodes import DeviceFunction, For, Proc, Warps
from exogpu.ir.walk import walk
from exogpu.report.model import Bar, Cluster, Group, Scope

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
