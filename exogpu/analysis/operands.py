"""Checks the operands of instructions for all sizes: disjoint windows, and their addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from exogpu.analysis.called import calls
from exogpu.analysis.extremes import every, folded, parts
from exogpu.analysis.instances import (
    Domain,
    Instance,
    controls,
    never,
    never_each,
    none_holds,
    rank,
    smallest,
    where,
)
from exogpu.analysis.layout import Layouts
from exogpu.analysis.operands_report import describe, kind_of, site_of_operand, subject
from exogpu.analysis.overlap import Overlap, disjoint, overlaps
from exogpu.analysis.placement import Misplaced, Rule, placements
from exogpu.analysis.uses import Declared
from exogpu.ir.isltext import bexpr, conjunction, identifier
from exogpu.ir.nodes import Alloc, BExpr, CallInstr, DataParam, Not, Proc, Truth
from exogpu.ir.walk import declarations
from exogpu.result.errors import Diagnostic
from exogpu.result.hazards import HazardKind
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.solvers.isl_budget import IslGaveUpError

CASES: Final = 64
"""Failing sizes that are written in more cases are not gathered."""

NOWHERE: Final = bexpr(Truth(False))


@dataclass(frozen=True, slots=True)
class Demand:
    """One demand of an instruction on its operands."""

    call: CallInstr
    domain: Domain
    wrong: str
    """None of the instances may satisfy it."""
    required: tuple[BExpr, ...]
    """The same, to be proved: that nothing is wrong, and what finding out used of the domain."""
    finding: Overlap | Misplaced
    """What it would be."""

    @property
    def at_launch(self) -> bool:
        """Tests whether the demand is checked at the launch, whatever guards the call has."""
        return isinstance(self.finding, Misplaced) and self.finding.rule is Rule.MAP


@dataclass(frozen=True, slots=True)
class Misuse:
    """Operands that are not as an instruction asks, and the smallest instance at which."""

    kind: HazardKind
    variable: str
    sizes: Mapping[str, int]
    point: Instance
    diagnostic: Diagnostic


def violations(
    proc: Proc, variables: tuple[Declared, ...], sizes: Mapping[str, int] | None = None
) -> tuple[Misuse, ...]:
    """Finds faulty operands of an inlined procedure's calls, in program order.

    `variables` are those of CUDA scope.  For all sizes, or for those given; of several things
    wrong with one operand, the one at the smallest sizes.
    """
    given = {} if sizes is None else sizes
    fixed = [f"{identifier(p.name)} = {given[p.name.name]}" for p in controls(proc) if given]
    found: dict[object, tuple[Demand, Instance]] = {}
    asked = [demand for demand in demands(proc, variables) if demand.wrong != NOWHERE]
    insides = [where(demand.domain, *fixed) for demand in asked]
    cases = [(inside, [one.wrong]) for inside, one in zip(insides, asked, strict=True)]
    if none_holds(cases):
        return ()
    for demand, inside, holds in zip(asked, insides, never_each(cases), strict=True):
        if holds:
            continue
        point = smallest(inside, demand.wrong)
        if point is None:
            continue
        about = subject(demand.finding)
        if about not in found or rank(demand.domain, point) < rank(*_place(*found[about])):
            found[about] = demand, point
    return tuple(_violation(*what) for what in found.values())


def failing_sizes(proc: Proc, variables: tuple[Declared, ...]) -> isl.Set | None:
    """The sizes, as parameters, at which an operand is not as its instruction asks.

    None if there are none.  Raises IslGaveUpError where they make too many cases.
    """
    found: isl.Set | None = None
    names = [identifier(p.name) for p in controls(proc)]
    for demand in demands(proc, variables):
        domain = demand.domain
        if never(domain, [demand.wrong]):
            continue
        others = (*domain.iterators, *domain.bound)
        text = conjunction((*domain.constraints, f"({demand.wrong})"))
        if others:
            text = f"exists {', '.join(map(identifier, others))} : {text}"
        sizes = rel.context(names, text)
        if isl.parts(sizes) > CASES:
            raise IslGaveUpError("the remainders of the sizes make too many cases")
        found = isl.union(sizes, sizes if found is None else found)
    return found


@lru_cache(maxsize=16)
def demands(proc: Proc, variables: tuple[Declared, ...]) -> tuple[Demand, ...]:
    """Returns the demands on operands of all instructions that an inlined procedure calls."""
    return tuple(_demands(proc, variables))


def _demands(proc: Proc, variables: tuple[Declared, ...]) -> Iterator[Demand]:
    layouts = Layouts(proc, variables)
    operands = {
        name: declared
        for name, declared in declarations(proc).items()
        if isinstance(declared, DataParam | Alloc)
    }
    for site in calls(proc):
        for domain, wrong, overlap in overlaps(site, operands):
            yield Demand(site.call, domain, wrong, parts(disjoint(overlap)), overlap)
        for domain, judged, misplaced in placements(site, layouts):
            required = every((*judged.known, folded(Not(judged.wrong))))
            wrong = bexpr(judged.wrong)
            yield Demand(site.call, domain, wrong, parts(required), misplaced)


def _place(demand: Demand, point: Instance) -> tuple[Domain, Instance]:
    return demand.domain, point


def _violation(demand: Demand, point: Instance) -> Misuse:
    domain, finding = demand.domain, demand.finding
    operand = site_of_operand(finding)
    return Misuse(
        kind_of(finding),
        operand.access.name.name,
        {p.name.name: point[p.name] for p in domain.params},
        {name: point[name] for name in (*(p.name for p in domain.params), *domain.iterators)},
        describe(finding, domain, point),
    )
