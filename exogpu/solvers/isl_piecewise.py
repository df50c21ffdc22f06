"""Conditions on parameters as expression trees, as short as ISL can write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeAlias

import islpy

from exogpu.solvers import isl_relations as rel
from exogpu.solvers.isl import integer_of
from exogpu.solvers.isl_functions import Affine, Constraint, affine, conjunctions
from exogpu.solvers.isl_relations import Map, params_to_both
from exogpu.solvers.isl_unions import Points, Relation

Set: TypeAlias = islpy.Set

Tree: TypeAlias = int | str | tuple[str, tuple["Tree", ...]]
"""A number, the name of a parameter, or an operator with its operands: `and or == <= < >= > + -
* neg`, and `floor` and `mod`, whose second operand is a positive number."""

_OPERATORS: Final = {
    "and_": "and",
    "and_then": "and",
    "or_": "or",
    "or_else": "or",
    "eq": "==",
    "le": "<=",
    "lt": "<",
    "ge": ">=",
    "gt": ">",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "minus": "neg",
    "fdiv_q": "floor",
    "pdiv_q": "floor",
    "div": "floor",
    "pdiv_r": "mod",
    # Only ever compared with 0, so that the sign of the remainder does not matter.
    "zdiv_r": "mod",
}
"""ISL's names of the operators."""


UNMERGED: Final = 32
"""Conditions of at most so many parts are also tried as they stand."""


def tree(condition: Set, known: Set) -> Tree | None:
    """Returns the part of a condition on parameters that the known conditions do not imply.

    None where that takes other operators than a `Tree` has.  A condition that adds nothing is 1,
    one that never holds is 0.
    """
    whole = condition.intersect(known).coalesce()
    found = [_condition_tree(whole.get_basic_sets(), known, whole)]
    if condition.n_basic_set() <= UNMERGED:
        # What coalescing merged may be longer than its parts.
        found.append(_condition_tree(condition.intersect(known).get_basic_sets(), known, whole))
    return min(
        (one for one in found if one is not None), key=lambda one: len(str(one)), default=None
    )


def _condition_tree(parts: Sequence[islpy.BasicSet], known: Set, whole: Set) -> Tree | None:
    """The tree of a condition that consists of these parts."""
    build = islpy.AstBuild.from_context(known)
    pieces = [_tree(build.expr_from_set(piece)) for piece in _pieces(parts, known, whole)]
    trees = [piece for piece in pieces if piece is not None]
    if len(trees) < len(pieces):
        return None
    if len(trees) < 2:
        return trees[0] if trees else 0
    return "or", tuple(trees)


def _pieces(parts: Sequence[islpy.BasicSet], known: Set, whole: Set) -> list[Set]:
    """Convex pieces that make up `whole`, where `known` holds: none has a constraint that it
    could do without, and no piece could be left out."""
    if known.is_subset(whole):
        return [Set.universe(whole.get_space())]
    pieces: list[Set] = []
    for basic in parts:
        kept = _widen(list(basic.get_constraints()), basic.get_space(), known, whole)
        if not any(kept.is_subset(other) for other in pieces):
            pieces.append(kept)
    for piece in list(pieces):
        others = [other for other in pieces if other is not piece]
        if others and piece.intersect(known).is_subset(reduce(Set.union, others)):
            pieces = others
    return pieces


def _widen(constraints: list[islpy.Constraint], space: islpy.Space, known: Set, whole: Set) -> Set:
    """The points that satisfy as few of the constraints as keep them in `whole`, where `known`
    holds."""
    at = 0
    while at < len(constraints):
        fewer = _all(constraints[:at] + constraints[at + 1 :], space)
        if fewer.intersect(known).is_subset(whole):
            del constraints[at]
        else:
            at += 1
    return _all(constraints, space)


def _all(constraints: list[islpy.Constraint], space: islpy.Space) -> Set:
    found = islpy.BasicSet.universe(space)
    for constraint in constraints:
        found = found.add_constraint(constraint)
    return found.to_set()


def _tree(expr: islpy.AstExpr) -> Tree | None:
    kind = islpy.ast_expr_type(expr.get_type())
    if kind is islpy.ast_expr_type.int:
        return integer_of(expr.int_get_val())
    if kind is islpy.ast_expr_type.id:
        return str(expr.id_get_id().get_name())
    operator = _OPERATORS.get(islpy.ast_expr_op_type(expr.op_get_type()).name)
    if operator is None:
        return None
    operands = []
    for at in range(expr.op_get_n_arg()):
        operand = _tree(expr.op_get_arg(at))
        if operand is None:
            return None
        operands.append(operand)
    return operator, tuple(operands)


# Relations between named tuples as quasi-affine functions by cases, as plain data.
#
# Beside `exogpu.solvers.isl`, a file of functions that imports islpy.

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
        among = _points_named(given, first, piece.domain())
        yield first, second, tuple(_branches(piece, among))


def cases(points: Points, given: Points) -> Iterator[tuple[str, Cases]]:
    """By name, the conditions that tell the points among the given ones."""
    listed = points.get_set_list()
    for at in range(listed.n_set()):
        piece = listed.get_at(at).coalesce()
        if not piece.is_empty():
            name = piece.get_tuple_name()
            yield name, _conditions_among(piece, _points_named(given, name, piece))


def related(pairs: Relation, given: Points) -> Iterator[tuple[str, str, Cases]]:
    """By the names of input and output, the conditions on both, the input first, that tell the
    related pairs among those of the given inputs."""
    for piece in _maps(pairs):
        first = piece.get_tuple_name(islpy.dim_type.in_)
        second = piece.get_tuple_name(islpy.dim_type.out)
        inputs = _points_named(given, first, piece.domain())
        outputs = islpy.Set.universe(piece.range().get_space())
        among = islpy.Map.from_domain_and_range(inputs, outputs).wrap().flatten()
        yield first, second, _conditions_among(piece.wrap().flatten().coalesce(), among)


def compose_branches(
    ways: Relation, pairs: Relation
) -> Iterator[tuple[str, str, str, tuple[Branch, ...]]]:
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


def _points_named(given: Points, name: str, like: islpy.Set) -> islpy.Set:
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


# Relations between values of ISL that iterations of one loop have in common.
#
# Beside `exogpu.solvers.isl`, a file of functions that imports islpy.

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


def plus_times(values: Map, number: rel.Set, times: int) -> Map:
    """`input -> [value + times * number]`, of a number that the parameters determine."""
    more = number.apply(islpy.Map(f"{{ [a] -> [{times} * a] }}"))
    return values.sum(Map.from_domain_and_range(values.domain(), more))


def at_least(left: Map, right: Map, least: int) -> Map:
    """The pairs of inputs of two relations to values with `right value - left value >= least`."""
    below = islpy.Map(f"{{ [a] -> [b] : b - a >= {least} }}")
    return left.apply_range(below).apply_range(right.reverse())


def shift_output(
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
