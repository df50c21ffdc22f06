"""Primitives that move, simplify or remove statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from exogpu.analysis.domain import Domain, entry, never, restrict_domain, within_loop
from exogpu.ir import nodes as ir
from exogpu.ir.render import isl_cond
from exogpu.ir.walk import blocks, control_variables, map_blocks
from exogpu.schedule import index_text, rewrite
from exogpu.schedule.primitive import Unfit, first_of, gap_of, new_variable, path_of, primitive


@primitive
def reorder_stmts(proc: ir.Proc, first: object) -> Iterator[rewrite.Rewrite]:
    """Exchange a statement with the next one.

    x[0] = 0          y[0] = 1
    y[0] = 1    ->    x[0] = 0
    """
    path = first_of(proc, first)
    block, at = rewrite.block_at(proc, path), path[-1][1]
    if at + 1 >= len(block):
        raise Unfit("no statement follows", block[at])
    edit = rewrite.unchanged_rewrite(proc)
    rewrite.splice(edit, path, 2, (block[at + 1], block[at]))
    yield edit


def _if_at(proc: ir.Proc, path: rewrite.Path) -> ir.If:
    stmt = rewrite.stmt_at(proc, path)
    if not isinstance(stmt, ir.If):
        raise Unfit("the cursor is at no `if`", stmt)
    return stmt


@primitive
def lift_scope(proc: ir.Proc, scope: object) -> Iterator[rewrite.Rewrite]:
    """Exchange an `if` or loop with the loop or `if` around it, in which nothing else stands.

    for i in seq(0, n):          if m > 3:
        if m > 3:          ->        for i in seq(0, n):
            x[i] = 0                     x[i] = 0
    """
    path = path_of(proc, scope)
    inner = rewrite.stmt_at(proc, path)
    if not isinstance(inner, ir.If | ir.For):
        raise Unfit("the cursor is at no `if` and no loop", inner)
    if len(path) < 2:
        raise Unfit("nothing is around it", inner)
    outer = rewrite.stmt_at(proc, path[:-1])
    if len(rewrite.block_at(proc, path)) != 1:
        raise Unfit("it is not alone in its block", inner)
    edit = rewrite.unchanged_rewrite(proc)
    if isinstance(inner, ir.For):
        if not isinstance(outer, ir.If) or outer.orelse:
            raise Unfit("around the loop is no `if` without `else`", inner)
        guarded = replace(outer, body=inner.body)
        loop = replace(inner, body=(guarded,))
        edit.followed |= {guarded: outer, loop: inner}
        rewrite.splice(edit, path[:-1], 1, (loop,))
        yield edit
        return
    match outer:
        case ir.For():
            if outer.iterator in control_variables(inner.condition):
                raise Unfit(f"the condition depends on {outer.iterator.name}", inner)
            body = replace(outer, body=inner.body)
            orelse: ir.Block = ()
            if inner.orelse:
                orelse = rewrite.copied(
                    edit, (replace(outer, body=inner.orelse),), {}, access=index_text.tidy_access
                )
            over: ir.Stmt = replace(inner, body=(body,), orelse=orelse)
            edit.followed |= {body: outer, over: inner}
        case ir.If() if path[-1][0] == "body" and not inner.orelse and not outer.orelse:
            within = replace(outer, body=inner.body)
            over = replace(inner, body=(within,))
            edit.followed |= {within: outer, over: inner}
        case _:
            raise Unfit("around the `if` is no loop and no `if` without `else`", inner)
    rewrite.splice(edit, path[:-1], 1, (over,))
    yield edit


@primitive
def specialize(
    proc: ir.Proc, stmt: object, left: str, op: str, right: str
) -> Iterator[rewrite.Rewrite]:
    """Write a statement twice, for where a condition on control variables holds and where not.

    x[i] = 0          if i < 4:
                ->        x[i] = 0
                      else:
                          x[i] = 0
    """
    path = path_of(proc, stmt)
    old = rewrite.stmt_at(proc, path)
    known = index_text.control_scope(proc, path)
    condition = index_text.read_condition(left, op, right, known)
    edit = rewrite.unchanged_rewrite(proc)
    again = rewrite.copied(edit, (old,), {}, access=index_text.tidy_access)
    new = ir.If(condition, (old,), again, span=old.span)
    rewrite.splice(edit, path, 1, (new,))
    yield edit


@primitive
def remove_if(proc: ir.Proc, scope: object) -> Iterator[rewrite.Rewrite]:
    """Take the body out of an `if` without `else`: what it kept from running must not matter.

    if i < 6:             tmp[i] = 0
        tmp[i] = 0  ->
    """
    path = path_of(proc, scope)
    old = _if_at(proc, path)
    if old.orelse:
        raise Unfit("the `if` has an `else`", old)
    edit = rewrite.unchanged_rewrite(proc)
    rewrite.splice(edit, path, 1, old.body)
    yield edit


@primitive
def merge_ifs(proc: ir.Proc, scope: object) -> Iterator[rewrite.Rewrite]:
    """Make one `if` of one and the only `if` in it, both without `else`.

    if i < n:               if i < n and i < m:
        if i < m:     ->        x[i] = 0
            x[i] = 0
    """
    path = path_of(proc, scope)
    outer = _if_at(proc, path)
    match outer.body:
        case (ir.If() as inner,) if not outer.orelse and not inner.orelse:
            pass
        case _:
            raise Unfit("the `if` holds more than an `if`, or one of them has an `else`", outer)
    edit = rewrite.unchanged_rewrite(proc)
    new = replace(inner, condition=ir.And(outer.condition, inner.condition), span=outer.span)
    edit.followed[new] = outer
    rewrite.splice(edit, path, 1, (new,))
    yield edit


@primitive
def add_if(
    proc: ir.Proc, stmt: object, left: str, op: str, right: str
) -> Iterator[rewrite.Rewrite]:
    """Put a guard around a statement: what it keeps from running must not matter.

    tmp[i] = 0          if i < 6:
                  ->        tmp[i] = 0
    """
    path = path_of(proc, stmt)
    old = rewrite.stmt_at(proc, path)
    known = index_text.control_scope(proc, path)
    condition = index_text.read_condition(left, op, right, known)
    edit = rewrite.unchanged_rewrite(proc)
    rewrite.splice(edit, path, 1, (ir.If(condition, (old,), span=old.span),))
    yield edit


@primitive
def fill_zero(proc: ir.Proc, scope: object) -> Iterator[rewrite.Rewrite]:
    """Let a guarded assignment write zero where its guard does not hold.

    if i < n:                if i < n:
        t[i] = x[i]    ->        t[i] = x[i]
                             else:
                                 t[i] = 0
    """
    path = path_of(proc, scope)
    old = _if_at(proc, path)
    match old.body:
        case (ir.Assign() as stmt,) if not old.orelse:
            pass
        case _:
            raise Unfit("the `if` holds more than one assignment, or has an `else`", old)
    edit = rewrite.unchanged_rewrite(proc)
    zero = ir.Assign(stmt.target, ir.Const(0), span=stmt.span)
    new = replace(old, orelse=(zero,))
    edit.followed[new] = old
    rewrite.splice(edit, path, 1, (new,))
    yield edit


@primitive
def eliminate_dead_code(proc: ir.Proc, stmt: object) -> Iterator[rewrite.Rewrite]:
    """Remove a statement that never runs, or whose results nobody reads.

    x[0] = 1          x[0] = 2
    x[0] = 2    ->
    """
    path = path_of(proc, stmt)
    edit = rewrite.unchanged_rewrite(proc)
    rewrite.splice(edit, path, 1, ())
    yield edit


@primitive
def insert_pass(proc: ir.Proc, gap: object) -> Iterator[rewrite.Rewrite]:
    """Put a `pass` at a place.

    x[0] = 0    ->    x[0] = 0
                      pass
    """
    inside, offset = gap_of(gap)
    path = (*inside[:-1], (inside[-1][0], inside[-1][1] + offset))
    edit = rewrite.unchanged_rewrite(proc)
    rewrite.splice(edit, path, 0, (ir.Pass(span=rewrite.stmt_at(proc, inside).span),))
    yield edit


@primitive
def delete_pass(proc: ir.Proc) -> Iterator[rewrite.Rewrite]:
    """Remove every `pass`, and the blocks that then hold nothing.

    x[0] = 0
    pass        ->    x[0] = 0
    """
    edit = rewrite.unchanged_rewrite(proc)

    def cleared(block: ir.Block) -> ir.Block:
        kept: list[ir.Stmt] = []
        for stmt in block:
            if isinstance(stmt, ir.Pass):
                continue
            new = map_blocks(stmt, cleared)
            if blocks(new) and not any(blocks(new)):
                continue
            if isinstance(new, ir.If) and not new.body:
                new = replace(new, condition=ir.Not(new.condition), body=new.orelse, orelse=())
            if new is not stmt:
                edit.followed[new] = stmt
            kept.append(new)
        same = len(kept) == len(block) and all(a is b for a, b in zip(kept, block, strict=True))
        return block if same else tuple(kept)

    edit.new = replace(proc, body=cleared(proc.body))
    yield edit


@primitive
def rename(proc: ir.Proc, name: str) -> Iterator[rewrite.Rewrite]:
    """Give the procedure another name.

    def gemm(...):    ->    def gemm_tiled(...):
    """
    edit = rewrite.unchanged_rewrite(proc)
    edit.new = replace(proc, name=new_variable(name).name)
    yield edit


@primitive
def simplify(proc: ir.Proc) -> Iterator[rewrite.Rewrite]:
    """Shorten expressions; resolve guards that always or never hold, and `seq` loops that run once.

    for i in seq(0, 1):              x[k] = 0
        if k < n:  # it is     ->
            x[(4 * k + i) / 4] = 0
    """
    edit = rewrite.unchanged_rewrite(proc)
    simple = _Simple(edit, index_text.ranges_of(proc))
    body = rewrite.copied(edit, proc.body, {}, fresh=False, access=simple.access)
    edit.new = replace(proc, body=simple.block(body, entry(proc)))
    yield edit


@dataclass(frozen=True, slots=True)
class _Simple:
    edit: rewrite.Rewrite
    ranges: index_text.Ranges

    def access(self, access: ir.Access) -> ir.Access:
        return index_text.tidy_access(access, self.ranges)

    def block(self, block: ir.Block, domain: Domain) -> ir.Block:
        return tuple(new for stmt in block for new in self.stmt(stmt, domain))

    def stmt(self, stmt: ir.Stmt, domain: Domain) -> ir.Block:
        edit = self.edit
        match stmt:
            case ir.If():
                holds, fails = isl_cond(stmt.condition), isl_cond(ir.Not(stmt.condition))
                if never(domain, [fails]):
                    return self.block(stmt.body, domain)
                if never(domain, [holds]):
                    return self.block(stmt.orelse, domain)
                body = self.block(stmt.body, restrict_domain(domain, holds))
                orelse = self.block(stmt.orelse, restrict_domain(domain, fails))
                condition = index_text.tidy_condition(stmt.condition, self.ranges)
                new: ir.Stmt = replace(stmt, condition=condition, body=body, orelse=orelse)
            case ir.For():
                if isinstance(stmt.mode, ir.Seq) and index_text.minus(stmt.hi, stmt.lo) == ir.Int(
                    1
                ):
                    values = {stmt.iterator: index_text.tidy(stmt.lo)}
                    once = rewrite.copied(edit, stmt.body, values, fresh=False, access=self.access)
                    return self.block(once, domain)
                inner = within_loop(domain, stmt.iterator, stmt.lo, stmt.hi)
                body = self.block(stmt.body, inner)
                lo, hi = (
                    index_text.tidy(stmt.lo, self.ranges),
                    index_text.tidy(stmt.hi, self.ranges),
                )
                new = replace(stmt, lo=lo, hi=hi, body=body)
            case ir.CallInstr() | ir.CallProc():
                given = tuple(
                    a if isinstance(a, ir.Access | ir.Const) else index_text.tidy(a, self.ranges)
                    for a in stmt.arguments
                )
                new = replace(stmt, arguments=given)
                edit.origins[new] = edit.origins[stmt]
            case _ if blocks(stmt):
                new = map_blocks(stmt, lambda block: self.block(block, domain))
            case _:
                return (stmt,)
        edit.followed[new] = edit.followed.get(stmt, stmt)
        return (new,)
