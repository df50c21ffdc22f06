"""Primitives that move, simplify or remove statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from exogpu.analysis.instances import Domain, entry, never, where, within_loop
from exogpu.ir.isltext import bexpr
from exogpu.ir.nodes import (
    Access,
    And,
    Assign,
    Block,
    CallInstr,
    CallProc,
    Const,
    For,
    If,
    Int,
    Not,
    Pass,
    Proc,
    Seq,
    Stmt,
)
from exogpu.ir.walk import blocks, control_variables, map_blocks
from exogpu.schedule.control import (
    Ranges,
    control_scope,
    minus,
    ranges_of,
    read_condition,
    tidy,
    tidy_access,
    tidy_condition,
)
from exogpu.schedule.primitive import Unfit, first_of, gap_of, named, path_of, primitive
from exogpu.schedule.rewrite import (
    Path,
    Rewrite,
    begun,
    block_at,
    copied,
    splice,
    stmt_at,
)


@primitive
def reorder_stmts(proc: Proc, first: object) -> Iterator[Rewrite]:
    """Exchange a statement with the next one.

    x[0] = 0          y[0] = 1
    y[0] = 1    ->    x[0] = 0
    """
    path = first_of(proc, first)
    block, at = block_at(proc, path), path[-1][1]
    if at + 1 >= len(block):
        raise Unfit("no statement follows", block[at])
    edit = begun(proc)
    splice(edit, path, 2, (block[at + 1], block[at]))
    yield edit


def _if_at(proc: Proc, path: Path) -> If:
    stmt = stmt_at(proc, path)
    if not isinstance(stmt, If):
        raise Unfit("the cursor is at no `if`", stmt)
    return stmt


@primitive
def lift_scope(proc: Proc, scope: object) -> Iterator[Rewrite]:
    """Exchange an `if` or loop with the loop or `if` around it, in which nothing else stands.

    for i in seq(0, n):          if m > 3:
        if m > 3:          ->        for i in seq(0, n):
            x[i] = 0                     x[i] = 0
    """
    path = path_of(proc, scope)
    inner = stmt_at(proc, path)
    if not isinstance(inner, If | For):
        raise Unfit("the cursor is at no `if` and no loop", inner)
    if len(path) < 2:
        raise Unfit("nothing is around it", inner)
    outer = stmt_at(proc, path[:-1])
    if len(block_at(proc, path)) != 1:
        raise Unfit("it is not alone in its block", inner)
    edit = begun(proc)
    if isinstance(inner, For):
        if not isinstance(outer, If) or outer.orelse:
            raise Unfit("around the loop is no `if` without `else`", inner)
        guarded = replace(outer, body=inner.body)
        loop = replace(inner, body=(guarded,))
        edit.followed |= {guarded: outer, loop: inner}
        splice(edit, path[:-1], 1, (loop,))
        yield edit
        return
    match outer:
        case For():
            if outer.iterator in control_variables(inner.condition):
                raise Unfit(f"the condition depends on {outer.iterator.name}", inner)
            body = replace(outer, body=inner.body)
            orelse: Block = ()
            if inner.orelse:
                orelse = copied(edit, (replace(outer, body=inner.orelse),), {}, access=tidy_access)
            over: Stmt = replace(inner, body=(body,), orelse=orelse)
            edit.followed |= {body: outer, over: inner}
        case If() if path[-1][0] == "body" and not inner.orelse and not outer.orelse:
            within = replace(outer, body=inner.body)
            over = replace(inner, body=(within,))
            edit.followed |= {within: outer, over: inner}
        case _:
            raise Unfit("around the `if` is no loop and no `if` without `else`", inner)
    splice(edit, path[:-1], 1, (over,))
    yield edit


@primitive
def specialize(proc: Proc, stmt: object, left: str, op: str, right: str) -> Iterator[Rewrite]:
    """Write a statement twice, for where a condition on control variables holds and where not.

    x[i] = 0          if i < 4:
                ->        x[i] = 0
                      else:
                          x[i] = 0
    """
    path = path_of(proc, stmt)
    old = stmt_at(proc, path)
    known = control_scope(proc, path)
    condition = read_condition(left, op, right, known)
    edit = begun(proc)
    again = copied(edit, (old,), {}, access=tidy_access)
    new = If(condition, (old,), again, span=old.span)
    splice(edit, path, 1, (new,))
    yield edit


@primitive
def remove_if(proc: Proc, scope: object) -> Iterator[Rewrite]:
    """Take the body out of an `if` without `else`: what it kept from running must not matter.

    if i < 6:             tmp[i] = 0
        tmp[i] = 0  ->
    """
    path = path_of(proc, scope)
    old = _if_at(proc, path)
    if old.orelse:
        raise Unfit("the `if` has an `else`", old)
    edit = begun(proc)
    splice(edit, path, 1, old.body)
    yield edit


@primitive
def merge_ifs(proc: Proc, scope: object) -> Iterator[Rewrite]:
    """Make one `if` of one and the only `if` in it, both without `else`.

    if i < n:               if i < n and i < m:
        if i < m:     ->        x[i] = 0
            x[i] = 0
    """
    path = path_of(proc, scope)
    outer = _if_at(proc, path)
    match outer.body:
        case (If() as inner,) if not outer.orelse and not inner.orelse:
            pass
        case _:
            raise Unfit("the `if` holds more than an `if`, or one of them has an `else`", outer)
    edit = begun(proc)
    new = replace(inner, condition=And(outer.condition, inner.condition), span=outer.span)
    edit.followed[new] = outer
    splice(edit, path, 1, (new,))
    yield edit


@primitive
def add_if(proc: Proc, stmt: object, left: str, op: str, right: str) -> Iterator[Rewrite]:
    """Put a guard around a statement: what it keeps from running must not matter.

    tmp[i] = 0          if i < 6:
                  ->        tmp[i] = 0
    """
    path = path_of(proc, stmt)
    old = stmt_at(proc, path)
    known = control_scope(proc, path)
    condition = read_condition(left, op, right, known)
    edit = begun(proc)
    splice(edit, path, 1, (If(condition, (old,), span=old.span),))
    yield edit


@primitive
def fill_zero(proc: Proc, scope: object) -> Iterator[Rewrite]:
    """Let a guarded assignment write zero where its guard does not hold.

    if i < n:                if i < n:
        t[i] = x[i]    ->        t[i] = x[i]
                             else:
                                 t[i] = 0
    """
    path = path_of(proc, scope)
    old = _if_at(proc, path)
    match old.body:
        case (Assign() as stmt,) if not old.orelse:
            pass
        case _:
            raise Unfit("the `if` holds more than one assignment, or has an `else`", old)
    edit = begun(proc)
    zero = Assign(stmt.target, Const(0), span=stmt.span)
    new = replace(old, orelse=(zero,))
    edit.followed[new] = old
    splice(edit, path, 1, (new,))
    yield edit


@primitive
def eliminate_dead_code(proc: Proc, stmt: object) -> Iterator[Rewrite]:
    """Remove a statement that never runs, or whose results nobody reads.

    x[0] = 1          x[0] = 2
    x[0] = 2    ->
    """
    path = path_of(proc, stmt)
    edit = begun(proc)
    splice(edit, path, 1, ())
    yield edit


@primitive
def insert_pass(proc: Proc, gap: object) -> Iterator[Rewrite]:
    """Put a `pass` at a place.

    x[0] = 0    ->    x[0] = 0
                      pass
    """
    inside, offset = gap_of(gap)
    path = (*inside[:-1], (inside[-1][0], inside[-1][1] + offset))
    edit = begun(proc)
    splice(edit, path, 0, (Pass(span=stmt_at(proc, inside).span),))
    yield edit


@primitive
def delete_pass(proc: Proc) -> Iterator[Rewrite]:
    """Remove every `pass`, and the blocks that then hold nothing.

    x[0] = 0
    pass        ->    x[0] = 0
    """
    edit = begun(proc)

    def cleared(block: Block) -> Block:
        kept: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, Pass):
                continue
            new = map_blocks(stmt, cleared)
            if blocks(new) and not any(blocks(new)):
                continue
            if isinstance(new, If) and not new.body:
                new = replace(new, condition=Not(new.condition), body=new.orelse, orelse=())
            if new is not stmt:
                edit.followed[new] = stmt
            kept.append(new)
        same = len(kept) == len(block) and all(a is b for a, b in zip(kept, block, strict=True))
        return block if same else tuple(kept)

    edit.new = replace(proc, body=cleared(proc.body))
    yield edit


@primitive
def rename(proc: Proc, name: str) -> Iterator[Rewrite]:
    """Give the procedure another name.

    def gemm(...):    ->    def gemm_tiled(...):
    """
    edit = begun(proc)
    edit.new = replace(proc, name=named(name).name)
    yield edit


@primitive
def simplify(proc: Proc) -> Iterator[Rewrite]:
    """Shorten expressions; resolve guards that always or never hold, and `seq` loops that run once.

    for i in seq(0, 1):              x[k] = 0
        if k < n:  # it is     ->
            x[(4 * k + i) / 4] = 0
    """
    edit = begun(proc)
    simple = _Simple(edit, ranges_of(proc))
    body = copied(edit, proc.body, {}, fresh=False, access=simple.access)
    edit.new = replace(proc, body=simple.block(body, entry(proc)))
    yield edit


@dataclass(frozen=True, slots=True)
class _Simple:
    edit: Rewrite
    ranges: Ranges

    def access(self, access: Access) -> Access:
        return tidy_access(access, self.ranges)

    def block(self, block: Block, domain: Domain) -> Block:
        return tuple(new for stmt in block for new in self.stmt(stmt, domain))

    def stmt(self, stmt: Stmt, domain: Domain) -> Block:
        edit = self.edit
        match stmt:
            case If():
                holds, fails = bexpr(stmt.condition), bexpr(Not(stmt.condition))
                if never(domain, [fails]):
                    return self.block(stmt.body, domain)
                if never(domain, [holds]):
                    return self.block(stmt.orelse, domain)
                body = self.block(stmt.body, where(domain, holds))
                orelse = self.block(stmt.orelse, where(domain, fails))
                condition = tidy_condition(stmt.condition, self.ranges)
                new: Stmt = replace(stmt, condition=condition, body=body, orelse=orelse)
            case For():
                if isinstance(stmt.mode, Seq) and minus(stmt.hi, stmt.lo) == Int(1):
                    values = {stmt.iterator: tidy(stmt.lo)}
                    once = copied(edit, stmt.body, values, fresh=False, access=self.access)
                    return self.block(once, domain)
                inner = within_loop(domain, stmt.iterator, stmt.lo, stmt.hi)
                body = self.block(stmt.body, inner)
                lo, hi = tidy(stmt.lo, self.ranges), tidy(stmt.hi, self.ranges)
                new = replace(stmt, lo=lo, hi=hi, body=body)
            case CallInstr() | CallProc():
                given = tuple(
                    a if isinstance(a, Access | Const) else tidy(a, self.ranges)
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
