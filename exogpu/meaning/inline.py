"""From a procedure to the program that runs: calls inlined, windows resolved, sizes constant.

Parallel loops are loops; launches and warp scopes are their bodies; synchronisation is nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

import numpy as np

from exogpu.ir.affine import Affine, Range, combine, from_cexpr, interval, magnitude, variable
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    And,
    Arrive,
    Assign,
    Await,
    BarrierAlloc,
    BExpr,
    Block,
    CallInstr,
    CallProc,
    CExpr,
    Compare,
    Const,
    ControlParam,
    DeviceFunction,
    Fence,
    For,
    Free,
    If,
    Interval,
    Loaded,
    Not,
    Or,
    Pass,
    Point,
    Proc,
    Reduce,
    Slot,
    Stmt,
    Truth,
    Uninit,
    Warps,
    WindowStmt,
)
from exogpu.ir.scalars import (
    Constant,
    Convert,
    Element,
    Operation,
    Scalar,
    added,
    assigned,
    rounded,
)
from exogpu.ir.types import DataType
from exogpu.meaning import core
from exogpu.meaning.core import (
    FALSE,
    TRUE,
    Allocate,
    AllOf,
    AnyOf,
    Buffer,
    Condition,
    Demand,
    Guard,
    Literal,
    Load,
    Loop,
    Node,
    Nodes,
    Place,
    Store,
    Test,
    Value,
)
from exogpu.meaning.values import NUMPY
from exogpu.meaning.views import View, Window, element, spans
from exogpu.result.errors import Diagnostic, ExoGpuError, Span

_EXACT: Final = 1 << 62
"""numpy's integers are exact below, for sums and differences of two forms too."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Meanings of the variables of the procedure or instruction being inlined."""

    control: dict[Sym, Affine]
    data: dict[Sym, View | Constant]
    ranges: dict[Sym, Range]
    """Of the iterators of the whole result; shared by all scopes."""
    site: Span | None
    """The user's call that is being inlined; None in the procedure that runs."""

    def form(self, expr: CExpr) -> Affine:
        """A control expression as a form over iterators."""
        form = from_cexpr(expr, self.control, self.ranges)
        if magnitude(form, self.ranges) >= _EXACT:
            place = self.site or expr.span
            message = "index arithmetic leaves 64 bits at these sizes"
            raise ExoGpuError([Diagnostic("X930", message, place, "run it at smaller sizes")])
        return form


def inline(
    proc: Proc, sizes: Mapping[Sym, int], buffers: Mapping[Sym, Buffer]
) -> tuple[Nodes, dict[Sym, Range]]:
    """The program of a procedure at concrete sizes on given arrays, and its iterators' ranges."""
    control = {name: Affine(value) for name, value in sizes.items()}
    data: dict[Sym, View | Constant] = {
        name: View(name.name, tuple(Affine(n) for n in buffer.shape), buffer)
        for name, buffer in buffers.items()
    }
    ranges: dict[Sym, Range] = {}
    nodes = tuple(_block(proc.body, Scope(control, data, ranges, None)))
    return nodes, ranges


def _block(block: Block, scope: Scope) -> Iterator[Node]:
    for stmt in block:
        yield from _statement(stmt, scope)


def _statement(stmt: Stmt, scope: Scope) -> Iterator[Node]:
    match stmt:
        case For():
            yield from _loop(stmt, scope)
        case If():
            yield from _guard(stmt, scope)
        case DeviceFunction() | Warps():
            yield from _block(stmt.body, scope)
        case CallProc() | CallInstr():
            yield from _call(stmt, scope)
        case Assign() | Reduce():
            target = _target(stmt.target, scope)
            meaning = added if isinstance(stmt, Reduce) else assigned
            typed = meaning(stmt.value, target.buffer.dtype, lambda name: _type_of(name, scope))
            value = _value(typed, scope)
            yield Store(target, value, isinstance(stmt, Reduce), _at(stmt.span, scope))
        case WindowStmt():
            view = scope.data.get(stmt.source.name)
            if isinstance(view, View):
                scope.data[stmt.name] = _window(stmt.name.name, stmt.source, view, scope)
        case Alloc():
            extents = tuple(scope.form(e) for e in stmt.shape)
            shape = tuple(max(0, interval(e, scope.ranges)[1]) for e in extents)
            buffer = Buffer(stmt.name.name, stmt.dtype, shape, local=True)
            scope.data[stmt.name] = View(stmt.name.name, extents, buffer)
            yield Allocate(buffer)
        case BarrierAlloc() | Free() | Fence() | Arrive() | Await() | Uninit() | Pass():
            return
        case _:
            assert_never(stmt)


def _at(span: Span, scope: Scope) -> Span:
    return scope.site or span


def _loop(stmt: For, scope: Scope) -> Iterator[Node]:
    assert not isinstance(stmt.mode, Slot | Loaded), "what is bound is resolved before"
    lo, hi = scope.form(stmt.lo), scope.form(stmt.hi)
    first, last = interval(lo, scope.ranges)[0], interval(hi, scope.ranges)[1] - 1
    if last < first:
        return
    if first == last and not lo.terms and not hi.terms:
        scope.control[stmt.iterator] = Affine(first)
        yield from _block(stmt.body, scope)
        return
    iterator = Sym(stmt.iterator.name)
    scope.ranges[iterator] = Range(first, last)
    scope.control[stmt.iterator] = variable(iterator)
    yield Loop(iterator, lo, hi, tuple(_block(stmt.body, scope)))


def _guard(stmt: If, scope: Scope) -> Iterator[Node]:
    test = _test(stmt.condition, scope)
    if test == TRUE:
        yield from _block(stmt.body, scope)
    elif test == FALSE:
        yield from _block(stmt.orelse, scope)
    else:
        yield Guard(test, tuple(_block(stmt.body, scope)), tuple(_block(stmt.orelse, scope)))


# --- conditions ---------------------------------------------------------------------------


def _test(expr: BExpr, scope: Scope, *, negated: bool = False) -> Test:
    match expr:
        case Truth():
            return TRUE if expr.value != negated else FALSE
        case Not():
            return _test(expr.term, scope, negated=not negated)
        case And() | Or():
            parts = tuple(_test(e, scope, negated=negated) for e in (expr.left, expr.right))
            return all_of(parts) if isinstance(expr, And) != negated else any_of(parts)
        case Compare():
            return _compare(expr, scope, negated)
        case _:
            assert_never(expr)


_NEGATION = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def _compare(expr: Compare, scope: Scope, negated: bool) -> Test:
    left, right = scope.form(expr.left), scope.form(expr.right)
    above, below = combine((1, left), (-1, right)), combine((1, right), (-1, left))
    match _NEGATION[expr.op] if negated else expr.op:
        case "==":
            return decide(Condition(above, equality=True), scope.ranges)
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


def at_least(form: Affine, least: int) -> Condition:
    """`form >= least`."""
    return Condition(combine((1, form), constant=-least), equality=False)


def decide(condition: Condition, ranges: Mapping[Sym, Range]) -> Test:
    """The condition, or its truth where the iterators' intervals decide it."""
    low, high = interval(condition.form, ranges)
    if condition.equality:
        if low == high == 0:
            return TRUE
        return FALSE if low > 0 or high < 0 else condition
    if low >= 0:
        return TRUE
    return FALSE if high < 0 else condition


def all_of(parts: tuple[Test, ...]) -> Test:
    """The conjunction, flattened."""
    if FALSE in parts:
        return FALSE
    flat = tuple(q for p in parts for q in (p.parts if isinstance(p, AllOf) else (p,)))
    return flat[0] if len(flat) == 1 else AllOf(flat)


def any_of(parts: tuple[Test, ...]) -> Test:
    """The disjunction, flattened."""
    if TRUE in parts:
        return TRUE
    flat = tuple(q for p in parts for q in (p.parts if isinstance(p, AnyOf) else (p,)))
    return flat[0] if len(flat) == 1 else AnyOf(flat)


# --- calls --------------------------------------------------------------------------------


def _call(stmt: CallProc | CallInstr, scope: Scope) -> Iterator[Node]:
    callee = stmt.proc if isinstance(stmt, CallProc) else stmt.instr
    site = _at(stmt.span, scope)
    inner = Scope({}, {}, scope.ranges, site)
    pairs = list(zip(callee.params, stmt.arguments, strict=True))
    for param, argument in pairs:
        if isinstance(param, ControlParam):
            assert not isinstance(argument, Access | Const)
            inner.control[param.name] = scope.form(argument)
    for param, argument in pairs:
        if isinstance(param, ControlParam):
            continue
        if isinstance(argument, Const):
            value = rounded(argument.value, param.dtype)
            inner.data[param.name] = Constant(value, param.dtype)
            continue
        assert isinstance(argument, Access)
        source = scope.data[argument.name]
        if isinstance(source, Constant):
            inner.data[param.name] = source
            continue
        passed = _window(param.name.name, argument, source, scope)
        extents = tuple(inner.form(e) for e in param.shape)
        for dimension, (given, asked) in enumerate(zip(passed.extents, extents, strict=True)):
            same = Condition(combine((1, given), (-1, asked)), equality=True)
            message = f"the window passed as {param.name} of {callee.name} does not have the "
            message += f"extent that dimension {dimension} asks for"
            yield from _demand(decide(same, scope.ranges), message, site)
        if isinstance(stmt, CallProc):
            message = f"the window passed as {param.name} of {callee.name} leaves its variable"
            yield from _demand(_lies_inside(passed, scope), message, site, "X927")
        clipped = param.operand is not None and param.operand.clipped
        inner.data[param.name] = View(param.name.name, extents, passed.of, clipped)
    for precondition in callee.preconditions:
        message = f"a precondition of {callee.name} does not hold"
        yield from _demand(_test(precondition, inner), message, site)
    yield from _block(callee.body, inner)


def _demand(test: Test, message: str, span: Span, code: str = "X928") -> Iterator[Demand]:
    if test != TRUE:
        yield Demand(test, message, span, code)


def _lies_inside(window: View, scope: Scope) -> Test:
    """Tests whether all elements of a window, if it has any, are elements of its source."""

    def ask(form: Affine) -> Test:
        return decide(Condition(form, equality=False), scope.ranges)

    inside = ((ask(lo), ask(combine((1, extent), (-1, hi)))) for lo, hi, extent in spans(window))
    empty = (ask(combine((-1, extent))) for extent in window.extents)
    return any_of((*empty, all_of(tuple(test for pair in inside for test in pair))))


def _window(name: str, access: Access, source: View, scope: Scope) -> View:
    coords: list[tuple[Affine, bool]] = []
    extents: list[Affine] = []
    for coord in access.coords:
        match coord:
            case Point():
                coords.append((scope.form(coord.at), False))
            case Interval():
                lo, hi = scope.form(coord.lo), scope.form(coord.hi)
                coords.append((lo, True))
                extents.append(combine((1, hi), (-1, lo)))
            case _:
                assert_never(coord)
    return View(name, tuple(extents), Window(source, tuple(coords)))


# --- values -------------------------------------------------------------------------------


def _target(access: Access, scope: Scope) -> Place:
    view = scope.data[access.name]
    assert isinstance(view, View)
    index = tuple(scope.form(c.at) for c in access.coords if isinstance(c, Point))
    return element(view, index, scope.ranges, _at(access.span, scope))


def _type_of(name: Sym, scope: Scope) -> DataType:
    meaning = scope.data[name]
    return meaning.dtype if isinstance(meaning, Constant) else meaning.buffer.dtype


def _value(scalar: Scalar, scope: Scope) -> Value:
    match scalar:
        case Constant():
            return Literal(scalar.value, NUMPY[scalar.dtype])
        case Element():
            return _load(scalar, NUMPY[scalar.dtype], scope)
        case Convert(term=Element() as element):
            return _load(element, NUMPY[scalar.dtype], scope)
        case Convert():
            return core.Convert(_value(scalar.term, scope), NUMPY[scalar.dtype])
        case Operation():
            terms = tuple(_value(a, scope) for a in scalar.arguments)
            dtype = NUMPY[scalar.dtype]
            return core.Operation(scalar.function, terms, dtype, _at(scalar.span, scope))
        case _:
            assert_never(scalar)


def _load(scalar: Element, dtype: np.dtype[np.generic], scope: Scope) -> Value:
    meaning = scope.data[scalar.access.name]
    if isinstance(meaning, Constant):
        return Literal(meaning.value, dtype)
    return Load(_target(scalar.access, scope), dtype)
