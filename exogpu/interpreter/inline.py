"""From a procedure to the program that runs: calls inlined, windows resolved, sizes constant.

Parallel loops are loops; launches and warp scopes are their bodies; synchronisation is nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

import numpy as np

from exogpu.diagnostics.errors import Diagnostic, ExoGpuError, Span
from exogpu.interpreter import program
from exogpu.interpreter.values import NUMPY
from exogpu.ir import affine, scalars
from exogpu.ir import nodes as ir
from exogpu.ir.types import DataType, Sym

_EXACT: Final = 1 << 62
"""numpy's integers are exact below, for sums and differences of two forms too."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Meanings of the variables of the procedure or instruction being inlined."""

    control: dict[Sym, affine.Affine]
    data: dict[Sym, program.View | scalars.Constant]
    ranges: dict[Sym, affine.Range]
    """The ranges of the iterators of the whole result; shared by all scopes."""
    site: Span | None
    """The user's call that is being inlined; None in the procedure that runs."""

    def form(self, expr: ir.CExpr) -> affine.Affine:
        """A control expression as a form over iterators."""
        form = affine.from_cexpr(expr, self.control, self.ranges)
        if affine.magnitude(form, self.ranges) >= _EXACT:
            place = self.site or expr.span
            message = "index arithmetic leaves 64 bits at these sizes"
            raise ExoGpuError([Diagnostic("X930", message, place, "run it at smaller sizes")])
        return form


def inline(
    proc: ir.Proc, sizes: Mapping[Sym, int], buffers: Mapping[Sym, program.Buffer]
) -> tuple[program.Nodes, dict[Sym, affine.Range]]:
    """The program of a procedure at concrete sizes on given arrays, and its iterators' ranges."""
    control = {name: affine.Affine(value) for name, value in sizes.items()}
    data: dict[Sym, program.View | scalars.Constant] = {
        name: program.View(name.name, tuple(affine.Affine(n) for n in buffer.shape), buffer)
        for name, buffer in buffers.items()
    }
    ranges: dict[Sym, affine.Range] = {}
    nodes = tuple(_block(proc.body, Scope(control, data, ranges, None)))
    return nodes, ranges


def _block(block: ir.Block, scope: Scope) -> Iterator[program.Node]:
    for stmt in block:
        yield from _statement(stmt, scope)


def _statement(stmt: ir.Stmt, scope: Scope) -> Iterator[program.Node]:
    match stmt:
        case ir.For():
            yield from _loop(stmt, scope)
        case ir.If():
            yield from _guard(stmt, scope)
        case ir.DeviceFunction() | ir.Warps():
            yield from _block(stmt.body, scope)
        case ir.CallProc() | ir.CallInstr():
            yield from _call(stmt, scope)
        case ir.Assign() | ir.Reduce():
            target = _target(stmt.target, scope)
            meaning = (
                scalars.added_scalar if isinstance(stmt, ir.Reduce) else scalars.assigned_scalar
            )

            def type_of(name: Sym) -> DataType:
                return _type_of(name, scope)

            typed = meaning(stmt.value, target.buffer.dtype, type_of)
            yield program.Store(
                target,
                _value(typed, scope),
                isinstance(stmt, ir.Reduce),
                _call_span(stmt.span, scope),
                scalars.is_of_type(typed, target.buffer.dtype, type_of),
            )
        case ir.WindowStmt():
            view = scope.data.get(stmt.source.name)
            if isinstance(view, program.View):
                scope.data[stmt.name] = _window(stmt.name.name, stmt.source, view, scope)
        case ir.Alloc():
            extents = tuple(scope.form(e) for e in stmt.shape)
            shape = tuple(max(0, affine.interval(e, scope.ranges)[1]) for e in extents)
            buffer = program.Buffer(stmt.name.name, stmt.dtype, shape, local=True)
            scope.data[stmt.name] = program.View(stmt.name.name, extents, buffer)
            yield program.Allocate(buffer)
        case (
            ir.BarrierAlloc()
            | ir.Free()
            | ir.Fence()
            | ir.Arrive()
            | ir.Await()
            | ir.Uninit()
            | ir.Pass()
        ):
            return
        case _:
            assert_never(stmt)


def _call_span(span: Span, scope: Scope) -> Span:
    return scope.site or span


def _loop(stmt: ir.For, scope: Scope) -> Iterator[program.Node]:
    assert not isinstance(stmt.mode, ir.Slot | ir.Loaded), "what is bound is resolved before"
    lo, hi = scope.form(stmt.lo), scope.form(stmt.hi)
    first, last = affine.interval(lo, scope.ranges)[0], affine.interval(hi, scope.ranges)[1] - 1
    if last < first:
        return
    if first == last and not lo.terms and not hi.terms:
        scope.control[stmt.iterator] = affine.Affine(first)
        yield from _block(stmt.body, scope)
        return
    iterator = Sym(stmt.iterator.name)
    scope.ranges[iterator] = affine.Range(first, last)
    scope.control[stmt.iterator] = affine.variable(iterator)
    yield program.Loop(iterator, lo, hi, tuple(_block(stmt.body, scope)))


def _guard(stmt: ir.If, scope: Scope) -> Iterator[program.Node]:
    test = _test(stmt.condition, scope)
    if test == program.TRUE:
        yield from _block(stmt.body, scope)
    elif test == program.FALSE:
        yield from _block(stmt.orelse, scope)
    else:
        yield program.Guard(
            test, tuple(_block(stmt.body, scope)), tuple(_block(stmt.orelse, scope))
        )


# --- conditions ---------------------------------------------------------------------------


def _test(expr: ir.BExpr, scope: Scope, *, negated: bool = False) -> program.Test:
    match expr:
        case ir.Truth():
            return program.TRUE if expr.value != negated else program.FALSE
        case ir.Not():
            return _test(expr.term, scope, negated=not negated)
        case ir.And() | ir.Or():
            parts = tuple(_test(e, scope, negated=negated) for e in (expr.left, expr.right))
            return all_of(parts) if isinstance(expr, ir.And) != negated else any_of(parts)
        case ir.Compare():
            return _compare(expr, scope, negated)
        case _:
            assert_never(expr)


_NEGATION = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def _compare(expr: ir.Compare, scope: Scope, negated: bool) -> program.Test:
    left, right = scope.form(expr.left), scope.form(expr.right)
    above, below = affine.combine((1, left), (-1, right)), affine.combine((1, right), (-1, left))
    match _NEGATION[expr.op] if negated else expr.op:
        case "==":
            return decide(program.Condition(above, equality=True), scope.ranges)
        case "!=":
            less = decide(at_least(below, 1), scope.ranges)
            return any_of((less, decide(at_least(above, 1), scope.ranges)))
        case "<":
            return decide(at_least(below, 1), scope.ranges)
        case "<=":
            return decide(at_least(below, 0), scope.ranges)
        case ">":
            return decide(at_least(above, 1), scope.ranges)
        case ">=":
            return decide(at_least(above, 0), scope.ranges)
        case op:
            raise AssertionError(op)


def at_least(form: affine.Affine, least: int) -> program.Condition:
    """`form >= least`."""
    return program.Condition(affine.combine((1, form), constant=-least), equality=False)


def decide(condition: program.Condition, ranges: Mapping[Sym, affine.Range]) -> program.Test:
    """The condition, or its truth where the iterators' intervals decide it."""
    low, high = affine.interval(condition.form, ranges)
    if condition.equality:
        if low == high == 0:
            return program.TRUE
        return program.FALSE if low > 0 or high < 0 else condition
    if low >= 0:
        return program.TRUE
    return program.FALSE if high < 0 else condition


def all_of(parts: tuple[program.Test, ...]) -> program.Test:
    """The conjunction, flattened."""
    if program.FALSE in parts:
        return program.FALSE
    flat = tuple(q for p in parts for q in (p.parts if isinstance(p, program.AllOf) else (p,)))
    return flat[0] if len(flat) == 1 else program.AllOf(flat)


def any_of(parts: tuple[program.Test, ...]) -> program.Test:
    """The disjunction, flattened."""
    if program.TRUE in parts:
        return program.TRUE
    flat = tuple(q for p in parts for q in (p.parts if isinstance(p, program.AnyOf) else (p,)))
    return flat[0] if len(flat) == 1 else program.AnyOf(flat)


# --- calls --------------------------------------------------------------------------------


def _call(stmt: ir.CallProc | ir.CallInstr, scope: Scope) -> Iterator[program.Node]:
    callee = stmt.proc if isinstance(stmt, ir.CallProc) else stmt.instr
    site = _call_span(stmt.span, scope)
    inner = Scope({}, {}, scope.ranges, site)
    pairs = list(zip(callee.params, stmt.arguments, strict=True))
    for param, argument in pairs:
        if isinstance(param, ir.ControlParam):
            assert not isinstance(argument, ir.Access | ir.Const)
            inner.control[param.name] = scope.form(argument)
    for param, argument in pairs:
        if isinstance(param, ir.ControlParam):
            continue
        if isinstance(argument, ir.Const):
            value = scalars.rounded(argument.value, param.dtype)
            inner.data[param.name] = scalars.Constant(value, param.dtype)
            continue
        assert isinstance(argument, ir.Access)
        source = scope.data[argument.name]
        if isinstance(source, scalars.Constant):
            inner.data[param.name] = source
            continue
        passed = _window(param.name.name, argument, source, scope)
        extents = tuple(inner.form(e) for e in param.shape)
        for dimension, (given, asked) in enumerate(zip(passed.extents, extents, strict=True)):
            same = program.Condition(affine.combine((1, given), (-1, asked)), equality=True)
            message = f"the window passed as {param.name} of {callee.name} does not have the "
            message += f"extent that dimension {dimension} asks for"
            yield from _demand(decide(same, scope.ranges), message, site)
        if isinstance(stmt, ir.CallProc):
            message = f"the window passed as {param.name} of {callee.name} leaves its variable"
            yield from _demand(_lies_inside(passed, scope), message, site, "X927")
        clipped = param.operand is not None and param.operand.clipped
        inner.data[param.name] = program.View(param.name.name, extents, passed.of, clipped)
    for precondition in callee.preconditions:
        message = f"a precondition of {callee.name} does not hold"
        yield from _demand(_test(precondition, inner), message, site)
    yield from _block(callee.body, inner)


def _demand(
    test: program.Test, message: str, span: Span, code: str = "X928"
) -> Iterator[program.Demand]:
    if test != program.TRUE:
        yield program.Demand(test, message, span, code)


def _lies_inside(window: program.View, scope: Scope) -> program.Test:
    """Tests whether all elements of a window, if it has any, are elements of its source."""

    def ask(form: affine.Affine) -> program.Test:
        return decide(program.Condition(form, equality=False), scope.ranges)

    inside = (
        (ask(lo), ask(affine.combine((1, extent), (-1, hi))))
        for lo, hi, extent in program.spans(window)
    )
    empty = (ask(affine.combine((-1, extent))) for extent in window.extents)
    return any_of((*empty, all_of(tuple(test for pair in inside for test in pair))))


def _window(name: str, access: ir.Access, source: program.View, scope: Scope) -> program.View:
    coords: list[tuple[affine.Affine, bool]] = []
    extents: list[affine.Affine] = []
    for coord in access.coords:
        match coord:
            case ir.Point():
                coords.append((scope.form(coord.at), False))
            case ir.Interval():
                lo, hi = scope.form(coord.lo), scope.form(coord.hi)
                coords.append((lo, True))
                extents.append(affine.combine((1, hi), (-1, lo)))
            case _:
                assert_never(coord)
    return program.View(name, tuple(extents), program.Window(source, tuple(coords)))


# --- values -------------------------------------------------------------------------------


def _target(access: ir.Access, scope: Scope) -> program.Place:
    view = scope.data[access.name]
    assert isinstance(view, program.View)
    index = tuple(scope.form(c.at) for c in access.coords if isinstance(c, ir.Point))
    return program.element(view, index, scope.ranges, _call_span(access.span, scope))


def _type_of(name: Sym, scope: Scope) -> DataType:
    meaning = scope.data[name]
    return meaning.dtype if isinstance(meaning, scalars.Constant) else meaning.buffer.dtype


def _value(scalar: scalars.Scalar, scope: Scope) -> program.Value:
    match scalar:
        case scalars.Constant():
            return program.Literal(scalar.value, NUMPY[scalar.dtype])
        case scalars.Element():
            return _load(scalar, NUMPY[scalar.dtype], scope)
        case scalars.Convert(term=scalars.Element() as element):
            return _load(element, NUMPY[scalar.dtype], scope)
        case scalars.Convert():
            return program.Convert(_value(scalar.term, scope), NUMPY[scalar.dtype])
        case scalars.Operation():
            terms = tuple(_value(a, scope) for a in scalar.arguments)
            dtype = NUMPY[scalar.dtype]
            return program.Operation(scalar.function, terms, dtype, _call_span(scalar.span, scope))
        case _:
            assert_never(scalar)


def _load(scalar: scalars.Element, dtype: np.dtype[np.generic], scope: Scope) -> program.Value:
    meaning = scope.data[scalar.access.name]
    if isinstance(meaning, scalars.Constant):
        return program.Literal(meaning.value, dtype)
    return program.Load(_target(scalar.access, scope), dtype)
