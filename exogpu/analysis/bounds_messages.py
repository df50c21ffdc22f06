"""Messages for violated bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from exogpu.analysis.domain import Domain, conjuncts
from exogpu.analysis.requirements import Element, intervals
from exogpu.diagnostics.errors import Diagnostic, Note, Span
from exogpu.frontend.quote import ordinal, quote, quote_access
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, evaluate

RING_HAS: Final = "the ring has"
"""The begin of the remedy for an index that goes round further than its ring: no guard mends it."""


@dataclass(frozen=True, slots=True)
class Outside:
    """An access leaves its variable, or a window of it."""

    stmt: ir.Stmt
    access: ir.Access
    element: Element
    call: ir.CallInstr | None
    """The call whose instruction's body makes the access, if one does."""
    via: ir.CallProc | None = None
    """The judged procedure's own call, if a procedure that it calls makes the access."""
    loads: tuple[ir.For, ...] = ()
    """The values from memory around it."""
    guards: tuple[ir.If, ...] = ()
    """The guards around it that hold, outermost first."""


@dataclass(frozen=True, slots=True)
class NegativeExtent:
    """A variable, parameter or window has an extent below 0."""

    name: Sym
    span: Span
    dimension: int
    extent: ir.CExpr


@dataclass(frozen=True, slots=True)
class BadSize:
    """A call gives a size less than the callee admits."""

    call: ir.CallInstr | ir.CallProc
    param: ir.ControlParam
    value: ir.CExpr
    least: int


@dataclass(frozen=True, slots=True)
class Broken:
    """A callee's precondition may not hold."""

    call: ir.CallInstr | ir.CallProc
    condition: ir.BExpr


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An argument's extent is not its parameter's."""

    call: ir.CallInstr | ir.CallProc
    argument: int
    dimension: int
    given: ir.CExpr
    asked: ir.CExpr


@dataclass(frozen=True, slots=True)
class Contradiction:
    """No sizes satisfy the preconditions."""

    condition: ir.BExpr


Finding: TypeAlias = Outside | NegativeExtent | BadSize | Broken | Disagreement | Contradiction


def subject(finding: Finding) -> object:
    """Returns the subject of a finding: of several findings on one subject one is reported.

    An access may leave several windows of one another, and an instruction's body may touch an
    operand in several places.
    """
    match finding:
        case Outside() if finding.call is not None:
            return finding.call, finding.access.name
        case Outside():
            return finding.stmt, finding.access
        case _:
            return finding


def describe(finding: Finding, domain: Domain, point: Mapping[Sym, int]) -> Diagnostic:
    """The diagnostic of a finding at the smallest instance at which it occurs."""
    match finding:
        case Outside():
            return _outside(finding, domain, point)
        case NegativeExtent():
            value = evaluate(finding.extent, point)
            where = at_instance(domain, point, control_variables(finding.extent))
            return Diagnostic(
                "B602",
                f"the {ordinal(finding.dimension)} extent of {finding.name} is negative: "
                f"{where}{quote(finding.extent)} is {value}",
                finding.span,
                f"add the precondition `assert {quote(finding.extent)} >= 0`, or change the extent",
            )
        case BadSize():
            name = finding.param.name
            where = at_instance(domain, point, control_variables(finding.value))
            value = evaluate(finding.value, point)
            floor = f"sizes are at least {finding.least}"
            return Diagnostic(
                "B603",
                f"{_callee(finding.call)} takes a size {name}, and {floor}: {where}it is {value}",
                finding.call.span,
                f"guard the call, or add a precondition that keeps {quote(finding.value)} "
                f"at {finding.least} or more",
                (Note(f"{name} is declared here", finding.param.span),),
            )
        case Broken():
            relevant = control_variables(finding.condition)
            where = (
                f": {at_instance(domain, point, relevant, bound=True)}it is false"
                if relevant
                else ""
            )
            return Diagnostic(
                "B603",
                f"the precondition {quote(finding.condition)} of {_callee(finding.call)} "
                f"does not hold here{where}",
                finding.call.span,
                "guard the call, or add a precondition to the caller that implies it",
                (Note("the precondition", finding.condition.span),),
            )
        case Disagreement():
            return _disagreement(finding, domain, point)
        case Contradiction():
            return Diagnostic(
                "B604",
                f"no sizes satisfy the preconditions: {quote(finding.condition)} contradicts "
                "those before it",
                finding.condition.span,
                "remove or weaken one of them; a size is at least 1 unless a precondition such "
                "as `assert n >= 0` admits 0",
            )
        case _:
            assert_never(finding)


def _outside(finding: Outside, domain: Domain, point: Mapping[Sym, int]) -> Diagnostic:
    element = finding.element
    values = [evaluate(i, point) for i in element.indices]
    extents = [evaluate(e, point) for e in element.extents]
    at = next(
        at
        for at, (value, size) in enumerate(zip(values, extents, strict=True))
        if not 0 <= value < size
    )
    index, value, size = element.indices[at], values[at], extents[at]
    relevant = control_variables(index) | control_variables(element.extents[at])
    if relevant & frozenset(domain.bound) and finding.call is None:
        relevant |= _of_intervals(finding.access)
    where = at_instance(domain, point, relevant)
    has = f"the {ordinal(at)} index is {value}, and {_size(element.name, at, len(extents), size)}"
    if element.name != finding.access.name and finding.call is None:
        has = f"{has} ({finding.access.name} is a window of it)"
    quoted = quote_access(finding.access)
    if finding.call is None:
        message = f"{quoted} is out of bounds: {where}{has}"
        span = finding.access.span if finding.access.span.line else finding.stmt.span
        notes: tuple[Note, ...] = ()
    else:
        touched = ", ".join(str(v) for v in values)
        message = (
            f"{_callee(finding.call)} touches {element.name}[{touched}], out of bounds: "
            f"{where}{has}"
        )
        span = finding.call.span
        notes = (Note(f"its body accesses {quoted} here", finding.access.span),)
    if finding.via is not None:
        notes = (*notes, Note("called here", finding.via.span))
    remedy = _remedy(relevant, value, size)
    bounding = [guard for guard in finding.guards if _compares(guard.condition, index)]
    if bounding and finding.call is None:
        line, end = bounding[-1].span.line, "below 0" if value < 0 else "past the end"
        remedy = (
            f"change the bound of the `if` at line {line}, which admits an index {end}, or add a "
            "precondition that excludes it"
        )
    if isinstance(index, ir.Mod) and index.divisor > size > 0:
        remedy = f"{RING_HAS} {size} slots: write % {size} for % {index.divisor}"
    for load in finding.loads:
        if load.iterator in relevant:
            lo, hi = quote(load.lo), quote(load.hi)
            note = Note(f"{load.iterator} is any number from {lo} to below {hi}", load.span)
            remedy = (
                f"narrow the range of the load_index at line {load.span.line}, outside of which "
                "the kernel traps, or guard the access with `if`"
            )
            notes = (note, *notes)
    return Diagnostic("B601", message, span, remedy, notes)


def _compares(condition: ir.BExpr, index: ir.CExpr) -> bool:
    """Tests whether a condition that holds bounds an index."""
    return any(
        isinstance(one, ir.Compare) and index in (one.left, one.right)
        for one in conjuncts(condition)
    )


def _of_intervals(access: ir.Access) -> frozenset[Sym]:
    """The control variables of an access's interval coordinates."""
    ends = (e for c in intervals(access) for e in (c.lo, c.hi))
    return frozenset[Sym]().union(*map(control_variables, ends))


def _remedy(relevant: Iterable[Sym], value: int, size: int) -> str:
    if not any(True for _ in relevant):
        return f"use an index from 0 to {size - 1}" if size else "the variable has no elements"
    side = "below 0" if value < 0 else "past the end"
    return f"guard the access with `if`, or add a precondition that excludes indices {side}"


def _size(name: Sym, at: int, rank: int, size: int) -> str:
    """`A has 65 rows`"""
    match rank, at:
        case 1, _:
            return f"{name} has {_count(size, 'element')}"
        case 2, 0:
            return f"{name} has {_count(size, 'row')}"
        case 2, _:
            return f"{name} has {_count(size, 'column')}"
        case _:
            return f"the {ordinal(at)} extent of {name} is {size}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _disagreement(finding: Disagreement, domain: Domain, point: Mapping[Sym, int]) -> Diagnostic:
    callee = _definition(finding.call)
    param = callee.params[finding.argument]
    argument = finding.call.arguments[finding.argument]
    relevant = control_variables(finding.given) | control_variables(finding.asked)
    where = at_instance(domain, point, relevant, bound=True)
    given, asked = evaluate(finding.given, point), evaluate(finding.asked, point)
    quoted = quote_access(argument) if isinstance(argument, ir.Access) else "the argument"
    span = argument.span if isinstance(argument, ir.Access) else finding.call.span
    return Diagnostic(
        "T260",
        f"the {ordinal(finding.dimension)} extent of {quoted} does not agree with parameter "
        f"{param.name} of {callee.name}: {where}it is {given}, and {asked} is asked for",
        span if span.line else finding.call.span,
        f"pass a window of {asked} there" if not relevant else "pass a window of the same extent",
        (Note(f"{param.name} is declared here", param.span),),
    )


def _definition(call: ir.CallInstr | ir.CallProc) -> ir.Instr | ir.Proc:
    return call.instr if isinstance(call, ir.CallInstr) else call.proc


def _callee(call: ir.CallInstr | ir.CallProc) -> str:
    return _definition(call).name


def at_instance(
    domain: Domain, point: Mapping[Sym, int], relevant: frozenset[Sym], bound: bool = False
) -> str:
    """`at M = 65, i = 1, m = 1 `: all sizes, and the iterators that matter."""
    shown = [p.name for p in domain.params]
    shown += [s for s in domain.iterators if s in relevant]
    if bound:
        shown += [s for s in domain.bound if s in relevant]
    if not shown:
        return ""
    return f"at {', '.join(f'{s} = {point[s]}' for s in shown)} "
