"""Careless primitives: each lies about one thing, and the checker finds it out.

A careless primitive is a right one whose new procedure, or whose map, is changed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from steps import (
    carried,
    data,
    even,
    four,
    gemm,
    pieces,
    running,
    same_results,
    scalar,
    square,
    squares,
    tail,
    two,
    wide,
)

from exogpu import ExoGpuError, proc
from exogpu import schedule as s
from exogpu.api import Procedure
from exogpu.hw.memories import DRAM
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Add,
    Alloc,
    Assign,
    Block,
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
from exogpu.ir.types import DataType
from exogpu.ir.walk import blocks, holds, map_blocks, walk
from exogpu.meaning import naive
from exogpu.schedule.certifying.chain import uncertified
from exogpu.schedule.checker import objection
from exogpu.schedule.cursors import find
from exogpu.schedule.primitive import refused
from exogpu.schedule.rewrite import Copy, Image, Rewrite, begun, splice


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
    return changed(edit_of(gemm, s.divide_loop, "k", 4, ["ko", "ki"], "guard"), guards_dropped)


def tail_too_short() -> Rewrite:
    edit = edit_of(gemm, s.divide_loop, "k", 4, ["ko", "ki"], "cut")
    return changed(edit, loop("ki", lambda f: replace(f, hi=Sub(f.hi, Int(1))), 1))


def tail_from_the_start() -> Rewrite:
    """The tail's loop runs over what the blocks have done."""
    edit = edit_of(gemm, s.divide_loop, "k", 4, ["ko", "ki"], "cut")
    return changed(edit, loop("ki", lambda f: replace(f, lo=Int(-4), hi=Int(0)), 1))


def blocks_overlap() -> Rewrite:
    edit = edit_of(even, s.divide_loop, "i", 4, ["io", "ii"], "perfect")
    return changed(edit, loop("ii", lambda f: replace(f, hi=Int(5))))


def overlap_in_a_sum() -> Rewrite:
    edit = edit_of(four, s.divide_loop, "j", 2, ["jo", "ji"], "perfect")
    return changed(edit, loop("ji", lambda f: replace(f, hi=Int(3))))


def shifted_by_one_too_many() -> Rewrite:
    edit = edit_of(carried, s.shift_loop, "i", 2)
    return changed(edit, loop("i", lambda f: replace(f, lo=Int(3))))


def shifted_without_its_index() -> Rewrite:
    edit = edit_of(pieces, s.shift_loop, "i", 1)
    return changed(edit, coordinates("x", lambda c: (Point(Add(c[0].at, Int(1))),) if c else c))


def backwards() -> Rewrite:
    """The iterations of a loop that carries a value, in the other order."""
    edit = begun(carried.ir)
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
    make = s.fission.__wrapped__
    (edit,) = make(running.ir, (find(running, "t += _").path, 1))
    return edit


def transposed() -> Rewrite:
    edit = edit_of(square, s.reorder_loops, "i")
    return changed(edit, coordinates("x", lambda c: c[::-1]))


def statement_forgotten() -> Rewrite:
    make = s.fission.__wrapped__
    (edit,) = make(two.ir, (find(two, "x[_] = _").path, 1))
    edit.new = replace(edit.new, body=edit.new.body[1:])
    return edit


def written_back_to_nobody() -> Rewrite:
    edit = edit_of(even, s.stage_mem, "for i in _: _", "y[0:n]", "t")
    return changed(edit, copies_dropped("y"))


def never_copied_in() -> Rewrite:
    edit = edits_of(even, s.stage_mem, "for i in _: _", "x[0:n]", "t")[2]
    assert objection(edit) is None
    return changed(edit, copies_dropped("t"))


def copies_from_beside() -> Rewrite:
    """The copy reads the neighbour of the element that it says it copies."""
    edit = edits_of(even, s.stage_mem, "for i in _: _", "x[0:n]", "t")[2]
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
    edit = edits_of(even, s.stage_mem, "for i in _: _", "x[0:n]", "t")[2]
    for stmt, origin in list(edit.origins.items()):
        if isinstance(origin, Copy):
            coords = tuple(Point(Add(c.at, Int(1))) for c in origin.element.coords)
            edit.origins[stmt] = Copy(replace(origin.element, coords=coords))
    return edit


def lies_about_an_iterator() -> Rewrite:
    """The map says that an iteration is the one before it."""
    edit = edit_of(carried, s.shift_loop, "i", 2)
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

    return changed(edit_of(square, s.reorder_loops, "i"), made)


def sum_becomes_assignment() -> Rewrite:
    def made(stmt: Stmt) -> Block:
        if isinstance(stmt, Reduce):
            new = Assign(stmt.target, stmt.value, span=stmt.span)
            edit.origins[new] = edit.origins.get(stmt, (Image(stmt),))
            return (new,)
        return (stmt,)

    edit = edit_of(four, s.reorder_loops, "i")
    return changed(edit, made)


def narrower_type() -> Rewrite:
    def made(stmt: Stmt) -> Block:
        return (replace(stmt, dtype=DataType.F16),) if isinstance(stmt, Alloc) else (stmt,)

    return changed(edit_of(scalar, s.lift_alloc, "t"), made)


def colliding_slots() -> Rewrite:
    """Two slots for values of all iterations, which the second loop wants."""
    p = s.expand_dim(scalar, "t", "n", "i")
    p = s.lift_alloc(p, "t")
    make = s.fission.__wrapped__
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
    edit = begun(running.ir)
    alloc, zero, over = running.ir.body
    inner = replace(over, body=(alloc, *over.body))
    edit.new = replace(running.ir, body=(inner, zero))
    return edit


def guard_of_a_read_dropped() -> Rewrite:
    (edit,) = s.remove_if.__wrapped__(tail.ir, find(tail, "if _: _ #1").path)
    return edit


def window_too_small() -> Rewrite:
    (edit,) = s.resize_dim.__wrapped__(wide.ir, find(wide, "t").path, 0, 3, 2)
    return edit


def one_element_for_another() -> Rewrite:
    """A scalar bound to x[i] stands for x[0] as well."""
    edit = edit_of(squares, s.bind_expr, "y[_] = _", "x[i]", "t")

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
    edit = begun(two.ir)
    (over,) = two.ir.body
    splice(edit, (("body", 0),), 1, (replace(over, body=over.body[::-1]),))
    return edit


def in_two_places() -> Rewrite:
    edit = begun(square.ir)
    edit.new = replace(square.ir, body=(*square.ir.body, *square.ir.body))
    return edit


def image_of_what_is_kept() -> Rewrite:
    """A statement stays, and another on a variable of its own is said to be it, too."""
    edit = begun(square.ir)
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
    (edit,) = s.commute_expr.__wrapped__(difference.ir, find(difference, "y[_] = _").path, "_")

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
    edit = begun(difference.ir)
    (over,) = difference.ir.body
    (stmt,) = over.body
    new = replace(stmt)
    edit.origins[new] = (Image(stmt, reads=(1, 0)),)
    splice(edit, (("body", 0),), 1, (replace(over, body=(new,)),))
    return edit


CARELESS = [
    without_guard, tail_too_short, tail_from_the_start, blocks_overlap, overlap_in_a_sum,
    shifted_by_one_too_many, shifted_without_its_index, backwards, fission_of_a_running_sum,
    transposed, statement_forgotten, written_back_to_nobody, never_copied_in, copies_from_beside,
    lies_about_a_copy, lies_about_an_iterator, another_constant, sum_becomes_assignment,
    narrower_type, colliding_slots, alloc_in_the_loop_of_a_running_sum, guard_of_a_read_dropped,
    window_too_small, one_element_for_another, later_statement_first, in_two_places,
    image_of_what_is_kept, exchanged_sides_of_a_difference, sides_not_exchanged,
]  # fmt: skip


@pytest.mark.parametrize("careless", CARELESS, ids=lambda f: f.__name__)
def test_careless_primitives_are_refused(careless: Callable[[], Rewrite]) -> None:
    found = refused(careless.__name__, careless())
    assert found is not None
    assert found.code in ("X992", "X991")


@pytest.mark.parametrize("careless", CARELESS, ids=lambda f: f.__name__)
def test_the_solver_alone_refuses_them(careless: Callable[[], Rewrite]) -> None:
    """The checker is not asked; the witness is what ISL finds about the wrong step."""
    why = uncertified(careless())
    assert why.startswith(("sat: ", "no witness: "))


def test_the_checker_alone_finds_what_bounds_would_find_too() -> None:
    """An instance that runs twice, or a neighbour's value, is no matter of bounds."""
    for careless in set(CARELESS) - {window_too_small}:
        assert objection(careless()) is not None, careless.__name__


VISIBLE = [
    without_guard, tail_too_short, tail_from_the_start, overlap_in_a_sum, backwards,
    shifted_by_one_too_many, fission_of_a_running_sum, written_back_to_nobody, never_copied_in,
    copies_from_beside, colliding_slots, one_element_for_another, later_statement_first,
]  # fmt: skip


def differ(edit: Rewrite, sizes: dict[str, int]) -> bool:
    """Whether the old and the new procedure leave other results, on one of a few inputs."""
    for seed in range(3):
        given = data(edit.old, seed, sizes)
        before, after = (
            {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in given.items()}
            for _ in range(2)
        )
        naive.run(edit.old, before)
        try:
            naive.run(edit.new, after)
        except ExoGpuError:  # out of bounds
            return True
        if any(not np.array_equal(before[n], after[n]) for n in given):
            return True
    return False


@pytest.mark.parametrize("careless", VISIBLE, ids=lambda f: f.__name__)
def test_the_sizes_that_are_named_are_the_smallest(careless: Callable[[], Rewrite]) -> None:
    edit = careless()
    found = objection(edit)
    assert found is not None and found.sizes is not None
    assert differ(edit, dict(found.sizes))
    total = sum(found.sizes.values())
    for values in product(range(1, total), repeat=len(found.sizes)):
        sizes = dict(zip(found.sizes, values, strict=True))
        env = {p.name: sizes[p.name.name] for p in edit.old.params if p.name.name in sizes}
        if sum(values) < total and all(holds(b, env) for b in edit.old.preconditions):
            assert not differ(edit, sizes), sizes


def test_the_papers_guard_goes_without_an_unsafe_step() -> None:
    """Section "Limitations": what the first guard keeps from running is read by nobody."""
    p = s.remove_if(tail, "if _: _")
    assert same_results(tail, p) > 0
