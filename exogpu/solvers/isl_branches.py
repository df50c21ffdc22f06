"""Relations between named tuples as quasi-affine functions by cases, as plain data.

Beside `exogpu.solvers.isl`, a file of functions that imports islpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import islpy

from exogpu.solvers.isl_functions import Affine, Constraint, affine, conjunctions
from exogpu.solvers.isl_unions import Points, Relation

Cases: TypeAlias = tuple[tuple[Constraint, ...], ...]
"""Conjunctions, one of which holds; an empty one always does."""


@dataclass(frozen=True, slots=True)
class Branch:
    """The values of the outputs, where one of several conjunctions holds."""

    where: Cases
    values: tuple[Affine, ...]


class SeveralError(Exception):
    """A relation is no function."""


def functions(pairs: Relation, given: Points) -> Iterator[tuple[str, str, tuple[Branch, ...]]]:
    """By the names of input and output, the one output of each input, under conditions that tell
    it among the given inputs.

    Raises SeveralError where an input has more.
    """
    for piece in _maps(pairs):
        first = piece.get_tuple_name(islpy.dim_type.in_)
        second = piece.get_tuple_name(islpy.dim_type.out)
        if not piece.is_single_valued():
            raise SeveralError(first)
        among = _named(given, first, piece.domain())
        yield first, second, tuple(_branches(piece, among))


def cases(points: Points, given: Points) -> Iterator[tuple[str, Cases]]:
    """By name, the conditions that tell the points among the given ones."""
    listed = points.get_set_list()
    for at in range(listed.n_set()):
        piece = listed.get_at(at).coalesce()
        if not piece.is_empty():
            name = piece.get_tuple_name()
            yield name, _conditions_among(piece, _named(given, name, piece))


def related(pairs: Relation, given: Points) -> Iterator[tuple[str, str, Cases]]:
    """By the names of input and output, the conditions on both, the input first, that tell the
    related pairs among those of the given inputs."""
    for piece in _maps(pairs):
        first = piece.get_tuple_name(islpy.dim_type.in_)
        second = piece.get_tuple_name(islpy.dim_type.out)
        inputs = _named(given, first, piece.domain())
        outputs = islpy.Set.universe(piece.range().get_space())
        among = islpy.Map.from_domain_and_range(inputs, outputs).wrap().flatten()
        yield first, second, _conditions_among(piece.wrap().flatten().coalesce(), among)


def through(ways: Relation, pairs: Relation) -> Iterator[tuple[str, str, str, tuple[Branch, ...]]]:
    """By the names of a pair and of what it is mapped to, the one value of each of the pairs.

    Raises SeveralError where a pair has more.
    """
    among = {
        (one.get_tuple_name(islpy.dim_type.in_), one.get_tuple_name(islpy.dim_type.out)): one
        for one in _maps(pairs)
    }
    for piece in _maps(ways):
        inner = piece.domain().unwrap()
        first = inner.get_tuple_name(islpy.dim_type.in_)
        second = inner.get_tuple_name(islpy.dim_type.out)
        if not piece.is_single_valued():
            raise SeveralError(first)
        flat = piece.flatten_domain()
        known = among[first, second].wrap().flatten()
        name = piece.get_tuple_name(islpy.dim_type.out)
        yield first, second, name, tuple(_branches(flat, known))


def _maps(pairs: Relation) -> Iterator[islpy.Map]:
    listed = pairs.get_map_list()
    for at in range(listed.n_map()):
        piece = listed.get_at(at).coalesce()
        if not piece.is_empty():
            yield piece


def _named(given: Points, name: str, like: islpy.Set) -> islpy.Set:
    """The given points of a tuple; all that could be, where none are."""
    listed = given.get_set_list()
    for at in range(listed.n_set()):
        if (piece := listed.get_at(at)).get_tuple_name() == name:
            return piece
    return islpy.Set.universe(like.get_space())


def _conditions_among(points: islpy.Set, among: islpy.Set) -> Cases:
    if among.is_subset(points):
        return ((),)
    return conjunctions(points.gist(among))


def _branches(relation: islpy.Map, among: islpy.Set) -> Iterator[Branch]:
    found: list[tuple[islpy.Set, islpy.MultiAff]] = []
    # An exception of ISL must not cross it: it would be printed.
    function = islpy.PwMultiAff.from_map(relation)
    function.foreach_piece(lambda points, value: found.append((points, value)))
    domain = relation.domain()
    for _, value in found if len(found) > 1 else ():
        # One expression often gives the value everywhere.
        whole = islpy.Map.from_multi_aff(value).intersect_domain(domain)
        if whole.is_subset(relation):
            found = [(domain, value)]
            break
    for points, value in found:
        rank = value.dim(islpy.dim_type.out)
        values = tuple(affine(value.get_aff(at)) for at in range(rank))
        yield Branch(_conditions_among(points, among), values)
