"""Primitives that change loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from exogpu.frontend.limits import STATEMENTS
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, walk
from exogpu.schedule import index_text, rewrite
from exogpu.schedule.primitive import Unfit, first_of, new_variable, path_of, primitive


def loop_at(proc: ir.Proc, path: rewrite.Path) -> ir.For:
    """The loop of a path.  Raises Unfit."""
    stmt = rewrite.stmt_at(proc, path)
    if not isinstance(stmt, ir.For):
        raise Unfit("the cursor is at no loop", stmt)
    return stmt


def only_loop_in(loop: ir.For) -> ir.For:
    """The loop that is all there is in another.  Raises Unfit."""
    if len(loop.body) != 1 or not isinstance(loop.body[0], ir.For):
        raise Unfit(f"the loop over {loop.iterator.name} holds more than one loop", loop)
    return loop.body[0]


def with_values(
    edit: rewrite.Rewrite, block: ir.Block, values: Mapping[Sym, ir.CExpr], *, fresh: bool = False
) -> ir.Block:
    """A copy of a block with iterators replaced by expressions, indices kept short."""
    return rewrite.copied(edit, block, values, fresh=fresh, access=index_text.tidy_access)


@primitive
def divide_loop(
    proc: ir.Proc,
    loop: object,
    factor: int,
    names: tuple[str, str] | list[str],
    tail: Literal["perfect", "guard", "cut", "cut_and_guard"] = "guard",
) -> Iterator[rewrite.Rewrite]:
    """Divide a loop into one over blocks of `factor` iterations and one inside a block.

        for i in seq(0, n):          for io in seq(0, (n + 3) / 4):
            x[i] = 0           ->        for ii in seq(0, 4):
                                             if 4 * io + ii < n:
                                                 x[4 * io + ii] = 0

    `tail` is "guard", as above; "perfect", where the factor divides the count of iterations; "cut",
    which has a loop of its own for what is left over; or "cut_and_guard", which has that loop only
    where something is left over.
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    if not isinstance(factor, int) or factor < 1:
        raise Unfit(f"the factor {factor} is no positive number", old, "give 1 or more")
    if isinstance(names, str) or len(names) != 2:
        raise Unfit(f"{names!r} are not two names", old, 'give two, such as ["io", "ii"]')
    if tail not in ("perfect", "guard", "cut", "cut_and_guard"):
        raise Unfit(
            f"a tail is perfect, guard, cut or cut_and_guard, not {tail!r}",
            old,
            "give one of these",
        )
    edit = rewrite.unchanged_rewrite(proc)
    outer, inner = new_variable(names[0]), new_variable(names[1])
    count = index_text.minus(old.hi, old.lo)
    value = index_text.plus(index_text.plus(ir.Mul(factor, ir.CVar(outer)), ir.CVar(inner)), old.lo)
    body = with_values(edit, old.body, {old.iterator: value})
    if tail == "guard":
        body = (ir.If(ir.Compare("<", value, old.hi), body, span=old.span),)
        blocks = index_text.tidy(ir.FloorDiv(index_text.plus(count, ir.Int(factor - 1)), factor))
    else:
        blocks = index_text.tidy(ir.FloorDiv(count, factor))
    within = replace(old, iterator=inner, lo=ir.Int(0), hi=ir.Int(factor), body=body)
    over = replace(old, iterator=outer, lo=ir.Int(0), hi=blocks, body=(within,))
    edit.followed[over] = old
    new: ir.Block = (over,)
    if tail in ("cut", "cut_and_guard"):
        rest = new_variable(names[1])
        start = index_text.plus(
            index_text.plus(ir.Mul(factor, ir.FloorDiv(count, factor)), ir.CVar(rest)), old.lo
        )
        left = with_values(edit, old.body, {old.iterator: start}, fresh=True)
        last = index_text.tidy(ir.Mod(count, factor))
        over_rest: ir.Stmt = replace(old, iterator=rest, lo=ir.Int(0), hi=last, body=left)
        if tail == "cut_and_guard":
            over_rest = ir.If(ir.Compare(">", last, ir.Int(0)), (over_rest,), span=old.span)
        new = (over, over_rest)
    rewrite.splice(edit, path, 1, new)
    yield edit


@primitive
def reorder_loops(proc: ir.Proc, loop: object) -> Iterator[rewrite.Rewrite]:
    """Exchange a loop with the only loop in it.

    for i in seq(0, m):          for j in seq(0, n):
        for j in seq(0, n):  ->      for i in seq(0, m):
            x[i, j] = 0                  x[i, j] = 0
    """
    path = path_of(proc, loop)
    outer = loop_at(proc, path)
    inner = only_loop_in(outer)
    if outer.iterator in control_variables(inner.lo) | control_variables(inner.hi):
        raise Unfit(f"the range of {inner.iterator.name} depends on {outer.iterator.name}", inner)
    edit = rewrite.unchanged_rewrite(proc)
    within = replace(outer, body=inner.body)
    over = replace(inner, body=(within,))
    edit.followed |= {within: outer, over: inner}
    rewrite.splice(edit, path, 1, (over,))
    yield edit


@primitive
def mult_loops(proc: ir.Proc, loop: object, name: str) -> Iterator[rewrite.Rewrite]:
    """Make one loop of a loop and the only loop in it, whose count is constant.

    for i in seq(0, m):          for k in seq(0, 4 * m):
        for j in seq(0, 4):  ->      x[k / 4, k % 4] = 0
            x[i, j] = 0
    """
    path = path_of(proc, loop)
    outer = loop_at(proc, path)
    inner = only_loop_in(outer)
    count = index_text.constant(index_text.minus(inner.hi, inner.lo))
    if count is None or count < 1:
        raise Unfit(
            f"the loop over {inner.iterator.name} has no constant count of at least 1", inner
        )
    edit = rewrite.unchanged_rewrite(proc)
    both = new_variable(name)
    values = {
        outer.iterator: index_text.plus(ir.FloorDiv(ir.CVar(both), count), outer.lo),
        inner.iterator: index_text.plus(ir.Mod(ir.CVar(both), count), inner.lo),
    }
    body = with_values(edit, inner.body, values)
    total = index_text.tidy(ir.Mul(count, index_text.minus(outer.hi, outer.lo)))
    new = replace(outer, iterator=both, lo=ir.Int(0), hi=total, body=body)
    edit.followed[new] = outer
    edit.joined[inner] = new
    rewrite.splice(edit, path, 1, (new,))
    yield edit


@primitive
def unroll_loop(proc: ir.Proc, loop: object) -> Iterator[rewrite.Rewrite]:
    """Write out the iterations of a loop with constant bounds.

    for i in seq(0, 2):          x[0] = 0
        x[i] = 0           ->    x[1] = 0
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    lo, hi = index_text.constant(old.lo), index_text.constant(old.hi)
    if lo is None or hi is None:
        raise Unfit(f"the range of {old.iterator.name} is not constant", old)
    if (count := (hi - lo) * len(list(walk(old.body)))) > STATEMENTS:
        raise Unfit(f"it would be {count:,} statements, more than {STATEMENTS:,}", old)
    edit = rewrite.unchanged_rewrite(proc)
    new: list[ir.Stmt] = []
    for value in range(lo, hi):
        new += with_values(edit, old.body, {old.iterator: ir.Int(value)}, fresh=True)
    rewrite.splice(edit, path, 1, tuple(new))
    yield edit


@primitive
def cut_loop(proc: ir.Proc, loop: object, at: str | int) -> Iterator[rewrite.Rewrite]:
    """Make two loops of one, the second from iteration `at` of the iterator on.

    for i in seq(0, n):          for i in seq(0, 3):
        x[i] = 0           ->        x[i] = 0
                                 for i in seq(3, n):
                                     x[i] = 0
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    point = index_text.read_control(at, index_text.control_scope(proc, path))
    edit = rewrite.unchanged_rewrite(proc)
    first = replace(old, hi=point)
    iterator = Sym(old.iterator.name)
    body = with_values(edit, old.body, {old.iterator: ir.CVar(iterator)}, fresh=True)
    second = replace(old, iterator=iterator, lo=point, body=body)
    edit.followed |= {first: old, second: old}
    rewrite.splice(edit, path, 1, (first, second))
    yield edit


@primitive
def shift_loop(proc: ir.Proc, loop: object, lo: str | int) -> Iterator[rewrite.Rewrite]:
    """Let a loop begin elsewhere.

    for i in seq(0, n):          for i in seq(1, n + 1):
        x[i] = 0           ->        x[i - 1] = 0
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    start = index_text.read_control(lo, index_text.control_scope(proc, path))
    edit = rewrite.unchanged_rewrite(proc)
    iterator = Sym(old.iterator.name)
    value = index_text.minus(ir.CVar(iterator), index_text.minus(start, old.lo))
    body = with_values(edit, old.body, {old.iterator: value})
    end = index_text.plus(start, index_text.minus(old.hi, old.lo))
    new = replace(old, iterator=iterator, lo=start, hi=end, body=body)
    edit.followed[new] = old
    rewrite.splice(edit, path, 1, (new,))
    yield edit


def _two_loops(proc: ir.Proc, loop: object) -> tuple[rewrite.Path, ir.For, ir.For]:
    path = first_of(proc, loop)
    first = loop_at(proc, path)
    block, at = rewrite.block_at(proc, path), path[-1][1]
    if at + 1 >= len(block) or not isinstance(second := block[at + 1], ir.For):
        raise Unfit("no loop follows the loop", first)
    return path, first, second


@primitive
def extend_loop(
    proc: ir.Proc, loop: object, lo: str | int, hi: str | int
) -> Iterator[rewrite.Rewrite]:
    """Let a loop run over more iterations, with a guard that keeps its body to the old ones.

    for i in seq(0, n):          for i in seq(0, n + 1):
        x[i] = 0           ->        if i < n:
                                         x[i] = 0
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    known = index_text.control_scope(proc, path)
    start, end = index_text.read_control(lo, known), index_text.read_control(hi, known)
    edit = rewrite.unchanged_rewrite(proc)
    body = old.body
    if index_text.minus(end, old.hi) != ir.Int(0):
        body = (ir.If(ir.Compare("<", ir.CVar(old.iterator), old.hi), body, span=old.span),)
    if index_text.minus(start, old.lo) != ir.Int(0):
        body = (ir.If(ir.Compare(">=", ir.CVar(old.iterator), old.lo), body, span=old.span),)
    new = replace(old, lo=start, hi=end, body=body)
    edit.followed[new] = old
    rewrite.splice(edit, path, 1, (new,))
    yield edit


@primitive
def join_loops(proc: ir.Proc, loop: object) -> Iterator[rewrite.Rewrite]:
    """Make one loop of two of the same body, the second of which goes on where the first ends.

    for i in seq(0, 3):          for i in seq(0, n):
        x[i] = 0           ->        x[i] = 0
    for i in seq(3, n):
        x[i] = 0
    """
    path, first, second = _two_loops(proc, loop)
    edit = rewrite.unchanged_rewrite(proc)
    body = rewrite.copied(edit, first.body, {}, fresh=False)
    values: dict[Sym, ir.CExpr] = {second.iterator: ir.CVar(first.iterator)}
    _also(edit, second.body, body, values)
    new = replace(first, hi=second.hi, body=body)
    edit.followed[new] = first
    edit.joined[second] = new
    rewrite.splice(edit, path, 2, (new,))
    yield edit


def _also(edit: rewrite.Rewrite, old: ir.Block, new: ir.Block, values: dict[Sym, ir.CExpr]) -> None:
    """Say that statements are also those of another block, which looks the same."""
    if len(old) != len(new):
        raise Unfit("the bodies of the loops differ", old[0] if old else None)
    for other, stmt in zip(old, new, strict=True):
        edit.joined[other] = stmt
        if type(other) is not type(stmt):
            raise Unfit("the bodies of the loops differ", other)
        if isinstance(other, ir.For) and isinstance(stmt, ir.For):
            values[other.iterator] = ir.CVar(stmt.iterator)
            _also(edit, other.body, stmt.body, values)
        elif isinstance(other, ir.If) and isinstance(stmt, ir.If):
            _also(edit, other.body, stmt.body, values)
            _also(edit, other.orelse, stmt.orelse, values)
        else:
            edit.becomes(other, stmt, values)


@primitive
def fuse(proc: ir.Proc, stmt: object) -> Iterator[rewrite.Rewrite]:
    """Make one loop of two of the same range that follow each other, or one `if` of two.

    for i in seq(0, n):          for i in seq(0, n):
        x[i] = 0           ->        x[i] = 0
    for j in seq(0, n):              y[i] = x[i]
        y[j] = x[j]
    """
    path = first_of(proc, stmt)
    if isinstance(rewrite.stmt_at(proc, path), ir.If):
        yield _fused_ifs(proc, path)
        return
    path, first, second = _two_loops(proc, path)
    edit = rewrite.unchanged_rewrite(proc)
    rest = with_values(edit, second.body, {second.iterator: ir.CVar(first.iterator)})
    new = replace(first, body=(*first.body, *rest))
    edit.followed[new] = first
    edit.joined[second] = new
    rewrite.splice(edit, path, 2, (new,))
    yield edit


def _fused_ifs(proc: ir.Proc, path: rewrite.Path) -> rewrite.Rewrite:
    block, at = rewrite.block_at(proc, path), path[-1][1]
    first = block[at]
    if at + 1 >= len(block) or not isinstance(second := block[at + 1], ir.If):
        raise Unfit("no `if` follows the `if`", first)
    assert isinstance(first, ir.If)
    edit = rewrite.unchanged_rewrite(proc)
    body, orelse = (*first.body, *second.body), (*first.orelse, *second.orelse)
    new = replace(first, body=body, orelse=orelse)
    edit.followed[new] = first
    edit.joined[second] = new
    rewrite.splice(edit, path, 2, (new,))
    return edit


@primitive
def remove_loop(proc: ir.Proc, loop: object) -> Iterator[rewrite.Rewrite]:
    """Take the body out of a loop of one iteration, or of which only the first or last counts.

    for i in seq(0, n):          x[0] = 1
        x[0] = 1           ->
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    for value in (old.lo, index_text.minus(old.hi, ir.Int(1))):
        edit = rewrite.unchanged_rewrite(proc)
        rewrite.splice(edit, path, 1, with_values(edit, old.body, {old.iterator: value}))
        yield edit
