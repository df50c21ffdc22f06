"""Loads that end every run: no value is in their range, whatever memory has (decision
`loaded-values`).

Of such a run nothing is claimed, so that nothing refutes a program that has no other; and a proof,
which knows of two instances alone that no load before them has ended the run, may fail.
"""

from __future__ import annotations

from collections.abc import Iterator

from exogpu.ir.nodes import Compare
from exogpu.ir.render import control, identifier
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.search.analysis import Undecided
from exogpu.symbolic.search.instance_model import Model
from exogpu.symbolic.sites import loads_around


def trapping(model: Model) -> Iterator[Undecided]:
    """The loads that end every run at some sizes, with an instance of each."""
    values = {load.iterator for load in model.loads}
    for load, site in model.loads.items():
        read = control_variables(load.lo) | control_variables(load.hi)
        read = read.union(*(control_variables(condition) for _, condition in site.guards))
        if read & values or loads_around(site) or site.residence is not None:
            continue
        frame = model.frame(())
        empty = frame.instances_where(site, Compare(">=", load.lo, load.hi))
        found = isl.smallest(rel.set_under(empty, frame.context()))
        if found is None:
            continue
        inside = [*found.values()][len(found) - len(site.iterators) :]
        sizes = [(name, found.get(identifier(name))) for name in model.sizes]
        values_at = [*sizes, *zip(site.iterators, inside, strict=True)]
        at = ", ".join(f"{name} = {value}" for name, value in values_at if value is not None)
        between = f"{control(load.lo, _name)} <= {load.iterator} < {control(load.hi, _name)}"
        why = f"no value is in the range {between} at {at}: each run ends there"
        yield Undecided(why, site.op.origin.span)


def _name(variable: Sym) -> str:
    return variable.name
