"""Primitives that change loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from exogpu.frontend.limits import STATEMENTS
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Block,
    CExpr,
    Compare,
    CVar,
    FloorDiv,
    For,
    If,
    Int,
    Mod,
    Mul,
    Proc,
    Stmt,
)
from exogpu.ir.walk import control_variables, walk
from exogpu.schedule.control import (
    constant,
    control_scope,
    minus,
    plus,
    read_control,
    tidy,
    tidy_access,
)
from exogpu.schedule.primitive import Unfit, first_of, named, path_of, primitive
from exogpu.schedule.rewrite import (
    Path,
    Rewrite,
    begun,
    block_at,
    copied,
    splice,
    stmt_at,
)


def loop_at(proc: Proc, path: Path) -> For:
    """The loop of a path.  Raises Unfit."""
    stmt = stmt_at(proc, path)
    if not isinstance(stmt, For):
        raise Unfit("the cursor is at no loop", stmt)
    return stmt


def only_loop_in(loop: For) -> For:
    """The loop that is all there is in another.  Raises Unfit."""
    if len(loop.body) != 1 or not isinstance(loop.body[0], For):
        raise Unfit(f"the loop over {loop.iterator.name} holds more than one loop", loop)
    return loop.body[0]


def with_values(
    edit: Rewrite, block: Block, values: Mapping[Sym, CExpr], *, fresh: bool = False
) -> Block:
    """A copy of a block with iterators replaced by expressions, indices kept short."""
    return copied(edit, block, values, fresh=fresh, access=tidy_access)


@primitive
def divide_loop(
    proc: Proc,
    loop: object,
    factor: int,
    names: tuple[str, str] | list[str],
    tail: Literal["perfect", "guard", "cut", "cut_and_guard"] = "guard",
) -> Iterator[Rewrite]:
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
    edit = begun(proc)
    outer, inner = named(names[0]), named(names[1])
    count = minus(old.hi, old.lo)
    value = plus(plus(Mul(factor, CVar(outer)), CVar(inner)), old.lo)
    body = with_values(edit, old.body, {old.iterator: value})
    if tail == "guard":
        body = (If(Compare("<", value, old.hi), body, span=old.span),)
        blocks = tidy(FloorDiv(plus(count, Int(factor - 1)), factor))
    else:
        blocks = tidy(FloorDiv(count, factor))
    within = replace(old, iterator=inner, lo=Int(0), hi=Int(factor), body=body)
    over = replace(old, iterator=outer, lo=Int(0), hi=blocks, body=(within,))
    edit.followed[over] = old
    new: Block = (over,)
    if tail in ("cut", "cut_and_guard"):
        rest = named(names[1])
        start = plus(plus(Mul(factor, FloorDiv(count, factor)), CVar(rest)), old.lo)
        left = with_values(edit, old.body, {old.iterator: start}, fresh=True)
        last = tidy(Mod(count, factor))
        over_rest: Stmt = replace(old, iterator=rest, lo=Int(0), hi=last, body=left)
        if tail == "cut_and_guard":
            over_rest = If(Compare(">", last, Int(0)), (over_rest,), span=old.span)
        new = (over, over_rest)
    splice(edit, path, 1, new)
    yield edit


@primitive
def reorder_loops(proc: Proc, loop: object) -> Iterator[Rewrite]:
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
    edit = begun(proc)
    within = replace(outer, body=inner.body)
    over = replace(inner, body=(within,))
    edit.followed |= {within: outer, over: inner}
    splice(edit, path, 1, (over,))
    yield edit


@primitive
def mult_loops(proc: Proc, loop: object, name: str) -> Iterator[Rewrite]:
    """Make one loop of a loop and the only loop in it, whose count is constant.

    for i in seq(0, m):          for k in seq(0, 4 * m):
        for j in seq(0, 4):  ->      x[k / 4, k % 4] = 0
            x[i, j] = 0
    """
    path = path_of(proc, loop)
    outer = loop_at(proc, path)
    inner = only_loop_in(outer)
    count = constant(minus(inner.hi, inner.lo))
    if count is None or count < 1:
        raise Unfit(
            f"the loop over {inner.iterator.name} has no constant count of at least 1", inner
        )
    edit = begun(proc)
    both = named(name)
    values = {
        outer.iterator: plus(FloorDiv(CVar(both), count), outer.lo),
        inner.iterator: plus(Mod(CVar(both), count), inner.lo),
    }
    body = with_values(edit, inner.body, values)
    total = tidy(Mul(count, minus(outer.hi, outer.lo)))
    new = replace(outer, iterator=both, lo=Int(0), hi=total, body=body)
    edit.followed[new] = outer
    edit.joined[inner] = new
    splice(edit, path, 1, (new,))
    yield edit


@primitive
def unroll_loop(proc: Proc, loop: object) -> Iterator[Rewrite]:
    """Write out the iterations of a loop with constant bounds.

    for i in seq(0, 2):          x[0] = 0
        x[i] = 0           ->    x[1] = 0
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    lo, hi = constant(old.lo), constant(old.hi)
    if lo is None or hi is None:
        raise Unfit(f"the range of {old.iterator.name} is not constant", old)
    if (count := (hi - lo) * len(list(walk(old.body)))) > STATEMENTS:
        raise Unfit(f"it would be {count:,} statements, more than {STATEMENTS:,}", old)
    edit = begun(proc)
    new: list[Stmt] = []
    for value in range(lo, hi):
        new += with_values(edit, old.body, {old.iterator: Int(value)}, fresh=True)
    splice(edit, path, 1, tuple(new))
    yield edit


@primitive
def cut_loop(proc: Proc, loop: object, at: str | int) -> Iterator[Rewrite]:
    """Make two loops of one, the second from iteration `at` of the iterator on.

    for i in seq(0, n):          for i in seq(0, 3):
        x[i] = 0           ->        x[i] = 0
                                 for i in seq(3, n):
                                     x[i] = 0
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    point = read_control(at, control_scope(proc, path))
    edit = begun(proc)
    first = replace(old, hi=point)
    iterator = Sym(old.iterator.name)
    body = with_values(edit, old.body, {old.iterator: CVar(iterator)}, fresh=True)
    second = replace(old, iterator=iterator, lo=point, body=body)
    edit.followed |= {first: old, second: old}
    splice(edit, path, 1, (first, second))
    yield edit


@primitive
def shift_loop(proc: Proc, loop: object, lo: str | int) -> Iterator[Rewrite]:
    """Let a loop begin elsewhere.

    for i in seq(0, n):          for i in seq(1, n + 1):
        x[i] = 0           ->        x[i - 1] = 0
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    start = read_control(lo, control_scope(proc, path))
    edit = begun(proc)
    iterator = Sym(old.iterator.name)
    value = minus(CVar(iterator), minus(start, old.lo))
    body = with_values(edit, old.body, {old.iterator: value})
    end = plus(start, minus(old.hi, old.lo))
    new = replace(old, iterator=iterator, lo=start, hi=end, body=body)
    edit.followed[new] = old
    splice(edit, path, 1, (new,))
    yield edit


def _two_loops(proc: Proc, loop: object) -> tuple[Path, For, For]:
    path = first_of(proc, loop)
    first = loop_at(proc, path)
    block, at = block_at(proc, path), path[-1][1]
    if at + 1 >= len(block) or not isinstance(second := block[at + 1], For):
        raise Unfit("no loop follows the loop", first)
    return path, first, second


@primitive
def extend_loop(proc: Proc, loop: object, lo: str | int, hi: str | int) -> Iterator[Rewrite]:
    """Let a loop run over more iterations, with a guard that keeps its body to the old ones.

    for i in seq(0, n):          for i in seq(0, n + 1):
        x[i] = 0           ->        if i < n:
                                         x[i] = 0
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    known = control_scope(proc, path)
    start, end = read_control(lo, known), read_control(hi, known)
    edit = begun(proc)
    body = old.body
    if minus(end, old.hi) != Int(0):
        body = (If(Compare("<", CVar(old.iterator), old.hi), body, span=old.span),)
    if minus(start, old.lo) != Int(0):
        body = (If(Compare(">=", CVar(old.iterator), old.lo), body, span=old.span),)
    new = replace(old, lo=start, hi=end, body=body)
    edit.followed[new] = old
    splice(edit, path, 1, (new,))
    yield edit


@primitive
def join_loops(proc: Proc, loop: object) -> Iterator[Rewrite]:
    """Make one loop of two of the same body, the second of which goes on where the first ends.

    for i in seq(0, 3):          for i in seq(0, n):
        x[i] = 0           ->        x[i] = 0
    for i in seq(3, n):
        x[i] = 0
    """
    path, first, second = _two_loops(proc, loop)
    edit = begun(proc)
    body = copied(edit, first.body, {}, fresh=False)
    values: dict[Sym, CExpr] = {second.iterator: CVar(first.iterator)}
    _also(edit, second.body, body, values)
    new = replace(first, hi=second.hi, body=body)
    edit.followed[new] = first
    edit.joined[second] = new
    splice(edit, path, 2, (new,))
    yield edit


def _also(edit: Rewrite, old: Block, new: Block, values: dict[Sym, CExpr]) -> None:
    """Say that statements are also those of another block, which looks the same."""
    if len(old) != len(new):
        raise Unfit("the bodies of the loops differ", old[0] if old else None)
    for other, stmt in zip(old, new, strict=True):
        edit.joined[other] = stmt
        if type(other) is not type(stmt):
            raise Unfit("the bodies of the loops differ", other)
        if isinstance(other, For) and isinstance(stmt, For):
            values[other.iterator] = CVar(stmt.iterator)
            _also(edit, other.body, stmt.body, values)
        elif isinstance(other, If) and isinstance(stmt, If):
            _also(edit, other.body, stmt.body, values)
            _also(edit, other.orelse, stmt.orelse, values)
        else:
            edit.becomes(other, stmt, values)


@primitive
def fuse(proc: Proc, stmt: object) -> Iterator[Rewrite]:
    """Make one loop of two of the same range that follow each other, or one `if` of two.

    for i in seq(0, n):          for i in seq(0, n):
        x[i] = 0           ->        x[i] = 0
    for j in seq(0, n):              y[i] = x[i]
        y[j] = x[j]
    """
    path = first_of(proc, stmt)
    if isinstance(stmt_at(proc, path), If):
        yield _fused_ifs(proc, path)
        return
    path, first, second = _two_loops(proc, path)
    edit = begun(proc)
    rest = with_values(edit, second.body, {second.iterator: CVar(first.iterator)})
    new = replace(first, body=(*first.body, *rest))
    edit.followed[new] = first
    edit.joined[second] = new
    splice(edit, path, 2, (new,))
    yield edit


def _fused_ifs(proc: Proc, path: Path) -> Rewrite:
    block, at = block_at(proc, path), path[-1][1]
    first = block[at]
    if at + 1 >= len(block) or not isinstance(second := block[at + 1], If):
        raise Unfit("no `if` follows the `if`", first)
    assert isinstance(first, If)
    edit = begun(proc)
    body, orelse = (*first.body, *second.body), (*first.orelse, *second.orelse)
    new = replace(first, body=body, orelse=orelse)
    edit.followed[new] = first
    edit.joined[second] = new
    splice(edit, path, 2, (new,))
    return edit


@primitive
def remove_loop(proc: Proc, loop: object) -> Iterator[Rewrite]:
    """Take the body out of a loop of one iteration, or of which only the first or last counts.

    for i in seq(0, n):          x[0] = 1
        x[0] = 1           ->
    """
    path = path_of(proc, loop)
    old = loop_at(proc, path)
    for value in (old.lo, minus(old.hi, Int(1))):
        edit = begun(proc)
        splice(edit, path, 1, with_values(edit, old.body, {old.iterator: value}))
        yield edit
