"""Careless readings of the rules of values from memory, of roles and named barriers, and of the
memory of a cluster: each as a change to the prover, to the program that it is given, or to what the
hardware counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

import pytest

from exogpu.amir import nodes as amir
from exogpu.analysis.threadmap import ThreadAxis
from exogpu.ir.nodes import BExpr, Compare, Int, Point
from exogpu.ir.types import BarrierMechanism
from exogpu.symbolic.encode import script
from exogpu.symbolic.encode.formulas import TRUE, at_most, equal, less_than
from exogpu.symbolic.search import dependences, frames, load_relations, phase
from tests.machine.shapes import roles, turns

Patch = pytest.MonkeyPatch
Change = Callable[[amir.Op], amir.Block]
Said = Iterator[tuple[BExpr, BExpr]]

PROVERS: dict[str, tuple[str, Callable[[Patch], None]]] = {}
"""Changes to the prover, or to what the hardware counts, with the shape of programs that tell."""
PROGRAMS: dict[str, tuple[str, Change]] = {}
"""Changes to the operations that the prover is given, with such a shape."""


def careless(shape: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def register(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
        PROVERS[apply.__name__] = (shape, apply)
        return apply

    return register


def misread(shape: str) -> Callable[[Change], Change]:
    def register(change: Change) -> Change:
        PROGRAMS[change.__name__] = (shape, change)
        return change

    return register


# --- values from memory (decision `loaded-values`) ------------------------------------------------


def _equal_values(one, new) -> Said:
    """Congruence, as it is: premises and conclusions."""
    yield script._same_element(one, new), equal(one.value, new.value)


def _kept(kind, one, new) -> Said:
    """A contract, as it is."""
    if kind == "injective":
        yield equal(one.value, new.value), script._same_element(one, new)
        return
    for left, right in ((one, new), (new, one)):
        (first,), (second,) = left.element, right.element
        yield at_most(first, second), at_most(left.value, right.value)


def _said(patch: Patch, congruence=_equal_values, contract=_kept) -> None:
    """What is said of two values."""

    def related(self, name, one, new) -> Said:
        yield from congruence(one, new)
        for kind in self._contracts.get(name, ()):
            yield from contract(kind, one, new)

    patch.setattr(script.Loads, "_related", related)


@careless("loads")
def congruence_is_inequality(patch: Patch) -> None:
    """At one element there are two values."""

    def congruence(one, new) -> Said:
        yield script._same_element(one, new), Compare("!=", one.value, new.value)

    _said(patch, congruence)


@careless("loads")
def all_elements_are_equal(patch: Patch) -> None:
    def congruence(one, new) -> Said:
        yield TRUE, equal(one.value, new.value)

    _said(patch, congruence)


@careless("loads")
def congruence_is_forgotten(patch: Patch) -> None:
    _said(patch, lambda one, new: ())


@careless("loads")
def monotone_is_read_backwards(patch: Patch) -> None:
    def contract(kind, one, new) -> Said:
        if kind == "injective":
            yield from _kept(kind, one, new)
            return
        for left, right in ((one, new), (new, one)):
            (first,), (second,) = left.element, right.element
            yield at_most(first, second), at_most(right.value, left.value)

    _said(patch, contract=contract)


@careless("loads")
def monotone_is_strict(patch: Patch) -> None:
    """A later element is greater."""

    def contract(kind, one, new) -> Said:
        yield from _kept(kind, one, new)
        for left, right in ((one, new), (new, one)) if kind == "monotone" else ():
            (first,), (second,) = left.element, right.element
            yield less_than(first, second), less_than(left.value, right.value)

    _said(patch, contract=contract)


@careless("loads")
def injective_is_read_backwards(patch: Patch) -> None:
    """Equal elements have equal values, and nothing else is said."""

    def contract(kind, one, new) -> Said:
        yield from _equal_values(one, new) if kind == "injective" else _kept(kind, one, new)

    _said(patch, contract=contract)


def _stated(kind: str) -> Callable[[Patch], None]:
    def apply(patch: Patch) -> None:
        kept = script.Loads.__init__

        def init(self, placed) -> None:
            kept(self, placed)
            for load in placed.loads:
                known = self._contracts.setdefault(load.source.name, [])
                if kind not in known:
                    known.append(kind)

        patch.setattr(script.Loads, "__init__", init)

    return apply


@careless("loads")
def every_array_is_injective(patch: Patch) -> None:
    """A contract that nobody has stated is assumed."""
    _stated("injective")(patch)


@careless("loads")
def every_array_is_monotone(patch: Patch) -> None:
    _stated("monotone")(patch)


@careless("loads")
def two_loads_have_one_value(patch: Patch) -> None:
    """ISL takes the values of two iterations for one, whatever their elements."""

    kept = load_relations.same_loads

    def same_loads(frame, first, second):
        return tuple(replace(same, read=()) for same in kept(frame, first, second))

    patch.setattr(frames, "same_loads", same_loads)


@careless("loads")
def what_is_loaded_clears_all(patch: Patch) -> None:
    """ISL takes the elements that some value tells for those that each does."""
    patch.setattr(dependences, "_is_determined_by", lambda clear, access, sites: True)


# --- roles and named barriers (decisions `shared-phases`, `named-barriers`) -----------------------


@careless("roles")
def a_phase_is_over_after_fewer_arrivals(patch: Patch) -> None:
    """The mbarrier that roles share is made for one role less than arrives."""
    patch.setattr(roles, "FEWER", 1)


@careless("turns")
def a_named_barrier_counts_a_warp_less(patch: Patch) -> None:
    patch.setattr(turns, "MORE", -1)


@careless("turns")
def a_named_barrier_counts_a_warp_more(patch: Patch) -> None:
    patch.setattr(turns, "MORE", 1)


def _without(part: str) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(phase, part, lambda *_: iter(()))


# Of (iii) these shapes tell nothing: here one role alone awaits an element.
for _shape in ("roles", "turns"):
    for _name, _part in (
        ("arrivals_may_run_ahead", "_early_arrivals"),
        ("phases_pass_unseen", "_unfollowed"),
    ):
        PROVERS[f"{_name}_in_{_shape}"] = (_shape, _without(_part))


def first_element(op: amir.Arrive | amir.Await, dim: int) -> bool:
    """Whether the element in a dimension of roles is the first."""
    access = op.home if isinstance(op, amir.Arrive) else op.barrier
    coord = access.coords[dim]
    return isinstance(coord, Point) and coord.at == Int(0)


@misread("roles")
def an_arrive_for_all_is_for_the_first(op: amir.Op) -> amir.Block:
    """Of an Arrive for several roles the others hear nothing."""
    if isinstance(op, amir.Arrive) and not first_element(op, 1):
        return ()
    return (op,)


@misread("roles")
def who_awaits_all_awaits_the_first(op: amir.Op) -> amir.Block:
    """A phase is over with the Arrive of the first role."""
    if isinstance(op, amir.Await) and not first_element(op, 0):
        return ()
    return (op,)


@misread("readers")
def who_awaits_two_readers_awaits_one(op: amir.Op) -> amir.Block:
    if isinstance(op, amir.Await) and op.barrier.name.name.startswith("empty"):
        return (op,) if first_element(op, 0) else ()
    return (op,)


# --- memory of a cluster (decision `cluster-memory`) ----------------------------------------------


def _ctas(op: amir.Op) -> int:
    """The CTAs whose threads all execute an operation, if it is not one alone; else 0."""
    threads = op.origin.threads
    if threads is None or threads.cluster_dim == 1:
        return 0
    whole = prod(axis.extent for axis in threads.axes) == threads.cluster_dim * threads.block_dim
    return threads.cluster_dim if whole else 0


def _of_one(op: amir.Op, cta: int) -> amir.Op:
    threads = op.origin.threads
    assert threads is not None
    axis = ThreadAxis(1, Int(cta * threads.block_dim), threads.block_dim)
    return replace(op, origin=replace(op.origin, threads=replace(threads, axes=(axis,))))


@misread("clusters")
def a_fence_of_the_cluster_is_one_of_each_cta(op: amir.Op) -> amir.Block:
    if isinstance(op, amir.Fence) and (ctas := _ctas(op)):
        return tuple(_of_one(op, cta) for cta in range(ctas))
    return (op,)


@misread("clusters")
def a_fence_of_a_cta_is_one_of_the_cluster(op: amir.Op) -> amir.Block:
    threads = op.origin.threads
    if not isinstance(op, amir.Fence) or threads is None or _ctas(op):
        return (op,)
    if prod(axis.extent for axis in threads.axes) != threads.block_dim:
        return (op,)
    whole = (ThreadAxis(1, Int(0), threads.cluster_dim * threads.block_dim),)
    return (replace(op, origin=replace(op.origin, threads=replace(threads, axes=whole))),)


@misread("clusters")
def a_barrier_of_the_cluster_is_one_of_its_first_cta(op: amir.Op) -> amir.Block:
    if isinstance(op, amir.Arrive | amir.Await) and _ctas(op):
        return (_of_one(op, 0),)
    return (op,)


@misread("clusters")
def nothing_asks_before_a_free(op: amir.Op) -> amir.Block:
    return () if isinstance(op, amir.Check) and op.free and _ctas(op) else (op,)


# --- what the program has in another number -----------------------------------------------------


def deeper(program: amir.Program) -> amir.Program:
    """With a ring of one phase more than each barrier has."""
    phased = (BarrierMechanism.MBARRIER, BarrierMechanism.NAMED_BARRIER)
    variables = tuple(
        replace(v, depth=v.depth + 1) if v.mechanism in phased and v.depth is not None else v
        for v in program.variables
    )
    return replace(program, variables=variables)


DEEPER = ("roles", "turns")
"""Shapes whose barriers are then read wrongly."""
