"""Relations between instances of operations: order, uncleared accesses, counts of earlier ones.

Beside `exogpu.solvers.isl`, a file of functions that imports islpy.  Relations are between named
tuples, `S3[k, m]` for an instance of operation 3; parameters match by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import TypeAlias

import islpy

from exogpu.solvers.isl import has_operations_left, has_smallest_value, lexmin

Set: TypeAlias = islpy.Set
Map: TypeAlias = islpy.Map
Count: TypeAlias = islpy.PwAff

_PARAM, _IN, _OUT = islpy.dim_type.param, islpy.dim_type.in_, islpy.dim_type.out
_DIV = islpy.dim_type.div


def context(params: Iterable[str], constraint: str) -> Set:
    """`[params] -> { : constraint }`"""
    return islpy.Set(f"[{', '.join(params)}] -> {{ : {constraint} }}")


def ends(relation: Map) -> tuple[str, str]:
    """The names of the tuples at both ends."""
    return relation.get_tuple_name(_IN) or "", relation.get_tuple_name(_OUT) or ""


def identity(points: Set) -> Map:
    """Each point with itself."""
    return points.identity()


def empty_like(relation: Map) -> Map:
    """The empty relation between the same tuples."""
    return Map.empty(relation.get_space())


def input_of(relation: Map) -> Map:
    """`[a -> b] -> a`"""
    return relation.domain_map()


def output_of(relation: Map) -> Map:
    """`[a -> b] -> b`"""
    return relation.range_map()


def restrict_range(relation: Map, outputs: Set) -> Map:
    """The pairs whose output is in `outputs`."""
    return relation.intersect_range(outputs)


def restrict_parameters(relation: Map, condition: Set) -> Map:
    """The pairs for parameters in `condition`, in the order in which it has them."""
    return relation.align_params(condition.get_space()).intersect_params(condition)


def set_under(points: Set, condition: Set) -> Set:
    """The points for parameters in `condition`."""
    return points.intersect_params(condition)


def params_where(relation: Map) -> Set:
    """The parameters for which the relation has a pair."""
    return relation.params().coalesce()


def coalesce(relation: Map) -> Map:
    """The same relation in fewer pieces; as it is where ISL fails at that with operations left."""
    try:
        return relation.coalesce()
    except islpy.Error:
        if not has_operations_left():
            raise
        return relation


def project_params(condition: Set, names: Iterable[str]) -> Set:
    """The parameters left when `names` may have any values that satisfy the condition."""
    for name in names:
        at = condition.find_dim_by_name(_PARAM, name)
        if at >= 0:
            condition = condition.project_out(_PARAM, at, 1)
    return condition.coalesce()


def pairs(left: Map, right: Map) -> Map:
    """The pairs of inputs of two relations that share an output."""
    return left.apply_range(right.reverse())


def every_pair(left: Set, right: Set) -> Map:
    """All pairs of a point and another."""
    return Map.from_domain_and_range(left, right)


def contained(left: Map, right: Map) -> Map:
    """The pairs of inputs, of those both have, such that the outputs of the first are all among
    those of the second."""
    both = left.domain().product(right.domain()).unwrap()
    # (first, second) -> output of the first; minus those that are outputs of the second too
    outputs = both.domain_map().apply_range(left)
    others = both.range_map().apply_range(right)
    return both.subtract(outputs.subtract(others).domain().unwrap()).coalesce()


def extend_input(relation: Map, name: str) -> Map:
    """`S[i] -> name[i, t]` for `S[i] -> T[t]`: an instance with one of its outputs."""
    return relation.domain_map().reverse().flatten_range().set_tuple_name(_OUT, name)


def output_of_extended(relation: Map, name: str) -> Map:
    """`name[i, t] -> T[t]` for `S[i] -> T[t]`."""
    return relation.range_map().flatten_domain().set_tuple_name(_IN, name)


def equal_dims(relation: Map, dims: Sequence[tuple[int, int]]) -> Map:
    """The pairs whose input dimension equals the output dimension, for each pair of positions."""
    for of_input, of_output in dims:
        relation = relation.equate(_IN, of_input, _OUT, of_output)
    return relation


@cache
def fix_input(relation: Map, at: int, value: int) -> Map:
    """The pairs whose input has a value in one dimension."""
    return relation.fix_val(_IN, at, value)


def lexicographic(
    ins: int, outs: int, common: int, *, or_equal: bool, alike: tuple[int, ...] = ()
) -> Map:
    """The pairs whose input is smaller in the first `common` dimensions, or equal there where
    `or_equal`; in no others where these are none.  In those of `alike` none is smaller."""
    equal = Map.universe(islpy.Space.alloc(islpy.DEFAULT_CONTEXT, 0, ins, outs))
    found = empty_like(equal)
    for at in range(common):
        if at not in alike:
            found = found.union(equal.order_lt(_IN, at, _OUT, at))
        equal = equal.equate(_IN, at, _OUT, at)
    return found.union(equal) if or_equal else found


def is_plainly_empty(relation: Map) -> bool:
    """Tests whether it is plainly empty, without a look at the constraints."""
    return bool(relation.plain_is_empty())


def is_plainly_equal(left: Map, right: Map) -> bool:
    """Tests whether the two are written alike, and so the same."""
    return bool(left.plain_is_equal(right))


def relation_between(relation: Map, first: str, second: str) -> Map:
    """The relation between named tuples."""
    return relation.set_tuple_name(_IN, first).set_tuple_name(_OUT, second)


def from_tuple(relation: Map, name: str) -> Map:
    """The relation whose inputs have this tuple's name."""
    return relation.set_tuple_name(_IN, name)


# --- uncleared accesses -----------------------------------------------------------------------


def met_on(pairs: Map, first: Map, second: Map) -> Map:
    """`a -> [b -> element]` for `a -> b` in the pairs, on the elements of both."""
    there = second.domain_map().reverse()
    return pairs.apply_range(there).intersect(first.apply_range(second.range_map().reverse()))


def met_through(after: Map, until: Map, first: Map, middle: Map, second: Map) -> Map:
    """`a -> [c -> element]` for `a -> b` in `after` and `b -> c` in `until`, on the elements of
    all three.

    (ISL's flow analysis with kills is not used: it lets some sources pass a kill.)
    """
    begun = met_on(after, first, middle)
    there = second.domain_map().reverse()
    ended = middle.domain_map().apply_range(until).apply_range(there)
    ended = ended.intersect(middle.range_map().apply_range(second.range_map().reverse()))
    return begun.apply_range(ended)


def chains(steps: Sequence[Map]) -> list[Map]:
    """All pairs between which a chain of one or more steps leads, and perhaps others: by the names
    of the tuples at both ends."""
    if not steps:
        return []
    union = islpy.UnionMap.from_map(steps[0])
    for step in steps[1:]:
        union = union.union(islpy.UnionMap.from_map(step))
    closed, _ = union.transitive_closure()
    found: list[Map] = []
    closed.foreach_map(found.append)
    return found


def without_element(relation: Map) -> Map:
    """`a -> b` of `a -> [b -> c]`."""
    return relation.range_factor_domain().coalesce()


def elements_where(relation: Map, wanted: Map) -> Map:
    """The part of `a -> [b -> c]` with `a -> b` in `wanted`."""
    return relation.intersect_range_factor_domain(wanted)


# --- counts -------------------------------------------------------------------------------------


def is_told(relation: Map, at: int) -> bool:
    """Returns whether input and other output dimensions determine output dimension `at`."""
    at += relation.dim(_IN)
    told = Map.from_domain(relation.wrap().flatten()).add_dims(_OUT, 1).equate(_IN, at, _OUT, 0)
    return bool(told.project_out(_IN, at, 1).is_single_valued())


def without_output(relation: Map, at: int) -> Map:
    """The relation without an output dimension."""
    name = relation.get_tuple_name(_OUT)
    return relation.project_out(_OUT, at, 1).set_tuple_name(_OUT, name)


def without_dims(points: Set, dims: Iterable[int]) -> Set:
    """The points without some dimensions, the last one first."""
    name = points.get_tuple_name()
    for at in dims:
        points = points.project_out(_OUT, at, 1)
    return points.set_tuple_name(name)


def with_output(relation: Map, at: int, among: Set) -> Map:
    """The relation with any value for one more output dimension such that its outputs are `among`
    some."""
    name = among.get_tuple_name()
    return relation.insert_dims(_OUT, at, 1).set_tuple_name(_OUT, name).intersect_range(among)


def plus(count: Count, constant: int) -> Count:
    """The function with a constant added."""
    return count.add_constant_val(islpy.Val(constant))


def graph(count: Count) -> Map:
    """`input -> [value]`"""
    return count.as_map()


def at_most(left: Map, right: Map) -> Map:
    """The pairs of inputs of two relations to values with `left value <= right value`."""
    return left.apply_range(islpy.Map("{ [a] -> [b] : a <= b }")).apply_range(right.reverse())


def congruent_pairs(left: Map, right: Map, modulus: int) -> Map:
    """The pairs of inputs of two relations to values that differ by a multiple of the modulus."""
    same = islpy.Map(f"{{ [a] -> [b] : (a - b) mod {modulus} = 0 }}")
    return left.apply_range(same).apply_range(right.reverse())


def congruent(left: Map, right: Map, modulus: int) -> Set:
    """The inputs of which the values of two relations differ by a multiple of the modulus."""
    same = islpy.Map(f"{{ [a] -> [b] : (a - b) mod {modulus} = 0 }}")
    return left.apply_range(same).intersect(right).domain()


def multiples(count: Count, modulus: int) -> Set:
    """The inputs at which a function is a multiple of the modulus."""
    whole = Set(f"{{ [a] : a mod {modulus} = 0 }}")
    return count.as_map().intersect_range(whole).domain()


def params_with_multiples(relation: Map, modulus: int) -> Set:
    """The parameters for which all values of a relation are multiples of the modulus."""
    other = Set(f"{{ [a] : a mod {modulus} != 0 }}")
    values = relation.range()
    return values.params().subtract(values.intersect(other).params())


def where_different(left: Count, right: Count) -> Set:
    """The inputs at which two functions differ."""
    return left.ne_set(right).coalesce()


def where_at_least(count: Count, constant: int) -> Set:
    """The inputs at which the function is at least the constant."""
    bound = count.mul(islpy.PwAff.from_aff(_zero(count))).add_constant_val(islpy.Val(constant))
    return count.ge_set(bound)


def _zero(count: Count) -> islpy.Aff:
    return islpy.Aff.zero_on_domain(islpy.LocalSpace.from_space(count.get_domain_space()))


# --- points -------------------------------------------------------------------------------------


def fix_params(relation: Map, values: Mapping[str, int]) -> Map:
    """The relation at the values of some of its parameters."""
    for name, value in values.items():
        at = relation.find_dim_by_name(_PARAM, name)
        if at >= 0:
            relation = relation.fix_val(_PARAM, at, islpy.Val(value))
    return relation


def params_first(relation: Map) -> tuple[tuple[str, ...], Set]:
    """The relation as a set whose first dimensions are its parameters, and their names."""
    names = tuple(relation.get_dim_name(_PARAM, at) or "" for at in range(relation.dim(_PARAM)))
    flat = relation.wrap().flatten().reset_tuple_id()
    return names, flat.move_dims(_OUT, 0, _PARAM, 0, len(names)) if names else flat


def smallest_sum(condition: Set, signed: Collection[str] = ()) -> dict[str, int] | None:
    """The parameters of the set with the smallest sum, then lexicographically; None if empty.

    Of a `signed` parameter, which may be negative, its magnitude counts, and comes first where
    sums are equal.  Also None where the others have no smallest sum.
    """
    names = tuple(condition.get_dim_name(_PARAM, at) or "" for at in range(condition.dim(_PARAM)))
    whole = condition.move_dims(_OUT, 0, _PARAM, 0, len(names)) if names else condition
    keyed = whole.reset_tuple_id().apply(_sums([name in signed for name in names]))
    if not has_smallest_value(keyed):
        return None
    point = lexmin(keyed)
    return (
        None if point is None else dict(zip(names, point[len(point) - len(names) :], strict=True))
    )


def _sums(signed: Sequence[bool]) -> Map:
    """The map from sizes to what they are ordered by: sum, magnitudes of the signed, sizes."""
    dims = [f"x{at}" for at in range(len(signed))]
    sides = {at: f"m{at}" for at, may_be_negative in enumerate(signed) if may_be_negative}
    addends = [sides.get(at, dim) for at, dim in enumerate(dims)]
    conditions = [f"s = {' + '.join(addends) or '0'}"]
    for at, magnitude in sides.items():
        conditions.append(f"{magnitude} >= 0 and ({magnitude} = x{at} or {magnitude} = -x{at})")
    image = ", ".join(("s", *sides.values(), *dims))
    return islpy.Map(f"{{ [{', '.join(dims)}] -> [{image}] : {' and '.join(conditions)} }}")


def unwrap(points: Set) -> Map:
    """The relation whose pairs are the points `[a -> b]`."""
    return points.unwrap()


def largest_value(relation: Map) -> Count:
    """The function that gives each input its largest output, one-dimensional."""
    return extreme(relation, largest=True).get_pw_aff(0)


def extreme(relation: Map, *, largest: bool = False) -> islpy.PwMultiAff:
    """The function that gives each input its smallest or largest output, at least one of its own.

    Of relations with equalities that are only implied, ISL's lexmin drops a part of the domain
    and its coalesce has been seen to crash: so these are made explicit first, and what is dropped
    all the same is filled in, from one convex part of the relation after the other.
    """
    relation = relation.detect_equalities().coalesce()
    of = Map.lexmax_pw_multi_aff if largest else Map.lexmin_pw_multi_aff
    found = of(relation)
    left = relation.domain().subtract(found.domain())
    for part in relation.get_basic_maps():
        if left.is_empty():
            break
        more = of(part.to_map().intersect_domain(left))
        found = found.union_add(more)
        left = left.subtract(more.domain())
    return found


def has_pair(relation: Map, inputs: Sequence[int | None], outputs: Sequence[int]) -> bool:
    """Tests whether the pair is in the relation, for some values of its parameters, and of its
    inputs that are None."""
    for at, value in enumerate(inputs):
        if value is not None:
            relation = relation.fix_val(_IN, at, islpy.Val(value))
    for at, value in enumerate(outputs):
        relation = relation.fix_val(_OUT, at, islpy.Val(value))
    return not relation.is_empty()


def is_constant(relation: Map) -> bool:
    """Tests whether all inputs have one output and the same, for each choice of the parameters."""
    return bool(Map.from_range(relation.range()).is_single_valued())


def params_to_both(relation: Map, names: Sequence[str], tuples: tuple[str, str]) -> Map:
    """The relation with parameters as first dimensions, equal, of input and output, which are
    named anew."""
    for position, name in enumerate(names):
        at = relation.find_dim_by_name(_PARAM, name)
        if at < 0:
            relation = relation.insert_dims(_IN, position, 1)
        else:
            relation = relation.move_dims(_IN, position, _PARAM, at, 1)
        relation = relation.insert_dims(_OUT, position, 1).equate(_IN, position, _OUT, position)
    return relation.set_tuple_name(_IN, tuples[0]).set_tuple_name(_OUT, tuples[1])


def nowhere(points: Set) -> Set:
    """The empty set of the same tuple."""
    return points.subtract(points)
