"""Primitives that make one assignment of two, or two of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import is_

from exogpu.ir import nodes as ir
from exogpu.ir.types import DataType, Sym
from exogpu.ir.walk import blocks, control_variables, map_blocks, map_reads, reads, walk
from exogpu.schedule import rewrite
from exogpu.schedule.index_text import tidy_access
from exogpu.schedule.primitive import Unfit, first_of, path_of, primitive
from exogpu.schedule.primitives.loops import loop_at
from exogpu.schedule.primitives.storage import data_scope, default_memory


def write_at(proc: ir.Proc, path: rewrite.Path) -> ir.Assign | ir.Reduce:
    """The assignment or sum of a path.  Raises Unfit."""
    stmt = rewrite.stmt_at(proc, path)
    if not isinstance(stmt, ir.Assign | ir.Reduce):
        raise Unfit("the statement is no assignment", stmt)
    return stmt


@primitive
def merge_writes(proc: ir.Proc, stmt: object) -> Iterator[rewrite.Rewrite]:
    """Make one statement of an assignment or sum and the next one, to the same element.

        x[i] = a[i]           x[i] = a[i] + b[i]
        x[i] += b[i]    ->

    Before an assignment the other is removed: what it writes must not be read.  Of two sums the
    terms are added first, which rounds otherwise.
    """
    path = first_of(proc, stmt)
    first = write_at(proc, path)
    block, at = rewrite.block_at(proc, path), path[-1][1]
    if at + 1 >= len(block) or not isinstance(second := block[at + 1], ir.Assign | ir.Reduce):
        raise Unfit("no assignment follows", first)
    if first.target.name is not second.target.name:
        both = f"{first.target.name.name} and {second.target.name.name}"
        raise Unfit(f"the statements write {both}", first)
    edit = rewrite.unchanged_rewrite(proc)
    if isinstance(second, ir.Assign):
        rewrite.splice(edit, path, 2, (second,))
        yield edit
        return
    new = replace(first, value=ir.BinOp("+", first.value, second.value))
    parts = replace(first), replace(second)
    edit.becomes(first, parts[0])
    edit.becomes(second, parts[1])
    edit.followed[new] = first
    edit.readings[new] = rewrite.Reading((new,), parts)
    rewrite.splice(edit, path, 2, (new,))
    yield edit


@primitive
def split_write(proc: ir.Proc, stmt: object) -> Iterator[rewrite.Rewrite]:
    """Make two statements of one that writes a sum.

    x[i] = a[i] + b[i]    ->    x[i] = a[i]
                                x[i] += b[i]
    """
    path = path_of(proc, stmt)
    old = write_at(proc, path)
    match old.value:
        case ir.BinOp(op="+", left=left, right=right):
            pass
        case _:
            raise Unfit("the statement writes no sum", old)
    edit = rewrite.unchanged_rewrite(proc)
    parts = replace(old, value=left), ir.Reduce(old.target, right, span=old.span)
    new = replace(parts[0]), replace(parts[1])
    edit.readings[old] = rewrite.Reading((old,), parts)
    for part, one in zip(parts, new, strict=True):
        edit.becomes(part, one)
    edit.followed[new[0]] = old
    rewrite.splice(edit, path, 1, new)
    yield edit


@primitive
def fold_into_reduce(proc: ir.Proc, stmt: object) -> Iterator[rewrite.Rewrite]:
    """Make a sum of an assignment that adds to its own target.

    x[i] = x[i] + a[i]    ->    x[i] += a[i]
    """
    path = path_of(proc, stmt)
    old = write_at(proc, path)
    if not isinstance(old, ir.Assign):
        raise Unfit("the statement is a sum already", old)
    target = tidy_access(old.target)
    match old.value:
        case ir.BinOp(op="+", left=ir.Read(access=mine), right=term) if tidy_access(mine) == target:
            pass
        case ir.BinOp(op="+", left=term, right=ir.Read(access=mine)) if tidy_access(mine) == target:
            pass
        case _:
            raise Unfit("the statement does not add to its target", old)
    edit = rewrite.unchanged_rewrite(proc)
    new, part = ir.Reduce(old.target, term, span=old.span), replace(old)
    edit.becomes(old, part)
    edit.followed[new] = old
    edit.readings[new] = rewrite.Reading((new,), (part,))
    rewrite.splice(edit, path, 1, (new,))
    yield edit


@primitive
def inline_assign(proc: ir.Proc, stmt: object) -> Iterator[rewrite.Rewrite]:
    """Write what is assigned where the element is read after it, and remove the assignment.

        t = 2 * x[i]          y[i] = 2 * x[i] + 1
        y[i] = t + 1    ->

    In the statements after it in its block, and those inside of them.  The assignment stays where
    its element is read elsewhere, too.
    """
    path = path_of(proc, stmt)
    old = write_at(proc, path)
    if not isinstance(old, ir.Assign):
        raise Unfit("the statement is a sum", old)
    block, at = rewrite.block_at(proc, path), path[-1][1]
    known = data_scope(proc, path)
    if old.target.name not in known:
        raise Unfit(f"{old.target.name.name} is a window: inline it first", old)
    inlined = _Inlined(old, known[old.target.name].dtype, proc, path)
    for kept in (False, True):
        again, edit = inlined.inline_writes(block[at + 1 :], kept)
        if len(again.origins) == 0:
            raise Unfit(f"{old.target.name.name} is not read after it in its block", old)
        edit.after = again
        yield edit


class _Inlined:
    """First the assignment is computed again before each use, then these are written as one."""

    def __init__(self, old: ir.Assign, dtype: DataType, proc: ir.Proc, path: rewrite.Path) -> None:
        self.old, self.dtype, self.proc, self.path = old, dtype, proc, path
        self.target = tidy_access(old.target)
        self.memory = default_memory(proc, path)
        self.known: dict[ir.Stmt, tuple[ir.Alloc, ir.Assign, ir.Assign | ir.Reduce]] = {}
        """By a statement that uses a variable of its own: that, its value, what it was."""

    def inline_writes(self, rest: ir.Block, kept: bool) -> tuple[rewrite.Rewrite, rewrite.Rewrite]:
        again = rewrite.unchanged_rewrite(self.proc)
        block = self.map_statements(again, rest, lambda stmt: self.bind_value(again, stmt))
        rewrite.splice(again, self.path, 1 + len(rest), (self.old, *block))
        edit = rewrite.unchanged_rewrite(again.new)
        before = (self.old,) if kept else ()
        joined = self.map_statements(edit, block, lambda stmt: self.joined(edit, stmt))
        rewrite.splice(edit, self.path, 1 + len(block), (*before, *joined))
        return again, edit

    def map_statements(
        self, edit: rewrite.Rewrite, block: ir.Block, change: Callable[[ir.Stmt], ir.Block]
    ) -> ir.Block:
        """The statements with those that are no blocks changed, those inside of them, too."""

        def change_statement(stmt: ir.Stmt) -> ir.Block:
            if not blocks(stmt):
                return change(stmt)
            new = map_blocks(stmt, change_block)
            if new is not stmt:
                edit.followed[new] = edit.followed.get(stmt, stmt)
            return (new,)

        def change_block(block: ir.Block) -> ir.Block:
            found = tuple(new for stmt in block for new in change_statement(stmt))
            same = len(found) == len(block) and all(map(is_, found, block))
            return block if same else found

        return change_block(block)

    def bind_value(self, edit: rewrite.Rewrite, stmt: ir.Stmt) -> ir.Block:
        """The value in a variable of its own, and the statement that uses this one."""
        if not isinstance(stmt, ir.Assign | ir.Reduce):
            return (stmt,)
        name = Sym(f"{self.old.target.name.name}_again")
        value = self.replace_reads(stmt.value, ir.Read(ir.Access(name, ())))
        if value == stmt.value:
            return (stmt,)
        alloc = ir.Alloc(name, self.dtype, (), self.memory, span=stmt.span)
        first = ir.Assign(ir.Access(name, ()), self.old.value, span=self.old.span)
        new = replace(stmt, value=value)
        edit.origins[first] = rewrite.Again(self.old)
        edit.becomes(stmt, new)
        self.known[new] = (alloc, first, stmt)
        return (alloc, first, new)

    def replace_reads(self, value: ir.DExpr, new: ir.DExpr) -> ir.DExpr:
        return map_reads(
            value, lambda read: new if tidy_access(read.access) == self.target else read
        )

    def joined(self, edit: rewrite.Rewrite, stmt: ir.Stmt) -> ir.Block:
        """One statement of three; nothing of those that were put before it."""
        if any(stmt is alloc or stmt is first for alloc, first, _ in self.known.values()):
            return ()
        if stmt not in self.known:
            return (stmt,)
        alloc, first, was = self.known[stmt]
        name = Sym(alloc.name.name)
        parts = (
            replace(first, target=ir.Access(name, ())),
            replace(was, value=self.replace_reads(was.value, ir.Read(ir.Access(name, ())))),
        )
        edit.becomes(first, parts[0])
        edit.becomes(stmt, parts[1])
        new = replace(was, value=self.replace_reads(was.value, self.old.value))
        edit.followed[new] = stmt
        edit.readings[new] = rewrite.Reading((new,), parts, (replace(alloc, name=name),))
        return (new,)


@primitive
def lift_reduce_constant(proc: ir.Proc, stmt: object) -> Iterator[rewrite.Rewrite]:
    """Take a factor out of a sum that begins at zero: all of it is multiplied after the loop.

        x[0] = 0                      x[0] = 0
        for i in seq(0, n):           for i in seq(0, n):
            x[0] += c[0] * y[i]  ->       x[0] += y[i]
                                      x[0] = c[0] * x[0]

    The statement is the assignment of zero; the loop follows it.  Floating point rounds otherwise
    then.
    """
    path = first_of(proc, stmt)
    zero = write_at(proc, path)
    block, at = rewrite.block_at(proc, path), path[-1][1]
    if at + 1 >= len(block) or not isinstance(block[at + 1], ir.For):
        raise Unfit("no loop follows the statement", zero)
    loop = loop_at(proc, (*path[:-1], (path[-1][0], at + 1)))
    leaves = [s for s in walk((loop,)) if not isinstance(s, ir.For | ir.If)]
    match leaves:
        case [ir.Reduce(value=ir.BinOp(op="*", left=left, right=right)) as total]:
            pass
        case _:
            raise Unfit("the loop holds more than one sum of products", loop)
    iterators = {stmt.iterator for stmt in walk((loop,)) if isinstance(stmt, ir.For)}
    sides = [
        (factor, term)
        for factor, term in ((left, right), (right, left))
        if isinstance(factor, ir.Read | ir.Const) and not _names(factor) & iterators
    ]
    if not sides:
        raise Unfit("no side of the product is one element or constant in all iterations", total)
    for factor, term in sides:
        edit = rewrite.unchanged_rewrite(proc)
        inner = replace(total, value=term)
        (over,) = _replace_statement(edit, (loop,), total, inner)
        begins = replace(zero)
        after = ir.Assign(zero.target, ir.BinOp("*", factor, ir.Read(zero.target)), span=total.span)
        whole = (begins, over, after)
        edit.followed |= {begins: zero, inner: total}
        edit.readings[begins] = rewrite.Reading(whole, (zero, loop))
        rewrite.splice(edit, path, 2, whole)
        yield edit


def _names(expr: ir.DExpr) -> frozenset[Sym]:
    """The control variables of the indices."""
    points = (c.at for a in reads(expr) for c in a.coords if isinstance(c, ir.Point))
    return frozenset(name for at in points for name in control_variables(at))


def _replace_statement(
    edit: rewrite.Rewrite, block: ir.Block, old: ir.Stmt, new: ir.Stmt
) -> ir.Block:
    """The block with one statement replaced."""

    def replace_in(stmt: ir.Stmt) -> ir.Stmt:
        if stmt is old:
            return new
        made = map_blocks(stmt, lambda inner: tuple(map(replace_in, inner)))
        edit.followed[made] = stmt
        return made

    return tuple(map(replace_in, block))
