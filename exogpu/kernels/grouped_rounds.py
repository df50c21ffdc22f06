"""Rows of the tiles of a grouped product, chosen so that a short last round takes less
long. Tiles of 256 columns, one on each multiprocessor at a time, take whole rounds, and
of the last one little may be left to do. Where it is at most half of a round, tiles of
128 columns take it, in half of the time: the last rows are theirs, in a launch of their
own.
"""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.codegen.task_order import UNKNOWN
from exogpu.frontend.macros import macro
from exogpu.hw.language import i32
from exogpu.kernels.array_arguments import AT_ONCE
from exogpu.kernels.grouped_tiles import THREADS, make_finding

BAND = UNKNOWN
"""Rows of tiles that the first launch takes at a time, column by column: of a whole number of bands
each multiprocessor has as many tiles as of any other, or one less."""


def make_rounds(TM: int = 128) -> Procedure:
    """Tiles of TM rows as those of `make_tiles`, divided between `cuts` and `last_cuts`.

    There are `columns` tiles in a row of wide tiles.  Of all R rows of tiles the last D are
    `last_cuts`', where that saves a round and D is at most W: D is the least number that leaves
    whole rounds, and then whole bands.  Else D is 0.
    """
    find = make_finding(TM)

    @macro
    def divide(W, columns, R, D, left, n):
        """By a thread: R becomes R - D."""
        n = 0
        for i in seq(0, columns):  # a number of control is no data
            n += 1
        # Tiles of the round that is not whole.
        left = (R - R / AT_ONCE * AT_ONCE) * (n - n / AT_ONCE * AT_ONCE)
        left = left - left / AT_ONCE * AT_ONCE
        D = 0
        for i in seq(0, W):
            D += max(0, min(1, left))  # a row for them
            left += -n
        n = 0
        for i in seq(0, W):
            n += 1
        # Whether all have a row, and there are any.
        left = min(1, D) * (1 - max(0, min(1, left)))
        D = R - (R - D) / BAND * BAND
        D = D * left * max(0, min(1, n - D + 1))
        R += -D

    @proc(name=f"grouped_rounds_{TM}")
    def grouped_rounds(
        G: size,
        T: size,
        W: size,
        columns: size,
        offsets: i32[G + 1] @ CudaGmemLinear,
        cuts: i32[T + 1] @ CudaGmemLinear,
        group: i32[T] @ CudaGmemLinear,
        last_cuts: i32[W + 1] @ CudaGmemLinear,
        last_group: i32[W] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=THREADS):
            for b in cuda_tasks(0, (T + W + THREADS) / THREADS):
                t: i32[THREADS]
                wide: i32[THREADS]
                first: i32[THREADS]
                cut: i32[THREADS]
                of: i32[THREADS]
                one: i32[THREADS]
                for c in cuda_threads(0, THREADS, unit=cuda_thread):
                    if THREADS * b + c <= T + W:
                        one[c] = 0
                        for i in seq(0, THREADS * b + c):
                            one[c] += 1
                        t[c] = 0
                        find(offsets, G, t[c], first[c], cut[c], of[c])
                        wide[c] = first[c]
                        divide(W, columns, wide[c], cut[c], of[c], t[c])
                        if THREADS * b + c <= T:
                            t[c] = min(one[c], wide[c])
                            find(offsets, G, t[c], first[c], cut[c], of[c])
                            cuts[THREADS * b + c] = cut[c]
                            if THREADS * b + c < T:
                                group[THREADS * b + c] = max(of[c], 0)
                        if THREADS * b + c <= W:
                            t[c] = wide[c] + one[c]
                            find(offsets, G, t[c], first[c], cut[c], of[c])
                            last_cuts[THREADS * b + c] = cut[c]
                            if THREADS * b + c < W:
                                last_group[THREADS * b + c] = max(of[c], 0)

    return grouped_rounds


KERNELS: dict[str, Procedure] = {kernel.name: kernel for kernel in (make_rounds(),)}
