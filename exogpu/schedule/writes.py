"""Primitives that make one assignment of two, or two of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import is_

from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Assign,
    BinOp,
    Block,
    Const,
    DExpr,
    For,
    If,
    Point,
    Proc,
    Read,
    Reduce,
    Stmt,
)
from exogpu.ir.types import DataType
from exogpu.ir.walk import blocks, control_variables, map_blocks, reads, walk
from exogpu.schedule.control import tidy_access
from exogpu.schedule.loops import loop_at
from exogpu.schedule.primitive import Unfit, first_of, path_of, primitive
from exogpu.schedule.rewrite import (
    Again,
    Path,
    Reading,
    Rewrite,
    begun,
    block_at,
    map_reads,
    splice,
    stmt_at,
)
from exogpu.schedule.storage import data_scope, default_memory


def write_at(proc: Proc, path: Path) -> Assign | Reduce:
    """The assignment or sum of a path.  Raises Unfit."""
    stmt = stmt_at(proc, path)
    if not isinstance(stmt, Assign | Reduce):
        raise Unfit("the statement is no assignment", stmt)
    return stmt


@primitive
def merge_writes(proc: Proc, stmt: object) -> Iterator[Rewrite]:
    """Make one statement of an assignment or sum and the next one, to the same element.

        x[i] = a[i]           x[i] = a[i] + b[i]
        x[i] += b[i]    ->

    Before an assignment the other is removed: what it writes must not be read.  Of two sums the
    terms are added first, which rounds otherwise.
    """
    path = first_of(proc, stmt)
    first = write_at(proc, path)
    block, at = block_at(proc, path), path[-1][1]
    if at + 1 >= len(block) or not isinstance(second := block[at + 1], Assign | Reduce):
        raise Unfit("no assignment follows", first)
    if first.target.name is not second.target.name:
        both = f"{first.target.name.name} and {second.target.name.name}"
        raise Unfit(f"the statements write {both}", first)
    edit = begun(proc)
    if isinstance(second, Assign):
        splice(edit, path, 2, (second,))
        yield edit
        return
    new = replace(first, value=BinOp("+", first.value, second.value))
    parts = replace(first), replace(second)
    edit.becomes(first, parts[0])
    edit.becomes(second, parts[1])
    edit.followed[new] = first
    edit.readings[new] = Reading((new,), parts)
    splice(edit, path, 2, (new,))
    yield edit


@primitive
def split_write(proc: Proc, stmt: object) -> Iterator[Rewrite]:
    """Make two statements of one that writes a sum.

    x[i] = a[i] + b[i]    ->    x[i] = a[i]
                                x[i] += b[i]
    """
    path = path_of(proc, stmt)
    old = write_at(proc, path)
    match old.value:
        case BinOp(op="+", left=left, right=right):
            pass
        case _:
            raise Unfit("the statement writes no sum", old)
    edit = begun(proc)
    parts = replace(old, value=left), Reduce(old.target, right, span=old.span)
    new = replace(parts[0]), replace(parts[1])
    edit.readings[old] = Reading((old,), parts)
    for part, one in zip(parts, new, strict=True):
        edit.becomes(part, one)
    edit.followed[new[0]] = old
    splice(edit, path, 1, new)
    yield edit


@primitive
def fold_into_reduce(proc: Proc, stmt: object) -> Iterator[Rewrite]:
    """Make a sum of an assignment that adds to its own target.

    x[i] = x[i] + a[i]    ->    x[i] += a[i]
    """
    path = path_of(proc, stmt)
    old = write_at(proc, path)
    if not isinstance(old, Assign):
        raise Unfit("the statement is a sum already", old)
    target = tidy_access(old.target)
    match old.value:
        case BinOp(op="+", left=Read(access=mine), right=term) if tidy_access(mine) == target:
            pass
        case BinOp(op="+", left=term, right=Read(access=mine)) if tidy_access(mine) == target:
            pass
        case _:
            raise Unfit("the statement does not add to its target", old)
    edit = begun(proc)
    new, part = Reduce(old.target, term, span=old.span), replace(old)
    edit.becomes(old, part)
    edit.followed[new] = old
    edit.readings[new] = Reading((new,), (part,))
    splice(edit, path, 1, (new,))
    yield edit


@primitive
def inline_assign(proc: Proc, stmt: object) -> Iterator[Rewrite]:
    """Write what is assigned where the element is read after it, and remove the assignment.

        t = 2 * x[i]          y[i] = 2 * x[i] + 1
        y[i] = t + 1    ->

    In the statements after it in its block, and those inside of them.  The assignment stays where
    its element is read elsewhere, too.
    """
    path = path_of(proc, stmt)
    old = write_at(proc, path)
    if not isinstance(old, Assign):
        raise Unfit("the statement is a sum", old)
    block, at = block_at(proc, path), path[-1][1]
    known = data_scope(proc, path)
    if old.target.name not in known:
        raise Unfit(f"{old.target.name.name} is a window: inline it first", old)
    inlined = _Inlined(old, known[old.target.name].dtype, proc, path)
    for kept in (False, True):
        again, edit = inlined.made(block[at + 1 :], kept)
        if len(again.origins) == 0:
            raise Unfit(f"{old.target.name.name} is not read after it in its block", old)
        edit.after = again
        yield edit


class _Inlined:
    """First the assignment is computed again before each use, then these are written as one."""

    def __init__(self, old: Assign, dtype: DataType, proc: Proc, path: Path) -> None:
        self.old, self.dtype, self.proc, self.path = old, dtype, proc, path
        self.target = tidy_access(old.target)
        self.memory = default_memory(proc, path)
        self.known: dict[Stmt, tuple[Alloc, Assign, Assign | Reduce]] = {}
        """By a statement that uses a variable of its own: that, its value, what it was."""

    def made(self, rest: Block, kept: bool) -> tuple[Rewrite, Rewrite]:
        again = begun(self.proc)
        block = self.each(again, rest, lambda stmt: self.repeated(again, stmt))
        splice(again, self.path, 1 + len(rest), (self.old, *block))
        edit = begun(again.new)
        before = (self.old,) if kept else ()
        joined = self.each(edit, block, lambda stmt: self.joined(edit, stmt))
        splice(edit, self.path, 1 + len(block), (*before, *joined))
        return again, edit

    def each(self, edit: Rewrite, block: Block, change: Callable[[Stmt], Block]) -> Block:
        """The statements with those that are no blocks changed, those inside of them, too."""

        def one(stmt: Stmt) -> Block:
            if not blocks(stmt):
                return change(stmt)
            new = map_blocks(stmt, many)
            if new is not stmt:
                edit.followed[new] = edit.followed.get(stmt, stmt)
            return (new,)

        def many(block: Block) -> Block:
            found = tuple(new for stmt in block for new in one(stmt))
            same = len(found) == len(block) and all(map(is_, found, block))
            return block if same else found

        return many(block)

    def repeated(self, edit: Rewrite, stmt: Stmt) -> Block:
        """The value in a variable of its own, and the statement that uses this one."""
        if not isinstance(stmt, Assign | Reduce):
            return (stmt,)
        name = Sym(f"{self.old.target.name.name}_again")
        value = self.put(stmt.value, Read(Access(name, ())))
        if value == stmt.value:
            return (stmt,)
        alloc = Alloc(name, self.dtype, (), self.memory, span=stmt.span)
        first = Assign(Access(name, ()), self.old.value, span=self.old.span)
        new = replace(stmt, value=value)
        edit.origins[first] = Again(self.old)
        edit.becomes(stmt, new)
        self.known[new] = (alloc, first, stmt)
        return (alloc, first, new)

    def put(self, value: DExpr, new: DExpr) -> DExpr:
        return map_reads(
            value, lambda read: new if tidy_access(read.access) == self.target else read
        )

    def joined(self, edit: Rewrite, stmt: Stmt) -> Block:
        """One statement of three; nothing of those that were put before it."""
        if any(stmt is alloc or stmt is first for alloc, first, _ in self.known.values()):
            return ()
        if stmt not in self.known:
            return (stmt,)
        alloc, first, was = self.known[stmt]
        name = Sym(alloc.name.name)
        parts = (
            replace(first, target=Access(name, ())),
            replace(was, value=self.put(was.value, Read(Access(name, ())))),
        )
        edit.becomes(first, parts[0])
        edit.becomes(stmt, parts[1])
        new = replace(was, value=self.put(was.value, self.old.value))
        edit.followed[new] = stmt
        edit.readings[new] = Reading((new,), parts, (replace(alloc, name=name),))
        return (new,)


@primitive
def lift_reduce_constant(proc: Proc, stmt: object) -> Iterator[Rewrite]:
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
    block, at = block_at(proc, path), path[-1][1]
    if at + 1 >= len(block) or not isinstance(block[at + 1], For):
        raise Unfit("no loop follows the statement", zero)
    loop = loop_at(proc, (*path[:-1], (path[-1][0], at + 1)))
    leaves = [s for s in walk((loop,)) if not isinstance(s, For | If)]
    match leaves:
        case [Reduce(value=BinOp(op="*", left=left, right=right)) as total]:
            pass
        case _:
            raise Unfit("the loop holds more than one sum of products", loop)
    iterators = {stmt.iterator for stmt in walk((loop,)) if isinstance(stmt, For)}
    sides = [
        (factor, term)
        for factor, term in ((left, right), (right, left))
        if isinstance(factor, Read | Const) and not _names(factor) & iterators
    ]
    if not sides:
        raise Unfit("no side of the product is one element or constant in all iterations", total)
    for factor, term in sides:
        edit = begun(proc)
        inner = replace(total, value=term)
        (over,) = _with(edit, (loop,), total, inner)
        begins = replace(zero)
        after = Assign(zero.target, BinOp("*", factor, Read(zero.target)), span=total.span)
        whole = (begins, over, after)
        edit.followed |= {begins: zero, inner: total}
        edit.readings[begins] = Reading(whole, (zero, loop))
        splice(edit, path, 2, whole)
        yield edit


def _names(expr: DExpr) -> frozenset[Sym]:
    """The control variables of the indices."""
    points = (c.at for a in reads(expr) for c in a.coords if isinstance(c, Point))
    return frozenset(name for at in points for name in control_variables(at))


def _with(edit: Rewrite, block: Block, old: Stmt, new: Stmt) -> Block:
    """The block with one statement replaced."""

    def one(stmt: Stmt) -> Stmt:
        if stmt is old:
            return new
        made = map_blocks(stmt, lambda inner: tuple(map(one, inner)))
        edit.followed[made] = stmt
        return made

    return tuple(map(one, block))
