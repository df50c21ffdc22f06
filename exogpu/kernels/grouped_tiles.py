"""Rows of the tiles of a grouped product, from the offsets of its groups: in one launch."""

from __future__ import annotations

from exogpu.api import Procedure, proc
from exogpu.frontend.macros import Macro, macro
from exogpu.hw.language import i32

THREADS = 128


def make_finding(TM: int) -> Macro:
    """By a thread: where its tile t of TM rows begins, `cut`, and of which group it is, `of`.

    It looks at all groups, `first` being the number of tiles before a group, and in the end of all
    of them: the cut is the greatest of `min(offsets[g] + TM * (t - first), offsets[g + 1])` over
    all g.  For the group of t that is where the tile begins.  It is no more for groups before,
    which end at the group's offset at most; nor for those after, which have at most TM rows for
    each of the tiles between.
    """

    @macro
    def find(offsets, G, t, first, cut, of):
        first = 0
        cut = offsets[0]
        of = -1
        for g in seq(0, G):
            cut = max(cut, min(offsets[g] + TM * (t - first), offsets[g + 1]))
            of += max(0, min(1, t - first + 1))
            first += (offsets[g + 1] - offsets[g] + (TM - 1)) / TM

    return find


def make_tiles(TM: int = 128) -> Procedure:
    """Tile t has rows `cuts[t]` to `cuts[t + 1]`, at most TM and all of group `group[t]`.

    Groups have a tile for each TM of their rows, so that floor(rows / TM) + groups are enough for
    all; those that are left have no rows, and come last.
    """
    find = make_finding(TM)

    @proc(name=f"grouped_tiles_{TM}")
    def grouped_tiles(
        G: size,
        T: size,
        offsets: i32[G + 1] @ CudaGmemLinear,
        cuts: i32[T + 1] @ CudaGmemLinear,
        group: i32[T] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=THREADS):
            for b in cuda_tasks(0, (T + THREADS) / THREADS):
                t: i32[THREADS]
                first: i32[THREADS]
                cut: i32[THREADS]
                of: i32[THREADS]
                for c in cuda_threads(0, THREADS, unit=cuda_thread):
                    if THREADS * b + c <= T:
                        t[c] = 0
                        for i in seq(0, THREADS * b + c):  # a number of control is no data
                            t[c] += 1
                        find(offsets, G, t[c], first[c], cut[c], of[c])
                        cuts[THREADS * b + c] = cut[c]
                        if THREADS * b + c < T:
                            group[THREADS * b + c] = max(of[c], 0)

    return grouped_tiles


KERNELS: dict[str, Procedure] = {kernel.name: kernel for kernel in (make_tiles(),)}
