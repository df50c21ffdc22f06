"""An AMIR program as families of instances: its sites, sizes, and frames (`symbolic.frames`).

Size-only divisions such as `(K + 31) / 32` become parameters of their own (`Definitions`), which
`exact_context` defines again: no relation carries their quotients.
"""

from __future__ import annotations

from collections.abc import Mapping

from exogpu.amir.nodes import Alloc, Loop, Program, Variable
from exogpu.analysis.instances import conjuncts
from exogpu.ir.isltext import bexpr, cexpr, conjunction, identifier, in_range
from exogpu.ir.names import Sym
from exogpu.ir.nodes import BExpr, CExpr
from exogpu.ir.walk import control_variables, holds
from exogpu.result.errors import Span
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.find.definitions import Definitions
from exogpu.symbolic.find.frames import Frame
from exogpu.symbolic.find.sites import (
    Site,
    UndecidedError,
    accesses_of,
    expressions_of,
    read_by,
    sites,
    variables_of,
)


class Model:
    """The program as families of instances; frames are made and kept here."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.sites = sites(program)
        self.variables: Mapping[Sym, Variable] = {v.name: v for v in program.variables}
        self.sizes = tuple(p.name for p in program.params)
        self._least: dict[Sym, int] = {}
        self.definitions = Definitions(frozenset(self.sizes))
        self.scopes = self._find_scopes()
        self._frames: dict[tuple[Loop, ...], Frame] = {}
        self._name_everything()
        self.names = (
            *map(identifier, self.sizes),
            *map(identifier, self.definitions.names.values()),
        )
        self.exact_context = rel.context(self.names, self._exact())
        """Sizes that satisfy the preconditions, with the named divisions they define."""
        self.context = self._relaxed()
        """What it says of the parameters that relations mention."""

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
            f"({identifier(name)} = {cexpr(expr)})" for expr, name in self.definitions.names.items()
        ]
        return conjunction([*least, *map(bexpr, self.program.preconditions), *named])

    def least(self, size: Sym) -> int:
        """The least value of a size, preconditions aside: 0 where one of them admits it, else 1
        (decision 6)."""
        if size not in self._least:
            self._least[size] = 0 if self._admits_zero(size) else 1
        return self._least[size]

    def _admits_zero(self, size: Sym) -> bool:
        for precondition in self.program.preconditions:
            for condition in conjuncts(precondition):
                if control_variables(condition) == {size} and holds(condition, {size: 0}):
                    name = identifier(size)
                    if isl.bounded_below(isl.set_of((), (name,), bexpr(condition))):
                        return True
        return False

    def _relaxed(self) -> isl.Set:
        used: set[Sym] = set()
        for site in self.sites:
            for loop in site.loops:
                used |= control_variables(self.definitions.expr(loop.lo))
                used |= control_variables(self.definitions.expr(loop.hi))
            for _, condition in site.guards:
                used |= control_variables(self.definitions.condition(condition))
        for variable in self.variables.values():
            for extent in variable.shape:
                used |= control_variables(self.definitions.expr(extent))
        for site in self.sites:
            for access in accesses_of(site.op):
                used |= read_by(access)
        unused = [identifier(size) for size in self.sizes if size not in used]
        return rel.project_params(self.exact_context, unused)

    def follows_a_task(self, site: Site) -> bool:
        """Whether a site outside tasks may run after a task has begun."""
        return any(
            other.task is not None
            and (other.number < site.number or (bool(site.loops) and site.loops[0] in other.loops))
            for other in self.sites
        )

    # --- frames ---------------------------------------------------------------------------

    def _find_scopes(self) -> Mapping[Sym, tuple[Loop, ...]]:
        """By variable, the loops around its Alloc: their iterators tell its allocations apart.

        A variable that is never allocated exists from the start.  Variables whose uses do not
        all stand in the block of their one Alloc, after it, are left out.
        """
        scopes: dict[Sym, tuple[Loop, ...]] = dict.fromkeys(self.variables, ())
        allocs: dict[Sym, Site] = {}
        for site in self.sites:
            if isinstance(site.op, Alloc):
                name = site.op.name
                if name in allocs:
                    scopes.pop(name, None)
                else:
                    allocs[name] = site
                    scopes[name] = site.loops
        for site in self.sites:
            for name in variables_of(site.op):
                alloc = allocs.get(name)
                if alloc is None or alloc is site:
                    continue
                depth = len(alloc.loops)
                inside = site.loops[:depth] == alloc.loops
                after = inside and site.path[: depth + 1] > alloc.path
                guarded = site.guards[: len(alloc.guards)] == alloc.guards
                if not (inside and after and guarded):
                    scopes.pop(name, None)
        return scopes

    def scope(self, name: Sym, span: Span) -> tuple[Loop, ...]:
        """The loops around the variable's allocation.

        Raises UndecidedError where its uses do not all lie within one Alloc's block.
        """
        if name not in self.scopes:
            raise UndecidedError(
                f"{name} is allocated in several places, or used outside its allocation", span
            )
        return self.scopes[name]

    def frame(self, loops: tuple[Loop, ...]) -> Frame:
        """The frame of these loops, shortened until every barrier used in it is allocated in it."""
        while True:
            inside = tuple(s for s in self.sites if s.loops[: len(loops)] == loops)
            outer = [
                self.scope(name, site.op.origin.span)
                for site in inside
                for name in variables_of(site.op)
                if self.variables[name].mechanism is not None
            ]
            shortest = min((len(scope) for scope in outer), default=len(loops))
            if shortest >= len(loops):
                break
            loops = loops[:shortest]
        if loops not in self._frames:
            self._frames[loops] = Frame(self, loops, inside)
        return self._frames[loops]

    def expr(self, expr: CExpr) -> str:
        """ISL text of an expression."""
        return cexpr(self.definitions.expr(expr))

    def condition(self, condition: BExpr) -> str:
        """ISL text of a condition."""
        return bexpr(self.definitions.condition(condition))

    def in_range(self, loop: Loop) -> str:
        """ISL text of the bounds of a loop's iterator."""
        lo, hi = self.definitions.expr(loop.lo), self.definitions.expr(loop.hi)
        return in_range(loop.iterator, lo, hi)
