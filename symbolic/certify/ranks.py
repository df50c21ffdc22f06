"""Arrive and await counts as expressions of an instance's iterators, and the lemmas on them."""

from __future__ import annotations

from collections.abc import Mapping

from exogpu.ir.names import Sym
from exogpu.ir.nodes import CExpr, CVar
from exogpu.ir.walk import substitute, substitute_bool
from exogpu.machine.amir import Await
from exogpu.solvers import isl_functions as functions
from exogpu.solvers.isl_relations import Count, plus
from exogpu.symbolic.certify.expressions import Pieces, linear, pieces_of
from exogpu.symbolic.certify.formulas import Instance
from exogpu.symbolic.certify.witness import parameters
from exogpu.symbolic.ranks import Ranks
from exogpu.symbolic.sites import Site, home_of


class RankTable:
    """The counts of one barrier, at each of its sites."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._found: dict[tuple[int, bool], Pieces] = {}

    def arrivals(self, instance: Instance) -> Pieces:
        """How many Arrives are homed at the element before an instance: the rank of an Arrive or
        trailing barrier, and `a` of an Await."""
        return self._at(instance, arrivals=True)

    def awaits(self, instance: Instance) -> Pieces:
        """How many Awaits on the element come before an Await."""
        return self._at(instance, arrivals=False)

    def bound(self, instance: Instance) -> Pieces:
        """Max of an Await: `a - (n + 1)` for n >= 0, `w + n + 1` for n < 0 (decision 3)."""
        op = instance.site.op
        assert isinstance(op, Await)
        counted = self.arrivals(instance) if op.n >= 0 else self.awaits(instance)
        shift = -(op.n + 1) if op.n >= 0 else op.n + 1
        return tuple((where, linear(shift, [(1, value)])) for where, value in counted)

    def count(self, site: Site, *, arrivals: bool) -> Count:
        """The same as a function of ISL."""
        if arrivals:
            access = site.op.barrier if isinstance(site.op, Await) else home_of(site)
            return self.ranks.arrivals(site, access)
        assert isinstance(site.op, Await) and site.op.n < 0
        return plus(self.ranks.bound(site), -(site.op.n + 1))

    def _at(self, instance: Instance, *, arrivals: bool) -> Pieces:
        site = instance.site
        key = (site.number, arrivals)
        if key not in self._found:
            self._found[key] = self._pieces(site, self.count(site, arrivals=arrivals))
        values = instance.values
        return tuple(
            (substitute_bool(where, values), linear(0, [(1, substitute(value, values))]))
            for where, value in self._found[key]
        )

    def _pieces(self, site: Site, count: Count) -> Pieces:
        frame = self.ranks.frame
        own: Mapping[Sym, CExpr] = {name: CVar(name) for name in site.iterators}
        inputs = tuple(own[name] for name in site.iterators[frame.depth :])
        return pieces_of(functions.pieces(count), inputs, parameters(frame, own))
