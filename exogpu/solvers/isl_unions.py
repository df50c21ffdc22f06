"""Unions of relations between named tuples, and their order under a schedule.

Beside `exogpu.solvers.isl`, a file of functions that imports islpy.  Tuples match by name and
length, parameters by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias, TypeVar

import islpy

from exogpu.solvers.isl import lexmin

Relation: TypeAlias = islpy.UnionMap
Points: TypeAlias = islpy.UnionSet
Either = TypeVar("Either", islpy.UnionMap, islpy.UnionSet)
_KEPT: Final = 1 << 12
"""Texts whose meaning is kept: of two programs that differ in a statement, most are the same."""
_PARAM, _IN, _OUT = islpy.dim_type.param, islpy.dim_type.in_, islpy.dim_type.out


def relation(params: Iterable[str], pieces: Iterable[str]) -> Relation:
    """The pairs of all pieces, each `A[i] -> B[j] : constraint`."""
    return islpy.UnionMap(f"[{', '.join(params)}] -> {{ {'; '.join(pieces)} }}")


def points(params: Iterable[str], pieces: Iterable[str]) -> Points:
    """The points of all pieces, each `A[i] : constraint`."""
    return islpy.UnionSet(f"[{', '.join(params)}] -> {{ {'; '.join(pieces)} }}")


def repeated_points(params: Iterable[str], piece: str, names: Iterable[str]) -> Points:
    """The points of one piece, `A[i] : constraint`, under each of the names."""
    one = _parse_set(f"[{', '.join(params)}] -> {{ {piece} }}")
    found = islpy.UnionSet.empty(one.get_space())
    for name in names:
        found = found.union(islpy.UnionSet.from_set(one.set_tuple_name(name)))
    return found


def repeated_pairs(params: Iterable[str], piece: str, names: Iterable[tuple[str, str]]) -> Relation:
    """The pairs of one piece, `A[i] -> B[j] : constraint`, under each of the pairs of names."""
    one = _map(f"[{', '.join(params)}] -> {{ {piece} }}")
    found = islpy.UnionMap.empty(one.get_space())
    for first, second in names:
        named = one.set_tuple_name(_IN, first).set_tuple_name(_OUT, second)
        found = found.union(islpy.UnionMap.from_map(named))
    return found


@lru_cache(_KEPT)
def _parse_set(text: str) -> islpy.Set:
    return islpy.Set(text)


@lru_cache(_KEPT)
def _map(text: str) -> islpy.Map:
    return islpy.Map(text)


@lru_cache(_KEPT)
def _order(first: str, second: str, strictly: bool) -> islpy.Map:
    """From a point of the first to those of the second that are before it: times as maps."""
    x, y = islpy.Map(first), islpy.Map(second)
    return x.lex_gt_map(y) if strictly else x.lex_ge_map(y)


def compose(first: Relation, second: Relation) -> Relation:
    """`second` after `first`."""
    return first.apply_range(second)


def inverse(pairs: Relation) -> Relation:
    """Inputs and outputs exchanged."""
    return pairs.reverse()


def union(left: Either, right: Either) -> Either:
    """The pairs, or points, of either."""
    return left.union(right)


def pieces(pairs: Relation) -> int:
    """Counts the conjunctions whose union a relation is."""
    listed = pairs.get_map_list()
    return sum(listed.get_at(at).n_basic_map() for at in range(listed.n_map()))


def subtract(left: Relation, right: Relation) -> Relation:
    """The pairs of `left` that are not in `right`."""
    return left.subtract(right).coalesce()


def intersect(left: Either, right: Either) -> Either:
    """The pairs, or points, of both."""
    return left.intersect(right)


def inputs(pairs: Relation) -> Points:
    """The inputs that have an output."""
    return pairs.domain()


def outputs(pairs: Relation) -> Points:
    """The outputs that have an input."""
    return pairs.range()


def of_inputs(pairs: Relation, given: Points) -> Relation:
    """The pairs whose input is given."""
    return pairs.intersect_domain(given)


def of_outputs(pairs: Relation, given: Points) -> Relation:
    """The pairs whose output is given."""
    return pairs.intersect_range(given)


def image(given: Points, pairs: Relation) -> Points:
    """The outputs of points."""
    return given.apply(pairs)


def difference(left: Points, right: Points) -> Points:
    """The points of `left` that are not in `right`."""
    return left.subtract(right).coalesce()


def of_names(given: Points, names: Iterable[str]) -> Points:
    """The points of the named tuples."""
    wanted = set(names)
    listed = given.get_set_list()
    found = islpy.UnionSet.empty(given.get_space())
    for at in range(listed.n_set()):
        if (piece := listed.get_at(at)).get_tuple_name() in wanted:
            found = found.union(islpy.UnionSet.from_set(piece))
    return found


def identity_on(given: Points) -> Relation:
    """Each point with itself."""
    return given.identity()


def is_empty(given: Relation | Points) -> bool:
    """Tests whether it is empty, for all values of the parameters."""
    return bool(given.is_empty())


class Timed(NamedTuple):
    """The time of the points `S[i, j]`: constants and dimensions, the first counts most."""

    dims: tuple[str, ...]
    time: tuple[str, ...]


class Schedule:
    """The times of tuples, of one length: each is under a key, `keys` has that of each tuple."""

    def __init__(
        self, params: Iterable[str], times: Mapping[str, Timed], keys: Mapping[str, str]
    ) -> None:
        self._given = ", ".join(params)
        self._times, self._keys = times, keys
        self._orders: dict[tuple[str, str, bool], islpy.Map] = {}

    def earlier(self, pairs: Relation) -> Relation:
        """The pairs whose output comes before their input."""
        return self._ordered(pairs, strictly=True)

    def not_later(self, pairs: Relation) -> Relation:
        """The pairs whose output does not come after their input."""
        return self._ordered(pairs, strictly=False)

    def _ordered(self, pairs: Relation, *, strictly: bool) -> Relation:
        found = islpy.UnionMap.empty(pairs.get_space())
        for piece in _pieces(pairs):
            first, second = piece.get_tuple_name(_IN), piece.get_tuple_name(_OUT)
            order = self._order(self._keys[first], self._keys[second], strictly)
            order = order.set_tuple_name(_IN, first).set_tuple_name(_OUT, second)
            found = found.union(islpy.UnionMap.from_map(piece.intersect(order)))
        return found

    def _order(self, first: str, second: str, strictly: bool) -> islpy.Map:
        key = (first, second, strictly)
        if key not in self._orders:
            a, b = self._times[first], self._times[second]
            counting: list[tuple[str, str]] = []
            for one, other in zip(a.time, b.time, strict=True):
                fixed = one.lstrip("-").isdigit() and other.lstrip("-").isdigit()
                if not fixed or one != other:
                    counting.append((one, other))
                if fixed and one != other:  # what follows does not count
                    break
            x, y = (
                f"[{self._given}] -> {{ S[{', '.join(t.dims)}] -> [{', '.join(c)}] }}"
                for t, c in ((a, [o for o, _ in counting]), (b, [o for _, o in counting]))
            )
            self._orders[key] = _order(x, y, strictly)
        return self._orders[key]


def _pieces(pairs: Relation) -> Iterator[islpy.Map]:
    listed = pairs.get_map_list()
    for at in range(listed.n_map()):
        yield listed.get_at(at)


def two_of(pairs: Relation) -> Relation:
    """Two different outputs of one input."""
    both = pairs.reverse().apply_range(pairs)
    return both.subtract(pairs.range().identity())


def tuples(pairs: Relation) -> tuple[tuple[str, str], ...]:
    """The names of the tuples that it relates, where a pair is left."""
    return tuple(
        (str(piece.get_tuple_name(_IN)), str(piece.get_tuple_name(_OUT)))
        for piece in _pieces(pairs)
        if not piece.is_empty()
    )


def names(given: Points) -> tuple[str, ...]:
    """The names of the tuples that have a point."""
    return tuple(a for a, _ in tuples(given.identity()))


def smallest_pair(pairs: Relation, params: Sequence[str]) -> tuple[str, str, dict[str, int]] | None:
    """The names of a related pair, at the parameters of the smallest sum, and those.

    None if nothing is related.
    """
    best: tuple[int, tuple[int, ...], str, str] | None = None
    for piece in _pieces(pairs):
        if piece.is_empty():
            continue
        sizes = piece.params()
        ordered = ", ".join(["total", *(f"o{p}" for p in params)])
        equal = "".join(f" and o{p} = {p}" for p in params)
        total = f"total = {' + '.join(params) or '0'}"
        order = islpy.Set(f"[{', '.join(params)}] -> {{ [{ordered}] : {total}{equal} }}")
        whole = order.intersect_params(sizes)
        whole = whole.project_out(_PARAM, 0, whole.dim(_PARAM))
        values = lexmin(whole)
        if values is None:
            continue
        one = (values[0], values[1:], piece.get_tuple_name(_IN), piece.get_tuple_name(_OUT))
        if best is None or one < best:
            best = one
    if best is None:
        return None
    return best[2], best[3], dict(zip(params, best[1], strict=True))


def first_image(
    pairs: Relation, names: tuple[str, str], params: Mapping[str, int], images: Relation
) -> tuple[str, tuple[int, ...]] | None:
    """Returns the image of the first input of a related pair of those names, at those
    parameters."""
    for piece in _pieces(pairs):
        if (piece.get_tuple_name(_IN), piece.get_tuple_name(_OUT)) != names:
            continue
        first = _fix_parameters(islpy.UnionSet.from_set(piece.domain()), params).lexmin()
        for image in _sets(_fix_parameters(first.apply(images), params)):
            values = lexmin(image.project_out(_PARAM, 0, image.dim(_PARAM)))
            if values is not None:
                return image.get_tuple_name(), values
    return None


def _fix_parameters(given: Points, params: Mapping[str, int]) -> Points:
    equal = " and ".join(f"{name} = {value}" for name, value in params.items()) or "true"
    return given.intersect_params(islpy.Set(f"[{', '.join(params)}] -> {{ : {equal} }}"))


def leaving_out(pairs: Relation, names: Iterable[str]) -> Relation:
    """The pairs of which not both are of the named tuples."""
    among = set(names)
    found = islpy.UnionMap.empty(pairs.get_space())
    for piece in _pieces(pairs):
        if not {piece.get_tuple_name(_IN), piece.get_tuple_name(_OUT)} <= among:
            found = found.union(islpy.UnionMap.from_map(piece))
    return found


# --- pairs as points --------------------------------------------------------------------------


def matching_points(
    params: Iterable[str], events: Points, pairs: Iterable[tuple[str, str]]
) -> Relation:
    """From points of each first tuple to the point of the second with the same numbers."""
    dims = {piece.get_tuple_name(): piece.dim(islpy.dim_type.set) for piece in _sets(events)}
    given = ", ".join(params)
    found = islpy.UnionMap(f"[{given}] -> {{ }}")
    for first, second in pairs:
        at = ", ".join(f"i{n}" for n in range(dims.get(first, dims.get(second, 0))))
        found = found.union(islpy.UnionMap(f"[{given}] -> {{ {first}[{at}] -> {second}[{at}] }}"))
    return found.intersect_domain(events).intersect_range(events)


def _sets(given: Points) -> Iterator[islpy.Set]:
    listed = given.get_set_list()
    for at in range(listed.n_set()):
        yield listed.get_at(at)


def leaving(pairs: Relation, outputs: Points) -> Relation:
    """The pairs whose output is none of these."""
    return pairs.subtract_range(outputs)


def sides(pairs: Relation) -> tuple[Relation, Relation]:
    """From each pair, as a point, to its input, and to its output."""
    return pairs.domain_map(), pairs.range_map()


def joined(left: Relation, right: Relation) -> Relation:
    """`[a -> b] -> c` for `a -> c` in the first and `b -> c` in the second."""
    return left.domain_product(right)


def is_function(pairs: Relation) -> bool:
    """Tests whether every input has at most one output.

    ISL asks every two pieces, so that there should be few; a hull is one, and holds all of them.
    """
    few = pairs.coalesce()
    return bool(few.simple_hull().is_single_valued() or few.is_single_valued())


def is_equal(left: Either, right: Either) -> bool:
    """Tests whether both have the same pairs, or points."""
    return bool(left.is_equal(right))
