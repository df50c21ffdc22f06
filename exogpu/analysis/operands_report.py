"""Messages for operands that violate their instruction's demands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from exogpu.analysis.affine import constant
from exogpu.analysis.bounds_report import at_instance
from exogpu.analysis.instances import Domain, never, where
from exogpu.analysis.layout import strides_at
from exogpu.analysis.overlap import Overlap
from exogpu.analysis.placement import Misplaced, Rule, judge
from exogpu.frontend.quote import ordinal, quote
from exogpu.ir import print_expressions
from exogpu.ir.isltext import bexpr, cexpr
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, CExpr, Compare, CVar, Int, Interval, Mod
from exogpu.ir.walk import Passed, control_variables, evaluate
from exogpu.result.errors import Diagnostic, Note
from exogpu.result.hazards import HazardKind

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


def describe(finding: Overlap | Misplaced, domain: Domain, point: Mapping[Sym, int]) -> Diagnostic:
    """The diagnostic of a finding at the smallest instance at which it occurs."""
    match finding:
        case Overlap():
            return _overlap(finding, domain, point)
        case Misplaced():
            return _misplaced(finding, domain, point)
        case _:
            assert_never(finding)


def _overlap(finding: Overlap, domain: Domain, point: Mapping[Sym, int]) -> Diagnostic:
    first, second = finding.first, finding.second
    one, other = _quote(first.access), _quote(second.access)
    at = at_instance(domain, point, _read(first.access) | _read(second.access))
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
        also = "writes" if second.written else "reads"
        message = f"{name} writes {one} and {also} {other}, which overlap: {at}both have {shared}"
        help = (
            f"let {second.param.name} be another variable, or a window that has no element in "
            f"common with {one}"
        )
    note = Note(f"{first.access.name} is declared here", finding.variable.span)
    return Diagnostic(OVERLAP, message, finding.call.span, help, (note,))


def _misplaced(finding: Misplaced, domain: Domain, point: Mapping[Sym, int]) -> Diagnostic:
    layout = finding.layout
    extents = (control_variables(n) for n in layout.extents)
    relevant = _read(finding.operand.access).union(*extents)
    at = at_instance(domain, point, relevant)
    message = f"{_asked(finding)}: {at}{_describe_operand(finding, point)}"
    declared = layout.declaration
    note = Note(f"{declared.name} is declared here", declared.span)
    help = _precondition(finding, domain) or _remedy(finding)
    return Diagnostic(ALIGN, message, finding.call.span, help, (note,))


def _asked(finding: Misplaced) -> str:
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
        return sum(strides[d] * evaluate(_first(access, d), point) for d in dims)

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


def _precondition(finding: Misplaced, domain: Domain) -> str:
    """The precondition that mends it, if one does: an extent or a size is divisible."""
    layout = finding.layout
    sizes = {p.name for p in domain.params}
    extents = [n for n in reversed(layout.extents[1:]) if constant(n) is None]
    indices = [CVar(name) for name in sorted(_read(finding.operand.access), key=str)]
    for term in dict.fromkeys((*extents, *indices)):
        divisor = finding.bytes // layout.item
        if not control_variables(term) <= sizes or not _mends(finding, domain, term, divisor):
            continue
        while divisor > 2 and _mends(finding, domain, term, divisor // 2):
            divisor //= 2
        condition = Compare("==", Mod(term, divisor), Int(0))
        return f"add the precondition `assert {quote(condition)}`"
    return ""


def _mends(finding: Misplaced, domain: Domain, term: CExpr, divisor: int) -> bool:
    """Tests whether the fault vanishes if the term is divisible, as it may be."""
    if divisor < 2:
        return False
    divisible = where(domain, f"({cexpr(term)}) mod {divisor} = 0")
    mended = never(divisible, [bexpr(judge(divisible, finding).wrong)])
    return mended and not never(divisible, ["(0 = 0)"])


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


def _first(access: Access, dim: int) -> CExpr:
    coord = access.coords[dim]
    return coord.lo if isinstance(coord, Interval) else coord.at


def _read(access: Access) -> frozenset[Sym]:
    """The control variables of an access."""
    ends = [
        end for c in access.coords for end in ((c.lo, c.hi) if isinstance(c, Interval) else (c.at,))
    ]
    return frozenset[Sym]().union(*map(control_variables, ends))


def _quote(access: Access) -> str:
    """The window of the variable itself, whatever windows and procedures are between."""
    return print_expressions.access(access, lambda name: name.name)
