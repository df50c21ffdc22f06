"""Primitives of expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from exogpu.ir import nodes as ir
from exogpu.ir.render import control
from exogpu.ir.scalars import assigned_scalar
from exogpu.ir.types import DataMemory, DataType, Sym
from exogpu.ir.walk import map_reads, reads
from exogpu.schedule import expression_parts, rewrite
from exogpu.schedule.cursors import header
from exogpu.schedule.index_text import control_scope, read_control, read_data, tidy_access
from exogpu.schedule.primitive import Unfit, new_variable, path_of, primitive
from exogpu.schedule.primitives.storage import data_scope, default_memory
from exogpu.schedule.primitives.writes import write_at


def expression_at(
    stmt: ir.Assign | ir.Reduce, expression: object, fits: Callable[[ir.DExpr], bool], what: str
) -> expression_parts.Where:
    """The first part of a value that a text or cursor means and that fits.  Raises Unfit."""
    if isinstance(expression, expression_parts.Inside):
        wheres = [expression.where]
        shown = expression_parts.part_text(expression_parts.part_at(stmt.value, expression.where))
    elif isinstance(expression, str):
        wanted = expression_parts.pattern_of(expression)
        wheres = [where for where, part in expression_parts.parts(stmt.value) if wanted(part)]
        shown = expression
    else:
        raise Unfit("an expression is given as text or by a cursor", stmt)
    for where in wheres:
        if fits(expression_parts.part_at(stmt.value, where)):
            return where
    raise Unfit(f"the statement has no {what} {shown}", stmt)


def _commutes(expr: ir.DExpr) -> bool:
    return isinstance(expr, ir.BinOp) and expr.op in ("+", "*")


@primitive
def commute_expr(proc: ir.Proc, stmt: object, expression: object) -> Iterator[rewrite.Rewrite]:
    """Exchange the sides of a sum or product.

    y[i] += a[i] * b[i]    ->    y[i] += b[i] * a[i]

    `expression` is the sum or product as it is written, or a cursor; `_` is the first one of the
    statement.
    """
    path = path_of(proc, stmt)
    old = write_at(proc, path)
    where = expression_at(old, expression, _commutes, "sum or product")
    first, second = (list(expression_parts.reads_at(old.value, (*where, n))) for n in range(2))
    edit = rewrite.unchanged_rewrite(proc)
    value = expression_parts.changed_at(
        old.value,
        where,
        lambda e: replace(e, left=e.right, right=e.left) if isinstance(e, ir.BinOp) else e,
    )
    new = replace(old, value=value)
    order = list(range(len(list(reads(old.value)))))
    start = first[0] if first else second[0] if second else 0
    order[start : start + len(first) + len(second)] = [*second, *first]
    edit.followed[new] = old
    edit.origins[new] = (rewrite.Image(old, reads=tuple(order)),)
    rewrite.splice(edit, path, 1, (new,))
    yield edit


@primitive
def left_reassociate_expr(
    proc: ir.Proc, stmt: object, expression: object
) -> Iterator[rewrite.Rewrite]:
    """Move the parentheses of a sum or product of three to the left.

    y[i] = a[i] + (b[i] + c[i])    ->    y[i] = a[i] + b[i] + c[i]

    Exact for integers.  Floating point rounds otherwise then: the step notes that it takes it for
    real numbers.
    """
    path = path_of(proc, stmt)
    old = write_at(proc, path)

    def nested(e: ir.DExpr) -> bool:
        return _commutes(e) and isinstance(e.right, ir.BinOp) and e.op == e.right.op  # type: ignore[union-attr]

    where = expression_at(old, expression, nested, "sum or product of three")

    def reassociate(e: ir.DExpr) -> ir.DExpr:
        assert isinstance(e, ir.BinOp) and isinstance(e.right, ir.BinOp)
        return replace(e, left=replace(e, right=e.right.left), right=e.right.right)

    yield _rewritten(proc, path, old, expression_parts.changed_at(old.value, where, reassociate))


def _rewritten(
    proc: ir.Proc, path: rewrite.Path, old: ir.Assign | ir.Reduce, value: ir.DExpr
) -> rewrite.Rewrite:
    """The statement with another value, which the laws compare with the old one."""
    edit = rewrite.unchanged_rewrite(proc)
    new, part = replace(old, value=value), replace(old)
    edit.becomes(old, part)
    edit.followed[new] = old
    edit.readings[new] = rewrite.Reading((new,), (part,))
    rewrite.splice(edit, path, 1, (new,))
    return edit


@primitive
def rewrite_expr(
    proc: ir.Proc, stmt: object, expression: object, new: str | int
) -> Iterator[rewrite.Rewrite]:
    """Write an expression in the place of one that has the same value there.

    for i in seq(0, 8):               for i in seq(0, 8):
        y[i % 8] = 2 * x[i]    ->         y[i] = 2 * x[i]

    In bounds, guards and indices every place that is written like `expression`; else one part of
    the value of an assignment.  What is the same for real numbers alone is noted with the step.
    """
    path = path_of(proc, stmt)
    old = rewrite.stmt_at(proc, path)
    scope = control_scope(proc, path)
    edit = rewrite.unchanged_rewrite(proc)
    if (
        isinstance(expression, str)
        and (changed := _control(old, expression, new, scope)) is not None
    ):
        edit.becomes(old, changed)
        rewrite.splice(edit, path, 1, (changed,))
        yield edit
        return
    if not isinstance(old, ir.Assign | ir.Reduce):
        raise Unfit(f"`{header(old)}` has no {expression}", old)
    where = expression_at(old, expression, lambda e: True, "expression")
    text = str(new)
    declared = data_scope(proc, path)
    wanted = read_data(text, scope, {s.name: s for s in declared})
    for access in reads(wanted):
        rank = len(declared[access.name].shape)
        if len(access.coords) != rank:
            raise Unfit(f"{access.name.name} has {rank} dimensions in `{text}`", old)
    yield _rewritten(
        proc, path, old, expression_parts.changed_at(old.value, where, lambda e: wanted)
    )


def _control(
    stmt: ir.Stmt, expression: object, new: object, scope: dict[str, Sym]
) -> ir.Stmt | None:
    """The statement itself with a control expression changed; None where it has no such one."""
    if not isinstance(expression, str):
        return None
    wanted = "".join(expression.split())
    found: list[ir.CExpr] = []

    def change(expr: ir.CExpr) -> ir.CExpr | None:
        if "".join(control(expr, lambda name: name.name).split()) != wanted:
            return None
        found.append(expr)
        return read_control(str(new), scope)

    made = expression_parts.map_control(stmt, change)
    return made if found else None


@primitive
def bind_expr(
    proc: ir.Proc,
    stmt: object,
    expression: object,
    name: str,
    memory: DataMemory | None = None,
) -> Iterator[rewrite.Rewrite]:
    """Keep an expression of a statement in a scalar of its own.

        y[i] = x[i] * x[i]          t: f32 @ DRAM
                              ->    t = x[i]
                                    y[i] = t * t

    `expression` is as it is written, `x[i]` or `2 * x[i]`, or a cursor; every part that is written
    like it uses the scalar, whose type is that in which the expression is computed.
    """
    path = path_of(proc, stmt)
    old = write_at(proc, path)
    scalar = new_variable(name)
    edit = rewrite.unchanged_rewrite(proc)
    known = data_scope(proc, path)
    where = _part_to_keep(proc, path, old, expression, known)
    bound = expression_parts.part_at(old.value, where)
    chosen = default_memory(proc, path) if memory is None else memory
    value = _replace_expression(old.value, bound, ir.Read(ir.Access(scalar, ())))
    new = replace(old, value=value)
    if isinstance(bound, ir.Read):
        if bound.access.name not in known:
            raise Unfit(f"{bound.access.name.name} is a window: inline it first", old)
        edit.becomes(old, new)
        alloc = ir.Alloc(scalar, known[bound.access.name].dtype, (), chosen, span=old.span)
        first = ir.Assign(ir.Access(scalar, ()), bound, span=old.span)
        edit.origins[first] = rewrite.Copy(bound.access)
        rewrite.splice(edit, path, 1, (alloc, first, new))
        yield edit
        return
    alloc = ir.Alloc(scalar, _type(old, bound, known), (), chosen, span=old.span)
    first = ir.Assign(ir.Access(scalar, ()), bound, span=old.span)
    virtual = Sym(name)
    parts_ = (
        replace(first, target=ir.Access(virtual, ())),
        replace(old, value=_replace_expression(old.value, bound, ir.Read(ir.Access(virtual, ())))),
    )
    edit.readings[old] = rewrite.Reading((old,), parts_, (replace(alloc, name=virtual),))
    edit.becomes(parts_[0], first)
    edit.becomes(parts_[1], new)
    edit.followed[new] = old
    del edit.followed[first]
    rewrite.splice(edit, path, 1, (alloc, first, new))
    yield edit


def _part_to_keep(
    proc: ir.Proc,
    path: rewrite.Path,
    old: ir.Assign | ir.Reduce,
    expression: object,
    known: Mapping[Sym, ir.DataParam | ir.Alloc],
) -> expression_parts.Where:
    """The part to keep.  Raises Unfit."""
    if isinstance(expression, str):
        wanted = read_data(expression, control_scope(proc, path), {s.name: s for s in known})
        for where, part in expression_parts.parts(old.value):
            if _tidied(part) == _tidied(wanted):
                return where
        raise Unfit(f"the statement does not read {expression}", old)
    return expression_at(old, expression, lambda e: True, "expression")


def _tidied(expr: ir.DExpr) -> ir.DExpr:
    return map_reads(expr, lambda read: ir.Read(tidy_access(read.access)))


def _replace_expression(expr: ir.DExpr, bound: ir.DExpr, scalar: ir.Read) -> ir.DExpr:
    """The expression with a part replaced wherever it is written."""
    wanted = _tidied(bound)
    for where, part in expression_parts.parts(expr):
        if _tidied(part) == wanted:
            rest = expression_parts.changed_at(expr, where, lambda _: scalar)
            return _replace_expression(rest, bound, scalar)
    return expr


def _type(
    stmt: ir.Assign | ir.Reduce, bound: ir.DExpr, known: Mapping[Sym, ir.DataParam | ir.Alloc]
) -> DataType:
    """The type in which an expression is computed.  Raises Unfit for constants alone."""
    if not list(reads(bound)):
        raise Unfit("the expression reads nothing: its type is that of what it meets", stmt)

    def type_of(name: Sym) -> DataType:
        if name not in known:
            raise Unfit(f"{name.name} is a window: inline it first", stmt)
        return known[name].dtype

    return assigned_scalar(bound, DataType.F32, type_of).dtype
