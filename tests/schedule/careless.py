"""Careless primitives: each lies about one thing, and the checker finds it out.

A careless primitive is a right one whose new procedure, or whose map, is changed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from exogpu import proc, schedule
from exogpu.api import Procedure
from exogpu.hw.memories import DRAM
from exogpu.ir.nodes import (
    Access,
    Add,
    Alloc,
    Assign,
    Block,
    CExpr,
    Compare,
    Const,
    CVar,
    For,
    If,
    Int,
    Point,
    Reduce,
    Stmt,
    Sub,
)
from exogpu.ir.types import DataType, Sym
from exogpu.ir.walk import blocks, map_blocks, walk
from exogpu.schedule.checking.checker import objection
from exogpu.schedule.cursors import find
from exogpu.schedule.rewrite import Copy, Image, Rewrite, splice, unchanged_rewrite
from tests.schedule.steps import (
    carried,
    even,
    four,
    gemm,
    pieces,
    running,
    scalar,
    square,
    squares,
    tail,
    two,
    wide,
)
from tests.schedule.write_steps import (
    added,
    added_to_itself,
    blurred,
    changed_between,
    counted,
    indexed,
    pair,
    scaled,
    twice,
)


@proc
def difference(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        y[i] = x[i] + x[n - i - 1]


Change = Callable[[Stmt], Block]


def edits_of(p: Procedure, primitive: object, target: str, *arguments: object) -> list[Rewrite]:
    """What a primitive proposes, before anything is checked."""
    make = primitive.__wrapped__  # type: ignore[attr-defined]
    return list(make(p.ir, find(p, target).path, *arguments))


def edit_of(p: Procedure, primitive: object, target: str, *arguments: object) -> Rewrite:
    edit = edits_of(p, primitive, target, *arguments)[0]
    assert objection(edit) is None
    return edit


def changed(edit: Rewrite, change: Change) -> Rewrite:
    """The rewriting with each statement replaced by others, of which it says the same."""

    def block(old: Block) -> Block:
        return tuple(new for stmt in old for new in one(stmt))

    def one(stmt: Stmt) -> Block:
        inner = map_blocks(stmt, block)
        found = change(inner)
        for new in found:
            if new is not stmt and type(new) is type(stmt) and not blocks(new):
                edit.origins[new] = edit.origins.get(stmt, (Image(stmt),))
        return found

    edit.new = replace(edit.new, body=block(edit.new.body))
    return edit


def loop(name: str, change: Callable[[For], Stmt], number: int = 0) -> Change:
    """Changes the n-th loop over an iterator of that name, innermost first."""
    seen = [0]

    def made(stmt: Stmt) -> Block:
        if isinstance(stmt, For) and stmt.iterator.name == name:
            seen[0] += 1
            if seen[0] == number + 1:
                return (change(stmt),)
        return (stmt,)

    return made


def guards_dropped(stmt: Stmt) -> Block:
    return stmt.body if isinstance(stmt, If) else (stmt,)


def copies_dropped(target: str) -> Change:
    """Removes the loops and statements that copy to a variable."""

    def made(stmt: Stmt) -> Block:
        if isinstance(stmt, Assign) and stmt.target.name.name == target:
            return ()
        return () if isinstance(stmt, For) and not stmt.body else (stmt,)

    return made


def coordinates(name: str, change: Callable[[tuple[Point, ...]], tuple[Point, ...]]) -> Change:
    """Changes the element that assignments write."""

    def made(stmt: Stmt) -> Block:
        if isinstance(stmt, Assign | Reduce) and stmt.target.name.name == name:
            coords = change(stmt.target.coords)  # type: ignore[arg-type]
            return (replace(stmt, target=replace(stmt.target, coords=coords)),)
        return (stmt,)

    return made


def without_guard() -> Rewrite:
    return changed(
        edit_of(gemm, schedule.divide_loop, "k", 4, ["ko", "ki"], "guard"), guards_dropped
    )


def tail_too_short() -> Rewrite:
    edit = edit_of(gemm, schedule.divide_loop, "k", 4, ["ko", "ki"], "cut")
    return changed(edit, loop("ki", lambda f: replace(f, hi=Sub(f.hi, Int(1))), 1))


def tail_from_the_start() -> Rewrite:
    """The tail's loop runs over what the blocks have done."""
    edit = edit_of(gemm, schedule.divide_loop, "k", 4, ["ko", "ki"], "cut")
    return changed(edit, loop("ki", lambda f: replace(f, lo=Int(-4), hi=Int(0)), 1))


def blocks_overlap() -> Rewrite:
    edit = edit_of(even, schedule.divide_loop, "i", 4, ["io", "ii"], "perfect")
    return changed(edit, loop("ii", lambda f: replace(f, hi=Int(5))))


def overlap_in_a_sum() -> Rewrite:
    edit = edit_of(four, schedule.divide_loop, "j", 2, ["jo", "ji"], "perfect")
    return changed(edit, loop("ji", lambda f: replace(f, hi=Int(3))))


def shifted_by_one_too_many() -> Rewrite:
    edit = edit_of(carried, schedule.shift_loop, "i", 2)
    return changed(edit, loop("i", lambda f: replace(f, lo=Int(3))))


def shifted_without_its_index() -> Rewrite:
    edit = edit_of(pieces, schedule.shift_loop, "i", 1)
    return changed(edit, coordinates("x", lambda c: (Point(Add(c[0].at, Int(1))),) if c else c))


def backwards() -> Rewrite:
    """The iterations of a loop that carries a value, in the other order."""
    edit = unchanged_rewrite(carried.ir)
    (old,) = carried.ir.body
    at = Sub(Sub(next(iter(walk(carried.ir.body))).hi, Int(1)), CVar(old.iterator))
    (body,) = old.body
    coords = (Point(Add(at, Int(1))),)
    value = replace(body.value, left=replace(body.value.left, access=Access(
        body.value.left.access.name, (Point(at),))))  # fmt: skip
    new = replace(body, target=replace(body.target, coords=coords), value=value)
    edit.origins[new] = (Image(body, {old.iterator: at}),)
    edit.new = replace(carried.ir, body=(replace(old, body=(new,)),))
    return edit


def fission_of_a_running_sum() -> Rewrite:
    make = schedule.fission.__wrapped__
    (edit,) = make(running.ir, (find(running, "t += _").path, 1))
    return edit


def transposed() -> Rewrite:
    edit = edit_of(square, schedule.reorder_loops, "i")
    return changed(edit, coordinates("x", lambda c: c[::-1]))


def statement_forgotten() -> Rewrite:
    make = schedule.fission.__wrapped__
    (edit,) = make(two.ir, (find(two, "x[_] = _").path, 1))
    edit.new = replace(edit.new, body=edit.new.body[1:])
    return edit


def written_back_to_nobody() -> Rewrite:
    edit = edit_of(even, schedule.stage_mem, "for i in _: _", "y[0:n]", "t")
    return changed(edit, copies_dropped("y"))


def never_copied_in() -> Rewrite:
    edit = edits_of(even, schedule.stage_mem, "for i in _: _", "x[0:n]", "t")[2]
    assert objection(edit) is None
    return changed(edit, copies_dropped("t"))


def copies_from_beside() -> Rewrite:
    """The copy reads the neighbour of the element that it says it copies."""
    edit = edits_of(even, schedule.stage_mem, "for i in _: _", "x[0:n]", "t")[2]
    assert objection(edit) is None

    def made(stmt: Stmt) -> Block:
        if isinstance(edit.origins.get(stmt), Copy):
            element = stmt.value.access
            coords = tuple(Point(Sub(c.at, Int(1))) for c in element.coords)
            read = replace(stmt.value, access=replace(element, coords=coords))
            new = replace(stmt, value=read)
            edit.origins[new] = edit.origins[stmt]
            return (new,)
        return (stmt,)

    return changed(edit, made)


def lies_about_a_copy() -> Rewrite:
    """The map says that the copy is of another element than it reads."""
    edit = edits_of(even, schedule.stage_mem, "for i in _: _", "x[0:n]", "t")[2]
    for stmt, origin in list(edit.origins.items()):
        if isinstance(origin, Copy):
            coords = tuple(Point(Add(c.at, Int(1))) for c in origin.element.coords)
            edit.origins[stmt] = Copy(replace(origin.element, coords=coords))
    return edit


def lies_about_an_iterator() -> Rewrite:
    """The map says that an iteration is the one before it."""
    edit = edit_of(carried, schedule.shift_loop, "i", 2)
    for stmt, origin in list(edit.origins.items()):
        assert not isinstance(origin, Copy)
        edit.origins[stmt] = tuple(
            Image(o.old, {k: Add(e, Int(1)) for k, e in o.at.items()}) for o in origin
        )
    return edit


def another_constant() -> Rewrite:
    def made(stmt: Stmt) -> Block:
        if isinstance(stmt, Assign) and isinstance(stmt.value, Const):
            return (replace(stmt, value=Const(4)),)
        return (stmt,)

    return changed(edit_of(square, schedule.reorder_loops, "i"), made)


def sum_becomes_assignment() -> Rewrite:
    def made(stmt: Stmt) -> Block:
        if isinstance(stmt, Reduce):
            new = Assign(stmt.target, stmt.value, span=stmt.span)
            edit.origins[new] = edit.origins.get(stmt, (Image(stmt),))
            return (new,)
        return (stmt,)

    edit = edit_of(four, schedule.reorder_loops, "i")
    return changed(edit, made)


def narrower_type() -> Rewrite:
    def made(stmt: Stmt) -> Block:
        return (replace(stmt, dtype=DataType.F16),) if isinstance(stmt, Alloc) else (stmt,)

    return changed(edit_of(scalar, schedule.lift_alloc, "t"), made)


def colliding_slots() -> Rewrite:
    """Two slots for values of all iterations, which the second loop wants."""
    p = schedule.expand_dim(scalar, "t", "n", "i")
    p = schedule.lift_alloc(p, "t")
    make = schedule.fission.__wrapped__
    (edit,) = make(p.ir, (find(p, "t[_] = _").path, 1))
    assert objection(edit) is None
    slot = Int(0)

    def made(stmt: Stmt) -> Block:
        if isinstance(stmt, Assign) and stmt.target.name.name == "t":
            return (replace(stmt, target=replace(stmt.target, coords=(Point(slot),))),)
        if isinstance(stmt, Assign):
            both = stmt.value
            read = replace(both.left, access=replace(both.left.access, coords=(Point(slot),)))
            return (replace(stmt, value=replace(both, left=read, right=read)),)
        return (stmt,)

    return changed(edit, made)


def alloc_in_the_loop_of_a_running_sum() -> Rewrite:
    """A fresh variable every iteration, where the value must be kept."""
    edit = unchanged_rewrite(running.ir)
    alloc, zero, over = running.ir.body
    inner = replace(over, body=(alloc, *over.body))
    edit.new = replace(running.ir, body=(inner, zero))
    return edit


def guard_of_a_read_dropped() -> Rewrite:
    (edit,) = schedule.remove_if.__wrapped__(tail.ir, find(tail, "if _: _ #1").path)
    return edit


def window_too_small() -> Rewrite:
    (edit,) = schedule.resize_dim.__wrapped__(wide.ir, find(wide, "t").path, 0, 3, 2)
    return edit


def one_element_for_another() -> Rewrite:
    """A scalar bound to x[i] stands for x[0] as well."""
    edit = edit_of(squares, schedule.bind_expr, "y[_] = _", "x[i]", "t")

    def made(stmt: Stmt) -> Block:
        if isinstance(stmt, Assign) and stmt.target.name.name == "t":
            read = stmt.value
            zero = replace(read, access=replace(read.access, coords=(Point(Int(0)),)))
            return (replace(stmt, value=zero),)
        return (stmt,)

    for stmt in list(edit.origins):
        if isinstance(edit.origins[stmt], Copy):
            origin = edit.origins[stmt]
    edit = changed(edit, made)
    for stmt in walk(edit.new.body):
        if isinstance(stmt, Assign) and stmt.target.name.name == "t":
            edit.origins[stmt] = origin
    return edit


def later_statement_first() -> Rewrite:
    edit = unchanged_rewrite(two.ir)
    (over,) = two.ir.body
    splice(edit, (("body", 0),), 1, (replace(over, body=over.body[::-1]),))
    return edit


def in_two_places() -> Rewrite:
    edit = unchanged_rewrite(square.ir)
    edit.new = replace(square.ir, body=(*square.ir.body, *square.ir.body))
    return edit


def image_of_what_is_kept() -> Rewrite:
    """A statement stays, and another on a variable of its own is said to be it, too."""
    edit = unchanged_rewrite(square.ir)
    (over,) = square.ir.body
    (inner,) = over.body
    (stmt,) = inner.body
    other = Alloc(Sym("other"), DataType.F32, square.ir.params[2].shape, DRAM)
    again = replace(stmt, target=replace(stmt.target, name=other.name))
    edit.origins[again] = (Image(stmt),)
    body = (replace(over, body=(replace(inner, body=(stmt, again)),)),)
    edit.new = replace(square.ir, body=(other, *body))
    return edit


def exchanged_sides_of_a_difference() -> Rewrite:
    """The map says that a difference is one with its sides exchanged."""
    (edit,) = schedule.commute_expr.__wrapped__(
        difference.ir, find(difference, "y[_] = _").path, "_"
    )

    def made(stmt: Stmt) -> Block:
        if isinstance(stmt, Assign):
            return (replace(stmt, value=replace(stmt.value, op="-")),)
        return (stmt,)

    edit.old = changed(Rewrite(edit.old, edit.old), made).new
    (before,) = edit.old.body[0].body
    edit = changed(edit, made)
    for stmt in walk(edit.new.body):
        if isinstance(stmt, Assign):
            edit.origins[stmt] = (Image(before, reads=(1, 0)),)
    return edit


def sides_not_exchanged() -> Rewrite:
    """The map says that the sides of a product are exchanged, and they are not."""
    edit = unchanged_rewrite(difference.ir)
    (over,) = difference.ir.body
    (stmt,) = over.body
    new = replace(stmt)
    edit.origins[new] = (Image(stmt, reads=(1, 0)),)
    splice(edit, (("body", 0),), 1, (replace(over, body=(new,)),))
    return edit


def first_counts_and_not_the_last() -> Rewrite:
    """Of what is computed again, the first time is said to count; the last one is what is read."""
    return only(edit_of(scalar, schedule.add_loop, "t = _", "j", 4), "j", Int(0))


def nobody_counts() -> Rewrite:
    """An iteration is said to count that there is not."""
    return only(edit_of(scalar, schedule.add_loop, "t = _", "j", 4), "j", Int(4))


def only(edit: Rewrite, name: str, at: CExpr) -> Rewrite:
    (loop_,) = [f for f in walk(edit.new.body) if isinstance(f, For) and f.iterator.name == name]
    for stmt, origin in list(edit.origins.items()):
        if isinstance(origin, tuple) and any(image.only is not None for image in origin):
            where = Compare("==", CVar(loop_.iterator), at)
            edit.origins[stmt] = tuple(replace(image, only=where) for image in origin)
    return edit


def sum_repeated() -> Rewrite:
    """Every iteration of a loop around a sum is said to be the only one."""
    (edit,) = edits_of(counted, schedule.add_loop, "y[_] += _", "j", 2)
    return edit


def blocks_recompute_too_little() -> Rewrite:
    edit = edit_of(blurred, schedule.divide_with_recompute, "i", 2, 4, ["io", "ii"])
    return changed(edit, loop("ii", lambda f: replace(f, hi=Sub(f.hi, Int(1)))))


def read_as_what_it_is_not() -> Rewrite:
    """The law is of `a + b`, and the statement writes `a - b`."""
    edit = edit_of(added, schedule.merge_writes, "x[_] = _")

    def made(stmt: Stmt) -> Block:
        if not isinstance(stmt, Assign):
            return (stmt,)
        new = replace(stmt, value=replace(stmt.value, op="-"))
        edit.readings[new] = replace(edit.readings[stmt], whole=(new,))
        return (new,)

    return changed(edit, made)


def part_forgotten() -> Rewrite:
    """The statement is read as the first of two."""
    edit = edit_of(added, schedule.merge_writes, "x[_] = _")
    for stmt, reading in list(edit.readings.items()):
        edit.readings[stmt] = replace(reading, parts=reading.parts[:1])
    return edit


def part_of_another_element() -> Rewrite:
    """A part writes an element beside, which the whole does not."""
    edit = edit_of(added, schedule.merge_writes, "x[_] = _")
    for stmt, reading in list(edit.readings.items()):
        last = reading.parts[1]
        (point,) = last.target.coords
        other = replace(last.target, coords=(Point(Add(point.at, Int(1))),))
        new = replace(last, target=other)
        edit.origins[new] = edit.origins[last]
        edit.readings[stmt] = replace(reading, parts=(reading.parts[0], new))
    return edit


def merged_with_what_reads_it() -> Rewrite:
    (edit,) = edits_of(added_to_itself, schedule.merge_writes, "x[_] = _")
    return edit


def scratch_that_is_not_its_own() -> Rewrite:
    """The variable of a reading is one of the procedure."""
    edit = edit_of(indexed, schedule.bind_expr, "y[_] = _", "x[i] * 3", "t")
    (alloc,) = [one for one in walk(edit.new.body) if isinstance(one, Alloc)]
    for stmt, reading in list(edit.readings.items()):
        edit.readings[stmt] = replace(reading, made=(alloc,))
    return edit


def inlined_after_a_change() -> Rewrite:
    """What is computed once more reads what has been written since."""
    edit = edits_of(changed_between, schedule.inline_assign, "t = _")[0]
    assert edit.after is not None
    return edit.after


def inlined_before() -> Rewrite:
    """What is computed once more comes before the first time."""
    first = edits_of(twice, schedule.inline_assign, "t = _")[0].after
    assert first is not None
    (over,) = first.new.body
    alloc, once, again, second, *rest = over.body
    first.new = replace(first.new, body=(replace(over, body=(alloc, again, second, once, *rest)),))
    return first


def factor_that_changes() -> Rewrite:
    """A factor is taken out of the sum that is another in every iteration."""
    edit = edit_of(scaled, schedule.lift_reduce_constant, "x[_] = 0")

    def made(stmt: Stmt) -> Block:
        if isinstance(stmt, Reduce):
            (i, j) = stmt.value.access.coords
            new = replace(stmt, value=replace(stmt.value, access=replace(
                stmt.value.access, coords=(j, i))))  # fmt: skip
            return (new,)
        return (stmt,)

    found = changed(edit, made)
    (over,) = found.new.body
    found.readings = {
        over.body[0]: replace(next(iter(edit.readings.values())), whole=tuple(over.body))
    }
    return found


def sum_scaled_from_one() -> Rewrite:
    """The sum whose factor is taken out begins at one."""
    edit = edit_of(scaled, schedule.lift_reduce_constant, "x[_] = 0")
    ((start, reading),) = edit.readings.items()
    one = replace(start, value=Const(1))
    (over,) = edit.new.body
    edit.new = replace(edit.new, body=(replace(over, body=(one, *over.body[1:])),))
    edit.readings = {one: replace(reading, whole=(one, *reading.whole[1:]))}
    return edit


def rows_exchanged() -> Rewrite:
    """Of a buffer that is taken apart, a read is of the other part."""
    edit = edit_of(pair, schedule.unroll_buffer, "t", 0)
    names = [one.name for one in walk(edit.new.body) if isinstance(one, Alloc)]

    def made(stmt: Stmt) -> Block:
        if isinstance(stmt, Assign) and stmt.target.name.name == "y":
            left = replace(stmt.value.left, access=replace(
                stmt.value.left.access, name=names[1]))  # fmt: skip
            return (replace(stmt, value=replace(stmt.value, left=left)),)
        return (stmt,)

    return changed(edit, made)


CARELESS = [
    without_guard, tail_too_short, tail_from_the_start, blocks_overlap, overlap_in_a_sum,
    shifted_by_one_too_many, shifted_without_its_index, backwards, fission_of_a_running_sum,
    transposed, statement_forgotten, written_back_to_nobody, never_copied_in, copies_from_beside,
    lies_about_a_copy, lies_about_an_iterator, another_constant, sum_becomes_assignment,
    narrower_type, colliding_slots, alloc_in_the_loop_of_a_running_sum, guard_of_a_read_dropped,
    window_too_small, one_element_for_another, later_statement_first, in_two_places,
    image_of_what_is_kept, exchanged_sides_of_a_difference, sides_not_exchanged,
    first_counts_and_not_the_last, nobody_counts, sum_repeated, blocks_recompute_too_little,
    read_as_what_it_is_not, part_forgotten, part_of_another_element, merged_with_what_reads_it,
    scratch_that_is_not_its_own, inlined_after_a_change, inlined_before, factor_that_changes,
    sum_scaled_from_one, rows_exchanged,
]  # fmt: skip


VISIBLE = [
    without_guard, tail_too_short, tail_from_the_start, overlap_in_a_sum, backwards,
    shifted_by_one_too_many, fission_of_a_running_sum, written_back_to_nobody, never_copied_in,
    copies_from_beside, colliding_slots, one_element_for_another, later_statement_first,
]  # fmt: skip
