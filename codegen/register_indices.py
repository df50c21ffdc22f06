"""Indices of registers without the thread, by the ranges of iterators and the conditions around.

Registers have no addresses, so a thread's indices must be constant once its loops are unrolled.
Most indices that name the thread do not depend on it: of `m = 16 * w + 8 * i + t` with t in 0 .. 7,
`(m / 8) % 2` is i.  Under `n % 2 == 0`, `n + 1` is in the register after that of n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from exogpu.codegen.control_text import Control, plus, times
from exogpu.diagnostics.errors import InternalError
from exogpu.ir import nodes as ir
from exogpu.ir.affine import Affine, Floor, Range, Ranges, Rest, from_cexpr, mentions, variables
from exogpu.ir.types import Sym
from exogpu.ir.walk import compare, control_variables

_MOST_VALUES: Final = 1024
"""Values of an iterator for which a condition is tried."""


def ranges_of(control: Control) -> dict[Sym, Range]:
    """The iterators that go from one constant to another, as the conditions around narrow them."""
    found = {name: Range(value, value, 0) for name, value in control.constants.items()}
    for name, (first, last) in control.bounds.items():
        if isinstance(first, ir.Int) and isinstance(last, ir.Int):
            found[name] = Range(first.value, last.value)
    return {**found, **control.narrowed}


def index_form(index: ir.CExpr, ranges: Ranges) -> Affine:
    """The form of an index, where variables that have one value are put in."""
    values = {name: Affine(r.lo) for name, r in ranges.items() if r.lo == r.hi}
    return from_cexpr(index, values, ranges)


def without_thread(index: ir.CExpr, control: Control) -> ir.CExpr | None:
    """An index without the iterators over threads; None where it depends on them."""
    if control_variables(index).isdisjoint(control.threads):
        return index
    form = index_form(index, ranges_of(control))
    return None if mentions(form, control.threads) else _expression(form)


def read_by(index: ir.CExpr, ranges: Ranges) -> Iterator[Sym]:
    """Yields the variables on which an index depends."""
    yield from variables(index_form(index, ranges))


def _expression(form: Affine) -> ir.CExpr:
    """A quasi-affine form as an expression."""
    total: ir.CExpr = ir.Int(0)
    for atom, coefficient in form.terms:
        if isinstance(atom, Sym):
            term: ir.CExpr = ir.CVar(atom)
        elif isinstance(atom, Floor):
            term = ir.FloorDiv(_expression(atom.form), atom.divisor)
        elif isinstance(atom, Rest):
            term = ir.Mod(_expression(atom.form), atom.divisor)
        else:
            raise InternalError("an index has a table")
        total = plus(total, times(coefficient, term))
    return plus(total, ir.Int(form.constant))


# What a condition says of iterators.


def narrowed(ranges: Ranges, condition: ir.BExpr, holds: bool = True) -> dict[Sym, Range]:
    """The ranges where a condition holds, or where it does not.

    A part counts that is about one variable, once divisions are resolved by the ranges.  Other
    parts say nothing.
    """
    found = dict(ranges)
    for part, true in _parts(condition, holds):
        if isinstance(part, ir.Compare):
            form = index_form(ir.Sub(part.left, part.right), found)
            _narrow(found, form, partial(_is_admitted, part.op, true))
    return found


def _parts(condition: ir.BExpr, holds: bool) -> Iterator[tuple[ir.BExpr, bool]]:
    """Yields parts of a condition, and whether each is true or false where it holds, or not."""
    match condition:
        case ir.Not():
            yield from _parts(condition.term, not holds)
        case ir.And() if holds:
            yield from _parts(condition.left, True)
            yield from _parts(condition.right, True)
        case ir.Or() if not holds:
            yield from _parts(condition.left, False)
            yield from _parts(condition.right, False)
        case _:
            yield condition, holds


def _is_admitted(op: str, holds: bool, value: int) -> bool:
    return compare(op, value, 0) is holds


def _narrow(ranges: dict[Sym, Range], form: Affine, admits: Callable[[int], bool]) -> None:
    """Keeps, of the one variable of a form, the values at which the form's value is admitted."""
    if len(form.terms) != 1:
        return
    ((name, factor),) = form.terms
    if not isinstance(name, Sym) or name not in ranges:
        return
    lo, hi, _ = ranges[name]
    if hi - lo > _MOST_VALUES:
        return
    values = [v for v in range(lo, hi + 1) if admits(factor * v + form.constant)]
    if values:
        ranges[name] = Range(values[0], values[-1])
