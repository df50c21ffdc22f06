"""Procedures whose sums are made in another way, and steps on them."""

from __future__ import annotations

from collections.abc import Callable

from exogpu import proc, schedule
from exogpu.api import Procedure


@proc
def summed(n: size, x: f32[n, 4] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        t: f32[2, 4] @ DRAM
        for j in seq(0, 4):
            t[1, j] = 2 * x[i, j]
        y[i] = 0
        for j in seq(0, 4):
            y[i] += t[1, j]


@proc
def summed_on(n: size, x: f32[n, 4] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        t: f32[4] @ DRAM
        for j in seq(0, 4):
            t[j] = x[i, j]
        for j in seq(0, 4):
            y[i] += t[j]


@proc
def used_afterwards(x: f32[4] @ DRAM, y: f32[2] @ DRAM):
    t: f32[4] @ DRAM
    for j in seq(0, 4):
        t[j] = x[j]
    for j in seq(0, 4):
        y[0] += t[j]
    y[1] = t[1]


@proc
def others(x: f32[6] @ DRAM, y: f32[1] @ DRAM, z: f32[4] @ DRAM):
    for j in seq(0, 6):
        y[0] += x[j]
    for j in seq(0, 4):
        y[0] += 2 * x[j]
    for j in seq(0, 4):
        z[j] += x[j]


@proc
def twice_guarded(n: size, m: size, x: f32[n] @ DRAM):
    for i in seq(0, n):
        if i < m:  # noqa: SIM102
            if i + 2 < n:
                x[i] = 1
    for i in seq(0, n):
        if i < m:
            x[i] += 2
            if i + 2 < n:
                x[i] += 1


@proc
def under_relu(n: size, x: f32[n] @ DRAM, y: f32[n, 3] @ DRAM):
    t: f32[n] @ DRAM
    for i in seq(0, n):
        t[i] = x[i]
    for i in seq(0, n):
        for j in seq(0, 3):
            u: f32 @ DRAM
            u = relu(t[i])
            y[i, j] = u * u


@proc
def under_two(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    t: f32[n] @ DRAM
    for i in seq(0, n):
        t[i] = 2 * x[i]
        u: f32 @ DRAM
        u = relu(t[i])
        y[i] = tf32(t[i])
        y[i] += u


@proc
def of_a_product(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        t: f32 @ DRAM
        t = 2 * x[i]
        y[i] = relu(t)


@proc
def narrowed(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        t: bf16 @ DRAM
        t = x[i]
        y[i] = exp(t)


@proc
def not_always_read_so(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
    for i in seq(0, n):
        t: f32 @ DRAM
        t = x[i]
        y[i] = relu(t)
        y[i] += t


ACCEPTED: dict[str, tuple[Procedure, Callable[[Procedure], Procedure]]] = {
    "sum_by_exchange": (summed, lambda p: schedule.sum_by_exchange(p, "j #1", "u")),
    "sum_by_exchange on": (summed_on, lambda p: schedule.sum_by_exchange(p, "j #1", "u")),
    "merge_ifs": (twice_guarded, lambda p: schedule.merge_ifs(p, "if i < m: _")),
    "apply_at_writes": (under_relu, lambda p: schedule.apply_at_writes(p, "t")),
}

REFUSED: dict[str, tuple[Callable[[], Procedure], str]] = {
    "sum_by_exchange": (
        lambda: schedule.sum_by_exchange(used_afterwards, "j #1", "u"),
        "X99[23].*sum_by_exchange",
    ),
    "sum_by_exchange of a parameter": (
        lambda: schedule.sum_by_exchange(others, "j", "u"),
        "X991.*no power of two",
    ),
    "sum_by_exchange of products": (
        lambda: schedule.sum_by_exchange(others, "j #1", "u"),
        "X991.*more than adding elements",
    ),
    "sum_by_exchange to many": (
        lambda: schedule.sum_by_exchange(others, "j #2", "u"),
        "X991.*to one element",
    ),
    "apply_at_writes of two functions": (
        lambda: schedule.apply_at_writes(under_two, "t"),
        "X991.*t is read under relu and tf32",
    ),
    "apply_at_writes of a product": (
        lambda: schedule.apply_at_writes(of_a_product, "t"),
        "X99[23].*apply_at_writes",
    ),
    "apply_at_writes narrowed": (
        lambda: schedule.apply_at_writes(narrowed, "t"),
        "X99[23].*apply_at_writes",
    ),
    "apply_at_writes of itself": (
        lambda: schedule.apply_at_writes(not_always_read_so, "t"),
        "X991.*not only assigned, and read under a function",
    ),
    "apply_at_writes of nothing": (
        lambda: schedule.apply_at_writes(summed, "t"),
        "X991.*",
    ),
    "merge_ifs": (
        lambda: schedule.merge_ifs(twice_guarded, "if i < m: _ #1"),
        "X991.*more than an `if`",
    ),
}
