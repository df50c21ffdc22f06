"""Three launches in a row, each with an access of `y` before its wait and one after it."""

from __future__ import annotations

from exogpu import Procedure, macro, proc

NOTHING, READ, WRITE = range(3)


def make(
    dependent: tuple[bool, bool, bool],
    early: tuple[int, int, int],
    late: tuple[int, int, int],
    waits: bool = True,
) -> Procedure:
    """By launch: whether it is dependent, and its accesses; without a wait they stand together.

    Without `waits` no launch says where it waits.
    """

    @macro
    def touch(y, z, how):
        if how == READ:
            z = y
        if how == WRITE:
            y = 1

    @macro
    def launch(k, n, y, z):
        with CudaDeviceFunction(blockDim=32, dependent=dependent[k]):
            for i in cuda_tasks(0, n):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    z[k, 0, i, t] = 0
                    touch(y[i, t], z[k, 1, i, t], early[k])
                if dependent[k] and waits:
                    Fence(cuda_stream_sync, cuda_in_order)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    touch(y[i, t], z[k, 2, i, t], late[k])

    @proc
    def launches(n: size, y: f32[n, 32] @ CudaGmemLinear, z: f32[3, 3, n, 32] @ CudaGmemLinear):
        for k in range(3):
            launch(k, n, y, z)

    return launches


def ordered(dependent: tuple[bool, bool, bool]) -> set[tuple[str, str]]:
    """What is before what, by the documentation of CUDA: the begin, the wait and the end of each
    launch.

    A launch begins after the end of all before it, or, if it is dependent, once the one right
    before it has begun; then its wait returns after the end of that one.  None ends before its wait
    has returned.
    """
    before = set[tuple[str, str]]()
    for k in range(3):
        before |= {(f"begin {k}", f"wait {k}"), (f"wait {k}", f"end {k}")}
        if not dependent[k]:
            before |= {(f"end {j}", f"begin {k}") for j in range(k)}
        else:
            before |= {(f"begin {k - 1}", f"begin {k}"), (f"end {k - 1}", f"wait {k}")}
    while more := {(a, d) for a, b in before for c, d in before if b == c} - before:
        before |= more
    return before


def race(
    dependent: tuple[bool, bool, bool], early: tuple[int, int, int], late: tuple[int, int, int]
) -> bool:
    """Whether two launches access `y`, one of them writing, and neither ends before the access of
    the other may begin."""
    before = ordered(dependent)
    for k in range(3):
        for place, how in (("begin", early[k]), ("wait", late[k])):
            for j in range(k):
                for other in (early[j], late[j]):
                    conflict = WRITE in (how, other) and NOTHING not in (how, other)
                    if conflict and (f"end {j}", f"{place} {k}") not in before:
                        return True
    return False
