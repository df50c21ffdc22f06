"""Bounds of every access, for all sizes that the preconditions admit (decisions `empty-loops` and
`bounds`).

What must hold is collected as obligations: a domain of instances and the conditions that no
instance may satisfy.  Z3 is asked about all together; what it does not refute, ISL answers domain
by domain; only where some instance fails is each obligation asked alone, for its smallest instance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, assert_never

from exogpu.analysis import bounds_messages, requirements
from exogpu.analysis import domain as analysis_domain
from exogpu.analysis.domain import admits_zero as admits_zero
from exogpu.analysis.requirements import elements
from exogpu.analysis.sizes import check_sizes as check_sizes
from exogpu.diagnostics.errors import Diagnostic
from exogpu.ir import nodes as ir
from exogpu.ir import walk as ir_walk
from exogpu.ir.render import conjunction, identifier, isl_cond, isl_expr
from exogpu.ir.walk import accesses, walk
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel

__all__ = [
    "Breach",
    "admits_zero",
    "check_bounds",
    "check_sizes",
    "failing_sizes",
    "violations",
    "violations_at",
]


@dataclass(frozen=True, slots=True)
class Bound:
    """No instance of `domain` may satisfy `wrong` (ISL text)."""

    domain: analysis_domain.Domain
    wrong: str
    finding: bounds_messages.Finding


@dataclass(frozen=True, slots=True)
class Breach:
    """A broken obligation: a finding and the smallest instance at which it occurs."""

    finding: bounds_messages.Finding
    sizes: Mapping[str, int]
    point: analysis_domain.Instance
    diagnostic: Diagnostic
    of_instruction: bool = False
    """It is in the definition of an instruction, at arguments that no call need give."""


@dataclass(frozen=True, slots=True)
class _Scope:
    """The place of a statement: its domain, and the views in scope."""

    domain: analysis_domain.Domain
    views: requirements.Views
    call: ir.CallInstr | None = None
    """The call whose instruction's body is being walked."""
    guards: tuple[ir.If, ...] = ()
    """The guards that hold, outermost first; none in an instruction's body."""


def check_bounds(proc: ir.Proc | ir.Instr) -> tuple[Diagnostic, ...]:
    """Every access of a procedure or instruction that leaves its variable at some sizes.

    Also negative extents, preconditions of callees that may not hold, arguments whose extents
    differ from their parameters', and preconditions that contradict each other; in the procedure
    and in all that it calls.  Each finding names the smallest sizes at which it occurs.
    """
    return tuple(v.diagnostic for v in violations(proc))


def violations(proc: ir.Proc | ir.Instr) -> tuple[Breach, ...]:
    """The findings of `check_bounds`, with their instances as data.

    Accesses of a called procedure are judged at its calls, so at the caller's sizes; all else,
    and an instruction, where it is defined.
    """
    callees = _callees(proc)
    if _nothing_wrong(proc, callees):
        return ()
    called = (
        replace(v, of_instruction=isinstance(callee, ir.Instr))
        for callee in callees
        for v in _own(callee)
        if not _at_calls(callee, v)
    )
    return (*_own(proc), *called)


def _at_calls(callee: ir.Proc | ir.Instr, what: Breach | Bound) -> bool:
    return isinstance(callee, ir.Proc) and isinstance(what.finding, bounds_messages.Outside)


SAMPLES: Final = (1, 4, 64, 4096)
"""Sizes that satisfy most preconditions."""


def _nothing_wrong(proc: ir.Proc | ir.Instr, callees: Iterable[ir.Proc | ir.Instr]) -> bool:
    """Tests whether Z3 refutes every fault in a definition and its callees; False also if that is
    not so simple."""
    asked: dict[analysis_domain.Domain, list[str]] = {}
    for definition in (proc, *callees):
        if not any(_satisfied(definition, value) for value in SAMPLES):
            return False
        for obligation in _obligations(definition):
            if definition is proc or not _at_calls(definition, obligation):
                asked.setdefault(obligation.domain, []).append(obligation.wrong)
    return analysis_domain.none_holds(asked.items())


def _satisfied(proc: ir.Proc | ir.Instr, value: int) -> bool:
    """Tests whether the preconditions hold when all sizes and indices have this positive value."""
    sizes = {p.name: value for p in analysis_domain.controls(proc)}
    return all(ir_walk.holds(precondition, sizes) for precondition in proc.preconditions)


def _callees(proc: ir.Proc | ir.Instr) -> tuple[ir.Proc | ir.Instr, ...]:
    """Every procedure and instruction called, and those that they call, each once."""
    found: dict[ir.Proc | ir.Instr, None] = {}
    for stmt in walk(proc.body):
        match stmt:
            case ir.CallInstr():
                found[stmt.instr] = None
            case ir.CallProc():
                found |= dict.fromkeys((stmt.proc, *_callees(stmt.proc)))
            case _:
                pass
    return tuple(found)


def violations_at(proc: ir.Proc, sizes: Mapping[str, int]) -> tuple[Breach, ...]:
    """Accesses out of bounds at concrete sizes, which satisfy the preconditions.

    Of a procedure as it is written: inlined, its windows would have lost their extents.
    """
    fixed = analysis_domain.restrict_domain(
        analysis_domain.entry(proc),
        *(f"{identifier(p.name)} = {sizes[p.name.name]}" for p in analysis_domain.controls(proc)),
    )
    found = _failing(_block(proc.body, _Scope(fixed, requirements.views_of(proc))))
    return tuple(v for v in found if isinstance(v.finding, bounds_messages.Outside))


def failing_sizes(proc: ir.Proc) -> isl.Set | None:
    """The sizes, as parameters, at which an access leaves its variable or a window of it.

    None if there are none.
    """
    found: isl.Set | None = None
    names = [identifier(p.name) for p in analysis_domain.controls(proc)]
    for obligation in _may_be_outside(proc):
        others = (*obligation.domain.iterators, *obligation.domain.bound)
        text = conjunction((*obligation.domain.constraints, f"({obligation.wrong})"))
        if others:
            text = f"exists {', '.join(map(identifier, others))} : {text}"
        sizes = rel.context(names, text)
        found = sizes if found is None else isl.union(found, sizes)
    return found


def failing_scripts(proc: ir.Proc) -> Iterator[str]:
    """For each access that leaves its variable at some sizes, a script that declares the sizes
    first and has a solution at those sizes."""
    for obligation in _may_be_outside(proc):
        domain, wrong = obligation.domain, obligation.wrong
        script = analysis_domain.question(
            map(identifier, domain.variables), (*domain.constraints, wrong)
        )
        if script is not None:
            yield script


def _may_be_outside(proc: ir.Proc) -> Iterator[Bound]:
    """Yields the bounds that do not hold at all sizes; the solver is asked about all together."""
    asked = [o for o in _obligations(proc) if isinstance(o.finding, bounds_messages.Outside)]
    held = analysis_domain.never_each((o.domain, [o.wrong]) for o in asked)
    return (o for o, holds in zip(asked, held, strict=True) if not holds)


@lru_cache(maxsize=1024)
def _own(proc: ir.Proc | ir.Instr) -> tuple[Breach, ...]:
    """The findings in the definition itself; kept, since many procedures share instructions."""
    contradiction = _contradiction(proc)
    if contradiction is not None:
        return (contradiction,)
    return _failing(_obligations(proc))


def _contradiction(proc: ir.Proc | ir.Instr) -> Breach | None:
    """The first precondition that leaves no sizes, if one does."""
    domain = analysis_domain.Domain(
        analysis_domain.controls(proc), constraints=analysis_domain.size_constraints(proc)
    )
    for precondition in proc.preconditions:
        domain = analysis_domain.restrict_domain(domain, isl_cond(precondition))
        if analysis_domain.never(domain, ["0 = 0"]):
            finding = bounds_messages.Contradiction(precondition)
            return Breach(finding, {}, {}, bounds_messages.describe(finding, domain, {}))
    return None


def _failing(obligations: Iterable[Bound]) -> tuple[Breach, ...]:
    """The broken obligations in program order; of several about one thing, the smallest."""
    groups: dict[int, list[Bound]] = {}
    for obligation in obligations:
        groups.setdefault(id(obligation.domain), []).append(obligation)
    found: dict[object, tuple[Bound, analysis_domain.Instance]] = {}
    asked = [(group[0].domain, [o.wrong for o in group]) for group in groups.values()]
    for group, fine in zip(groups.values(), analysis_domain.never_each(asked), strict=True):
        domain = group[0].domain
        if fine:
            continue
        for obligation in group:
            point = analysis_domain.smallest(domain, obligation.wrong)
            if point is not None:
                subject = bounds_messages.subject(obligation.finding)
                if subject not in found or analysis_domain.rank(
                    domain, point
                ) < analysis_domain.rank(domain, found[subject][1]):
                    found[subject] = obligation, point
    return tuple(_violation(obligation, point) for obligation, point in found.values())


def _violation(obligation: Bound, point: analysis_domain.Instance) -> Breach:
    domain = obligation.domain
    sizes = {p.name.name: point[p.name] for p in domain.params}
    diagnostic = bounds_messages.describe(obligation.finding, domain, point)
    return Breach(obligation.finding, sizes, point, diagnostic)


# --- what must hold -------------------------------------------------------------------------


def _obligations(proc: ir.Proc | ir.Instr) -> Iterator[Bound]:
    """Yields the bounds that must hold in a procedure, in program order."""
    domain = analysis_domain.entry(proc)
    for param in proc.params:
        if isinstance(param, ir.DataParam):
            yield from _extents(domain, param, param.shape)
    yield from _block(proc.body, _Scope(domain, requirements.views_of(proc)))


def _block(block: ir.Block, scope: _Scope) -> Iterator[Bound]:
    for stmt in block:
        yield from _statement(stmt, scope)


def _statement(stmt: ir.Stmt, scope: _Scope) -> Iterator[Bound]:
    match stmt:
        case ir.For():
            if isinstance(stmt.mode, ir.Loaded):
                yield from _access(stmt, stmt.mode.source, scope)
            if scope.call is None:
                inner = analysis_domain.body_domain(scope.domain, stmt)
            else:
                inner = analysis_domain.bind_range(scope.domain, stmt.iterator, stmt.lo, stmt.hi)
            yield from _block(stmt.body, replace(scope, domain=inner))
        case ir.If():
            holds, fails = isl_cond(stmt.condition), isl_cond(ir.Not(stmt.condition))
            yield from _block(
                stmt.body,
                replace(
                    scope,
                    domain=analysis_domain.restrict_domain(scope.domain, holds),
                    guards=(*scope.guards, stmt) if scope.call is None else (),
                ),
            )
            yield from _block(
                stmt.orelse,
                replace(scope, domain=analysis_domain.restrict_domain(scope.domain, fails)),
            )
        case ir.DeviceFunction() | ir.Warps():
            yield from _block(stmt.body, scope)
        case ir.Assign() | ir.Reduce() | ir.Arrive() | ir.Await() | ir.Uninit():
            for access in dict.fromkeys(accesses(stmt)):
                yield from _access(stmt, access, scope)
        case ir.Alloc() | ir.BarrierAlloc():
            yield from _extents(scope.domain, stmt, stmt.shape)
        case ir.WindowStmt():
            shape = tuple(requirements.extent(c) for c in requirements.intervals(stmt.source))
            yield from _extents(scope.domain, stmt, shape)
        case ir.CallInstr():
            yield from _call(stmt, stmt.instr, scope.domain)
            yield from _body(stmt, scope)
            if stmt.trailing is not None:
                yield from _access(stmt, stmt.trailing, scope)
        case ir.CallProc():
            yield from _call(stmt, stmt.proc, scope.domain)
            for argument in stmt.arguments:
                if isinstance(argument, ir.Access):
                    yield from _access(stmt, argument, scope)
            yield from _callee_bounds(stmt, scope)
        case ir.Free() | ir.Fence() | ir.Pass():
            return
        case _:
            assert_never(stmt)


def _extents(
    domain: analysis_domain.Domain,
    declaration: ir.DataParam | ir.Alloc | ir.BarrierAlloc | ir.WindowStmt,
    shape: tuple[ir.CExpr, ...],
) -> Iterator[Bound]:
    """No extent is negative."""
    for at, size in enumerate(shape):
        if not (isinstance(size, ir.Int) and size.value >= 0):
            finding = bounds_messages.NegativeExtent(declaration.name, declaration.span, at, size)
            yield Bound(domain, f"{isl_expr(size)} < 0", finding)


def _access(stmt: ir.Stmt, access: ir.Access, scope: _Scope) -> Iterator[Bound]:
    """Every element of an access lies in its variable, and in the windows between."""
    domain, index = requirements.any_element(scope.domain, access)
    for element in elements(scope.views, access.name, index):
        if wrong := requirements.outside(element):
            finding = bounds_messages.Outside(
                stmt, access, element, scope.call, loads=domain.loads, guards=scope.guards
            )
            yield Bound(domain, wrong, finding)


def _body(stmt: ir.CallInstr, scope: _Scope) -> Iterator[Bound]:
    """The elements that the instruction's body touches under its guards (decision `bounds`).

    That they lie in the operand's own shape is checked where the instruction is defined.
    """
    domain = analysis_domain.bind(
        scope.domain, requirements.control_values(stmt.instr.params, stmt.arguments)
    )
    views = {**scope.views, **requirements.operand_views(stmt.instr.params, stmt.arguments)}
    yield from _block(stmt.instr.body, _Scope(domain, views, stmt))


def _callee_bounds(stmt: ir.CallProc, scope: _Scope) -> Iterator[Bound]:
    """The accesses of the procedure called, at the sizes of this call.

    They lie in its parameters' extents, as the windows passed do in their variables.  Where the
    call breaks a precondition, that is the finding.
    """
    callee = stmt.proc
    domain = analysis_domain.bind(
        scope.domain, requirements.control_values(callee.params, stmt.arguments)
    )
    domain = analysis_domain.restrict_domain(domain, *analysis_domain.entry(callee).constraints)
    domain = replace(domain, contracts=(*domain.contracts, *callee.contracts))
    for obligation in _block(callee.body, _Scope(domain, requirements.views_of(callee))):
        if isinstance(obligation.finding, bounds_messages.Outside):
            yield replace(obligation, finding=replace(obligation.finding, via=stmt))


def _call(
    stmt: ir.CallInstr | ir.CallProc, callee: ir.Proc | ir.Instr, domain: analysis_domain.Domain
) -> Iterator[Bound]:
    """The callee's preconditions hold, and arguments have their parameters' extents."""
    values = requirements.control_values(callee.params, stmt.arguments)
    inner = analysis_domain.bind(domain, values)
    for param in analysis_domain.controls(callee):
        if param.kind == "size" and param.name in values:
            smallest_size = analysis_domain.least(callee, param.name)
            wrong = f"{isl_expr(values[param.name])} < {smallest_size}"
            finding = bounds_messages.BadSize(stmt, param, values[param.name], smallest_size)
            yield Bound(inner, wrong, finding)
    for precondition in callee.preconditions:
        for condition in analysis_domain.conjuncts(precondition):
            finding_broken = bounds_messages.Broken(stmt, condition)
            yield Bound(inner, isl_cond(ir.Not(condition)), finding_broken)
    for at, (operand, argument) in enumerate(zip(callee.params, stmt.arguments, strict=False)):
        if isinstance(operand, ir.DataParam) and isinstance(argument, ir.Access):
            window = tuple(requirements.extent(c) for c in requirements.intervals(argument))
            for dimension, (given, asked) in enumerate(zip(window, operand.shape, strict=False)):
                if given != asked:
                    disagreement = bounds_messages.Disagreement(stmt, at, dimension, given, asked)
                    wrong = f"{isl_expr(given)} != {isl_expr(asked)}"
                    yield Bound(inner, wrong, disagreement)
