"""Compares the threads that use the elements of an mbarrier variable: do they count alike?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import combinations

from exogpu.analysis.ownership import relation, thread_iterators
from exogpu.analysis.threadmap import threads_of
from exogpu.analysis.tiling import iterations
from exogpu.analysis.uses import Declared, Use
from exogpu.codegen.turn_taking import take_turns
from exogpu.ir.names import Sym
from exogpu.ir.nodes import BarrierAlloc, Coord, Point
from exogpu.ir.walk import control_variables, evaluate
from exogpu.solvers import isl


def alike(declared: Declared, alloc: BarrierAlloc, uses: Sequence[Use]) -> bool:
    """Tests whether the same threads execute all uses of an element: they count alike.

    An element is told by its indices that the threads choose, and by those that are constant in
    every use.
    """
    inputs = _inputs(declared, alloc, uses)
    maps = [relation(use, declared, inputs, "u").map for use in uses]
    agreed = all(_agree(first, second) for first, second in combinations(maps, 2))
    return agreed and all(_one_collective(use, inputs.values()) for use in uses)


def one_each(
    declared: Declared, alloc: BarrierAlloc, uses: Sequence[Use], kept: Sequence[int]
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
    declared: Declared, alloc: BarrierAlloc, homes: Sequence[Use], awaits: Sequence[Use]
) -> bool:
    """Tests whether Arrives and Awaits alternate, so that PHASE holds at every depth."""
    uses = [*homes, *awaits]
    inputs = _inputs(declared, alloc, uses)
    threads = {use.stmt: relation(use, declared, inputs, "u").map for use in uses}
    return take_turns(declared.block, alloc.name, threads)


def _inputs(declared: Declared, alloc: BarrierAlloc, uses: Sequence[Use]) -> dict[str, int]:
    """The dimensions that tell elements apart, by the names that they get in relations."""
    inputs: dict[str, int] = {}
    for d in range(len(alloc.shape)):
        read = [_read(use.access.coords[d]) for use in uses]
        chosen = any(
            r & thread_iterators(u.where, declared) for r, u in zip(read, uses, strict=True)
        )
        if chosen or not any(read):
            inputs[f"i{d}"] = d
    return inputs


def _read(coord: Coord) -> frozenset[Sym]:
    return frozenset(control_variables(coord.at)) if isinstance(coord, Point) else frozenset()


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
        points = [c.at for c in (use.access.coords[d] for d in dims) if isinstance(c, Point)]
        known = [at for at in points if control_variables(at) <= env.keys()]
        element = tuple(evaluate(at, env) for at in known)
        threads = threads_of(use.where.tiling.thread_map(), env)
        if by_element.setdefault(element, threads) != threads:
            return False
    return True
