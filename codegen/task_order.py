"""The order in which the clusters of a persistent kernel take its tasks: any order is legal.

`cuda_tasks` loops impose no order, so an order is chosen for speed alone: tasks that run at the
same time should read the same data, which then comes from the L2 cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final, TypeAlias

from exogpu.codegen.errors import unsupported
from exogpu.codegen.storage import Storage
from exogpu.codegen.tasks import TaskNest
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, Point
from exogpu.ir.types import Space
from exogpu.ir.walk import accesses, control_variables, walk


@dataclass(frozen=True, slots=True)
class Lexicographic:
    """The last loop runs fastest."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """Two loops are walked in bands: `rows` iterations of the first for each of the second.

    `loops` names the two; without it they are the ones that `shared_loops` finds.
    """

    rows: int = 8
    loops: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Hilbert:
    """Two loops are walked along a Hilbert curve, generalised to rectangles; see `Grouped`."""

    loops: tuple[str, str] | None = None


TaskOrder: TypeAlias = Lexicographic | Grouped | Hilbert

DEFAULT: Final = Grouped(8)
"""Where two loops share data, and no order was asked for; docs/performance.md has the times."""


def parse_order(text: str) -> TaskOrder:
    """`lexicographic`, `grouped`, `grouped:ROWS` or `hilbert`.  Raises ValueError for others."""
    name, _, rows = text.partition(":")
    match name:
        case "lexicographic" if not rows:
            return Lexicographic()
        case "hilbert" if not rows:
            return Hilbert()
        case "grouped" if not rows:
            return Grouped()
        case "grouped" if rows.isdecimal() and int(rows) >= 1:
            return Grouped(int(rows))
        case _:
            raise ValueError(f"{text!r} is none of lexicographic, grouped[:ROWS], hilbert")


def pair_of(
    nest: TaskNest, order: TaskOrder | None, storage: Mapping[Sym, Storage]
) -> tuple[TaskOrder, tuple[int, int] | None]:
    """The order of a nest, and the positions of the two loops that it walks together, if any.

    Raises ExoGpuError (G808) where an order that needs two loops finds none.
    """
    match order:
        case None:
            found = shared_loops(nest, storage)
            return (DEFAULT if found else Lexicographic()), found
        case Lexicographic():
            return order, None
        case Grouped() | Hilbert() if len(nest.loops) == 1:
            return Lexicographic(), None
        case Grouped() | Hilbert():
            found = _named(nest, order.loops) if order.loops else shared_loops(nest, storage)
            if found is None:
                raise unsupported(
                    "this task order walks two loops together, and the kernel has no two "
                    "cuda_tasks loops " + (f"{order.loops}" if order.loops else "that share data"),
                    nest.loops[0].span,
                    "name two cuda_tasks loops of the nest, or take the lexicographic order",
                    "G808",
                )
            return order, found


def shared_loops(nest: TaskNest, storage: Mapping[Sym, Storage]) -> tuple[int, int] | None:
    """The first two loops such that some global data depend on one alone, and some on the other.

    Tasks in one row then share the data of the row, and tasks in one column those of the column.
    """
    used = [_depends_on(access) for access in _global_accesses(nest, storage)]
    for first, second in combinations(range(len(nest.loops)), 2):
        row, column = nest.loops[first].iterator, nest.loops[second].iterator
        if any(row in u and column not in u for u in used) and any(
            column in u and row not in u for u in used
        ):
            return first, second
    return None


def _named(nest: TaskNest, loops: tuple[str, str]) -> tuple[int, int] | None:
    names = [loop.iterator.name for loop in nest.loops]
    if loops[0] == loops[1] or not set(loops) <= set(names):
        return None
    return names.index(loops[0]), names.index(loops[1])


def _global_accesses(nest: TaskNest, storage: Mapping[Sym, Storage]) -> Iterator[Access]:
    for stmt in walk(nest.body):
        for access in accesses(stmt):
            known = storage.get(access.name)
            if known is not None and known.space is Space.GLOBAL and not known.flag:
                yield access


def _depends_on(access: Access) -> frozenset[Sym]:
    firsts = (c.at if isinstance(c, Point) else c.lo for c in access.coords)
    return frozenset().union(*map(control_variables, firsts))
