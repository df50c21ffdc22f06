"""Counts the outputs of a relation, as a piecewise quasi-polynomial of its input and the sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable

import islpy

from exogpu.solvers.isl import integer_of
from exogpu.solvers.isl_relations import Count, Map, Set, extreme

_PARAM, _IN, _OUT = islpy.dim_type.param, islpy.dim_type.in_, islpy.dim_type.out
_DIV = islpy.dim_type.div


UNROLL = 64
"""Loops of at most so many constant iterations are enumerated by `count_outputs`."""


def count_outputs(relation: Map) -> Count | None:
    """Counts the outputs of each input that has any, as a piecewise quasi-affine function.

    None where no such function was found: the outputs are then no arithmetic progression.
    """
    relation = relation.coalesce()
    if relation.is_empty():
        return None
    if relation.is_single_valued():
        return _indicator(relation.domain())
    relation = _varying(relation)
    for at in range(relation.dim(_OUT)):
        if _determined_by(relation, at):
            count = _count_line(_onto(relation, at))
            if count is not None:
                return count
    apart = relation.make_disjoint()
    if 1 < apart.n_basic_map() <= UNROLL:
        found = _sum_of(count_outputs(piece.to_map()) for piece in apart.get_basic_maps())
        if found is not None:
            return found
    for at in range(relation.dim(_OUT)):
        span = _constant_span(relation, at)
        if span is None or relation.range().dim(_OUT) == 0:
            continue
        total: Count | None = None
        for value in range(span[0], span[1] + 1):
            part = relation.fix_val(_OUT, at, islpy.Val(value))
            if part.is_empty():
                continue
            count = count_outputs(part.project_out(_OUT, at, 1))
            if count is None:
                return None
            total = count if total is None else total.union_add(count)
        return total
    return None


def _indicator(domain: Set) -> Count:
    one = islpy.Aff.zero_on_domain(islpy.LocalSpace.from_space(domain.space)).add_constant_val(
        islpy.Val(1)
    )
    return islpy.PwAff.from_aff(one).intersect_domain(domain)


def _varying(relation: Map) -> Map:
    """The relation without the output dimensions that the input determines."""
    for at in reversed(range(relation.dim(_OUT))):
        if _onto(relation, at).is_single_valued():
            relation = relation.project_out(_OUT, at, 1)
    return relation


def _onto(relation: Map, at: int) -> Map:
    rank = relation.dim(_OUT)
    relation = relation.project_out(_OUT, at + 1, rank - at - 1)
    return relation.project_out(_OUT, 0, at)


def _determined_by(relation: Map, at: int) -> bool:
    """Tests whether input and output dimension `at` determine the output."""
    if relation.dim(_OUT) == 1:
        return True
    wrapped = relation.range_map().intersect_domain(relation.wrap())
    rank_in = relation.dim(_IN)
    rank_out = relation.dim(_OUT)
    flat = wrapped.flatten_domain()
    for drop in reversed(range(rank_out)):
        if drop != at:
            flat = flat.project_out(_IN, rank_in + drop, 1)
    return bool(flat.is_single_valued())


def _constant_span(relation: Map, at: int) -> tuple[int, int] | None:
    line = _onto(relation, at).range()
    line = line.project_out(_PARAM, 0, line.dim(_PARAM))
    if not (line.dim_has_lower_bound(_OUT, 0) and line.dim_has_upper_bound(_OUT, 0)):
        return None
    low, high = line.dim_min_val(0), line.dim_max_val(0)
    if not (low.is_int() and high.is_int()):
        return None
    lo, hi = integer_of(low), integer_of(high)
    return (lo, hi) if hi - lo < UNROLL else None


def _count_line(line: Map) -> Count | None:
    """Outputs of one dimension: the whole relation as one progression; else its pieces'; else, of
    a condition with a period as `x % 3 != 0`, those of each remainder."""
    line = line.coalesce()
    whole = _progression(line)
    if whole is not None:
        return whole
    disjoint = line.make_disjoint()
    if disjoint.n_basic_map() > UNROLL:
        return None
    found = _sum_of(_progression(piece.to_map()) for piece in disjoint.get_basic_maps())
    if found is not None:
        return found
    period = _period(line)
    if period > UNROLL:
        return None
    every = (f"{{ [x] -> [x] : (x - {rest}) mod {period} = 0 }}" for rest in range(period))
    parts = (line.apply_range(islpy.Map(same)) for same in every)
    return _sum_of(_progression(part.coalesce()) for part in parts if not part.is_empty())


def _sum_of(counts: Iterable[Count | None]) -> Count | None:
    """The sum; None where one is missing."""
    found: Count | None = None
    for count in counts:
        if count is None:
            return None
        found = count if found is None else found.union_add(count)
    return found


def _period(line: Map) -> int:
    """A multiple of the divisors in the conditions on the output."""
    period = 1
    for piece in line.wrap().flatten().compute_divs().get_basic_sets():
        local = piece.get_local_space()
        for at in range(local.dim(_DIV)):
            div = local.get_div(at)
            period = math.lcm(period, integer_of(div.get_denominator_val()))
    return period


def _progression(line: Map) -> Count | None:
    """The number of outputs if they are all of `low, low + stride .. high`, for each input."""
    line = line.detect_equalities()
    stride = max(1, integer_of(line.get_range_stride_info(0).get_stride()))
    low = extreme(line).get_pw_aff(0)
    high = extreme(line, largest=True).get_pw_aff(0)
    value = islpy.Val(stride)
    between = _pairs_between(low, high)
    if stride > 1:
        between = between.intersect(_stride_apart(low, stride))
    if not between.is_subset(line):
        return None
    steps = high.sub(low).scale_down_val(value).floor()
    return steps.add_constant_val(islpy.Val(1)).coalesce()


def _pairs_between(low: Count, high: Count) -> Map:
    ge = low.as_map().apply_range(islpy.Map("{ [a] -> [b] : b >= a }"))
    le = high.as_map().apply_range(islpy.Map("{ [a] -> [b] : b <= a }"))
    return ge.intersect(le)


def _stride_apart(low: Count, stride: int) -> Map:
    return low.as_map().apply_range(islpy.Map(f"{{ [a] -> [b] : (b - a) mod {stride} = 0 }}"))


def total(counts: Iterable[Count | None], domain: Set) -> Count:
    """The sum of counts, 0 where none has a value, on `domain`.

    Each step intersects with the domain again.  ISL finds copies of existential variables only
    where it knows their values, which `compute_divs` gives it.
    """
    domain = domain.compute_divs()
    zero = islpy.PwAff.from_aff(
        islpy.Aff.zero_on_domain(islpy.LocalSpace.from_space(domain.space))
    ).intersect_domain(domain)
    for count in counts:
        if count is not None:
            zero = zero.union_add(count.intersect_domain(domain))
    return _in_one_piece(zero.coalesce(), domain)


def _in_one_piece(count: Count, domain: Set) -> Count:
    """The same function, by the expression of one piece where that gives the value everywhere; not
    by one with floors, of which a solver would hear in every comparison."""
    found = count.get_pieces()
    for _, value in found if len(found) > 1 else ():
        if value.dim(_DIV):
            continue
        whole = islpy.PwAff.from_aff(value).intersect_domain(domain)
        if count.eq_set(whole).is_equal(domain):
            return whole
    return count
