"""What instructions ask of their operands, for all sizes: disjoint windows, and where they lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

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
from exogpu.analysis.overlap import Overlap, overlaps
from exogpu.analysis.placement import Misplaced, placements
from exogpu.analysis.sites import sites
from exogpu.analysis.uses import Declared
from exogpu.ir.isltext import conjunction, identifier
from exogpu.ir.nodes import Alloc, DataParam, Proc
from exogpu.ir.walk import declarations
from exogpu.result.errors import Diagnostic
from exogpu.result.hazards import HazardKind
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.solvers.isl_budget import IslGaveUpError

CASES: Final = 64
"""Failing sizes that are written in more cases are not gathered."""

Demand: TypeAlias = tuple[Domain, str, Overlap | Misplaced]
"""A domain, a condition that none of its instances may satisfy, and what it would be."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Operands that are not as an instruction asks, and the smallest instance at which."""

    kind: HazardKind
    variable: str
    sizes: Mapping[str, int]
    point: Instance
    diagnostic: Diagnostic


def violations(
    proc: Proc, variables: tuple[Declared, ...], sizes: Mapping[str, int] | None = None
) -> tuple[Violation, ...]:
    """What is wrong with the operands of an inlined procedure's calls, in program order.

    `variables` are those of CUDA scope.  For all sizes, or for those given; of several things
    wrong with one operand, the one at the smallest sizes.
    """
    given = {} if sizes is None else sizes
    fixed = [f"{identifier(p.name)} = {given[p.name.name]}" for p in controls(proc) if given]
    found: dict[object, tuple[Demand, Instance]] = {}
    demands = list(_demands(proc, variables))
    insides = [where(domain, *fixed) for domain, _, _ in demands]
    asked = [(inside, [d[1]]) for inside, d in zip(insides, demands, strict=True)]
    if none_holds(asked):
        return ()
    fine = never_each(asked)
    for demand, inside, holds in zip(demands, insides, fine, strict=True):
        domain, wrong, finding = demand
        if holds:
            continue
        point = smallest(inside, wrong)
        if point is None:
            continue
        about = subject(finding)
        if about not in found or rank(domain, point) < rank(*_place(*found[about])):
            found[about] = demand, point
    return tuple(_violation(*what) for what in found.values())


def failing_sizes(proc: Proc, variables: tuple[Declared, ...]) -> isl.Set | None:
    """The sizes, as parameters, at which an operand is not as its instruction asks.

    None if there are none.  Raises IslGaveUpError where they make too many cases.
    """
    found: isl.Set | None = None
    names = [identifier(p.name) for p in controls(proc)]
    for domain, wrong, _ in _demands(proc, variables):
        if never(domain, [wrong]):
            continue
        others = (*domain.iterators, *domain.bound)
        text = conjunction((*domain.constraints, f"({wrong})"))
        if others:
            text = f"exists {', '.join(map(identifier, others))} : {text}"
        sizes = rel.context(names, text)
        if isl.parts(sizes) > CASES:
            raise IslGaveUpError("the remainders of the sizes make too many cases")
        found = isl.union(sizes, sizes if found is None else found)
    return found


def _demands(proc: Proc, variables: tuple[Declared, ...]) -> Iterator[Demand]:
    layouts = Layouts(proc, variables)
    operands = {
        name: declared
        for name, declared in declarations(proc).items()
        if isinstance(declared, DataParam | Alloc)
    }
    for site in sites(proc):
        yield from overlaps(site, operands)
        yield from placements(site, layouts)


def _place(demand: Demand, point: Instance) -> tuple[Domain, Instance]:
    return demand[0], point


def _violation(demand: Demand, point: Instance) -> Violation:
    domain, _, finding = demand
    operand = site_of_operand(finding)
    return Violation(
        kind_of(finding),
        operand.access.name.name,
        {p.name.name: point[p.name] for p in domain.params},
        {name: point[name] for name in (*(p.name for p in domain.params), *domain.iterators)},
        describe(finding, domain, point),
    )
