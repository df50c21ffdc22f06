"""Integer sets and relations: the only file that imports islpy, functions only.

A set or relation is built from constraint text (`exogpu.ir.render` makes it from the IR's
expressions).  Dimensions and parameters are addressed by name; in an equality or subset test
the dimensions of both sides match by position, the parameters by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

import islpy

# A budget for ISL, in its own operations: the same on every machine.
#
# Beside `exogpu.solvers.isl`, a file that imports islpy.


class IslGaveUpError(Exception):
    """ISL could not answer, most often for lack of operations."""


LOUD = False
"""A question that ISL cannot answer, and has operations left for, is raised as it is: in tests and
campaigns, since it is most often a mistake of who asks, such as a name that is declared nowhere."""


@contextmanager
def limited(operations: int) -> Iterator[None]:
    """Within it, ISL may make so many operations; beyond them IslGaveUpError is raised.

    Some ten million are a second.  Budgets do not nest.
    """
    context = islpy.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(operations)
    try:
        yield
    except islpy.Error as error:
        if LOUD and has_operations_left():
            raise
        raise IslGaveUpError(str(error)) from error
    finally:
        context.set_max_operations(0)


def has_operations_left() -> bool:
    """Tests whether ISL may make some more operations. Its message does not tell: text in the
    middle of which they end is a syntax error, too."""
    try:
        return not islpy.Set("{ [i] : 0 <= i < 3 }").is_empty()
    except islpy.Error:
        return False


def integer_of(value: islpy.Val) -> int:
    """An integer of ISL.  Raises IslGaveUpError where no operation is left to print it: islpy then
    gives no text, and raises nothing."""
    text: str | None = value.to_str()
    if text is None:
        raise IslGaveUpError("an integer could not be printed")
    return int(text)


Set: TypeAlias = islpy.Set
Map: TypeAlias = islpy.Map
Piece = TypeVar("Piece", islpy.Set, islpy.Map)

_PARAM, _IN, _OUT = islpy.dim_type.param, islpy.dim_type.in_, islpy.dim_type.out


# --- construction ---------------------------------------------------------------------------


def set_of(params: Iterable[str], dims: Iterable[str], constraint: str = "") -> Set:
    """`[params] -> { [dims] : constraint }`"""
    return islpy.Set(
        f"[{', '.join(params)}] -> {{ [{', '.join(dims)}]{_condition_suffix(constraint)} }}"
    )


def map_of(
    params: Iterable[str], ins: Iterable[str], outs: Iterable[str], constraint: str = ""
) -> Map:
    """`[params] -> { [ins] -> [outs] : constraint }`; an output may be an expression."""
    arrow = f"[{', '.join(ins)}] -> [{', '.join(outs)}]"
    return islpy.Map(f"[{', '.join(params)}] -> {{ {arrow}{_condition_suffix(constraint)} }}")


def parse_set(text: str) -> Set:
    """The set that ISL text denotes."""
    return islpy.Set(text)


def parse_map(text: str) -> Map:
    """The relation that ISL text denotes."""
    return islpy.Map(text)


def _condition_suffix(constraint: str) -> str:
    return f" : {constraint}" if constraint else ""


# --- questions ------------------------------------------------------------------------------


def is_empty(piece: Set | Map) -> bool:
    """Tests whether it is empty, for all values of the parameters."""
    return bool(piece.is_empty())


def is_equal(left: Set, right: Set) -> bool:
    """Tests whether two sets are equal for all values of the parameters."""
    return bool(left.is_equal(right))


def is_subset(left: Set, right: Set) -> bool:
    """Tests whether `left` lies in `right` for all values of the parameters."""
    return bool(left.is_subset(right))


def is_equal_map(left: Map, right: Map) -> bool:
    """Tests whether two relations are equal for all values of the parameters."""
    return bool(left.is_equal(right))


def is_subset_map(left: Map, right: Map) -> bool:
    """Tests whether `left` lies in `right` for all values of the parameters."""
    return bool(left.is_subset(right))


def is_function(relation: Map) -> bool:
    """Tests whether every input has at most one output."""
    return bool(relation.is_single_valued())


def is_injective(relation: Map) -> bool:
    """Tests whether no two inputs share an output."""
    return bool(relation.is_injective())


def implies(params: Iterable[str], premise: str, conclusion: str) -> bool:
    """Tests whether every point of the parameters that satisfies `premise` satisfies
    `conclusion`."""
    names = tuple(params)
    return is_subset(set_of((), names, premise), set_of((), names, conclusion))


def parts(piece: Set) -> int:
    """Conjunctions of constraints that the set is written as."""
    return int(piece.n_basic_set())


def bounded_below(piece: Set) -> bool:
    """Tests whether the set's only dimension has a smallest value, or the set is empty."""
    return bool(piece.is_empty()) or not piece.dim_min_val(0).is_neginfty()


# --- operations -----------------------------------------------------------------------------


def union(left: Set, right: Set) -> Set:
    """The points of either."""
    return left.union(right).coalesce()


def intersect(left: Set, right: Set) -> Set:
    """The points of both."""
    return left.intersect(right)


def subtract(left: Set, right: Set) -> Set:
    """The points of `left` that are not in `right`."""
    return left.subtract(right)


def union_map(left: Map, right: Map) -> Map:
    """The pairs of either."""
    return left.union(right).coalesce()


def intersect_map(left: Map, right: Map) -> Map:
    """The pairs of both."""
    return left.intersect(right)


def subtract_map(left: Map, right: Map) -> Map:
    """The pairs of `left` that are not in `right`."""
    return left.subtract(right)


def restrict_domain(relation: Map, inputs: Set) -> Map:
    """The pairs whose input is in `inputs`."""
    return relation.intersect_domain(inputs)


def domain(relation: Map) -> Set:
    """The inputs that have an output."""
    return relation.domain()


def image(relation: Map) -> Set:
    """The outputs that have an input."""
    return relation.range()


def apply(points: Set, relation: Map) -> Set:
    """The outputs of the points."""
    return points.apply(relation)


def compose(first: Map, second: Map) -> Map:
    """`second` after `first`."""
    return first.apply_range(second)


def inverse(relation: Map) -> Map:
    """Inputs and outputs exchanged."""
    return relation.reverse()


def project_onto(points: Set, dims: Sequence[str]) -> Set:
    """The set with only the dimensions `dims`, in their order in `points`."""
    for name in dims_of(points):
        if name not in dims:
            points = points.project_out(_OUT, dims_of(points).index(name), 1)
    return points


def drop_param(piece: Piece, name: str) -> Piece:
    """The points, or pairs, that there are for some value of the parameter."""
    at = piece.find_dim_by_name(_PARAM, name)
    return piece if at < 0 else piece.project_out(_PARAM, at, 1)


def fix(piece: Set, values: Mapping[str, int]) -> Set:
    """The set with parameters and dimensions restricted to the values."""
    for name, value in values.items():
        for kind in (_PARAM, _OUT):
            at = piece.find_dim_by_name(kind, name)
            if at >= 0:
                piece = piece.fix_val(kind, at, islpy.Val(value))
    return piece


# --- points ---------------------------------------------------------------------------------


def params_of(piece: Set | Map) -> tuple[str, ...]:
    """The names of the parameters."""
    return tuple(_name(piece, _PARAM, at) for at in range(piece.dim(_PARAM)))


def dims_of(piece: Set) -> tuple[str, ...]:
    """The names of the dimensions; `_i` for the i-th where it has none."""
    return tuple(_name(piece, _OUT, at) for at in range(piece.dim(_OUT)))


def _name(piece: Set | Map, kind: islpy.dim_type, at: int) -> str:
    return piece.get_dim_name(kind, at) or f"_{at}"


def params_to_dims(piece: Set) -> Set:
    """The set whose first dimensions are the parameters: their smallest values come first."""
    count = piece.dim(_PARAM)
    return piece.move_dims(_OUT, 0, _PARAM, 0, count) if count else piece


def sample(piece: Set) -> dict[str, int] | None:
    """Some point, its parameters included, by name; None if there is none."""
    names = params_of(piece) + dims_of(piece)
    whole = params_to_dims(piece)
    if whole.is_empty():
        return None
    point = whole.sample_point()
    return dict(zip(names, _coordinates(point, len(names)), strict=True))


def smallest(piece: Set) -> dict[str, int] | None:
    """The lexicographically smallest point, parameters first; None if there is none.

    Where there is no smallest one (a dimension without a lower bound), some point.
    """
    names = params_of(piece) + dims_of(piece)
    values = lexmin(params_to_dims(piece))
    return None if values is None else dict(zip(names, values, strict=True))


def lexmin(points: Set) -> tuple[int, ...] | None:
    """The lexicographically smallest point of a set without parameters; None if it is empty.

    Dimension by dimension: ISL's own function for it fails on some sets with divisions.  Where a
    dimension has no smallest value, any that leaves a point.
    """
    pieces = _pieces(points)
    if not pieces:
        return None
    found: list[int] = []
    for at in range(points.dim(_OUT)):
        least = [piece.dim_min_val(at) for piece in pieces]
        endless = [piece for piece, value in zip(pieces, least, strict=True) if not value.is_int()]
        if endless:
            rest = _coordinates(endless[0].sample_point(), points.dim(_OUT))
            return (*found, *rest[at:])
        value = min(integer_of(value) for value in least)
        found.append(value)
        fixed = [piece.fix_val(_OUT, at, islpy.Val(value)) for piece in pieces]
        pieces = [piece for piece in fixed if not piece.is_empty()]
    return tuple(found)


def _pieces(points: Set) -> list[Set]:
    """The convex pieces that are not empty: of an empty one, smallest values are not defined."""
    pieces = (islpy.Set.from_basic_set(piece) for piece in points.get_basic_sets())
    return [piece for piece in pieces if not piece.is_empty()]


def has_smallest_value(points: Set) -> bool:
    """Tests whether the first dimension of a set has a smallest value; false for the empty set."""
    pieces = _pieces(points)
    return bool(pieces) and all(piece.dim_min_val(0).is_int() for piece in pieces)


def _coordinates(point: islpy.Point, count: int) -> list[int]:
    return [integer_of(point.get_coordinate_val(_OUT, at)) for at in range(count)]


def two_outputs(
    relation: Map,
) -> tuple[dict[str, int], tuple[int, ...], tuple[int, ...]] | None:
    """An input (parameters included, by name) with two outputs; None for a function.

    The inputs and outputs must be bounded for fixed parameters.
    """
    rest = relation.subtract(relation.lexmin())
    at = smallest(rest.domain())
    if at is None:
        return None
    values = list(at.values())
    count = relation.dim(_PARAM)
    for piece_dim, value in enumerate(values[:count]):
        relation = relation.fix_val(_PARAM, piece_dim, islpy.Val(value))
    for piece_dim, value in enumerate(values[count:]):
        relation = relation.fix_val(_IN, piece_dim, islpy.Val(value))
    outputs = relation.range().project_out(_PARAM, 0, count)
    return at, points(outputs.lexmin())[0], points(outputs.lexmax())[0]


def points(piece: Set, limit: int = 1 << 20) -> list[tuple[int, ...]]:
    """All points of a bounded set without parameters, sorted.

    Raises ValueError beyond `limit` points.
    """
    if integer_of(piece.count_val()) > limit:
        raise ValueError(f"more than {limit} points")
    found: list[tuple[int, ...]] = []
    rank = piece.dim(_OUT)
    piece.foreach_point(lambda point: found.append(tuple(_coordinates(point, rank))))
    return sorted(found)


def wrapped_points(relation: Map, limit: int = 1 << 20) -> list[tuple[int, ...]]:
    """All pairs of a bounded relation without parameters, inputs before outputs, sorted.

    Raises ValueError beyond `limit` pairs.
    """
    return points(relation.wrap().flatten(), limit)


def text(piece: Set | Map) -> str:
    """ISL's own notation of it, coalesced."""
    return str(piece.coalesce())
