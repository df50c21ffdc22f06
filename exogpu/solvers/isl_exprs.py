"""Conditions on parameters as expression trees, as short as ISL can write them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final, TypeAlias

import islpy

from exogpu.solvers.isl_budget import whole

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
    found = [_written(whole.get_basic_sets(), known, whole)]
    if condition.n_basic_set() <= UNMERGED:
        # What coalescing merged may be longer than its parts.
        found.append(_written(condition.intersect(known).get_basic_sets(), known, whole))
    return min(
        (one for one in found if one is not None), key=lambda one: len(str(one)), default=None
    )


def _written(parts: Sequence[islpy.BasicSet], known: Set, whole: Set) -> Tree | None:
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
        kept = _widened(list(basic.get_constraints()), basic.get_space(), known, whole)
        if not any(kept.is_subset(other) for other in pieces):
            pieces.append(kept)
    for piece in list(pieces):
        others = [other for other in pieces if other is not piece]
        if others and piece.intersect(known).is_subset(reduce(Set.union, others)):
            pieces = others
    return pieces


def _widened(
    constraints: list[islpy.Constraint], space: islpy.Space, known: Set, whole: Set
) -> Set:
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
        return whole(expr.int_get_val())
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
