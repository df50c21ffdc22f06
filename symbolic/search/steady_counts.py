"""Counts compared in a nest whose iterations all have one total, the same on all elements.

A count is then `iteration * total + inner`, and two are compared by how many iterations lie
between: one relation for each of the few numbers that matter, and one for all larger ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from exogpu.ir.render import identifier
from exogpu.solvers import isl, isl_piecewise
from exogpu.symbolic.sites import Site

if TYPE_CHECKING:
    from exogpu.symbolic.search.nested_counts import Nest


class Steady:
    """The comparisons of one barrier's counts, where one loop is set apart within an allocation."""

    def __init__(self, names: Sequence[str], total: isl.Set) -> None:
        self.names = tuple(names)
        """The loops set apart that are no parameters, the innermost last."""
        self.total = total
        """The one value, of the parameters."""

    def at_least(
        self,
        left: tuple[Site, isl.Map],
        right: tuple[Site, isl.Map],
        least: int,
        *,
        later: bool = False,
    ) -> isl.Map | None:
        """The pairs with `right count - left count >= least`, of counts within an iteration; where
        `later`, those of later iterations alone.  None where a count depends on the iteration."""
        (first, mine), (second, theirs) = left, right
        last = self.names[-1]
        if not (isl_piecewise.is_free_of(mine, last) and isl_piecewise.is_free_of(theirs, last)):
            return None
        mine, theirs = (isl_piecewise.for_any(one, last) for one in (mine, theirs))
        # Inner counts differ by a total at most: farther iterations are all alike.
        far, near = max(1, least + 1), min(-1, least - 2)
        found: isl.Map | None = None
        for steps in range(1 if later else near, far + 1):
            value = isl_piecewise.plus_times(theirs, self.total, steps)
            pairs = isl_piecewise.at_least(mine, value, least)
            beyond = 0 if near < steps < far else steps
            names = (first.tuple_name, second.tuple_name)
            here = isl_piecewise.shift_output(pairs, self.names, names, steps, beyond)
            found = here if found is None else isl.union_map(found, here)
        return found


def steady_comparisons(nest: Nest) -> Steady | None:
    """The comparisons of a nest; None where its totals differ, or several loops are set apart."""
    frame = nest.frame
    assert nest.inner is not None
    scope = frame.model.scope(nest.name, nest.arrives[0].op.origin.span)
    if len(nest.loops) - max(frame.depth, len(scope)) != 1:
        return None
    names = [identifier(loop.iterator) for loop in nest.loops[frame.depth :]]
    if nest.total is None or not isl_piecewise.is_free_of(nest.total, names[-1]):
        return None
    return Steady(names, isl.image(isl_piecewise.for_any(nest.total, names[-1])))
