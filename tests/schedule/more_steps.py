"""Procedures for tiling, padding and software pipelines, and steps on them."""

from __future__ import annotations

from collections.abc import Callable

from steps import gemm, running, square, squares, tiled, two

from exogpu import proc, schedule
from exogpu.api import Procedure


@proc
def rows(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    t: f32[n] @ DRAM
    for i in seq(0, n):
        t[i] = x[i]
    for i in seq(0, n):
        y[i] = t[n - 1 - i]


@proc
def nested(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM, z: f32[n] @ DRAM):
    for i in seq(0, n):
        y[i] = 3 - max(z[i], (x[i] + z[i]) * x[n - i - 1]) + z[0] / 2


@proc
def blocked(x: f32[8] @ DRAM, y: f32[8] @ DRAM):
    t: f32[8] @ DRAM
    for i in seq(0, 2):
        for j in seq(0, 4):
            t[4 * i + j] = x[4 * i + j]
    for i in seq(0, 2):
        for j in seq(0, 4):
            y[4 * i + j] = t[4 * i + j]


@proc
def guarded_copy(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    t: f32[n + 3] @ DRAM
    for i in seq(0, n + 3):
        if i < n:
            t[i] = x[i]
    for i in seq(0, n):
        y[i] = t[i]


@proc
def in_a_guard(n: size, m: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for j in seq(0, 2):
        if m > 3:
            for i in seq(0, n):
                x[i] = 0
            y[0] = x[0]


@proc
def loop_in_a_guard(n: size, m: size, x: f32[n] @ DRAM):
    if m > 3:
        for i in seq(0, n):
            x[i] = 0


@proc
def staged(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    t: f32[n] @ DRAM
    for k in seq(0, n):
        t[k] = x[k]
        if k >= 1:
            y[k - 1] = t[k - 1]


@proc
def parted(n: size, x: f32[n] @ DRAM):
    for w in seq(0, n):
        for i in seq(0, 4):
            if 4 * w + i < 4 * n:
                x[(4 * w + i) / 4] = 4


ACCEPTED: dict[str, tuple[Procedure, Callable[[Procedure], Procedure]]] = {
    "divide_dim": (rows, lambda p: schedule.divide_dim(p, "t", 0, 4)),
    "divide_dim of blocks": (blocked, lambda p: schedule.divide_dim(p, "t", 0, 4)),
    "mult_dim": (tiled, lambda p: schedule.mult_dim(p, "t", 0)),
    "mult_dim back": (schedule.divide_dim(rows, "t", 0, 4), lambda p: schedule.mult_dim(p, "t", 0)),
    "commute_expr": (gemm, lambda p: schedule.commute_expr(p, "C[_] += _", "A[i, k] * B[k, j]")),
    "commute_expr inside": (
        nested,
        lambda p: schedule.commute_expr(p, "y[_] = _", "(x[i] + z[i]) * x[n - i - 1]"),
    ),
    "commute_expr first": (nested, lambda p: schedule.commute_expr(p, "y[_] = _", "_")),
    "bind_window": (squares, lambda p: schedule.bind_window(p, "i", "x[0:n]", "w")),
    "bind_window of a row": (
        gemm,
        lambda p: schedule.bind_window(p, "for j in _: _", "A[i, 0:K]", "row"),
    ),
    "extend_loop": (two, lambda p: schedule.extend_loop(p, "i", -1, "n + 2")),
    "fill_zero": (guarded_copy, lambda p: schedule.fill_zero(p, "if _: _")),
    "fission of a guard": (
        in_a_guard,
        lambda p: schedule.fission(p, schedule.find(p, "for i in _: _").after()),
    ),
    "fission of several": (
        gemm,
        lambda p: schedule.fission(p, schedule.find(p, "C[_] = _").after(), 2),
    ),
    "lift_scope of a loop": (loop_in_a_guard, lambda p: schedule.lift_scope(p, "for i in _: _")),
    "resize_dim folded": (staged, lambda p: schedule.resize_dim(p, "t", 0, 2, fold=True)),
    "simplify in ranges": (parted, schedule.simplify),
    "mult_loops of a tile": (
        schedule.divide_loop(square, "j", 4, ["jo", "ji"]),
        lambda p: schedule.mult_loops(p, "jo", "j"),
    ),
}

REFUSED: dict[str, tuple[Callable[[], Procedure], str]] = {
    "divide_dim": (lambda: schedule.divide_dim(rows, "t", 1, 4), "X991.*has no dimension 1"),
    "divide_dim by nothing": (
        lambda: schedule.divide_dim(rows, "t", 0, 0),
        "X991.*positive number",
    ),
    "mult_dim": (lambda: schedule.mult_dim(rows, "t", 0), "X991.*has no two dimensions"),
    "commute_expr": (
        lambda: schedule.commute_expr(gemm, "C[_] += _", "A[i, k] - B[k, j]"),
        "X991.*has no sum or product",
    ),
    "commute_expr of a loop": (
        lambda: schedule.commute_expr(gemm, "k", "_"),
        "X991.*no assignment",
    ),
    "bind_window": (
        lambda: schedule.bind_window(squares, "i", "x[0:n, 0]", "w"),
        "X991.*1 dimensions",
    ),
    "bind_window too small": (
        lambda: schedule.bind_window(squares, "i", "x[1:n]", "w"),
        "X992.*out of bounds",
    ),
    "extend_loop": (
        lambda: schedule.extend_loop(two, "i", 1, "n"),
        r"X992.*would not run, and its result is read.*`x\[i\] = 1`.*n = 1",
    ),
    "fill_zero": (
        lambda: schedule.fill_zero(in_a_guard, "if _: _"),
        "X991.*more than one assignment",
    ),
    "fill_zero of what is kept": (
        lambda: schedule.fill_zero(staged, "if _: _"),
        r"X992: fill_zero: .*out of bounds|X992: fill_zero: a value.*another's",
    ),
    "fission levels": (
        lambda: schedule.fission(two, schedule.find(two, "x[_] = _").after(), 2),
        "X991.*2 statements are not around",
    ),
    "fission of several": (
        lambda: schedule.fission(in_a_guard, schedule.find(in_a_guard, "for i in _: _").after(), 2),
        r"X992: fission: a dependence \(WAR\) would be reversed: `y\[0\].*`x\[i\] = 0`.*m = 4",
    ),
    "fission at an end": (
        lambda: schedule.fission(in_a_guard, schedule.find(in_a_guard, "x[_] = _").after()),
        "X991.*nothing is on one side",
    ),
    "lift_scope of a loop": (lambda: schedule.lift_scope(gemm, "for k in _: _"), "X991.*not alone"),
    "lift_scope of a nest": (
        lambda: schedule.lift_scope(square, "for j in _: _"),
        "X991.*around the loop is no `if`",
    ),
    "resize_dim folded too small": (
        lambda: schedule.resize_dim(staged, "t", 0, 1, fold=True),
        r"X992: resize_dim: a value.*another's: `y\[k - 1\].*`t\[0\] = .*n = 2",
    ),
    "resize_dim folded to a size": (
        lambda: schedule.resize_dim(staged, "t", 0, "n", fold=True),
        "X991.*no constant",
    ),
    "mult_loops": (
        lambda: schedule.mult_loops(
            schedule.fission(running, schedule.find(running, "t = 0").after()), "i", "j"
        ),
        "X991",
    ),
    "stage_mem of nothing": (
        lambda: schedule.stage_mem(squares, "i", "z[0:n]", "t"),
        "X991.*no variable",
    ),
}
