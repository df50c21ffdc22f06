"""The order in which the clusters of a persistent kernel take its tasks: any order is legal.

`cuda_tasks` loops impose no order, so an order is chosen for speed alone: tasks that run at the
same time should read the same data, which then comes from the L2 cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log2
from typing import Final, TypeAlias

from exogpu.codegen.names import unsupported
from exogpu.codegen.storage import Storage
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.ir import nodes as ir
from exogpu.ir.types import Space, Sym
from exogpu.ir.walk import accesses, control_variables, evaluate, walk

# `cuda_tasks` loops that are nested directly in each other: the rectangle of a kernel's tasks.


@dataclass(frozen=True, slots=True)
class TaskNest:
    """Directly nested `cuda_tasks` loops, outermost first, and what is inside them."""

    loops: tuple[ir.For, ...]
    body: ir.Block

    @property
    def counts(self) -> tuple[ir.CExpr, ...]:
        """Iterations of each loop."""
        return tuple(s.hi if s.lo == ir.Int(0) else ir.Sub(s.hi, s.lo) for s in self.loops)


def resident(launch: ir.DeviceFunction) -> tuple[ir.Alloc | ir.BarrierAlloc, ...]:
    """Returns the allocations before the tasks, which serve one after another."""
    return tuple(stmt for stmt in launch.body if isinstance(stmt, ir.Alloc | ir.BarrierAlloc))


def task_nest(stmt: ir.Stmt) -> TaskNest:
    """The nest that begins with a `cuda_tasks` loop.  Its loops must form a rectangle.

    Raises ExoGpuError (G805) where they do not, and for any other statement.
    """
    if not (isinstance(stmt, ir.For) and stmt.mode == ir.CudaTasks()):
        raise unsupported(
            "this statement stands in a kernel outside of its cuda_tasks loops",
            stmt.span,
            "put it inside the innermost cuda_tasks loop",
            "G805",
        )
    loops = [stmt]
    while len(loops[-1].body) == 1:
        (inner,) = loops[-1].body
        if not (isinstance(inner, ir.For) and inner.mode == ir.CudaTasks()):
            break
        loops.append(inner)
    outer = {s.iterator for s in loops}
    for loop in loops:
        if outer & (control_variables(loop.lo) | control_variables(loop.hi)):
            raise unsupported(
                f"the bounds of the cuda_tasks loop over {loop.iterator} depend on other tasks",
                loop.span,
                "iterate over a rectangle, and guard the body by an `if`",
                "G805",
            )
    return TaskNest(tuple(loops), loops[-1].body)


@dataclass(frozen=True, slots=True)
class Lexicographic:
    """The last loop runs fastest."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """Two loops are walked in bands: `rows` iterations of the first for each of the second.

    Without `rows` they are `rows_of_band`'s.  `loops` names the two; without it they are the ones
    that `shared_loops` finds.
    """

    rows: int | None = None
    loops: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Hilbert:
    """Two loops are walked along a Hilbert curve, generalised to rectangles; see `Grouped`."""

    loops: tuple[str, str] | None = None


TaskOrder: TypeAlias = Lexicographic | Grouped | Hilbert

MOST_ROWS: Final = (1 << 31) - 1
"""The rows of a band: kernels compute with 32 bits."""

PROCESSORS: Final = 128
"""Multiprocessors of a large GPU, about: the CTAs that run at the same time."""

UNKNOWN: Final = 4
"""Rows of a band where it is not known what rows and columns read.

Where memory tells the rows the last ones may be left out, and clusters then have unequal parts of
the band in which they are: a band of 8 rows is up to a round of tasks longer (docs/kernels.md).
"""


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
        case "grouped" if rows.isdecimal() and len(rows) < 20 and 1 <= int(rows) <= MOST_ROWS:
            return Grouped(int(rows))
        case _:
            raise ValueError(f"{text!r} is none of lexicographic, grouped[:ROWS], hilbert")


def check_order(order: object) -> None:
    """Raises ExoGpuError (X962) for what is no order of tasks."""
    match order:
        case None | Lexicographic():
            return
        case Hilbert(loops) if _is_pair(loops):
            return
        case Grouped(rows, loops) if _is_pair(loops):
            if rows is None or (type(rows) is int and 1 <= rows <= MOST_ROWS):
                return
    help_ = f"give Lexicographic(), Grouped(rows), of 1 to {MOST_ROWS} rows, or Hilbert()"
    raise ExoGpuError([Diagnostic("X962", f"{order!r} is no order of tasks", NOWHERE, help_)])


def _is_pair(loops: object) -> bool:
    match loops:
        case None | (str(), str()):
            return True
        case _:
            return False


def pair_of(
    nest: TaskNest, order: TaskOrder | None, storage: Mapping[Sym, Storage], cluster: int
) -> tuple[TaskOrder, tuple[int, int] | None]:
    """The order of a nest, and the positions of the two loops that it walks together, if any.

    Tasks are those of clusters of so many CTAs.  Raises ExoGpuError (G808) where an order that
    needs two loops finds none.
    """
    match order:
        case None:
            found = shared_loops(nest, storage)
            if found is None:
                return Lexicographic(), None
            return Grouped(rows_of_band(nest, found, storage, cluster) or UNKNOWN), found
        case Lexicographic():
            return order, None
        case Grouped() | Hilbert() if len(nest.loops) == 1:
            return Lexicographic(), None
        case Grouped() | Hilbert():
            found = _named_loops(nest, order.loops) if order.loops else shared_loops(nest, storage)
            if found is None:
                raise unsupported(
                    "this task order walks two loops together, and the kernel has no two "
                    "cuda_tasks loops " + (f"{order.loops}" if order.loops else "that share data"),
                    nest.loops[0].span,
                    "name two cuda_tasks loops of the nest, or take the lexicographic order",
                    "G808",
                )
            if isinstance(order, Grouped) and order.rows is None:
                rows = rows_of_band(nest, found, storage, cluster) or UNKNOWN
                order = Grouped(rows, order.loops)
            return order, found


def shared_loops(nest: TaskNest, storage: Mapping[Sym, Storage]) -> tuple[int, int] | None:
    """The first two loops such that some global data depend on one alone, and some on the other.

    Tasks in one row then share the data of the row, and tasks in one column those of the column.
    Vectors are looked at only where no matrices tell: they are little beside these.
    """
    read = list(_global_accesses(nest, storage))
    return _shared_loops(nest, [a for a in read if _of_matrix(a)]) or _shared_loops(nest, read)


def _shared_loops(nest: TaskNest, read: Sequence[ir.Access]) -> tuple[int, int] | None:
    used = [_depends_on(access) for access in read]
    for first, second in combinations(range(len(nest.loops)), 2):
        row, column = nest.loops[first].iterator, nest.loops[second].iterator
        if any(row in u and column not in u for u in used) and any(
            column in u and row not in u for u in used
        ):
            return first, second
    return None


def rows_of_band(
    nest: TaskNest, pair: tuple[int, int], storage: Mapping[Sym, Storage], cluster: int
) -> int | None:
    """Rows of a band such that tasks that run at the same time read least: a power of two.

    n tasks in r rows read r rows and n / r columns of tiles, which is least where r is
    sqrt(n * column / row), by what a column and a row read.  None where that is not known.
    """
    row, column = (nest.loops[at].iterator for at in pair)
    read = [access for access in _global_accesses(nest, storage) if _of_matrix(access)]
    tall, wide = (_step(read, row, column), _step(read, column, row))
    if not (tall and wide):
        return None
    return int(2 ** max(0, round(log2(PROCESSORS / cluster * wide / tall) / 2)))


def _step(read: Iterable[ir.Access], own: Sym, other: Sym) -> int:
    """Returns the distance between the reads of two iterations of a loop, of data that the other
    loop does not choose; 0 if unknown."""
    found = set()
    for access in read:
        if own not in (chosen := _depends_on(access)) or other in chosen:
            continue
        for coord in access.coords:
            first = coord.at if isinstance(coord, ir.Point) else coord.lo
            env = dict.fromkeys(control_variables(first), 0)
            if own in env:
                found.add(evaluate(first, {**env, own: 1}) - evaluate(first, env))
    return max(0, *found) if found else 0


def level(
    nest: TaskNest, order: TaskOrder | None, storage: Mapping[Sym, Storage], cluster: int
) -> bool:
    """Tests whether tasks share matrices and take equally long: then those that run at the same
    time read the same, from their begin to their end."""
    _, pair = pair_of(nest, order, storage, cluster)
    return (
        pair is not None
        and rows_of_band(nest, pair, storage, cluster) is not None
        and _equally_long(nest)
    )


def _equally_long(nest: TaskNest) -> bool:
    """Tests whether tasks take equally long: neither a task nor a value from memory determines what
    they repeat."""
    known = {loop.iterator for loop in nest.loops}
    for stmt in walk(nest.body):
        match stmt:
            case ir.For(mode=ir.Loaded()):
                known.add(stmt.iterator)
            case ir.For(mode=ir.Seq()):
                if known & (control_variables(stmt.lo) | control_variables(stmt.hi)):
                    return False
            case _:
                pass
    return True


def _named_loops(nest: TaskNest, loops: tuple[str, str]) -> tuple[int, int] | None:
    names = [loop.iterator.name for loop in nest.loops]
    if loops[0] == loops[1] or not set(loops) <= set(names):
        return None
    return names.index(loops[0]), names.index(loops[1])


def _global_accesses(nest: TaskNest, storage: Mapping[Sym, Storage]) -> Iterator[ir.Access]:
    for stmt in walk(nest.body):
        for access in accesses(stmt):
            known = storage.get(access.name)
            if known is not None and known.space is Space.GLOBAL and not known.flag:
                yield access


def _of_matrix(access: ir.Access) -> bool:
    return len(access.coords) > 1


def _depends_on(access: ir.Access) -> frozenset[Sym]:
    firsts = (c.at if isinstance(c, ir.Point) else c.lo for c in access.coords)
    return frozenset().union(*map(control_variables, firsts))
