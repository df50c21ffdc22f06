"""Tasks that wait for earlier ones by flags (decision `flags`)."""

from __future__ import annotations

from exogpu import *


def make(name: str, kind: str) -> Procedure:
    post = cuda_temporal if kind == "temporal" else cuda_in_order

    @proc(name=name)
    def flags(n: size, a: f32[n, 64] @ CudaGmemLinear, y: f32[n, 64] @ CudaGmemLinear):
        ready: barrier[n + 1] @ CudaFlag
        with CudaDeviceFunction(blockDim=64):
            for m in cuda_tasks(0, n):
                if kind == "before the write":
                    Arrive(cuda_in_order) >> ready[m]
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    a[m, t] = 1.0
                if kind == "by one warp":
                    with CudaWarps(0, 1):
                        Arrive(cuda_in_order) >> ready[m]
                if kind == "fenced, by one warp":
                    Fence(cuda_in_order, cuda_in_order)
                    with CudaWarps(1, 2):
                        Arrive(cuda_in_order) >> ready[m]
                if kind == "two arrivals":
                    for w in cuda_threads(0, 2, unit=cuda_warp):
                        Arrive(cuda_in_order) >> ready[m]
                if kind in ("", "temporal", "overwrites", "by a thread", "of two before", "later"):
                    Arrive(cuda_in_order) >> ready[m]
                if kind == "later" and m < n - 1:
                    Await(ready[m + 1], cuda_in_order, 0)
                if kind == "another" and m > 0:
                    Arrive(cuda_in_order) >> ready[m - 1]
                if kind == "by a thread":
                    for t in cuda_threads(0, 64, unit=cuda_thread):
                        if m > 0:
                            Await(ready[m - 1], cuda_in_order, 0)
                            y[m, t] = a[m - 1, 63 - t]
                elif kind in ("overwrites", "temporal and overwrites"):
                    if kind == "temporal and overwrites":
                        Arrive(cuda_in_order) >> ready[m]
                    if m > 0:
                        Await(ready[m - 1], cuda_temporal, 0)
                        for t in cuda_threads(0, 64, unit=cuda_thread):
                            a[m - 1, 63 - t] = 2.0
                elif kind == "of two before":
                    if m > 1:
                        Await(ready[m - 1], cuda_in_order, 0)
                        for t in cuda_threads(0, 64, unit=cuda_thread):
                            y[m, t] = a[m - 2, 63 - t]
                else:
                    if m > 0:
                        Await(ready[m - 1], post, 0)
                        for t in cuda_threads(0, 64, unit=cuda_thread):
                            y[m, t] = a[m - 1, 63 - t]
                if kind == "after the Await":
                    Arrive(cuda_in_order) >> ready[m]
                if kind == "one flag":
                    Arrive(cuda_in_order) >> ready[0]
                if kind == "reused" and m > 0:
                    Arrive(cuda_in_order) >> ready[m - 1]

    return flags


right = make("right", "")  # safe at n=1 n=2 n=5
fenced = make("fenced", "fenced, by one warp")  # safe at n=5
two_arrivals = make("two_arrivals", "two arrivals")  # safe at n=4
by_a_thread = make("by_a_thread", "by a thread")  # safe at n=4
in_time = make("in_time", "overwrites")  # safe at n=4
after_the_await = make("after_the_await", "after the Await")  # safe at n=4
too_early = make("too_early", "before the write")  # safe at n=1; refuted at n=4: RAW a 19 57
by_one_warp = make("by_one_warp", "by one warp")  # refuted: RAW a 19 57
temporal = make("temporal", "temporal")  # refuted: RAW a 19 57
of_two_before = make("of_two_before", "of two before")  # safe at n=2; refuted at n=3: RAW a 19 52
later = make("later", "later")  # safe at n=1; refuted at n=2: DEADLOCK ready 33 31
another = make("another", "another")  # refuted: RAW a 19 57
reused = make("reused", "reused")  # refuted: RAW a 19 57, DEADLOCK ready 55 63
one_flag = make("one_flag", "one flag")  # refuted: RAW a 19 57, DEADLOCK ready 55 61
