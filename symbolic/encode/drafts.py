"""What obligations are made from: a script that knows the sizes, and the finders of chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from exogpu.ir.names import Sym
from exogpu.ir.nodes import CExpr, Int
from exogpu.result.hazards import HazardKind
from exogpu.result.proof import Lemma
from exogpu.solvers import isl
from exogpu.solvers import isl_functions as functions
from exogpu.symbolic.encode.formulas import Instance, at_most
from exogpu.symbolic.encode.ranks import RankTable
from exogpu.symbolic.encode.script import Script
from exogpu.symbolic.encode.witness import Ends, Finder, Witness
from exogpu.symbolic.find.closure import Syncs
from exogpu.symbolic.find.domains import Model
from exogpu.symbolic.find.frames import Frame
from exogpu.symbolic.find.sites import Site


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """An obligation before it is answered."""

    kind: HazardKind | Lemma
    variable: Sym
    first: Site | None
    second: Site | None
    claim: str
    script: str
    """Empty where the claim follows from the rules alone."""
    ends: Ends | None = None
    witnesses: tuple[Witness, ...] = ()


class Certifier:
    """The program, and what was found about it."""

    def __init__(
        self,
        model: Model,
        syncs: Callable[[Frame], Syncs],
        ranks: Callable[[Sym], RankTable],
    ) -> None:
        self.model = model
        self.syncs = syncs
        self.ranks = ranks

    def script(self) -> Script:
        """A script that knows the sizes and the preconditions."""
        script = Script()
        for parameter in self.model.program.params:
            size = script.constant(parameter.name)
            if parameter.kind == "size":
                script.assume(at_most(Int(self.model.least(parameter.name)), size))
        for precondition in self.model.program.preconditions:
            script.assume(precondition)
        return script

    def finder(self, frame: Frame, outer: Mapping[Sym, CExpr]) -> Finder:
        """The chains of a frame, whose own iterators have these values."""
        return Finder(self.syncs(frame), outer)

    def beside(self, frame: Frame, instance: Instance) -> Finder:
        """The chains of the frame that an instance lies in."""
        outer = {loop.iterator: instance.values[loop.iterator] for loop in frame.loops}
        return self.finder(frame, outer)

    def partners(
        self, frame: Frame, relation: isl.Map, instance: Instance, site: Site
    ) -> list[Instance]:
        """The candidates for the instance of `site` that a relation gives an instance."""
        if isl.is_empty(relation):
            return []
        finder = self.beside(frame, instance)
        found = finder.values(functions.smallest(relation), finder.inner(instance))
        return [finder.instance(site, values) for values in found]
