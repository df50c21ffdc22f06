"""Quasi-affine functions of ISL as plain data, by position of the input.

Beside `exogpu.solvers.isl`, a file of functions that imports islpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

import islpy

from exogpu.solvers.isl import integer_of
from exogpu.solvers.isl_relations import Count, Map, extreme

Function: TypeAlias = islpy.PwMultiAff
T = TypeVar("T")

_PARAM, _IN, _DIV = islpy.dim_type.param, islpy.dim_type.in_, islpy.dim_type.div


@dataclass(frozen=True, slots=True)
class Affine:
    """`floor((constant + inputs + params + floors) / divisor)`, with integer coefficients.

    Not the form of `ir.affine`: ISL's inputs have positions and no names.
    """

    constant: int
    inputs: tuple[tuple[int, int], ...]
    """Coefficient and position."""
    params: tuple[tuple[int, str], ...]
    floors: tuple[tuple[int, Affine], ...]
    divisor: int


@dataclass(frozen=True, slots=True)
class Constraint:
    """`value = 0`, or `value >= 0`."""

    value: Affine
    equality: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """A value where one of several conjunctions holds."""

    where: tuple[tuple[Constraint, ...], ...]
    value: Affine


def joined(left: Map, right: Map) -> Map:
    """`[a -> b] -> c` for `a -> c` in the first and `b -> c` in the second."""
    return left.domain_product(right)


def first_of(relation: Map) -> Map:
    """`a -> c` of `[a -> b] -> c`."""
    return relation.domain_factor_domain()


def second_of(relation: Map) -> Map:
    """`b -> c` of `[a -> b] -> c`."""
    return relation.domain_factor_range()


def among(relation: Map, pairs: Map) -> Map:
    """The part of `[a -> b] -> c` with `a -> b` in `pairs`."""
    return relation.intersect_domain(pairs.wrap())


def inputs_of(relation: Map) -> Map:
    """`a -> b` of `[a -> b] -> c`."""
    return relation.domain().unwrap()


def smallest(relation: Map) -> Function:
    """The function that gives each input its smallest output, or at least one of its outputs."""
    return extreme(relation)


def largest(relation: Map) -> Function:
    """The same with its largest output."""
    return extreme(relation, largest=True)


@dataclass(frozen=True, slots=True, eq=False)
class Between:
    """A function that gives each pair `a -> b` a `c`, or `a` or `b` alone."""

    function: Function
    of_first: bool
    of_second: bool
    left: Map
    """`a -> c`, for the pairs that matter."""
    right: Map
    """`b -> c`"""

    def inputs(self, first: tuple[T, ...], second: tuple[T, ...]) -> tuple[T, ...]:
        """The function's inputs, of the coordinates of `a` and `b`."""
        return (*(first if self.of_first else ()), *(second if self.of_second else ()))


class Least:
    """The smallest outputs of relations and the expressions of functions, found once for each
    object: chains to several checks begin alike."""

    def __init__(self) -> None:
        self._functions: dict[int, tuple[Map, Function, Map]] = {}
        self._choices: dict[int, tuple[Function, tuple[tuple[Affine, ...], ...]]] = {}

    def minimum(self, relation: Map) -> tuple[Function, Map]:
        """The smallest outputs as a function, and its graph."""
        if id(relation) not in self._functions:
            function = extreme(relation)
            self._functions[id(relation)] = relation, function, function.as_map()
        _, function, chosen = self._functions[id(relation)]
        return function, chosen

    def choices(self, function: Function) -> tuple[tuple[Affine, ...], ...]:
        """The distinct expressions of a function's output."""
        if id(function) not in self._choices:
            self._choices[id(function)] = function, choices(function)
        return self._choices[id(function)][1]


def least_between(left: Map, right: Map, pairs: Map, least: Least) -> Between:
    """For the pairs `a -> b`, a `c` with `a -> c` in `left` and `b -> c` in `right`: the smallest
    for `a` or the largest for `b`, if that does for all pairs, else the smallest of each."""
    of_first = partial(_of_first, least)
    sides = (_of_second, of_first) if _pieces(right) < _pieces(left) else (of_first, _of_second)
    for one_sided in sides:
        found = one_sided(left, right, pairs)
        if found is not None:
            return found
    function = smallest(among(joined(left, right), pairs))
    chosen = function.as_map()
    return Between(function, True, True, first_of(chosen), second_of(chosen))


def either_between(left: Map, right: Map, pairs: Map, least: Least) -> tuple[Between, ...]:
    """For the pairs `a -> b`, the smallest such `c` for `a` and the largest for `b`, those that do
    for all pairs; where neither does, `least_between`."""
    sides = (_of_first(least, left, right, pairs), _of_second(left, right, pairs))
    found = tuple(one for one in sides if one is not None)
    return found or (least_between(left, right, pairs, least),)


def _pieces(relation: Map) -> int:
    return int(relation.n_basic_map())


def _of_first(least: Least, left: Map, right: Map, pairs: Map) -> Between | None:
    function, chosen = least.minimum(left)
    reached = pairs.reverse().apply_range(chosen)
    if not pairs.domain().is_subset(chosen.domain()) or not reached.is_subset(right):
        return None
    return Between(function, True, False, chosen, reached)


def _of_second(left: Map, right: Map, pairs: Map) -> Between | None:
    function = extreme(right, largest=True)
    chosen = function.as_map()
    reached = pairs.apply_range(chosen)
    if not pairs.range().is_subset(chosen.domain()) or not reached.is_subset(left):
        return None
    return Between(function, False, True, reached, chosen)


def graph(function: Function) -> Map:
    """The function as a relation."""
    return function.as_map()


def choices(function: Function) -> tuple[tuple[Affine, ...], ...]:
    """The distinct expressions that give a function's output, one of them at each input.

    Few: of the expressions that have a coordinate's value in a piece, the one is taken that has
    it in most.
    """
    listed: list[tuple[islpy.Set, islpy.MultiAff]] = []
    # An exception of ISL must not cross it: it would be printed.
    function.foreach_piece(lambda points, value: listed.append((points, value)))
    if not listed:
        return ()
    places = [points for points, _ in listed]
    columns = [
        _common_expressions(
            places, [_simplest(points, value.get_aff(at)) for points, value in listed]
        )
        for at in range(listed[0][1].dim(islpy.dim_type.out))
    ]
    return tuple(dict.fromkeys(zip(*columns, strict=True) if columns else [()]))


def _common_expressions(places: Sequence[islpy.Set], values: Sequence[islpy.Aff]) -> list[Affine]:
    """For each place an expression that has the value there, of those of all places and inputs."""
    written = [affine(value) for value in values]
    found = dict(zip(written, values, strict=True))
    if len(found) == 1:
        return written
    space = values[0].get_domain_local_space()
    for at in range(values[0].dim(_IN)):
        given = islpy.Aff.var_on_domain(space, islpy.dim_type.set, at)
        found.setdefault(Affine(0, ((1, at),), (), (), 1), given)
    samples = [points.sample_point() for points in places]
    holds = {
        one: [
            one == own or (_agree(aff, value, sample) and points.is_subset(aff.eq_set(value)))
            for points, sample, value, own in zip(places, samples, values, written, strict=True)
        ]
        for one, aff in found.items()
    }
    ranked = sorted(found, key=lambda one: -sum(holds[one]))
    return [next(one for one in ranked if holds[one][at]) for at in range(len(places))]


def _agree(one: islpy.Aff, other: islpy.Aff, sample: islpy.Point) -> bool:
    """Tests whether two expressions have one value at a point: most that differ do so at the
    first."""
    return sample.is_void() or bool(one.eval(sample).eq(other.eval(sample)))


def _simplest(points: islpy.Set, aff: islpy.Aff) -> islpy.Aff:
    """An input plus a constant that has the same value at the points, rather than one with
    floors."""
    if not any(aff.involves_dims(_DIV, at, 1) for at in range(aff.dim(_DIV))):
        return aff
    sample = points.sample_point()
    if sample.is_void():
        return aff
    space = aff.get_domain_local_space()
    value = aff.eval(sample)
    for at in range(aff.dim(_IN)):
        shift = value.sub(sample.get_coordinate_val(islpy.dim_type.set, at))
        simple = islpy.Aff.var_on_domain(space, islpy.dim_type.set, at).add_constant_val(shift)
        if points.is_subset(aff.eq_set(simple)):
            return simple
    return aff


def pieces(count: Count) -> tuple[Piece, ...]:
    """A count as expressions, each with the condition under which it holds."""
    count = count.coalesce()
    domain = count.domain()
    found = count.get_pieces()
    for _, value in found if len(found) > 1 else ():
        # One expression often gives the value everywhere.
        whole = islpy.PwAff.from_aff(value).intersect_domain(domain)
        if count.eq_set(whole).is_equal(domain):
            return (Piece(((),), affine(value)),)
    return tuple(Piece(conjunctions(points.gist(domain)), affine(value)) for points, value in found)


def conjunctions(points: islpy.Set) -> tuple[tuple[Constraint, ...], ...]:
    """Conditions on the dimensions of a set, one conjunction of which holds at its points."""
    found = []
    for basic in points.coalesce().compute_divs().get_basic_sets():
        constraints = (
            Constraint(affine(one.get_aff()), bool(one.is_equality()))
            for one in basic.get_constraints()
            if not one.is_div_constraint()
        )
        found.append(tuple(constraints))
    return tuple(found)


def affine(aff: islpy.Aff) -> Affine:
    """A quasi-affine expression as data."""
    denominator = aff.get_denominator_val()

    def scaled(value: islpy.Val) -> int:
        return integer_of(value.mul(denominator))

    inputs = _terms(scaled(aff.get_coefficient_val(_IN, at)) for at in range(aff.dim(_IN)))
    params = tuple(
        (coefficient, aff.get_dim_name(_PARAM, at) or "")
        for at in range(aff.dim(_PARAM))
        if (coefficient := scaled(aff.get_coefficient_val(_PARAM, at)))
    )
    floors = tuple(
        (coefficient, affine(aff.get_div(at)))
        for at in range(aff.dim(_DIV))
        if (coefficient := scaled(aff.get_coefficient_val(_DIV, at)))
    )
    constant = scaled(aff.get_constant_val())
    return Affine(constant, inputs, params, floors, integer_of(denominator))


def _terms(coefficients: Iterable[int]) -> tuple[tuple[int, int], ...]:
    return tuple((value, at) for at, value in enumerate(coefficients) if value)
