"""Mistakes with values from memory, flags, shared phases and cluster memory: what is said of each,
and that following it helps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exogpu.cli.loader import load

SCATTER = """
from exogpu import proc

@proc
def scatter(T: size, V: size, ids: i32[T] @ CudaGmemLinear, x: f32[T, 32] @ CudaGmemLinear,
            table: f32[V, 32] @ CudaGmemLinear):
    assert injective(ids)
    with CudaDeviceFunction(blockDim=32):
        for t in cuda_tasks(0, T):
            row = load_index(ids[t], 0, V)
            for c in cuda_threads(0, 32, unit=cuda_thread):
                table[row, c] = x[t, c]
"""

CHAIN = """
from exogpu import proc

@proc
def chain(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    ready: barrier[M] @ CudaFlag
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            acc: f32[32]
            for t in cuda_threads(0, 32, unit=cuda_thread):
                acc[t] = x[m, t]
            if m > 0:
                Await(ready[m - 1], cuda_in_order, 0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    acc[t] += y[m - 1, 31 - t]
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = acc[t]
            Arrive(cuda_in_order) >> ready[m]
"""

ROLES = """
from exogpu import CudaWarpConfig, proc

ROLES = [CudaWarpConfig("load", 1), CudaWarpConfig("a", 1), CudaWarpConfig("b", 1)]

@proc
def shared(x: f32[4, 32] @ CudaGmemLinear, y: f32[2, 4, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(warp_config=ROLES):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 32] @ CudaSmemLinear
            full: barrier[2] @ CudaMbarrier
            empty: barrier(full)[2] @ CudaMbarrier
            for k in seq(0, 4):
                with CudaWarps(name="load"):
                    Await(empty[:], cuda_in_order, ~2)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        tile[k % 2, t] = x[k, t]
                    Arrive(cuda_in_order) >> full[:]
                with CudaWarps(name="a"):
                    Await(full[0], cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[0, k, t] = tile[k % 2, t]
                    Arrive(cuda_in_order) >> empty[0]
                with CudaWarps(name="b"):
                    Await(full[1], cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        y[1, k, t] = tile[k % 2, t]
                    Arrive(cuda_in_order) >> empty[1]
            Fence(cuda_in_order, cuda_in_order)
"""

CLUSTER = """
from exogpu import proc

@proc
def turned(x: f32[2, 32] @ CudaGmemLinear, y: f32[2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 1):
            part: f32[2, 32] @ CudaSmemCluster
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    part[c, t] = x[c, t]
            Fence(cuda_in_order, cuda_in_order)
            for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[c, t] = part[1 - c, t]
            Fence(cuda_in_order, cuda_in_order)
"""


NAMED = """
from exogpu import proc

@proc
def handed_over(x: f32[32] @ CudaGmemLinear, y: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            tile: f32[32] @ CudaSmemLinear
            full: barrier @ CudaNamedBarrier
            with CudaWarps(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    tile[t] = x[t]
                Arrive(cuda_in_order) >> full
            with CudaWarps(1, 2):
                Await(full, cuda_in_order)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[t] = tile[t]
            Fence(cuda_in_order, cuda_in_order)
"""


def told(tmp_path: Path, text: str) -> tuple[str, str]:
    """The verdict's word, and all that is said."""
    file = tmp_path / "kernel.py"
    file.write_text(text)
    (unit,) = load(str(file))
    found = list(unit.diagnostics)
    if unit.procedure is None:
        return "error", "\n".join(map(said, found))
    verdict = unit.procedure.check()
    found += verdict.diagnostics
    texts = [said(one) for one in found]
    texts += [f"{h.first} {h.message} {h.link} {h.help}" for h in verdict.hazards]
    return verdict.word, "\n".join(texts)


def said(one) -> str:
    return f"{one.message} {one.help} {' '.join(note.message for note in one.notes)}"


def changed(text: str, *edits: tuple[str, str]) -> str:
    for before, after in edits:
        assert before in text, before
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize("text", [SCATTER, CHAIN, ROLES, CLUSTER, NAMED], ids=len)
def test_without_a_mistake_it_is_proved(tmp_path, text):
    assert told(tmp_path, text) == ("proved", "")


LOAD = "row = load_index(ids[t], 0, V)"
CONTRACT = "assert injective(ids)"
ARRIVE = "            Arrive(cuda_in_order) >> ready[m]\n"
STORE = """\
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = acc[t]
"""
ONE_PHASE = [("barrier[2]", "barrier"), ("(full)[2]", "(full)")]
ONE_PHASE += [(f"full[{i}]", "full") for i in ":01"] + [(f"empty[{i}]", "empty") for i in ":01"]

COUNTS = """
from exogpu import proc

@proc
def counted(N: size, x: i32[N] @ CudaGmemLinear, y: i32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for b in cuda_tasks(0, 2):
            bins: i32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 32, unit=cuda_thread):
                r: i32
                r = 0
                for i in seq(0, 1):
                    v = load_index(x[0], 0, 2)
                    bins[32 * v + t] = r
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[t] = 1
"""

MISTAKES = {
    "fragment": (
        changed(
            CLUSTER,
            ("clusterDim=2, ", ""),
            ("for c in cuda_threads(0, 2, unit=cuda_cta_in_cluster)", "for c in seq(0, 2)"),
            ("for t in cuda_threads(0, 32, unit=cuda_thread)", "for t in seq(0, 32)"),
            ("part: f32[2, 32] @ CudaSmemCluster", "part: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)"),
            (
                "from exogpu import proc",
                "from exogpu import *\nfrom exogpu.platforms.sm80 import *",
            ),
        ),
        "over the elements of a register tile, for m, n in fragment(tile):",
    ),
    "nobody arrives": (
        changed(NAMED, ("                Arrive(cuda_in_order) >> full\n", "")),
        "of full each phase is an Arrive(cuda_in_order) by warps that do not wait, and after it",
    ),
    "nobody awaits": (
        changed(NAMED, ("                Await(full, cuda_in_order)\n", "")),
        "Await(full, cuda_in_order, ~0)` before line 15",
    ),
    "no contract helps": (
        COUNTS,
        "tasks of one kernel are ordered by flags alone: write different elements",
    ),
    "contract": (
        changed(SCATTER, (f"    {CONTRACT}\n", "")),
        "if it is so, assert injective(ids); else write different elements, or add atomically",
    ),
    "range": (
        changed(SCATTER, (LOAD, "row = load_index(ids[t], 0, V + 1)")),
        "narrow the range of the load_index at line 10, outside of which the kernel traps",
    ),
    "where": (
        changed(SCATTER, (LOAD, "row = load_index(ids[t], 0, V + 1)")),
        "where its index is loaded",
    ),
    "no load": (
        changed(SCATTER, (LOAD, "row = ids[t]")),
        "as an index, row = load_index(ids[t], lo, hi)",
    ),
    "no element": (
        changed(SCATTER, (LOAD, "row = load_index(ids, 0, V)")),
        "load one element: ids[i]",
    ),
    "floats": (changed(SCATTER, ("ids: i32", "ids: f32")), "ids is f32 of 1 dimension"),
    "rank": (
        changed(SCATTER, (CONTRACT, "assert injective(table)")),
        "table is f32 of 2 dimensions name a parameter of i32 or i64 with one dimension",
    ),
    "word": (
        changed(SCATTER, (CONTRACT, "assert unique(ids)")),
        "on an array of indices: monotone(x), injective(x)",
    ),
    "arrives early": (
        changed(CHAIN, (STORE + ARRIVE, ARRIVE + STORE)),
        "move the Arrive of line 16 to after line 18",
    ),
    "waits for itself": (
        changed(CHAIN, ("ready[m - 1]", "ready[m]")),
        "let Await at line 13 wait on ready[m - 1], which the earlier task raises",
    ),
    "no await": (
        changed(CHAIN, ("Await(ready[m - 1], cuda_in_order, 0)", "pass")),
        "add `Await(ready[m - 1], cuda_in_order, 0)` before line 14",
    ),
    "one phase": (
        changed(ROLES, *ONE_PHASE),
        "where several roles share each phase, declare full: barrier[2] with an element for each",
    ),
    "swapped": (
        changed(ROLES, (">> empty[1]", ">> empty[0]"), ("seq(0, 4)", "seq(0, 1)")),
        "empty[0] has 2 Arrives and 1 Await when it ends: the Arrive at lines 23 and 28 and the "
        "Await at line 15",
    ),
    "not all roles": (
        changed(ROLES, (">> full[:]", ">> full[0]")),
        "full[1]",
    ),
    "its own CTA": (
        changed(CLUSTER, ("CudaSmemCluster", "CudaSmemLinear")),
        "@ CudaSmemCluster is shared memory that all CTAs of a cluster access",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_its_remedy(tmp_path, name):
    text, wanted = MISTAKES[name]
    word, found = told(tmp_path, text)
    assert word in ("error", "refuted")
    assert wanted in re.sub(r"\s+", " ", found)
