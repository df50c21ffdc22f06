"""Relations between values of ISL that iterations of one loop have in common.

Beside `exogpu.solvers.isl`, a file of functions that imports islpy.
"""

from __future__ import annotations

from collections.abc import Sequence

import islpy

from exogpu.solvers.isl_relations import Map, Set, params_to_both

_PARAM, _IN, _OUT = islpy.dim_type.param, islpy.dim_type.in_, islpy.dim_type.out


def is_free_of(relation: Map, name: str) -> bool:
    """Tests whether the pairs of a relation are the same for all values of a parameter for which
    there are any."""
    if relation.find_dim_by_name(_PARAM, name) < 0:
        return True
    return bool(for_any(relation, name).intersect_params(relation.params()).is_equal(relation))


def for_any(relation: Map, name: str) -> Map:
    """The pairs for some value of a parameter."""
    at = relation.find_dim_by_name(_PARAM, name)
    return relation if at < 0 else relation.project_out(_PARAM, at, 1)


def plus_times(values: Map, number: Set, times: int) -> Map:
    """`input -> [value + times * number]`, of a number that the parameters determine."""
    more = number.apply(islpy.Map(f"{{ [a] -> [{times} * a] }}"))
    return values.sum(Map.from_domain_and_range(values.domain(), more))


def at_least(left: Map, right: Map, least: int) -> Map:
    """The pairs of inputs of two relations to values with `right value - left value >= least`."""
    below = islpy.Map(f"{{ [a] -> [b] : b - a >= {least} }}")
    return left.apply_range(below).apply_range(right.reverse())


def apart(
    relation: Map, names: Sequence[str], tuples: tuple[str, str], steps: int, beyond: int
) -> Map:
    """The same as `params_to_both`, but of the last, which is no parameter, the output's value is
    so many steps larger; at least that many where `beyond` is positive, at most where it is
    negative."""
    relation = params_to_both(relation, names[:-1], tuples)
    at = len(names) - 1
    relation = relation.insert_dims(_IN, at, 1).insert_dims(_OUT, at, 1)
    local = islpy.LocalSpace.from_space(relation.get_space())
    sign = -1 if beyond < 0 else 1
    condition = (
        islpy.Constraint.alloc_inequality(local)
        if beyond
        else islpy.Constraint.alloc_equality(local)
    )
    for kind, coefficient in ((_OUT, sign), (_IN, -sign)):
        condition = condition.set_coefficient_val(kind, at, islpy.Val(coefficient))
    condition = condition.set_constant_val(islpy.Val(-sign * steps))
    relation = relation.add_constraint(condition)
    return relation.set_tuple_name(_IN, tuples[0]).set_tuple_name(_OUT, tuples[1])
