"""One mbarrier element that several collectives arrive on and await in turn, as two roles do.

Where Arrives and Awaits alternate, and each Arrive is by the threads that executed the Await
before, all of them are in one order: PHASE holds at any ring depth.  Arrival r + d follows an Await
for r, each Await for r precedes arrival r + d, and an Await for r follows one for r - 1.  Then each
thread may count what all of them do, since each passes the places of all in the program's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import TypeAlias

from exogpu.analysis.ownership import Declared, Use, relation, thread_iterators
from exogpu.analysis.threadmap import threads_of
from exogpu.analysis.tiling import iterations
from exogpu.ir import nodes as ir
from exogpu.ir.affine import difference
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, evaluate
from exogpu.solvers import isl

States: TypeAlias = frozenset[ir.Stmt | None]
"""The use of the element that came last, in some execution; None before the first."""


class _NotInTurnError(Exception):
    """Two uses may follow each other that do not take turns."""


def take_turns(block: ir.Block, name: Sym, threads: Mapping[ir.Stmt, isl.Map]) -> bool:
    """Tests whether the Arrives and Awaits on a barrier variable in a block alternate, each Arrive
    by the threads of the Await before it.

    `threads` are the relations from elements to threads of each of them.
    """
    try:
        _block(block, name, threads, frozenset({None}))
    except _NotInTurnError:
        return False
    return True


def _block(
    block: ir.Block, name: Sym, threads: Mapping[ir.Stmt, isl.Map], states: States
) -> States:
    for stmt in block:
        states = _statement(stmt, name, threads, states)
    return states


def _statement(
    stmt: ir.Stmt, name: Sym, threads: Mapping[ir.Stmt, isl.Map], states: States
) -> States:
    match stmt:
        case ir.For(mode=ir.Slot() | ir.Loaded()):
            return _block(stmt.body, name, threads, states)
        case ir.For() if (count := difference(stmt.hi, stmt.lo)) is not None:
            # Of a thread loop each element sees one iteration: that of its CTA, or the only one.
            most = 1 if isinstance(stmt.mode, ir.CudaThreads) else 2
            for _ in range(min(count, most)):
                states = _block(stmt.body, name, threads, states)
            return states
        case ir.For():
            once = states | _block(stmt.body, name, threads, states)
            return once | _block(stmt.body, name, threads, once)
        case ir.If():
            return _block(stmt.body, name, threads, states) | _block(
                stmt.orelse, name, threads, states
            )
        case ir.Warps():
            return _block(stmt.body, name, threads, states)
        case ir.Arrive() if stmt.targets[0].name == name:
            for before in states:
                mine = before is None or (
                    isinstance(before, ir.Await)
                    and isl.is_equal_map(threads[before], threads[stmt])
                )
                if not mine:
                    raise _NotInTurnError
            return frozenset({stmt})
        case ir.Await() if stmt.barrier.name == name:
            if not all(isinstance(before, ir.Arrive) for before in states):
                raise _NotInTurnError
            return frozenset({stmt})
        case _:
            return states


# Compares the threads that use the elements of an mbarrier variable: do they count alike?


def is_uniform(declared: Declared, alloc: ir.BarrierAlloc, uses: Sequence[Use]) -> bool:
    """Tests whether the same threads execute all uses of an element: they count alike.

    An element is told by its indices that the threads choose, and by those that are constant in
    every use.
    """
    inputs = _inputs(declared, alloc, uses)
    maps = [relation(use, declared, inputs, "u").map for use in uses]
    agreed = all(_agree(first, second) for first, second in combinations(maps, 2))
    return agreed and all(_one_collective(use, inputs.values()) for use in uses)


def one_each(
    declared: Declared, alloc: ir.BarrierAlloc, uses: Sequence[Use], kept: Sequence[int]
) -> bool:
    """Tests whether a thread uses only one of a CTA's elements."""
    inputs = _inputs(declared, alloc, uses)
    if not {f"i{d}" for d in kept} <= inputs.keys():
        return False
    found = [relation(use, declared, inputs, "u") for use in uses]
    # What an index reads outside may differ from one life of the variable to the next.
    return not any(one.params for one in found) and isl.is_injective(
        reduce(isl.union_map, (one.map for one in found))
    )


def takes_turns(
    declared: Declared, alloc: ir.BarrierAlloc, homes: Sequence[Use], awaits: Sequence[Use]
) -> bool:
    """Tests whether Arrives and Awaits alternate, so that PHASE holds at every depth."""
    uses = [*homes, *awaits]
    inputs = _inputs(declared, alloc, uses)
    threads = {use.stmt: relation(use, declared, inputs, "u").map for use in uses}
    return take_turns(declared.block, alloc.name, threads)


def _inputs(declared: Declared, alloc: ir.BarrierAlloc, uses: Sequence[Use]) -> dict[str, int]:
    """The dimensions that tell elements apart, by the names that they get in relations."""
    inputs: dict[str, int] = {}
    for d in range(len(alloc.shape)):
        read = [_variables_of(use.access.coords[d]) for use in uses]
        chosen = any(
            r & thread_iterators(u.where, declared) for r, u in zip(read, uses, strict=True)
        )
        if chosen or not any(read):
            inputs[f"i{d}"] = d
    return inputs


def _variables_of(coord: ir.Coord) -> frozenset[Sym]:
    return frozenset(control_variables(coord.at)) if isinstance(coord, ir.Point) else frozenset()


def _agree(first: isl.Map, second: isl.Map) -> bool:
    """Tests whether the elements that both relations have go to the same threads."""
    return isl.is_equal_map(
        isl.restrict_domain(first, isl.domain(second)),
        isl.restrict_domain(second, isl.domain(first)),
    )


def _one_collective(use: Use, dims: Iterable[int]) -> bool:
    """Tests whether no two iterations of the thread loops around a use divide an element's
    threads."""
    by_element: dict[tuple[int, ...], tuple[int, ...]] = {}
    for env in iterations(use.where.tiling):
        points = [c.at for c in (use.access.coords[d] for d in dims) if isinstance(c, ir.Point)]
        known = [at for at in points if control_variables(at) <= env.keys()]
        element = tuple(evaluate(at, env) for at in known)
        threads = threads_of(use.where.tiling.thread_map(), env)
        if by_element.setdefault(element, threads) != threads:
            return False
    return True
