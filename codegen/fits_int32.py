"""Finds the sizes for which control arithmetic fits the C++ type in which it is emitted.

Kernels compute indices in `int`, as the hardware does best; the CPU part computes in `long long`.
Every expression that is emitted is noted with its parts.  Iterators are replaced by the ends of
their ranges, so that each part lies between two expressions of sizes.  Those that fit for all
sizes of 32 bits are dropped, those that fit for none are refused, and the launch evaluates the
rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Final, TypeAlias, assert_never

from exogpu.codegen.control_text import Control, plus, times
from exogpu.codegen.names import InternalError, unsupported
from exogpu.diagnostics.errors import Span
from exogpu.ir import nodes as ir
from exogpu.ir.affine import difference
from exogpu.ir.types import Sym

Range: TypeAlias = tuple[int, int]
"""Least and greatest value."""

INT: Final[Range] = (-(1 << 31), (1 << 31) - 1)
LONG_LONG: Final[Range] = (-(1 << 63), (1 << 63) - 1)
EVALUATED: Final[Range] = (-(1 << 126), (1 << 126) - 1)
"""The range that the launch can evaluate: its arithmetic has 128 bits."""


def size_ranges(proc: ir.Proc) -> dict[Sym, Range]:
    """The values of control parameters that a launch accepts."""
    return {
        p.name: (0 if p.kind == "size" else INT[0], INT[1])
        for p in proc.params
        if isinstance(p, ir.ControlParam)
    }


def limits(control: Control, free: Mapping[Sym, Range], where: Span) -> tuple[ir.CExpr, ...]:
    """Returns the expressions of `free` that must fit `int` for the noted arithmetic to be exact.

    Raises ExoGpuError (G811) for what fits for no values.
    """
    found: dict[ir.CExpr, None] = {}
    for expr, span in control.noted.items():
        place = span if span.line else where
        for part in _parts(expr):
            _check_constant(part, INT, place)
            for end in expression_range(part, control):
                least, greatest = number(end, free)
                if (
                    greatest < INT[0]
                    or least > INT[1]
                    or not _is_subrange((least, greatest), EVALUATED)
                ):
                    raise _refuse(end if isinstance(end, ir.Int) else part, place)
                if not _is_subrange((least, greatest), INT):
                    found[end] = None
    return tuple(end for end in found if not any(_implied(end, by, free) for by in found))


def distances(
    control: Control, free: Mapping[Sym, Range], where: Span
) -> tuple[tuple[ir.CExpr, ...], ...]:
    """Products of extents that must fit `int`, of those that a helper function is told.

    Raises ExoGpuError (G811) for one that fits for no values.
    """
    found: dict[tuple[ir.CExpr, ...], None] = {}
    for extents, span in control.distances.items():
        most = tuple(expression_range(n, control)[1] for n in extents)
        if prod(max(0, number(n, free)[1]) for n in most) <= INT[1]:
            continue
        if all(isinstance(n, ir.Int) for n in most):
            raise _refuse(
                ir.Int(prod(number(n, free)[1] for n in most)), span if span.line else where
            )
        found[most] = None
    return tuple(found)


def check_host(control: Control, free: Mapping[Sym, Range], where: Span) -> None:
    """Raises ExoGpuError (G811) where the noted arithmetic may leave `long long`."""
    for expr, span in control.noted.items():
        for part in _parts(expr):
            _check_constant(part, LONG_LONG, span if span.line else where)
            for end in expression_range(part, control):
                if not _is_subrange(number(end, free), LONG_LONG):
                    raise _refuse(part, span if span.line else where)


def _check_constant(part: ir.CExpr, fits: Range, place: Span) -> None:
    match part:
        case ir.Int(value) | ir.Mul(value) | ir.FloorDiv(divisor=value) | ir.Mod(divisor=value):
            if not fits[0] <= value <= fits[1]:
                raise _refuse(ir.Int(value), place)
        case _:
            pass


def _refuse(part: ir.CExpr, place: Span) -> Exception:
    what = f"the constant {part.value}" if isinstance(part, ir.Int) else "this index arithmetic"
    return unsupported(
        f"{what} does not fit the 32 bits in which kernels compute indices, nor the 64 bits of the "
        "CPU part"
        if isinstance(part, ir.Int) and not _is_subrange((part.value, part.value), LONG_LONG)
        else f"{what} does not fit the type in which indices are computed: 32 bits in kernels, 64 "
        "bits in the CPU part",
        place,
        "divide the work into several launches, or the index into dimensions of the array",
        "G811",
    )


def _is_subrange(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _implied(end: ir.CExpr, by: ir.CExpr, free: Mapping[Sym, Range]) -> bool:
    """Tests whether `end` fits wherever `by` does: it is nearer to 0 by a constant."""
    if end == by:
        return False
    apart = difference(by, end)
    if apart is None:
        return False
    if number(end, free)[0] >= INT[0]:  # only its upper end matters
        return apart > 0 and number(by, free)[0] >= INT[0]
    return apart < 0 and number(end, free)[1] <= INT[1] and number(by, free)[1] <= INT[1]


def _parts(expr: ir.CExpr) -> Iterator[ir.CExpr]:
    yield expr
    match expr:
        case ir.Int() | ir.CVar():
            pass
        case ir.Add() | ir.Sub():
            yield from _parts(expr.left)
            yield from _parts(expr.right)
        case ir.Mul() | ir.FloorDiv() | ir.Mod():
            yield from _parts(expr.term)
        case _:
            assert_never(expr)


def expression_range(expr: ir.CExpr, control: Control) -> tuple[ir.CExpr, ir.CExpr]:
    """Expressions between which the value lies, without the iterators whose bounds are known."""
    match expr:
        case ir.Int():
            return expr, expr
        case ir.CVar():
            if expr.name not in control.bounds:
                return expr, expr
            first, last = control.bounds[expr.name]
            return expression_range(first, control)[0], expression_range(last, control)[1]
        case ir.Add():
            (a, b), (c, d) = (
                expression_range(expr.left, control),
                expression_range(expr.right, control),
            )
            return plus(a, c), plus(b, d)
        case ir.Sub():
            (a, b), (c, d) = (
                expression_range(expr.left, control),
                expression_range(expr.right, control),
            )
            return _minus(a, d), _minus(b, c)
        case ir.Mul():
            a, b = (times(expr.factor, end) for end in expression_range(expr.term, control))
            return (a, b) if expr.factor >= 0 else (b, a)
        case ir.FloorDiv():
            a, b = (_quotient(end, expr.divisor) for end in expression_range(expr.term, control))
            return a, b
        case ir.Mod():
            return ir.Int(0), ir.Int(expr.divisor - 1)
        case _:
            assert_never(expr)


def _minus(left: ir.CExpr, right: ir.CExpr) -> ir.CExpr:
    return plus(left, ir.Int(-right.value)) if isinstance(right, ir.Int) else ir.Sub(left, right)


def _quotient(term: ir.CExpr, divisor: int) -> ir.CExpr:
    return ir.Int(term.value // divisor) if isinstance(term, ir.Int) else ir.FloorDiv(term, divisor)


def number(expr: ir.CExpr, free: Mapping[Sym, Range]) -> Range:
    """Between which numbers the value lies for all values of the free variables."""
    (a, b), (c, d) = _by_parts(expr, free), _by_variables(expr, free)
    return max(a, c), min(b, d)


def _by_variables(expr: ir.CExpr, free: Mapping[Sym, Range]) -> Range:
    """The same with like variables added up: M - 64 * ((M + 63) / 64) is between -63 and 0."""
    factors: dict[Sym, int] = {}
    least = greatest = 0
    waiting = [(expr, 1)]
    while waiting:
        term, factor = waiting.pop()
        match term:
            case ir.CVar():
                factors[term.name] = factors.get(term.name, 0) + factor
                continue
            case ir.Add():
                waiting += [(term.left, factor), (term.right, factor)]
                continue
            case ir.Sub():
                waiting += [(term.left, factor), (term.right, -factor)]
                continue
            case ir.Mul():
                waiting.append((term.term, factor * term.factor))
                continue
            case ir.FloorDiv() if factor % term.divisor == 0:
                # d * (x / d) is x less a remainder
                waiting.append((term.term, factor // term.divisor))
                rest = -(factor // term.divisor) * (term.divisor - 1)
                low, high = min(0, rest), max(0, rest)
            case ir.Int() | ir.FloorDiv() | ir.Mod():
                ends = [factor * end for end in _by_parts(term, free)]
                low, high = min(ends), max(ends)
            case _:
                assert_never(term)
        least, greatest = least + low, greatest + high
    for name, factor in factors.items():
        ends = [factor * end for end in _by_parts(ir.CVar(name), free)]
        least, greatest = least + min(ends), greatest + max(ends)
    return least, greatest


def _by_parts(expr: ir.CExpr, free: Mapping[Sym, Range]) -> Range:
    match expr:
        case ir.Int():
            return expr.value, expr.value
        case ir.CVar():
            if expr.name not in free:
                raise InternalError(f"nothing is known of the range of {expr.name}")
            return free[expr.name]
        case ir.Add():
            (a, b), (c, d) = number(expr.left, free), number(expr.right, free)
            return a + c, b + d
        case ir.Sub():
            (a, b), (c, d) = number(expr.left, free), number(expr.right, free)
            return a - d, b - c
        case ir.Mul():
            a, b = (expr.factor * end for end in number(expr.term, free))
            return min(a, b), max(a, b)
        case ir.FloorDiv():
            a, b = number(expr.term, free)
            return a // expr.divisor, b // expr.divisor
        case ir.Mod():
            return 0, expr.divisor - 1
        case _:
            assert_never(expr)
