"""Checks the operands of instructions for all sizes: disjoint windows, and their addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, assert_never

from exogpu.analysis import domain as analysis_domain
from exogpu.analysis.alignment import Layouts, Misplaced, Rule, judge, placements, strides_at
from exogpu.analysis.bounds_messages import at_instance
from exogpu.analysis.overlap import Overlap, disjoint, overlaps
from exogpu.analysis.ownership import Declared
from exogpu.analysis.quantifiers import conjunction_of, fold_condition, parts
from exogpu.diagnostics.errors import Diagnostic, Note
from exogpu.diagnostics.hazards import HazardKind
from exogpu.frontend.quote import ordinal, quote
from exogpu.ir import nodes as ir
from exogpu.ir import render
from exogpu.ir.affine import constant
from exogpu.ir.render import conjunction, identifier, isl_cond, isl_expr
from exogpu.ir.types import Sym
from exogpu.ir.walk import Passed, control_variables, declarations, evaluate
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.solvers.isl import IslGaveUpError

# Messages for operands that violate their instruction's demands.

OVERLAP: Final = "B605"
ALIGN: Final = "B606"


def kind_of(finding: Overlap | Misplaced) -> HazardKind:
    """The kind of the hazard."""
    return HazardKind.OVERLAP if isinstance(finding, Overlap) else HazardKind.ALIGN


def subject(finding: Overlap | Misplaced) -> object:
    """Returns the subject of a finding: of several findings on one subject one is reported."""
    match finding:
        case Overlap():
            names = finding.first.param.name.name, finding.second.param.name.name
            return finding.call.span, names, _quote(finding.first.access)
        case Misplaced():
            operand = finding.operand
            return finding.call.span, operand.param.name.name, _quote(operand.access)
        case _:
            assert_never(finding)


def site_of_operand(finding: Overlap | Misplaced) -> Passed:
    """The operand that is at fault; of two, the one that is written."""
    return finding.first if isinstance(finding, Overlap) else finding.operand


def describe(
    finding: Overlap | Misplaced, domain: analysis_domain.Domain, point: Mapping[Sym, int]
) -> Diagnostic:
    """The diagnostic of a finding at the smallest instance at which it occurs."""
    match finding:
        case Overlap():
            return _overlap(finding, domain, point)
        case Misplaced():
            return _misplaced(finding, domain, point)
        case _:
            assert_never(finding)


def _overlap(
    finding: Overlap, domain: analysis_domain.Domain, point: Mapping[Sym, int]
) -> Diagnostic:
    first, second = finding.first, finding.second
    one, other = _quote(first.access), _quote(second.access)
    at = at_instance(domain, point, _read_variables(first.access) | _read_variables(second.access))
    indices = ", ".join(str(point[name]) for name in finding.element)
    shared = f"{first.access.name}[{indices}]" if indices else first.access.name.name
    name = finding.call.instr.name
    if finding.in_place:
        message = (
            f"{name} works in place on one window, and {one} and {other} are two that overlap: "
            f"{at}both have {shared}"
        )
        help = "pass the same window twice, or windows that have no element in common"
    else:
        also = "writes" if second.is_written else "reads"
        message = f"{name} writes {one} and {also} {other}, which overlap: {at}both have {shared}"
        help = (
            f"let {second.param.name} be another variable, or a window that has no element in "
            f"common with {one}"
        )
    note = Note(f"{first.access.name} is declared here", finding.variable.span)
    return Diagnostic(OVERLAP, message, finding.call.span, help, (note,))


def _misplaced(
    finding: Misplaced, domain: analysis_domain.Domain, point: Mapping[Sym, int]
) -> Diagnostic:
    layout = finding.layout
    extents = (control_variables(n) for n in layout.extents)
    relevant = _read_variables(finding.operand.access).union(*extents)
    at = at_instance(domain, point, relevant)
    message = f"{_demand_text(finding)}: {at}{_describe_operand(finding, point)}"
    declared = layout.declaration
    note = Note(f"{declared.name} is declared here", declared.span)
    help = _precondition(finding, domain) or _remedy(finding)
    return Diagnostic(ALIGN, message, finding.call.span, help, (note,))


def _demand_text(finding: Misplaced) -> str:
    """Describes the instruction's demand."""
    name, window = finding.call.instr.name, _quote(finding.operand.access)
    match finding.rule:
        case Rule.BASE | Rule.ALIGN:
            return f"{name} takes {window} at a multiple of {finding.bytes} bytes"
        case Rule.ROWS:
            return (
                f"{name} takes {window} from a row that lies at a multiple of {finding.bytes} bytes"
            )
        case Rule.STRIDE:
            return f"{name} takes {window} with strides that are multiples of {finding.bytes} bytes"
        case Rule.PITCH:
            return f"{name} takes {window} with rows {finding.bytes} bytes apart"
        case Rule.ADJACENT:
            return f"{name} takes {window} without gaps"
        case Rule.MAP:
            return f"a tensor map has strides that are multiples of {finding.bytes} bytes"
        case _:
            assert_never(finding.rule)


def _describe_operand(finding: Misplaced, point: Mapping[Sym, int]) -> str:
    """Describes the operand at one instance."""
    layout, access = finding.layout, finding.operand.access
    strides = dict(zip(layout.kept, strides_at(layout, point), strict=True))

    def byte(dims: Iterable[int]) -> int:
        """Returns the address of the window's first element, of these dimensions. A tensor map has
        none: it is made before there are the iterators that its windows read."""
        return sum(strides[d] * evaluate(_first_index(access, d), point) for d in dims)

    match finding.rule:
        case Rule.BASE:
            return f"{access.name} begins at a multiple of {layout.base} only"
        case Rule.ALIGN:
            return f"it begins at byte {byte(layout.kept)}"
        case Rule.ROWS:
            return f"the row begins at byte {byte(layout.kept[:-1])}"
        case Rule.STRIDE | Rule.PITCH | Rule.ADJACENT | Rule.MAP:
            apart = f"elements along the {ordinal(finding.dim)} dimension of {access.name} are"
            return f"{apart} {strides[finding.dim]} bytes apart"
        case _:
            assert_never(finding.rule)


def _precondition(finding: Misplaced, domain: analysis_domain.Domain) -> str:
    """The precondition that mends it, if one does: an extent or a size is divisible."""
    layout = finding.layout
    sizes = {p.name for p in domain.params}
    extents = [n for n in reversed(layout.extents[1:]) if constant(n) is None]
    indices = [ir.CVar(name) for name in sorted(_read_variables(finding.operand.access), key=str)]
    for term in dict.fromkeys((*extents, *indices)):
        divisor = finding.bytes // layout.item
        if not control_variables(term) <= sizes or not _mends(finding, domain, term, divisor):
            continue
        while divisor > 2 and _mends(finding, domain, term, divisor // 2):
            divisor //= 2
        condition = ir.Compare("==", ir.Mod(term, divisor), ir.Int(0))
        return f"add the precondition `assert {quote(condition)}`"
    return ""


def _mends(
    finding: Misplaced, domain: analysis_domain.Domain, term: ir.CExpr, divisor: int
) -> bool:
    """Tests whether the fault vanishes if the term is divisible, as it may be."""
    if divisor < 2:
        return False
    divisible = analysis_domain.restrict_domain(domain, f"({isl_expr(term)}) mod {divisor} = 0")
    mended = analysis_domain.never(divisible, [isl_cond(judge(divisible, finding).wrong)])
    return mended and not analysis_domain.never(divisible, ["(0 = 0)"])


def _remedy(finding: Misplaced) -> str:
    """Suggests a remedy for which no precondition serves."""
    count = finding.bytes // finding.layout.item
    last = constant(finding.layout.extents[-1]) if finding.layout.extents else None
    match finding.rule:
        case Rule.BASE:
            return f"ask for {finding.layout.base} bytes or less at once"
        case Rule.ALIGN:
            begin = f"let the window begin at a multiple of {count} elements"
            short = len(finding.layout.kept) > 1 and last is not None and last % count
            return f"{begin}, and pad the rows to as many" if short else begin
        case Rule.ROWS:
            return "let the rows of the window begin at a multiple of 8: the swizzle's repeat"
        case Rule.STRIDE if finding.dim not in finding.layout.kept[-2:]:
            which = f"the {ordinal(finding.dim)} dimension"
            return f"let one step along {which} skip a multiple of {count} elements: pad the rest"
        case Rule.STRIDE | Rule.MAP:
            return f"let the rows have a multiple of {count} elements: pad them"
        case Rule.PITCH:
            return f"let rows lie next to each other, with {count} elements each"
        case Rule.ADJACENT:
            return (
                "let the window's dimensions be the last ones of the variable, whole from the "
                "second on"
            )
        case _:
            assert_never(finding.rule)


def _first_index(access: ir.Access, dim: int) -> ir.CExpr:
    coord = access.coords[dim]
    return coord.lo if isinstance(coord, ir.Interval) else coord.at


def _read_variables(access: ir.Access) -> frozenset[Sym]:
    """The control variables of an access."""
    ends = [
        end
        for c in access.coords
        for end in ((c.lo, c.hi) if isinstance(c, ir.Interval) else (c.at,))
    ]
    return frozenset[Sym]().union(*map(control_variables, ends))


def _quote(access: ir.Access) -> str:
    """The window of the variable itself, whatever windows and procedures are between."""
    return render.access(access, lambda name: name.name)


CASES: Final = 64
"""Failing sizes that are written in more cases are not gathered."""

NOWHERE: Final = isl_cond(ir.Truth(False))


@dataclass(frozen=True, slots=True)
class Demand:
    """One demand of an instruction on its operands."""

    call: ir.CallInstr
    domain: analysis_domain.Domain
    wrong: str
    """None of the instances may satisfy it."""
    required: tuple[ir.BExpr, ...]
    """The same, to be proved: that nothing is wrong, and what finding out used of the domain."""
    finding: Overlap | Misplaced
    """The fault that it would be."""

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
    point: analysis_domain.Instance
    diagnostic: Diagnostic


def violations(
    proc: ir.Proc, variables: tuple[Declared, ...], sizes: Mapping[str, int] | None = None
) -> tuple[Misuse, ...]:
    """Finds faulty operands of an inlined procedure's calls, in program order.

    `variables` are those of CUDA scope.  For all sizes, or for those given; of several things
    wrong with one operand, the one at the smallest sizes.
    """
    given = {} if sizes is None else sizes
    fixed = [
        f"{identifier(p.name)} = {given[p.name.name]}"
        for p in analysis_domain.controls(proc)
        if given
    ]
    found: dict[object, tuple[Demand, analysis_domain.Instance]] = {}
    asked = [demand for demand in demands(proc, variables) if demand.wrong != NOWHERE]
    insides = [analysis_domain.restrict_domain(demand.domain, *fixed) for demand in asked]
    cases = [(inside, [one.wrong]) for inside, one in zip(insides, asked, strict=True)]
    if analysis_domain.none_holds(cases):
        return ()
    for demand, inside, holds in zip(
        asked, insides, analysis_domain.never_each(cases), strict=True
    ):
        if holds:
            continue
        point = analysis_domain.smallest(inside, demand.wrong)
        if point is None:
            continue
        about = subject(demand.finding)
        if about not in found or analysis_domain.rank(demand.domain, point) < analysis_domain.rank(
            *_place(*found[about])
        ):
            found[about] = demand, point
    return tuple(_violation(*what) for what in found.values())


def failing_sizes(proc: ir.Proc, variables: tuple[Declared, ...]) -> isl.Set | None:
    """The sizes, as parameters, at which an operand is not as its instruction asks.

    None if there are none.  Raises IslGaveUpError where they make too many cases.
    """
    found: isl.Set | None = None
    names = [identifier(p.name) for p in analysis_domain.controls(proc)]
    for demand in demands(proc, variables):
        domain = demand.domain
        if analysis_domain.never(domain, [demand.wrong]):
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
def demands(proc: ir.Proc, variables: tuple[Declared, ...]) -> tuple[Demand, ...]:
    """Returns the demands on operands of all instructions that an inlined procedure calls."""
    return tuple(_demands(proc, variables))


def _demands(proc: ir.Proc, variables: tuple[Declared, ...]) -> Iterator[Demand]:
    layouts = Layouts(proc, variables)
    operands = {
        name: declared
        for name, declared in declarations(proc).items()
        if isinstance(declared, ir.DataParam | ir.Alloc)
    }
    for site in analysis_domain.calls(proc):
        for domain, wrong, overlap in overlaps(site, operands):
            yield Demand(site.call, domain, wrong, parts(disjoint(overlap)), overlap)
        for domain, judged, misplaced in placements(site, layouts):
            required = conjunction_of((*judged.known, fold_condition(ir.Not(judged.wrong))))
            wrong = isl_cond(judged.wrong)
            yield Demand(site.call, domain, wrong, parts(required), misplaced)


def _place(
    demand: Demand, point: analysis_domain.Instance
) -> tuple[analysis_domain.Domain, analysis_domain.Instance]:
    return demand.domain, point


def _violation(demand: Demand, point: analysis_domain.Instance) -> Misuse:
    domain, finding = demand.domain, demand.finding
    operand = site_of_operand(finding)
    return Misuse(
        kind_of(finding),
        operand.access.name.name,
        {p.name.name: point[p.name] for p in domain.params},
        {name: point[name] for name in (*(p.name for p in domain.params), *domain.iterators)},
        describe(finding, domain, point),
    )
