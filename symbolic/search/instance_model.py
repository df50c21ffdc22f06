"""An AMIR program as families of instances: its sites, sizes, and frames (`symbolic.frames`).

Size-only divisions such as `(K + 31) / 32` become parameters of their own (`Definitions`), which
`exact_context` defines again: no relation carries their quotients.
"""

from __future__ import annotations

from collections.abc import Iterable

from exogpu.amir.nodes import Arrive, Await, CheckInitialised, Initialise, Loop, Program
from exogpu.amir.walk import accesses_of
from exogpu.ir import render
from exogpu.ir.nodes import BExpr, CExpr
from exogpu.ir.render import conjunction, identifier, isl_cond, isl_expr
from exogpu.ir.types import BarrierMechanism, Sym
from exogpu.ir.walk import control_variables, expressions_of
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.model import Placed
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.search.load_relations import reads
from exogpu.symbolic.search.quasi_affine import Definitions
from exogpu.symbolic.sites import Site, loads_around, variables_of


class Model(Placed):
    """The program as families of instances; frames are made and kept here."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.sizes = tuple(p.name for p in self.program.params)
        self.definitions = Definitions(frozenset(self.sizes))
        self._frames: dict[tuple[tuple[Loop, ...], bool], Frame] = {}
        self._known: dict[tuple[str, ...], isl.Set] = {}
        self._name_everything()
        self.names = (
            *map(identifier, self.sizes),
            *map(identifier, self.definitions.names.values()),
        )
        self.exact_context = rel.context(self.names, self._exact())
        """Sizes that satisfy the preconditions, with the named divisions they define."""

    def _name_everything(self) -> None:
        for site in self.sites:
            for loop in site.loops:
                self.definitions.expr(loop.lo)
                self.definitions.expr(loop.hi)
            for _, condition in site.guards:
                self.definitions.condition(condition)
            for access in accesses_of(site.op):
                for expr in expressions_of(access):
                    self.definitions.expr(expr)
            for axis in site.op.origin.threads.axes if site.op.origin.threads else ():
                self.definitions.expr(axis.offset)
        for variable in self.variables.values():
            for extent in variable.shape:
                self.definitions.expr(extent)

    def _exact(self) -> str:
        least = [
            f"({identifier(p.name)} >= {self.least(p.name)})"
            for p in self.program.params
            if p.kind == "size"
        ]
        named = [
            f"({identifier(name)} = {isl_expr(expr)})"
            for expr, name in self.definitions.names.items()
        ]
        return conjunction([*least, *map(isl_cond, self.program.preconditions), *named])

    def symbols_of(self, sites: Iterable[Site], depth: int) -> frozenset[Sym]:
        """Sizes, divisions and iterators that the instances of these sites, their threads and the
        barriers that they use are made of, within the outer `depth` loops.

        Not what guards of reads and writes read, where it is asked if something has been written.
        """
        loaded = bool(self.loads)  # Then the loops of the prefix may read what is loaded in them.
        loops = {loop for site in sites for loop in site.loops[0 if loaded else depth :]}
        guards = {
            guard
            for site in sites
            if loaded or not isinstance(site.op, Initialise | CheckInitialised)
            for at, guard in site.guards
            if loaded or at >= depth
        }
        mappings = {site.op.origin.threads for site in sites} - {None}
        barriers = {
            name
            for site in sites
            for name in variables_of(site.op)
            if self.variables[name].mechanism is not None
        }
        used = set[Sym]().union(
            *(self.read_by(loop.lo, loop.hi) for loop in loops),
            *(control_variables(self.definitions.condition(guard)) for guard in guards),
            *(self.read_by(*(axis.offset for axis in one.axes)) for one in mappings if one),
            *(self.read_by(*self.variables[name].shape) for name in barriers),
            *(_bounded_by_loads(site, depth) for site in sites if loaded),
        )
        return frozenset(used)

    def read_by(self, *exprs: CExpr) -> frozenset[Sym]:
        """Sizes, divisions and iterators that expressions read."""
        return frozenset[Sym]().union(
            *(control_variables(self.definitions.expr(expr)) for expr in exprs)
        )

    def known_preconditions(self, read: frozenset[Sym]) -> isl.Set:
        """Projects the preconditions on the sizes and divisions among these names."""
        named = {identifier(name) for name in read}
        others = tuple(name for name in self.names if name not in named)
        if others not in self._known:
            self._known[others] = rel.project_params(self.exact_context, others)
        return self._known[others]

    # --- frames ---------------------------------------------------------------------------

    def frame(self, loops: tuple[Loop, ...], *, by_task: bool = False) -> Frame:
        """The frame of these loops, shortened until every barrier used in it is allocated in it.

        An end of a launch that is awaited in it, and was before it, orders nothing that is in it.
        """
        asked = loops
        if (asked, by_task) in self._frames:
            return self._frames[asked, by_task]
        while True:
            inside = tuple(s for s in self.sites if s.loops[: len(loops)] == loops)
            outer = [
                self.scope(name, site.op.origin.span)
                for site in inside
                for name in variables_of(site.op)
                if self.variables[name].mechanism is not None
                and not (isinstance(site.op, Await) and self._is_launch_end(name, inside))
            ]
            shortest = min((len(scope) for scope in outer), default=len(loops))
            if shortest >= len(loops):
                break
            loops = loops[:shortest]
        if (loops, by_task) not in self._frames:
            self._frames[loops, by_task] = Frame(self, loops, inside, by_task=by_task)
        self._frames[asked, by_task] = self._frames[loops, by_task]
        return self._frames[asked, by_task]

    def _is_launch_end(self, name: Sym, inside: tuple[Site, ...]) -> bool:
        """Tests whether a barrier is the end of a launch, which is none of these sites."""
        if self.variables[name].mechanism is not BarrierMechanism.LAUNCH:
            return False
        arrives = (site.op for site in inside if isinstance(site.op, Arrive))
        return all(op.home.name != name for op in arrives)

    def expr(self, expr: CExpr) -> str:
        """ISL text of an expression."""
        return isl_expr(self.definitions.expr(expr))

    def condition(self, condition: BExpr) -> str:
        """ISL text of a condition."""
        return isl_cond(self.definitions.condition(condition))

    def in_range(self, loop: Loop) -> str:
        """ISL text of the bounds of a loop's iterator."""
        lo, hi = self.definitions.expr(loop.lo), self.definitions.expr(loop.hi)
        return render.in_range(loop.iterator, lo, hi)


def _bounded_by_loads(site: Site, depth: int) -> frozenset[Sym]:
    """The iterators of the outer `depth` loops whose bounds are loaded: an instance is one only of
    values that admit them."""
    loaded = {load.iterator for load in loads_around(site)}
    return frozenset(loop.iterator for loop in site.loops[:depth] if reads(loop, loaded))
