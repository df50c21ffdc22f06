"""Sums of a row's exponentials, relative to its greatest element: of softmax and cross entropy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from exogpu.frontend.macros import Macro, macro
from exogpu.kernels.rows import LOWEST, Macros, Shape, added, larger

LOG2E: Final = math.log2(math.e)


@dataclass(frozen=True, slots=True)
class Exponentials:
    """In these steps each thread gets the greatest element of its row, `top`, and the sum of all
    exp(x - top), `total`."""

    begin: Macro
    """`begin(top, before, total)`"""
    gather: Macro
    """`gather(part, x, top, before, total, task, M, N)`: of a thread's own elements.  A row that is
    looped over has its sum rescaled whenever a greater element comes; another has none yet."""
    combine: Macro
    """`combine(part, top, before, total, other, shared, task, M, N)`: of all threads of a row."""


def exponentials(shape: Shape, use: Macros) -> Exponentials:
    """The macros of kernels of that shape."""
    fetch, each, reduce = use.fetch, use.each, use.reduce
    V, SPAN, WARPS = shape.vector, shape.span, shape.all

    @macro
    def largest(v, top, _, __, ___, ____, row, n, w, t):
        for j in seq(0, V):
            top[w, t] = max(top[w, t], v[j])

    @macro
    def summed(v, top, total, _, __, ___, row, n, w, t):
        for j in seq(0, V):
            total[w, t] += exp2((v[j] - top[w, t]) * LOG2E)

    @macro
    def rescaled(total, before, top):
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                total[w, t] = total[w, t] * exp2((before[w, t] - top[w, t]) * LOG2E)
                before[w, t] = top[w, t]

    @macro
    def begin(top, before, total):
        for w in cuda_threads(0, WARPS, unit=cuda_warp):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                top[w, t] = LOWEST
                before[w, t] = LOWEST
                total[w, t] = 0.0

    @macro
    def gather(part, x, top, before, total, task, M, N):
        if shape.looped:
            for k in seq(0, (N + SPAN - 1) / SPAN):
                fetch(part, x, task, k, M, N)
                each(largest, part, top, None, None, None, None, task, k, M, N)
                rescaled(total, before, top)
                each(summed, part, top, total, None, None, None, task, k, M, N)
        else:
            fetch(part, x, task, 0, M, N)
            each(largest, part, top, None, None, None, None, task, 0, M, N)

    @macro
    def combine(part, top, before, total, other, shared, task, M, N):
        reduce(larger, top, other, shared, 0)
        if shape.looped:
            rescaled(total, before, top)
        else:
            each(summed, part, top, total, None, None, None, task, 0, M, N)
        reduce(added, total, other, shared, 1)

    return Exponentials(begin, gather, combine)
