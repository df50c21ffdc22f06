"""Procedures whose sums are made in another way, and steps on them."""

from __future__ import annotations

from collections.abc import Callable

from exogpu import proc
from exogpu import schedule as s
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


ACCEPTED: dict[str, tuple[Procedure, Callable[[Procedure], Procedure]]] = {
    "sum_by_exchange": (summed, lambda p: s.sum_by_exchange(p, "j #1", "u")),
    "sum_by_exchange on": (summed_on, lambda p: s.sum_by_exchange(p, "j #1", "u")),
    "merge_ifs": (twice_guarded, lambda p: s.merge_ifs(p, "if i < m: _")),
}

REFUSED: dict[str, tuple[Callable[[], Procedure], str]] = {
    "sum_by_exchange": (
        lambda: s.sum_by_exchange(used_afterwards, "j #1", "u"),
        "X99[23].*sum_by_exchange",
    ),
    "sum_by_exchange of a parameter": (
        lambda: s.sum_by_exchange(others, "j", "u"),
        "X991.*no power of two",
    ),
    "sum_by_exchange of products": (
        lambda: s.sum_by_exchange(others, "j #1", "u"),
        "X991.*more than adding elements",
    ),
    "sum_by_exchange to many": (
        lambda: s.sum_by_exchange(others, "j #2", "u"),
        "X991.*to one element",
    ),
    "merge_ifs": (lambda: s.merge_ifs(twice_guarded, "if i < m: _ #1"), "X991.*more than an `if`"),
}
