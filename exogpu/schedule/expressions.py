"""Primitives of data expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.ir.nodes import Apply, Assign, BinOp, DExpr, Negate, Proc, Reduce
from exogpu.ir.print_expressions import data
from exogpu.ir.walk import reads
from exogpu.schedule.primitive import Unfit, path_of, primitive
from exogpu.schedule.rewrite import Image, Rewrite, begun, splice, stmt_at


@primitive
def commute_expr(proc: Proc, stmt: object, expression: str) -> Iterator[Rewrite]:
    """Exchange the sides of a sum or product.

    y[i] += a[i] * b[i]    ->    y[i] += b[i] * a[i]

    `expression` is the sum or product as it is written; `_` is the first one of the statement.
    There is no step that moves parentheses: sums of three round otherwise then.
    """
    path = path_of(proc, stmt)
    old = stmt_at(proc, path)
    if not isinstance(old, Assign | Reduce):
        raise Unfit("the statement is no assignment", old)
    found = list(_exchanged(old.value, "".join(expression.split()), 0))
    if not found:
        raise Unfit(f"the statement has no sum or product {expression}", old)
    value, order = found[0]
    edit = begun(proc)
    new = replace(old, value=value)
    edit.followed[new] = old
    edit.origins[new] = (Image(old, reads=tuple(order)),)
    splice(edit, path, 1, (new,))
    yield edit


def _exchanged(expr: DExpr, wanted: str, before: int) -> Iterator[tuple[DExpr, list[int]]]:
    """The expression with one sum or product exchanged, and which read each of its reads was."""
    match expr:
        case BinOp():
            left, right = len(list(reads(expr.left))), len(list(reads(expr.right)))
            first = list(range(before, before + left))
            second = list(range(before + left, before + left + right))
            written = "".join(data(expr, lambda name: name.name).split())
            if expr.op in ("+", "*") and wanted in ("_", written):
                yield replace(expr, left=expr.right, right=expr.left), [*second, *first]
            for side, order in _exchanged(expr.left, wanted, before):
                yield replace(expr, left=side), [*order, *second]
            for side, order in _exchanged(expr.right, wanted, before + left):
                yield replace(expr, right=side), [*first, *order]
        case Negate():
            for term, order in _exchanged(expr.term, wanted, before):
                yield replace(expr, term=term), order
        case Apply():
            counts = [len(list(reads(a))) for a in expr.arguments]
            for at, argument in enumerate(expr.arguments):
                start = before + sum(counts[:at])
                end = start + counts[at]
                rest = list(range(end, before + sum(counts)))
                for side, order in _exchanged(argument, wanted, start):
                    given = (*expr.arguments[:at], side, *expr.arguments[at + 1 :])
                    head = list(range(before, start))
                    yield replace(expr, arguments=given), [*head, *order, *rest]
        case _:
            return
