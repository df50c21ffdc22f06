"""Kernels of which tasks are left out, as somebody would write them rightly, or by mistake.

Each is one or two warps of which two threads work, and a few lines in the places of one template.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import indent
from typing import Final

TEMPLATE: Final = """
from __future__ import annotations
from exogpu import *


@proc
def tasks(
    M: size, K: size, counts: i32[M] @ CudaGmemLinear, table: i32[3] @ CudaGmemLinear,
    x: f32[M, 2] @ CudaGmemLinear, y: f32[M, 2] @ CudaGmemLinear,
    z: f32[M, K, 2] @ CudaGmemLinear
):
    ASSUMED
    with CudaDeviceFunction(LAUNCH):
        DECLARED
        TASKS
            TASK
    THEN
"""

T: Final = "for t in cuda_threads(0, 2, unit=cuda_thread):"
F: Final = "Fence(cuda_in_order, cuda_in_order)"
SOME: Final = "n = load_index(counts[m], 0, 3)\nif n > 0:"
KEPT: Final = "kept: f32[3, 2] @ CudaSmemLinear"
DONE: Final = f"{KEPT}\ndone: barrier @ CudaMbarrier"
RING: Final = """\
tile: f32[2, 2] @ CudaSmemLinear
full: barrier @ CudaMbarrier
empty: barrier(full) @ CudaMbarrier"""
TWO_WARPS: Final = "blockDim=64"


def threads(statement: str) -> str:
    """Two threads execute it."""
    return f"{T}\n{indent(statement, '    ')}"


def warp(number: int, *lines: str) -> str:
    """One warp executes lines."""
    return under(f"with CudaWarps({number}, {number + 1}):", *lines)


def under(heading: str, *lines: str) -> str:
    """Lines under the last line of a heading."""
    return "\n".join((heading, indent("\n".join(lines), "    " * (1 + _depth(heading)))))


def _depth(heading: str) -> int:
    last = heading.splitlines()[-1]
    return (len(last) - len(last.lstrip())) // 4


def staged(
    write: str = "kept[0, t] = x[m, t]", read: str = "y[m, t] = kept[0, 1 - t]", last: str = F
) -> str:
    """One thread writes what the other one reads; the last Fence is for the task that follows."""
    return "\n".join((threads(write), F, threads(read), last)).rstrip()


def ring(steps: str = "K", *, slots: bool = True, skip: int = 2, step: str = "k") -> str:
    """A ring of two slots between two warps."""
    filled, emptied = ("slot(full)", "slot(empty)") if slots else ("k % 2", "k % 2")
    fill, store = f"tile[{filled}, t] = x[m, t]", f"z[m, {step}, t] = tile[{emptied}, 1 - t]"
    return under(
        f"for k in seq(0, {steps}):",
        warp(
            0,
            f"Await(empty, cuda_in_order, ~{skip})",
            threads(fill),
            "Arrive(cuda_in_order) >> full",
        ),
        warp(
            1,
            "Await(full, cuda_in_order, ~0)",
            threads(store),
            "Arrive(cuda_in_order) >> empty",
        ),
    )


PRODUCED: Final = warp(0, threads("kept[0, t] = x[m, t]"), "Arrive(cuda_in_order) >> done")
CONSUMED: Final = warp(1, "Await(done, cuda_in_order, ~0)", threads("y[m, t] = kept[0, 1 - t]"))


@dataclass(frozen=True, slots=True)
class LeavingOut:
    """A kernel: what a task does, and what is in other places."""

    task: str
    declared: str = KEPT
    places: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """The module."""
        plain = {"ASSUMED": "", "TASKS": "for m in cuda_tasks(0, M):", "THEN": ""}
        launch = TWO_WARPS if "CudaWarps(1" in self.task else "blockDim=32"
        given = {"LAUNCH": launch, "TASK": self.task, "DECLARED": self.declared}
        places = {**plain, **given, **self.places}
        lines: list[str] = []
        for line in TEMPLATE.splitlines():
            word = line.strip()
            if word in places:
                deeper = "    " * places["TASKS"].count("\n") if word == "TASK" else ""
                margin = line[: len(line) - len(word)] + deeper
                lines += [margin + one for one in places[word].splitlines()]
                continue
            lines.append(line.replace("LAUNCH", places["LAUNCH"]))
        return "\n".join(lines) + "\n"


INJECTIVE: Final = {"ASSUMED": "assert injective(counts)"}
NESTED: Final = {"TASKS": "for a in cuda_tasks(0, K):\n    for m in cuda_tasks(0, M):"}
CLUSTER: Final = {"LAUNCH": "clusterDim=2, blockDim=32"}
OF_CLUSTER: Final = "kept: f32[2, 2] @ CudaSmemCluster"
CTAS: Final = "for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):"


def exchanged(last: str) -> str:
    """Each CTA of a cluster reads what the other one wrote."""
    return "\n".join(
        (
            under(CTAS, threads("kept[c, t] = x[m, t]")),
            F,
            under(CTAS, under("if c == 0:", threads("y[m, t] = kept[1 - c, 1 - t]"))),
            last,
        )
    ).rstrip()


def launched(*, dependent: bool = False, waits: str = "", last: str = F) -> str:
    """A second launch, which reads what the first one stored, of other tasks; all of a task stands
    under its condition."""
    read = staged("again[t] = y[m, t]", "x[m, t] = again[1 - t]", last)
    task = under("p = load_index(counts[m], 0, 3)\nif p == 1:", *filter(None, (waits, read)))
    after = ", dependent=True" if dependent else ""
    return under(
        f"with CudaDeviceFunction(blockDim=32{after}):",
        "again: f32[2] @ CudaSmemLinear",
        under("for m in cuda_tasks(0, M):", task),
    )


WAITS: Final = "Fence(cuda_stream_sync, cuda_in_order)"

RIGHT: dict[str, LeavingOut] = {
    "steps are left out": LeavingOut(under("for k in seq(0, K):", under("if m < k:", staged()))),
    "as many steps as are loaded": LeavingOut(
        under("n = load_index(counts[m], 0, 3)\nfor k in seq(0, n):", staged())
    ),
    "as many steps as are loaded, under a condition": LeavingOut(
        under(SOME, under("for k in seq(0, n):", staged()))
    ),
    "by a value": LeavingOut(under(SOME, staged())),
    "by a value, a ring": LeavingOut(under(SOME, ring()), RING),
    "by a value, whole rings": LeavingOut(
        under(SOME, ring("2 * K", slots=False, step="k / 2")), RING
    ),
    "by the task": LeavingOut(under("if m < K:", staged())),
    "by the task, a ring": LeavingOut(under("if m % 2 == 0:", ring()), RING),
    "by a barrier of one phase": LeavingOut(under(SOME, PRODUCED, CONSUMED, F), DONE),
    "none": LeavingOut(under("if m >= 0:", staged())),
    "by one or the other": LeavingOut(
        under("n = load_index(counts[m], 0, 3)\nif n > 0 or m == 0:", staged())
    ),
    "by two conditions": LeavingOut(under(SOME, under("if m < K:", staged()))),
    "by the same condition twice": LeavingOut(under(SOME, under("if n > 0:", staged()))),
    "by a value of a value": LeavingOut(
        under(SOME, under("p = load_index(table[n], 0, 3)\nif p == 1:", staged()))
    ),
    "by what is at one place": LeavingOut(
        under("b = load_index(table[0], 0, 3)\nif b > m:", staged())
    ),
    "by a warp of one": LeavingOut(warp(0, under(SOME, staged()))),
    "of two loops": LeavingOut(
        under("if a < m:", staged(read="z[m, a, t] = kept[0, 1 - t]")), places=NESTED
    ),
    "of two loops, one of each row": LeavingOut(under("if a == m:", staged()), places=NESTED),
    "with memory of a task": LeavingOut(
        under(
            SOME,
            "own: f32[2] @ CudaSmemLinear",
            threads("own[t] = x[m, t]"),
            F,
            staged("kept[0, t] = own[1 - t]"),
        )
    ),
    "with a barrier of a task": LeavingOut(
        under(SOME, "done: barrier @ CudaMbarrier", PRODUCED, CONSUMED, F)
    ),
    "with registers under a condition of their own": LeavingOut(
        under(
            SOME,
            "r: f32[2]",
            threads("r[t] = x[m, t]\nif n > 1:\n    r[t] += 1.0"),
            staged("kept[0, t] = r[t]"),
        )
    ),
    "stores under a condition of their own": LeavingOut(
        under(SOME, staged(), threads("if m < 1:\n    z[0, 0, t] = x[m, t]"))
    ),
    "the first alone, which stores one row": LeavingOut(
        under("if m == 0:", staged(read="y[0, t] = kept[0, 1 - t]"))
    ),
    "all even ones, which store two rows": LeavingOut(
        under(
            "if m % 2 == 0 and m + 1 < M:",
            staged(read="y[m, t] = kept[0, 1 - t]\ny[m + 1, t] = x[m, t]"),
        )
    ),
    "one by its value, which stores one row": LeavingOut(
        under(
            "n = load_index(counts[m], 0, 3)\nif n == 1:", staged(read="y[0, t] = kept[0, 1 - t]")
        ),
        places=INJECTIVE,
    ),
    "rows by values": LeavingOut(
        under(SOME, under("if n < M:", staged(read="y[n, t] = kept[0, 1 - t]"))), places=INJECTIVE
    ),
    "clusters": LeavingOut(under(SOME, exchanged(F)), OF_CLUSTER, CLUSTER),
    "of each launch others": LeavingOut(under(SOME, staged()), places={"THEN": launched()}),
    "of a launch that waits": LeavingOut(
        under(SOME, staged()), places={"THEN": launched(dependent=True, waits=WAITS)}
    ),
}

Expected = tuple[str, str, int, int]
"""What is at fault, in which task, against an access of which task."""

WRONG: dict[str, tuple[LeavingOut, Expected]] = {
    "no Fence for the next": (
        LeavingOut(under(SOME, staged(last=""))),
        ("WAR", "kept", 2, 1),
    ),
    "no Fence within": (
        LeavingOut(
            under(SOME, threads("kept[0, t] = x[m, t]"), threads("y[m, t] = kept[0, 1 - t]"), F)
        ),
        ("RAW", "kept", 1, 1),
    ),
    "a slot too early": (LeavingOut(under(SOME, ring(skip=3)), RING), ("WAR", "tile", 1, 1)),
    "tasks end within the ring": (
        LeavingOut(under(SOME, ring(slots=False)), RING),
        ("WAR", "tile", 2, 1),
    ),
    "nothing is waited for before the next": (
        LeavingOut(under(SOME, PRODUCED, CONSUMED), DONE),
        ("WAR", "kept", 2, 1),
    ),
    "a value leaks": (
        LeavingOut(
            under(
                SOME,
                "uninit(kept)",
                threads("y[m, t] = kept[0, t]"),
                F,
                staged(read="x[m, t] = kept[0, 1 - t]"),
            )
        ),
        ("LEAK", "kept", 2, 1),
    ),
    "two store one row": (
        LeavingOut(under("if m < 2:", staged(read="y[0, t] = kept[0, 1 - t]"))),
        ("WAW", "y", 2, 1),
    ),
    "rows by values that are alike": (
        LeavingOut(under(SOME, under("if n < M:", staged(read="y[n, t] = kept[0, 1 - t]")))),
        ("WAW", "y", 2, 1),
    ),
    "two by their values, which store one row": (
        LeavingOut(under(SOME, staged(read="y[0, t] = kept[0, 1 - t]")), places=INJECTIVE),
        ("WAW", "y", 2, 1),
    ),
    "one reads what the one before stores": (
        LeavingOut(
            under(
                "if m < 2:",
                staged(read="y[m, t] = kept[0, 1 - t]\nif m > 0:\n    y[m, t] += y[m - 1, t]"),
            )
        ),
        ("RAW", "y", 2, 1),
    ),
    "one row of two loops": (
        LeavingOut(under("if a < m:", staged()), places=NESTED),
        ("WAW", "y", 6, 3),
    ),
    "clusters that do not meet": (
        LeavingOut(under(SOME, exchanged("")), OF_CLUSTER, CLUSTER),
        ("WAR", "kept", 2, 1),
    ),
    "in the second launch": (
        LeavingOut(under(SOME, staged()), places={"THEN": launched(last="")}),
        ("WAR", "again", 4, 3),
    ),
}

DEPENDS: Final = "depends on the task"

UNDECIDED: dict[str, tuple[LeavingOut, bool]] = {
    # Each with whether it is right: something in a task does not stand under its condition.
    "a store before": (
        LeavingOut(f"{threads('x[m, t] = 0.0')}\n{under(SOME, staged('kept[0, t] = 1.0'))}"),
        True,
    ),
    "a store after": (
        LeavingOut(f"{under(SOME, staged())}\n{threads('x[m, t] = 0.0')}"),
        True,
    ),
    "a Fence after": (LeavingOut(f"{under(SOME, staged(last=''))}\n{F}"), True),
    "a Fence before": (LeavingOut(f"{F}\n{under(SOME, staged(last=''))}"), True),
    "registers before": (
        LeavingOut(
            "r: f32[2]\n" + under(SOME, threads("r[t] = x[m, t]"), staged("kept[0, t] = r[t]"))
        ),
        True,
    ),
    "the other tasks do it, too": (
        LeavingOut(f"{under('if m < K:', staged())}\n{under('else:', staged())}"),
        True,
    ),
    "two conditions beside each other": (
        LeavingOut(f"{under('if m < K:', staged())}\n{under('if m >= K:', staged())}"),
        True,
    ),
    "all tasks produce": (LeavingOut(f"{PRODUCED}\n{under(SOME, CONSUMED, F)}", DONE), False),
    "all tasks consume": (LeavingOut(f"{under(SOME, PRODUCED)}\n{CONSUMED}\n{F}", DONE), False),
    "each warp has a condition": (
        LeavingOut(f"{under(SOME, PRODUCED)}\n{under('if m < K:', CONSUMED)}\n{F}", DONE),
        False,
    ),
    "each warp has the same condition": (
        LeavingOut(f"{under('if m < K:', PRODUCED)}\n{under('if m < K:', CONSUMED, F)}", DONE),
        True,
    ),
    "each thread has a condition": (
        LeavingOut(under(T, under(SOME, "kept[0, t] = x[m, t]", "y[m, t] = kept[0, t]"))),
        True,
    ),
    "each CTA has a condition": (
        LeavingOut(under(CTAS, under(SOME, threads("kept[c, t] = x[m, t]"))), OF_CLUSTER, CLUSTER),
        True,
    ),
    "a Fence under a condition of its own": (
        LeavingOut(
            under(
                SOME,
                threads("kept[0, t] = x[m, t]"),
                under("if m < K:", F),
                threads("y[m, t] = kept[0, 1 - t]"),
                F,
            )
        ),
        False,
    ),
    "an element by the value": (
        LeavingOut(under(SOME, staged("kept[n, t] = x[m, t]", "y[m, t] = kept[n, 1 - t]"))),
        True,
    ),
    "the first task writes for all": (
        LeavingOut(
            under(
                SOME,
                under("if m == 0:", threads("kept[0, t] = 1.0")),
                F,
                threads("y[m, t] = kept[0, 1 - t]"),
                F,
            )
        ),
        False,
    ),
    "a dependent launch that waits in all tasks": (
        LeavingOut(under(SOME, staged()), places={"THEN": launched(dependent=True)}),
        True,
    ),
}

NOT_PROVED: dict[str, tuple[LeavingOut, bool]] = {
    # Right or wrong by how many tasks are left: of positions it is not known how many there are.
    "one task, no Fence for the next": (LeavingOut(under("if m == 0:", staged(last=""))), True),
    "no task, no Fence for the next": (LeavingOut(under("if m < 0:", staged(last=""))), True),
    "odd tasks, no Fence for the next": (
        LeavingOut(under("if m % 2 == 1:", staged(last=""))),
        False,
    ),
    "as many tasks as steps, no Fence for the next": (
        LeavingOut(under("if m < K:", staged(last=""))),
        False,
    ),
    "all tasks but the first, no Fence for the next": (
        LeavingOut(under("if m > 0:", staged(last=""))),
        False,
    ),
}

# --- what goes wrong ------------------------------------------------------------------------------

INNER: Final = "b = load_index(table[0], 0, 3)\nfor k in seq(0, b):"

EMPTY: dict[str, LeavingOut] = {
    "nothing under a condition": LeavingOut(under("if m < K:", "pass")),
    "nothing after a load": LeavingOut("n = load_index(counts[m], 0, 3)"),
    "nothing under a loaded condition": LeavingOut(under(SOME, "pass")),
}

LOADED_INSIDE: dict[str, LeavingOut] = {
    "under a value": LeavingOut(under(SOME, under(INNER, staged()))),
    "under a task's condition": LeavingOut(under("if m < K:", under(INNER, staged()))),
}

OF_SIZES: dict[str, LeavingOut] = {
    "by a size": LeavingOut(under("if K % 2 == 0:", ring(slots=False)), RING),
    "by a size and the task": LeavingOut(
        under("if m < K:", under("if K % 2 == 0:", ring(slots=False))), RING
    ),
}

AT_ONE_PLACE: dict[str, LeavingOut] = {
    "all or none by a value": LeavingOut(
        under("b = load_index(table[0], 0, 3)\nif b > 0:", ring()), RING
    ),
    "all or none by a value, some by the task": LeavingOut(
        under("if m < K:", under("b = load_index(table[0], 0, 3)\nif b > 0:", ring())), RING
    ),
}

UNDER_BOTH: Final = LeavingOut(
    under(
        "if m < K:",
        under(
            "if K % 2 == 0:",
            "r: f32[2]",
            threads("r[t] = x[m, t]\nif m < 1:\n    r[t] += 1.0"),
            staged("kept[0, t] = r[t]"),
        ),
    )
)

ALLOCATED: Final = LeavingOut(
    under("if m == 0:", staged(read="h[0, t] = kept[0, 1 - t]")),
    places={"ASSUMED": "h: f32[M, 2] @ CudaGmemLinear"},
)
