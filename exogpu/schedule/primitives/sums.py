"""Primitives that add up in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from exogpu.ir import nodes as ir
from exogpu.ir.types import DataMemory, Sym
from exogpu.ir.walk import control_variables, map_blocks, walk
from exogpu.schedule.cursors import Cursor, Expression, find_all
from exogpu.schedule.derivations import P, ir_of
from exogpu.schedule.higher_steps import higher
from exogpu.schedule.index_text import constant, read_control
from exogpu.schedule.primitive import Unfit, followed, new_variable, path_of, primitive
from exogpu.schedule.primitives.expressions import bind_expr
from exogpu.schedule.primitives.loops import loop_at
from exogpu.schedule.primitives.storage import alloc_at, data_scope, default_memory, delete_buffer
from exogpu.schedule.primitives.writes import inline_assign
from exogpu.schedule.reparse import named_variables
from exogpu.schedule.rewrite import Rewrite, block_at, paths, splice, unchanged_rewrite
from exogpu.schedule.tile_steps import forwarded_cursor, unfit


@primitive
def sum_by_exchange(
    proc: ir.Proc, loop: object, name: str, memory: DataMemory | None = None
) -> Iterator[Rewrite]:
    """Add the elements of a vector up by exchanges: each takes that of a partner, ever nearer.

        y = 0                       u: f32[2]
        for t in seq(0, 2):         for t in seq(0, 2):
            y += x[t]                   u[t] = x[t + 1 - 2 * (t / 1 % 2)]
                              ->    for t in seq(0, 2):
                                        x[t] += u[t]
                                    for t in seq(0, 2):
                                        if t == 0:
                                            y = x[t]

    As many elements as a power of two.  Then all have the sum, and the first gives it.  What both
    procedures leave is compared, sums as sets of terms.
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    count = constant(old.hi)
    if constant(old.lo) != 0 or count is None or count < 2 or count & (count - 1):
        raise Unfit("the count of the loop is no power of two", old)
    match old.body:
        case (ir.Reduce(value=ir.Read(access=of)) as added,):
            pass
        case _:
            raise Unfit("the loop does more than adding elements of a vector", old)
    index = [n for n, c in enumerate(of.coords) if c == ir.Point(ir.CVar(old.iterator))]
    if len(index) != 1 or any(_uses(c, old.iterator) for c in added.target.coords):
        raise Unfit("the loop does not add the elements of a vector to one element", old)
    block, here = block_at(proc, path), path[-1][1]
    begins = here > 0 and _clears(block[here - 1], added.target)
    if memory is None:
        memory = default_memory(proc, path)
    other, dtype, span = new_variable(name), data_scope(proc, path)[of.name].dtype, old.span

    def element_at(where: ir.CExpr) -> ir.Access:
        coords = (*of.coords[: index[0]], ir.Point(where), *of.coords[index[0] + 1 :])
        return replace(of, coords=coords)

    def lanes(make: Callable[[Sym], ir.Stmt]) -> ir.Stmt:
        iterator = Sym(old.iterator.name)
        return ir.For(iterator, ir.Int(0), ir.Int(count), ir.Seq(), (make(iterator),), span=span)

    def take_partner(mask: int, t: Sym) -> ir.Stmt:
        partner = read_control(f"t + {mask} - {2 * mask} * ((t / {mask}) % 2)", {"t": t})
        return ir.Assign(
            ir.Access(other, (ir.Point(ir.CVar(t)),)), ir.Read(element_at(partner), span), span=span
        )

    def summed(t: Sym) -> ir.Stmt:
        return ir.Reduce(
            element_at(ir.CVar(t)),
            ir.Read(ir.Access(other, (ir.Point(ir.CVar(t)),)), span),
            span=span,
        )

    def give_sum(t: Sym) -> ir.Stmt:
        kind = ir.Assign if begins else ir.Reduce
        stmt = kind(added.target, ir.Read(element_at(ir.CVar(t)), span), span=span)
        return ir.If(ir.Compare("==", ir.CVar(t), ir.Int(0)), (stmt,), span=span)

    new: list[ir.Stmt] = [ir.Alloc(other, dtype, (ir.Int(count),), memory, span=span)]
    mask = count // 2
    while mask:
        new += [lanes(partial(take_partner, mask)), lanes(summed)]
        mask //= 2
    new.append(lanes(give_sum))
    edit = unchanged_rewrite(proc)
    edit.by_results = True
    edit.followed[new[-1]] = old
    if begins:
        path = (*path[:-1], (path[-1][0], here - 1))
    splice(edit, path, 2 if begins else 1, tuple(new))
    yield edit


def _uses(coord: ir.Coord, iterator: Sym) -> bool:
    return isinstance(coord, ir.Point) and iterator in control_variables(coord.at)


def _clears(stmt: ir.Stmt, target: ir.Access) -> bool:
    match stmt:
        case ir.Assign(value=ir.Const(value=value)):
            return value == 0 and stmt.target == target
        case _:
            return False


# Applies a function to all reads of a variable, or to all writes.


@primitive
def apply_at_writes(proc: ir.Proc, alloc: object) -> Iterator[Rewrite]:
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
    edit = unchanged_rewrite(proc)
    edit.by_results = True

    def move_to_writes(stmt: ir.Stmt) -> ir.Stmt:
        new = map_blocks(stmt, lambda inner: tuple(map(move_to_writes, inner)))
        if isinstance(new, ir.Assign) and variable.name in named_variables(new):
            if new.target.name is variable.name:
                new = replace(new, value=replace(function, arguments=(new.value,)))
            elif isinstance(new.value, ir.Apply):
                new = replace(new, value=new.value.arguments[0])
        if new is not stmt:
            edit.followed[new] = stmt
        return new

    head = (*path[:-1], (path[-1][0], first))
    splice(edit, head, len(block) - first, tuple(map(move_to_writes, block[first:])))
    yield edit


def _function(block: ir.Block, of: ir.Alloc) -> ir.Apply:
    """The function under which all is read of a variable.  Raises Unfit."""
    found: ir.Apply | None = None
    for stmt in walk(block):
        count = list(named_variables(stmt)).count(of.name)
        match stmt:
            case ir.Assign(value=ir.Apply(arguments=(ir.Read() as read,)) as value) if (
                count == 1 and read.access.name is of.name
            ):
                if found is not None and found.function != value.function:
                    why = f"{of.name.name} is read under {found.function} and {value.function}"
                    raise Unfit(why, stmt)
                found = value
            case ir.Assign() if count == 1 and stmt.target.name is of.name:
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
    variable = forwarded_cursor(p, alloc)
    of = variable.stmt
    if not isinstance(of, ir.Alloc):
        raise unfit("round_copies", f"`{variable}` declares no variable", variable)
    near = f"{of.name.name}_near"
    while (use := _rounded(p, of)) is not None:
        p = bind_expr(p, use.statement, use, near)
    p = apply_at_writes(p, followed(p, variable))
    while found := [c for c in find_all(p, near) if isinstance(c.stmt, ir.Alloc)]:
        p = inline_assign(p, found[0].next())
        p = delete_buffer(p, followed(p, found[0]))
    return p


def _rounded(p: P, of: ir.Alloc) -> Expression[P] | None:
    """An element that is rounded, as a part of a value."""
    shown = f"tf32({of.name.name}{'[_]' if of.shape else ''})"
    for path, stmt in paths(ir_of(p)):
        if isinstance(stmt, ir.Assign | ir.Reduce) and of.name in named_variables(stmt):
            for part in Cursor(p, path).expressions(shown):
                if part.where or isinstance(stmt, ir.Reduce):
                    return part
    return None
