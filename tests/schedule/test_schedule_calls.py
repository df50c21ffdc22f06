"""Procedures with calls are scheduled; and a careless unifier is found out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from call_steps import (
    all_of_the_tensor_cores,
    dot4,
    dotted,
    doubled,
    edged,
    edges,
    padded,
    scaled,
    tensor_cores,
    vectors,
)
from steps import calling, data, gemm, same_results, squares

from exogpu import ExoGpuError, f16, proc, schedule
from exogpu.api import Procedure
from exogpu.hw.memories import Sm90_tensorMap
from exogpu.interpreter import elementwise
from exogpu.ir.nodes import (
    Access,
    Add,
    CallInstr,
    CallProc,
    Const,
    CVar,
    For,
    Instr,
    Int,
    Interval,
    Point,
    Proc,
    Stmt,
    WindowStmt,
)
from exogpu.ir.walk import map_blocks, walk
from exogpu.isa.cuda import cuda_load, cuda_shfl_xor
from exogpu.isa.sm90 import Sm90_tma_load
from exogpu.schedule.checking.checker import objection
from exogpu.schedule.cursors import find
from exogpu.schedule.primitive import refusal_of
from exogpu.schedule.rewrite import Image, Rewrite, unchanged_rewrite

BOX = Sm90_tensorMap(128, 16, 32)


def test_primitives_look_into_calls() -> None:
    @proc
    def both(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM, z: f32[n] @ DRAM):
        squares(n, x[0:n], y[0:n])
        squares(n, x[0:n], z[0:n])
        squares(n, z[0:n], x[0:n])

    swapped = schedule.reorder_stmts(both, "squares")
    assert same_results(both, swapped) > 0
    message = r"RAW.*`squares\(n, x\[0:n\], z\[0:n\]\)`.*`squares\(n, z\[0:n\], x\[0:n\]\)`.*n = 1"
    with pytest.raises(ExoGpuError, match=message):
        schedule.reorder_stmts(both, "squares #1")


def test_parts_of_a_variable_are_apart() -> None:
    @proc
    def halves(x: f32[8] @ DRAM):
        squares(4, x[0:4], x[4:8])
        squares(2, x[0:2], x[2:4])

    with pytest.raises(ExoGpuError, match="WAR"):
        schedule.reorder_stmts(halves, "squares")

    @proc
    def quarters(x: f32[8] @ DRAM):
        squares(2, x[0:2], x[4:6])
        squares(2, x[2:4], x[6:8])

    assert same_results(quarters, schedule.reorder_stmts(quarters, "squares")) > 0


def test_variables_of_a_called_procedure_are_new_at_every_call() -> None:
    @proc
    def through(x: f32[4] @ DRAM, y: f32[4] @ DRAM):
        t: f32[4] @ DRAM
        for i in seq(0, 4):
            t[i] = x[i]
        for i in seq(0, 4):
            y[i] = t[i]

    @proc
    def twice(x: f32[4] @ DRAM, y: f32[4] @ DRAM, z: f32[4] @ DRAM):
        through(x[0:4], y[0:4])
        through(x[0:4], z[0:4])

    assert same_results(twice, schedule.reorder_stmts(twice, "through")) > 0
    opened = schedule.inline(schedule.inline(twice, "through"), "through")
    assert len(schedule.find_all(opened, "t: _")) == 2
    assert same_results(twice, opened) > 0


def test_a_constant_keeps_the_type_of_its_parameter() -> None:
    """0.1 as f64, multiplied in f64, is not 0.1 in an expression of f32."""

    @proc
    def times(c: f64 @ DRAM, x: f32[4] @ DRAM):
        for i in seq(0, 4):
            x[i] = c * x[i]

    @proc
    def tenth(x: f32[4] @ DRAM):
        for i in seq(0, 4):
            x[i] = 0.1 * x[i]

    assert times.ir is not None and tenth.ir is not None
    (loop,) = tenth.ir.body
    assert isinstance(loop, For) and isinstance(times.ir.body[0], For)
    x = Access(tenth.ir.params[0].name, (Interval(Int(0), Int(4)),))
    call = CallProc(times.ir, (Const(0.1), x))
    edit = unchanged_rewrite(tenth.ir)
    site = (call, times.ir.body[0].body[0])
    edit.inner[site] = (Image(loop.body[0], {loop.iterator: CVar(times.ir.body[0].iterator)}),)
    edit.new = replace(tenth.ir, body=(call,))
    found = objection(edit)
    assert found is not None and found.kind == "SHAPE"


def test_padding_that_is_not_zero_is_read() -> None:
    @proc
    def ones(n: size, x: f32[n] @ DRAM, y: f32[1] @ DRAM):
        t: f32[n + 3] @ DRAM
        for i in seq(0, n + 3):
            if i < n:
                t[i] = x[i]
            else:
                t[i] = 1
        y[0] = 0
        for i in seq(0, n + 3):
            if i < n:
                y[0] += t[i] * t[i]

    with pytest.raises(ExoGpuError, match=r"X992: remove_if.*value.*another's.*n = 1"):
        schedule.remove_if(ones, "if _: _ #1")


def test_zero_times_what_may_be_infinite_is_not_zero() -> None:
    @proc
    def one_side(n: size, x: f32[n + 3] @ DRAM, y: f32[1] @ DRAM):
        t: f32[n + 3] @ DRAM
        for i in seq(0, n + 3):
            if i < n:
                t[i] = x[i]
            else:
                t[i] = 0
        y[0] = 0
        for i in seq(0, n + 3):
            if i < n:
                y[0] += t[i] * x[i]

    with pytest.raises(ExoGpuError, match="X992: remove_if"):
        schedule.remove_if(one_side, "if _: _ #1")


def test_zeros_are_followed_through_copies() -> None:
    p = schedule.stage_mem(
        schedule.remove_if(padded, "if _: _ #1"), "for i in _: _ #1", "t[0 : n + 3]", "u"
    )
    assert same_results(padded, p) > 0
    q = schedule.stage_mem(padded, "for i in _: _ #1", "t[0 : n + 3]", "u")
    assert same_results(padded, schedule.remove_if(q, "if _: _ #1")) > 0


def test_every_loop_of_the_body_may_be_a_window() -> None:
    """Dimensions in which an operand stays are dropped, others keep their offsets."""

    @proc
    def picks(n: size, x: f32[3, n + 5, 4] @ DRAM):
        for k in seq(0, n):
            x[2, k + 5, 1] = x[0, 2, 3] * x[2, k + 5, 1]

    p = schedule.replace(picks, "k", scaled)
    assert "scaled(n, x[0, 2, 3], x[2, 5:n + 5, 1])" in schedule.text(p)
    assert same_results(picks, p) > 0


def test_compile_time_parameters_are_found_or_given() -> None:
    @proc
    def pairs(x: f16[8] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, 1):
                for t in cuda_threads(0, 4, unit=cuda_thread):
                    a: f16[2]
                    for i in seq(0, 2):
                        a[i] = x[2 * t + i]

    found = schedule.replace(pairs, "i", cuda_load)
    assert "cuda_load(a[0:2], x[2 * t:2 * t + 2], n=2, dtype=f16)" in schedule.text(found)
    assert not found.diagnostics
    with pytest.raises(ExoGpuError, match=r"X991: replace: `for i in seq.*\| `for i in.*counts"):
        schedule.replace(pairs, "i", cuda_load, n=4, dtype=f16)
    with pytest.raises(ExoGpuError, match=r"X991: replace.*of cuda_shfl_xor: the loops have"):
        schedule.replace(pairs, "i", cuda_shfl_xor)


def test_replace_all_names_each_step_and_refuses_none() -> None:
    p = schedule.replace_all(
        schedule.unroll_loop(schedule.inline(calling, "squares"), "i"), squares
    )
    assert schedule.history(p).count("replace(") == 2
    with pytest.raises(ExoGpuError, match="X991: replace_all: no statements are such a call"):
        schedule.replace_all(gemm, squares)


def test_the_procedure_called_is_found_by_name() -> None:
    assert schedule.callee(dotted, "dot").name == "dot"
    with pytest.raises(ExoGpuError, match="X991"):
        schedule.callee(gemm, "k")


def test_tensor_cores_are_found_in_loops() -> None:
    """The loops are no program for threads; sequentially both mean the same."""
    p = all_of_the_tensor_cores(tensor_cores)
    golden_names = [c.stmt.instr.name for c in schedule.find_all(p, "Sm80_mma_tf32")]
    assert golden_names == ["Sm80_mma_tf32"]
    assert not schedule.find_all(p, "for i in _: _")
    assert (
        "Sm80_store_D(16, 15 - 8 * n, C[16 * tile:16 * tile + 16, 8 * n:8 * n + 8]"
        in schedule.text(p)
    )
    assert (
        "Sm80_mma_tf32(D[w, n, 0:16, 0:8], a[w, 0:16, 0:8], b[w, 0:8, 0:8], K=8)"
        in schedule.text(p)
    )
    assert not p.refusals


@proc
def padded_tiles(M: size, K: size, A: f32[M, K] @ DRAM, y: f32[1] @ DRAM):
    y[0] = 0
    for m in seq(0, (M + 15) / 16):
        for k in seq(0, (K + 31) / 32):
            tile: f32[16, 32] @ DRAM
            for i in seq(0, 16):
                for j in seq(0, 32):
                    if 16 * m + i < M and 32 * k + j < K:
                        tile[i, j] = A[16 * m + i, 32 * k + j]
            for i in seq(0, 16):
                for j in seq(0, 32):
                    if 16 * m + i < M and 32 * k + j < K:
                        y[0] += tile[i, j] * tile[i, j]


def test_what_the_hardware_clips_needs_no_guard_and_is_zero() -> None:
    """TMA keeps to the edges of the tensor, and fills tiles with zeros beyond them."""
    p = schedule.bind_window(padded_tiles, "for m in _: _", "A[0:M, 0:K]", "A_map", BOX)
    p = schedule.replace(p, "for i in _: _", Sm90_tma_load, rows=16, cols=32, box=(16, 32))
    assert "A_map[16 * m:16 * m + 16, 32 * k:32 * k + 32]" in schedule.text(p)
    p = schedule.remove_if(p, "if _: _")
    assert padded_tiles.ir is not None and p.ir is not None
    for M, K in ((1, 1), (17, 31), (33, 70)):
        given = data(padded_tiles.ir, M, {"M": M, "K": K})
        again = {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in given.items()}
        elementwise.run(padded_tiles.ir, given)
        elementwise.run(p.ir, again)
        np.testing.assert_array_equal(given["y"], again["y"])


def test_a_window_that_ends_before_the_tensor_is_clipped_there() -> None:
    less = schedule.bind_window(padded_tiles, "for m in _: _", "A[0:M, 0:K]", "A_map", BOX)
    edit = unified(less, "for i in _: _", Sm90_tma_load, rows=16, cols=32, box=(16, 32))

    def shorter(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, WindowStmt):
            return stmt
        rows, columns = stmt.source.coords
        assert isinstance(columns, Interval)
        fewer = Interval(columns.lo, Add(columns.hi, Int(-1)))
        return replace(stmt, source=replace(stmt.source, coords=(rows, fewer)))

    edit.new = replace(edit.new, body=tuple(map(shorter, edit.new.body)))
    found = objection(edit)
    assert found is not None and "read as zero" in found.message


# --- careless unifiers ----------------------------------------------------------------------

Call = CallInstr | CallProc


def unified(p: Procedure, pattern: str, callee: object, **constants: object) -> Rewrite:
    make = schedule.replace.__wrapped__  # type: ignore[attr-defined]
    edits = make(p.ir, find(p, pattern).path, callee, **constants)
    return next(edit for edit in edits if objection(edit) is None)


def with_call(edit: Rewrite, change: Callable[[Call], Call]) -> Rewrite:
    """The rewriting with another call, of which it says the same."""

    def one(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, CallInstr | CallProc):
            return map_blocks(stmt, lambda block: tuple(map(one, block)))
        new = change(stmt)
        for site in [site for site in edit.inner if site[0] is stmt]:
            edit.inner[new, *site[1:]] = edit.inner[site]
        return new

    edit.new = replace(edit.new, body=tuple(map(one, edit.new.body)))
    return edit


def argument(number: int, value: Callable[[object], object]) -> Callable[[Call], Call]:
    def change(call: Call) -> Call:
        given = list(call.arguments)
        given[number] = value(given[number])  # type: ignore[call-overload]
        return replace(call, arguments=tuple(given))

    return change


def shifted(access: object) -> Access:
    assert isinstance(access, Access)
    coords = tuple(
        Interval(Add(c.lo, Int(1)), Add(c.hi, Int(1))) if isinstance(c, Interval) else c
        for c in access.coords
    )
    return replace(access, coords=coords)


def beside(access: object) -> Access:
    assert isinstance(access, Access)
    coords = tuple(Point(Int(0)) if isinstance(c, Point) else c for c in access.coords)
    return replace(access, coords=coords)


def wrong_offset() -> Rewrite:
    return with_call(unified(vectors, "i", cuda_load), argument(1, shifted))


def wrong_dimension() -> Rewrite:
    return with_call(unified(doubled, "j", scaled), argument(2, beside))


def wrong_scalar() -> Rewrite:
    return with_call(unified(doubled, "j", scaled), argument(1, beside))


def wrong_edge() -> Rewrite:
    return with_call(unified(edges, "i", edged), argument(1, lambda e: Add(e, Int(1))))


def dropped_guard() -> Rewrite:
    """The edge at the end, as if the guard always held."""
    return with_call(unified(edges, "i", edged), argument(1, lambda _: Int(1 << 20)))


def too_few() -> Rewrite:
    p = schedule.inline(calling, "squares")
    edit = unified(p, "i #1", squares)
    return with_call(edit, argument(0, lambda n: Add(n, Int(-1))))


def aliasing_window() -> Rewrite:
    """The result over the operand that is still read."""

    @proc
    def moved(x: f32[9] @ DRAM, y: f32[9] @ DRAM):
        for i in seq(0, 8):
            y[i + 1] = x[i] * x[i]

    edit = unified(moved, "i", squares)
    assert isinstance(moved.ir, Proc)
    x = moved.ir.params[0].name
    return with_call(edit, argument(2, lambda y: replace(y, name=x)))  # type: ignore[type-var]


def another_instruction() -> Rewrite:
    """Its statements are said to be those of the body of another."""
    edit = unified(vectors, "i", cuda_load)
    add: Instr = next(stmt.instr for stmt in walk(edit.new.body) if isinstance(stmt, CallInstr))
    (loop,) = add.body
    body = (replace(loop, hi=Int(3)),)  # type: ignore[call-arg]
    other = replace(add, body=body)
    return with_call(edit, lambda call: replace(call, instr=other))  # type: ignore[call-arg]


def statements_exchanged() -> Rewrite:
    """The map says that the branch beyond the edge is the one inside of it."""
    edit = unified(edges, "i", edged)
    first, second = edit.inner
    edit.inner[first], edit.inner[second] = edit.inner[second], edit.inner[first]
    return edit


def not_derived() -> Rewrite:
    """A procedure with the same parameters, said to do the same."""
    make = schedule.call_eqv.__wrapped__  # type: ignore[attr-defined]
    (edit,) = make(dotted.ir, find(dotted, "dot").path, dot4)
    ((call, (new, old)),) = edit.equal.items()
    other = type(new)(new.name, replace(new.ir, body=()), ())
    again = replace(call, proc=other.ir)
    edit.origins[again] = edit.origins[call]
    edit.equal = {again: (other, old)}
    return with_call(edit, lambda c: again if c is call else c)


def body_forgotten() -> Rewrite:
    """A call is inlined, and nothing is left of it."""
    edit = unchanged_rewrite(calling.ir)
    (loop,) = calling.ir.body
    edit.new = replace(calling.ir, body=(replace(loop, body=()),))
    return edit


CARELESS = [
    wrong_offset, wrong_dimension, wrong_scalar, wrong_edge,
    dropped_guard, too_few, aliasing_window, another_instruction, statements_exchanged,
    not_derived, body_forgotten,
]  # fmt: skip


@pytest.mark.parametrize("careless", CARELESS, ids=lambda f: f.__name__)
def test_a_careless_unifier_is_refused(careless: Callable[[], Rewrite]) -> None:
    edit = careless()
    assert objection(edit) is not None
    found = refusal_of(careless.__name__, edit)
    assert found is not None and found.code == "X992"
