"""Applies a function to all reads of a variable, or to all writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.ir.nodes import Alloc, Apply, Assign, Block, Proc, Read, Reduce, Stmt
from exogpu.ir.walk import map_blocks, walk
from exogpu.schedule.cursors import Cursor, Expression, find_all
from exogpu.schedule.expressions import bind_expr
from exogpu.schedule.higher_steps import higher
from exogpu.schedule.primitive import Unfit, followed, path_of, primitive
from exogpu.schedule.procedures import P, ir_of
from exogpu.schedule.rewrite import Rewrite, begun, block_at, paths, splice
from exogpu.schedule.scopes import used
from exogpu.schedule.storage import alloc_at, delete_buffer
from exogpu.schedule.tiling import at, unfit
from exogpu.schedule.writes import inline_assign


@primitive
def apply_at_writes(proc: Proc, alloc: object) -> Iterator[Rewrite]:
    """Apply the function under which a variable is read to what is written there.

        t: f32[8] @ DRAM              t: f32[8] @ DRAM
        for i in seq(0, 8):           for i in seq(0, 8):
            t[i] = x[i]          ->       t[i] = tf32(x[i])
        for i in seq(0, 8):           for i in seq(0, 8):
            y[i] = tf32(t[i])             y[i] = t[i]

    Each statement that reads the variable assigns one element of it under the function, as
    `bind_expr` makes them.  What both procedures leave is compared.
    """
    path = path_of(proc, alloc)
    variable = alloc_at(proc, path)
    block, first = block_at(proc, path), path[-1][1] + 1
    function = _function(block[first:], variable)
    edit = begun(proc)
    edit.by_results = True

    def moved(stmt: Stmt) -> Stmt:
        new = map_blocks(stmt, lambda inner: tuple(map(moved, inner)))
        if isinstance(new, Assign) and variable.name in used(new):
            if new.target.name is variable.name:
                new = replace(new, value=replace(function, arguments=(new.value,)))
            elif isinstance(new.value, Apply):
                new = replace(new, value=new.value.arguments[0])
        if new is not stmt:
            edit.followed[new] = stmt
        return new

    head = (*path[:-1], (path[-1][0], first))
    splice(edit, head, len(block) - first, tuple(map(moved, block[first:])))
    yield edit


def _function(block: Block, of: Alloc) -> Apply:
    """The function under which all is read of a variable.  Raises Unfit."""
    found: Apply | None = None
    for stmt in walk(block):
        count = list(used(stmt)).count(of.name)
        match stmt:
            case Assign(value=Apply(arguments=(Read() as read,)) as value) if (
                count == 1 and read.access.name is of.name
            ):
                if found is not None and found.function != value.function:
                    why = f"{of.name.name} is read under {found.function} and {value.function}"
                    raise Unfit(why, stmt)
                found = value
            case Assign() if count == 1 and stmt.target.name is of.name:
                pass
            case _ if count:
                raise Unfit(f"{of.name.name} is not only assigned, and read under a function", stmt)
    if found is None:
        raise Unfit(f"nothing reads {of.name.name}", of)
    return found


@higher
def round_copies(p: P, alloc: str | Cursor[P]) -> P:
    """Let copies in a variable be rounded to tf32 where they are made, and not where they are read.

    t: f32[8] @ DRAM                         t: f32[8] @ DRAM
    for i in seq(0, 8):                      for i in seq(0, 8):
        t[i] = x[i]                     ->       t[i] = tf32(x[i])
    for i in seq(0, 8):                      for i in seq(0, 8):
        y[0] += tf32(t[i]) * tf32(t[i])          y[0] += t[i] * t[i]
    """
    variable = at(p, alloc)
    of = variable.stmt
    if not isinstance(of, Alloc):
        raise unfit("round_copies", f"`{variable}` declares no variable", variable)
    near = f"{of.name.name}_near"
    while (use := _rounded(p, of)) is not None:
        p = bind_expr(p, use.statement, use, near)
    p = apply_at_writes(p, followed(p, variable))
    while found := [c for c in find_all(p, near) if isinstance(c.stmt, Alloc)]:
        p = inline_assign(p, found[0].next())
        p = delete_buffer(p, followed(p, found[0]))
    return p


def _rounded(p: P, of: Alloc) -> Expression[P] | None:
    """An element that is rounded, as a part of a value."""
    shown = f"tf32({of.name.name}{'[_]' if of.shape else ''})"
    for path, stmt in paths(ir_of(p)):
        if isinstance(stmt, Assign | Reduce) and of.name in used(stmt):
            for part in Cursor(p, path).expressions(shown):
                if part.where or isinstance(stmt, Reduce):
                    return part
    return None
