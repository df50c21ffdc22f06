"""Procedures to take statements and expressions apart and put them together, and steps on them."""

from __future__ import annotations

from collections.abc import Callable

from exogpu import proc, schedule
from exogpu.api import Procedure
from tests.schedule.steps import carried, dead, gemm, order, running, scalar, squares, tiled, two


@proc
def added(n: size, x: f32[n] @ DRAM, a: f32[n] @ DRAM, b: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = a[i]
        x[i] += 2 * b[i]


@proc
def added_to(n: size, x: f32[n] @ DRAM, a: f32[n] @ DRAM, b: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] += a[i]
        x[i] += b[i]


@proc
def integers(n: size, x: i8[n] @ DRAM, a: i8[n] @ DRAM, b: i32[n] @ DRAM):
    for i in seq(0, n):
        x[i] += a[i] * (b[i] + 3)
        x[i] += b[i] + (a[i] + 1)


@proc
def added_to_itself(n: size, x: f32[n] @ DRAM, a: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = a[i]
        x[i] += x[i]


@proc
def overwritten(n: size, x: f32[n] @ DRAM, a: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] += a[i]
        x[i] = 3


@proc
def read_at_once(n: size, x: f32[n] @ DRAM, a: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = a[i]
        x[i] = x[i] * 2


@proc
def beside(n: size, x: f32[n + 1] @ DRAM, a: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = a[i]
        x[i + 1] += a[i]


@proc
def three(n: size, x: f32[n] @ DRAM, a: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = a[i] + (x[i] + a[n - 1 - i])


@proc
def folded(n: size, x: f32[n] @ DRAM, a: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = 2 * a[i] + x[i]


@proc
def twice(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        t: f32 @ DRAM
        t = 2 * x[i] + 1
        y[i] = t * t
        for j in seq(0, n):
            if j > i:
                y[j] += t


@proc
def changed_between(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        t: f32 @ DRAM
        t = x[i]
        x[i] = 5
        y[i] = t


@proc
def halves(n: size, x: f16[n] @ DRAM, y: f16[n] @ DRAM):
    for i in seq(0, n):
        t: f16 @ DRAM
        t = 3 * x[i]
        y[i] = t + 1


@proc
def scaled(m: size, n: size, x: f32[m] @ DRAM, c: f32[m] @ DRAM, y: f32[m, n] @ DRAM):
    for i in seq(0, m):
        x[i] = 0
        for j in seq(0, n):
            if j < 3:
                x[i] += c[i] * y[i, j]


@proc
def scaled_by_each(m: size, n: size, x: f32[m] @ DRAM, c: f32[n] @ DRAM, y: f32[m, n] @ DRAM):
    for i in seq(0, m):
        x[i] = 0
        for j in seq(0, n):
            x[i] += c[j] * y[i, j]


@proc
def scaled_from_one(n: size, x: f32[1] @ DRAM, c: f32[1] @ DRAM, y: f32[n] @ DRAM):
    x[0] = 1
    for j in seq(0, n):
        x[0] += c[0] * y[j]


@proc
def scaled_integers(n: size, x: i64[1] @ DRAM, c: i32[1] @ DRAM, y: i32[n] @ DRAM):
    x[0] = 0
    for j in seq(0, n):
        x[0] += c[0] * y[j]


@proc
def indexed(n: size, x: f32[n] @ DRAM, y: f32[8] @ DRAM):
    assert n >= 8
    for i in seq(0, 8):
        if i < n:
            y[i % 8] = x[i] * 2 + x[i] * 3


@proc
def blurred(x: f32[12] @ DRAM, y: f32[10] @ DRAM):
    for i in seq(0, 10):
        y[i] = x[i] + x[i + 1] + x[i + 2]


@proc
def counted(n: size, y: f32[n] @ DRAM):
    for i in seq(0, n):
        y[i] += 1


@proc
def idle(n: size, a: f16[n] @ DRAM):
    pass


@proc
def pair(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    t: f32[2, n] @ DRAM
    for i in seq(0, n):
        t[0, i] = x[i]
        t[1, i] = 2 * x[i]
    for i in seq(0, n):
        y[i] = t[0, i] - t[1, n - 1 - i]


@proc
def invariant(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    t: f32 @ DRAM
    for i in seq(0, n):
        t = x[0]
        y[i] = t


@proc
def ends(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM, z: f32[1] @ DRAM):
    for i in seq(0, n):
        for j in seq(0, n):
            y[i] = x[j]
            z[0] = x[0] + 1


@proc
def two_guards(n: size, x: f32[8] @ DRAM, y: f32[8] @ DRAM):
    if n > 3:
        x[0] = 1
    else:
        x[0] = 2
    if n > 3:
        y[0] = x[0]


@proc
def two_other_guards(n: size, x: f32[8] @ DRAM, y: f32[8] @ DRAM):
    if n > 3:
        x[0] = 1
    if n > 4:
        y[0] = x[0]


def whole(p: Procedure, pattern: str) -> schedule.Stretch[Procedure]:
    return schedule.find(p, pattern).expand()


ACCEPTED: dict[str, tuple[Procedure, Callable[[Procedure], Procedure]]] = {
    "merge_writes": (added, lambda p: schedule.merge_writes(p, "x[_] = _")),
    "merge_writes of sums": (added_to, lambda p: schedule.merge_writes(p, "x[_] += a[_]")),
    "merge_writes of integers": (integers, lambda p: schedule.merge_writes(p, "x[_] += _")),
    "merge_writes overwritten": (overwritten, lambda p: schedule.merge_writes(p, "x[_] += _")),
    "split_write": (
        schedule.merge_writes(added, "x[_] = _"),
        lambda p: schedule.split_write(p, "x[_] = _"),
    ),
    "split_write of a sum": (
        schedule.merge_writes(added_to, "x[_] += a[_]"),
        lambda p: schedule.split_write(p, "x[_] += _"),
    ),
    "fold_into_reduce": (folded, lambda p: schedule.fold_into_reduce(p, "x[_] = _")),
    "inline_assign": (twice, lambda p: schedule.inline_assign(p, "t = _")),
    "inline_assign rounded": (halves, lambda p: schedule.inline_assign(p, "t = _")),
    "inline_assign that stays": (two, lambda p: schedule.inline_assign(p, "x[_] = _")),
    "lift_reduce_constant": (scaled, lambda p: schedule.lift_reduce_constant(p, "x[_] = 0")),
    "left_reassociate_expr": (three, lambda p: schedule.left_reassociate_expr(p, "x[_] = _", "_")),
    "left_reassociate_expr of integers": (
        integers,
        lambda p: schedule.left_reassociate_expr(p, "x[_] += b[_] + _", "_ + _"),
    ),
    "rewrite_expr": (indexed, lambda p: schedule.rewrite_expr(p, "y[_] = _", "i % 8", "i")),
    "rewrite_expr of a guard": (indexed, lambda p: schedule.rewrite_expr(p, "if _: _", "n", 8)),
    "rewrite_expr of a bound": (indexed, lambda p: schedule.rewrite_expr(p, "i", "8", "8 * 1")),
    "rewrite_expr of data": (
        indexed,
        lambda p: schedule.rewrite_expr(p, "y[_] = _", "x[i] * 2 + x[i] * 3", "5 * x[i]"),
    ),
    "rewrite_expr of a read": (
        indexed,
        lambda p: schedule.rewrite_expr(p, "y[_] = _", "x[i] * 3", "3 * x[(8 * i) / 8]"),
    ),
    "bind_expr of a product": (
        indexed,
        lambda p: schedule.bind_expr(p, "y[_] = _", "x[i] * 3", "t"),
    ),
    "bind_expr of a sum": (
        blurred,
        lambda p: schedule.bind_expr(
            p, "y[_] = _", schedule.find(p, "y[_] = _").expression("_ + _ #1"), "t"
        ),
    ),
    "add_loop": (scalar, lambda p: schedule.add_loop(p, "t = _", "j", 4)),
    "add_loop guarded": (
        counted,
        lambda p: schedule.add_loop(p, "y[_] += _", "j", "n", guard=True),
    ),
    "add_loop around several": (
        scalar,
        lambda p: schedule.add_loop(p, schedule.find(p, "t = _").expand(0, 1), "j", 2),
    ),
    "divide_with_recompute": (
        blurred,
        lambda p: schedule.divide_with_recompute(p, "i", 2, 4, ["io", "ii"]),
    ),
    "unroll_buffer": (pair, lambda p: schedule.unroll_buffer(p, "t", 0)),
    "autolift_alloc": (scalar, lambda p: schedule.autolift_alloc(p, "t")),
    "autolift_alloc columns": (
        schedule.divide_loop(scalar, "i", 4, ["io", "ii"]),
        lambda p: schedule.autolift_alloc(p, "t", 3, "col"),
    ),
    "autolift_alloc alone": (scalar, lambda p: schedule.autolift_alloc(p, "t", keep_dims=False)),
    "autofission": (
        ends,
        lambda p: schedule.autofission(p, schedule.find(p, "y[_] = _").after()),
    ),
    "insert_pass": (two, lambda p: schedule.insert_pass(p, schedule.find(p, "x[_] = _").after())),
    "fuse of guards": (two_guards, lambda p: schedule.fuse(p, "if _: _")),
    "divide_loop cut and guard": (
        gemm,
        lambda p: schedule.divide_loop(p, "j", 4, ["jo", "ji"], "cut_and_guard"),
    ),
    "stage_mem of several": (
        two,
        lambda p: schedule.stage_mem(p, whole(p, "x[_] = _"), "x[i]", "t"),
    ),
}

ASSUMING = {
    "merge_writes of sums",
    "split_write of a sum",
    "inline_assign rounded",
    "lift_reduce_constant",
    "left_reassociate_expr",
    "rewrite_expr of data",
}
"""Steps that round otherwise: they say so."""

REFUSED: dict[str, tuple[Callable[[], Procedure], str]] = {
    "merge_writes": (
        lambda: schedule.merge_writes(added_to_itself, "x[_] = _"),
        r"X992: merge_writes: .*`x\[i\] = a\[i\] \+ x\[i\]`",
    ),
    "merge_writes of what is read": (
        lambda: schedule.merge_writes(read_at_once, "x[_] = _"),
        r"X992: merge_writes: .*would not run, and its result is read: .*first at n = 1",
    ),
    "merge_writes beside": (
        lambda: schedule.merge_writes(beside, "x[_] = _"),
        "X992: merge_writes: another element would be written",
    ),
    "merge_writes of two": (lambda: schedule.merge_writes(two, "x[_] = _"), "X991.*write x and y"),
    "merge_writes of the last": (lambda: schedule.merge_writes(gemm, "C[_] += _"), "X991.*follows"),
    "split_write": (lambda: schedule.split_write(gemm, "C[_] += _"), "X991.*no sum"),
    "split_write of a recurrence": (
        lambda: schedule.split_write(three, "x[_] = _"),
        r"X992: split_write: an element of x|X992: split_write: its value may be another",
    ),
    "fold_into_reduce": (
        lambda: schedule.fold_into_reduce(carried, "x[_] = _"),
        "X991.*does not add to its target",
    ),
    "inline_assign": (
        lambda: schedule.inline_assign(changed_between, "t = _"),
        r"X992: inline_assign: what is computed once more has changed since.*`t = x\[i\]`.*n = 1",
    ),
    "inline_assign of what is not read": (
        lambda: schedule.inline_assign(order, "y[0] = _"),
        "X991.*not read after it",
    ),
    "inline_assign of what is added to": (
        lambda: schedule.inline_assign(running, "t = _"),
        r"X992: inline_assign: what is computed once more has changed since: .*`t \+= _?",
    ),
    "inline_assign of a sum": (lambda: schedule.inline_assign(running, "t += _"), "X991.*is a sum"),
    "lift_reduce_constant": (
        lambda: schedule.lift_reduce_constant(scaled_by_each, "x[_] = 0"),
        "X991: lift_reduce_constant: .*in all iterations",
    ),
    "lift_reduce_constant from one": (
        lambda: schedule.lift_reduce_constant(scaled_from_one, "x[_] = 1"),
        "X992: lift_reduce_constant: it is no sum from zero",
    ),
    "lift_reduce_constant of integers": (
        lambda: schedule.lift_reduce_constant(scaled_integers, "x[_] = 0"),
        "X992: lift_reduce_constant: .*of another type",
    ),
    "lift_reduce_constant of no product": (
        lambda: schedule.lift_reduce_constant(
            schedule.fission(running, schedule.find(running, "t = 0").after()), "t"
        ),
        "X991",
    ),
    "left_reassociate_expr": (
        lambda: schedule.left_reassociate_expr(blurred, "y[_] = _", "_"),
        "X991.*no sum or product of three",
    ),
    "rewrite_expr": (
        lambda: schedule.rewrite_expr(indexed, "y[_] = _", "i % 8", "i + 1"),
        r"X992: rewrite_expr: .*n = 8",
    ),
    "rewrite_expr of a guard": (
        lambda: schedule.rewrite_expr(indexed, "if _: _", "n", 7),
        r"X992: rewrite_expr: a statement would not run, .*n = 8",
    ),
    "rewrite_expr of data": (
        lambda: schedule.rewrite_expr(indexed, "y[_] = _", "x[i] * 3", "4 * x[i]"),
        r"X992: rewrite_expr: its value may be another: `y\[i % 8\] = _?",
    ),
    "rewrite_expr of nothing": (
        lambda: schedule.rewrite_expr(indexed, "y[_] = _", "z", "4"),
        "X991.*no expression z",
    ),
    "bind_expr of nothing": (
        lambda: schedule.bind_expr(squares, "y[_] = _", "3 * x[i]", "t"),
        "X991.*does not read",
    ),
    "add_loop": (
        lambda: schedule.add_loop(counted, "y[_] += _", "j", 2),
        r"X992: add_loop: a value would be read that is another's: .*n = 1",
    ),
    "add_loop of no iteration": (
        lambda: schedule.add_loop(dead, "x[_] = 6", "j", "n - 1"),
        r"X992: add_loop: a statement would not run, .*n = 1",
    ),
    "divide_with_recompute": (
        lambda: schedule.divide_with_recompute(counted, "i", 2, 1, ["io", "ii"]),
        r"X992: divide_with_recompute: .*n = ",
    ),
    "divide_with_recompute of sums": (
        lambda: schedule.divide_with_recompute(
            schedule.stage_sum(blurred_sum, "i", "y[0:10]", "t"), "i", 2, 4, ["io", "ii"]
        ),
        r"X992: divide_with_recompute: a value would be read that is another's",
    ),
    "insert_noop_call of another type": (
        lambda: schedule.insert_noop_call(
            two, schedule.find(two, "x[_] = _").after(), idle, "n", "x[0:n]"
        ),
        "X991: insert_noop_call: .*T225",
    ),
    "unroll_buffer": (
        lambda: schedule.unroll_buffer(pair, "t", 1),
        "X991.*no constant of at least 1",
    ),
    "unroll_buffer of a loop": (
        lambda: schedule.unroll_buffer(tiled, "t", 1),
        "X991.*index of t is not",
    ),
    "autolift_alloc": (lambda: schedule.autolift_alloc(scalar, "t", 2), "X991.*are not around"),
    "autolift_alloc mode": (
        lambda: schedule.autolift_alloc(scalar, "t", 1, "diagonal"),
        "X991.*mode",
    ),
    "autofission": (
        lambda: schedule.autofission(running, schedule.find(running, "t += _").after()),
        r"X992: autofission: .*would be reversed",
    ),
    "insert_pass": (lambda: schedule.insert_pass(two, "x[_] = _"), "X991.*takes a place"),
    "fuse of guards": (
        lambda: schedule.fuse(two_other_guards, "if _: _"),
        r"X992: fuse: .*`y\[0\] = x\[0\]`.*n = 4",
    ),
    "fuse of one guard": (lambda: schedule.fuse(two_guards, "if _: _ #1"), "X991.*no `if` follows"),
}


@proc
def blurred_sum(x: f32[12] @ DRAM, y: f32[10] @ DRAM):
    for i in seq(0, 10):
        y[i] += x[i] + x[i + 1] + x[i + 2]
