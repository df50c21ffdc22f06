"""Repairs written into the source: with each the kernel is proved, and the text is well written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exogpu.cli.loader import load
from exogpu.cli.lsp import fixes as lsp_fixes
from exogpu.cli.lsp.fixes import apply_change, better, edits_of
from exogpu.cli.lsp.protocol import Fix
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import Hazard, HazardKind, Occurrence, Replacement
from exogpu.diagnostics.verdict import Policy, Verdict
from exogpu.solvers.processes import Limits

HEAD = "from exogpu import *\nfrom exogpu.isa.sm80 import Sm80_cp_async_copy\n\n@proc\n"
REVERSE = """def reverse(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
            Fence(cuda_in_order, cuda_in_order)  # for all
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = tile[63 - t]
            Fence(cuda_in_order, cuda_in_order)
"""
COPY = """def copy(M: size, x: f32[M, 256] @ CudaGmemLinear, y: f32[M, 256] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[256] @ CudaSmemLinear
            cg: barrier[64] @ CudaCommitGroup
            for t in cuda_threads(0, 64, unit=cuda_thread):
                Sm80_cp_async_copy(tile[4 * t : 4 * t + 4], x[m, 4 * t : 4 * t + 4])
                Arrive(Sm80_cp_async) >> cg[t]
                Await(cg[t], cuda_in_order, 0)
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 64, unit=cuda_thread):
                for i in seq(0, 4):
                    y[m, 4 * t + i] = tile[255 - 4 * t - i]
            Fence(cuda_in_order, cuda_in_order)
"""
SYNC = """def sync(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            cs: barrier @ CudaMbarrier
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
            Arrive(cuda_in_order) >> cs
            Await(cs, cuda_in_order, ~0)
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = tile[63 - t]
            Fence(cuda_in_order, cuda_in_order)
"""
LOOP = """def loop(K: size, x: f32[K, 64] @ CudaGmemLinear, y: f32[K, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, 1):
            tile: f32[64] @ CudaSmemLinear
            for k in seq(0, K):
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    tile[t] = x[k, t]
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    y[k, t] = tile[63 - t]
                Fence(cuda_in_order, cuda_in_order)
"""
WAIT = "                Await(cg[t], cuda_in_order, 0)\n"
GROUP = "                Arrive(Sm80_cp_async) >> cg[t]\n" + WAIT
DECLARED = "            cg: barrier[64] @ CudaCommitGroup\n"
FENCE = "            Fence(cuda_in_order, cuda_in_order)"
NARROW = f"for w in cuda_threads(0, 2, unit=cuda_warp):\n    {FENCE}"
MARKED = "Fence(cuda_in_order, cuda_in_order)  # for all"
ASYNC = "Sm80_cp_async,"
PLAIN = REVERSE.replace("  # for all", "")

BROKEN = {
    "between": (REVERSE, f"{FENCE}  # for all\n", "", PLAIN),
    "at the end": (REVERSE, f"{FENCE}\n", "", REVERSE),
    "carried by a loop": (LOOP, f"63 - t]\n    {FENCE}\n", "63 - t]\n", LOOP),
    "second timeline": (
        REVERSE,
        "cuda_in_order)  # for all",
        "cuda_temporal)  # for all",
        REVERSE,
    ),
    "first timeline": (
        REVERSE,
        MARKED,
        MARKED.replace("cuda_in_order", "Sm80_cp_async", 1),
        REVERSE,
    ),
    "wider": (REVERSE, MARKED, NARROW, PLAIN),
    "a new group": (COPY, DECLARED, "", COPY),
    "a group": (COPY, GROUP, "", COPY),
    "an await": (COPY, WAIT, "", COPY),
    "another number": (COPY, "cuda_in_order, 0)", "cuda_in_order, 1)", COPY),
    "an arrive": (SYNC, "            Arrive(cuda_in_order) >> cs\n", "", SYNC),
    "an arrive that comes too late": (
        SYNC,
        "            Arrive(cuda_in_order) >> cs\n            Await(cs, cuda_in_order, ~0)\n",
        "            Await(cs, cuda_in_order, ~0)\n            Arrive(cuda_in_order) >> cs\n",
        SYNC,
    ),
}


def tried(tmp_path: Path, text: str) -> tuple[str, list[Fix]]:
    file = tmp_path / "kernel.py"
    file.write_text(HEAD + text)
    (unit,) = load(str(file))
    verdict = unit.procedure.check()
    assert verdict.word == "refuted", verdict
    found = lsp_fixes.fixes(verdict, str(file), HEAD + text, Policy.PTX, Limits(60))
    return HEAD + text, [*found]


def made(text: str, fix: Fix) -> str:
    change = tuple(Replacement(Span("f", *edit.place), edit.text) for edit in fix.edits)
    return apply_change(text, change)


@pytest.mark.parametrize("name", BROKEN)
def test_a_repair_proves_the_kernel(name: str, tmp_path: Path) -> None:
    right, old, new, repaired = BROKEN[name]
    assert right.count(old) >= 1
    broken = new.join(right.rsplit(old, 1))
    if name == "a new group":
        broken = broken.replace(GROUP, "")
    text, fixes = tried(tmp_path, broken)
    best = [fix for fix in fixes if fix.proved]
    assert best, fixes
    result = made(text, best[0])
    assert result == HEAD + repaired


def test_what_brings_another_hazard_or_does_not_help_is_not_offered(tmp_path: Path) -> None:
    """The proposals of a hazard are exchanged for wrong ones; at last for a right one."""
    text = HEAD + REVERSE.replace(f"{FENCE}  # for all\n", "")
    file = tmp_path / "kernel.py"
    file.write_text(text)
    (unit,) = load(str(file))
    verdict = unit.procedure.check()
    line = 1 + text[: text.index("y[m, t]")].count("\n") - 1
    at = Span(str(file), line, 1, line, 1)
    elsewhere = Span(str(file), 1, 1, 1, 1)
    fence = f"{FENCE}\n"
    wrong = {
        "no statement": Replacement(at, "            what is this\n"),
        "unknown": Replacement(at, "            Fence(cuda_in_order, nothing)\n"),
        "of no use": Replacement(at, "            Fence(cuda_temporal, cuda_temporal)\n"),
        "a comment": Replacement(elsewhere, "# nothing\n"),
        "another name": Replacement(elsewhere, "exit()\n"),
        "endless": Replacement(elsewhere, "while True: pass\n"),
        "another file": Replacement(Span("/other.py", 1, 1, 1, 1), fence),
    }

    def offered(change: Replacement) -> list[Fix]:
        hazards = tuple(replace(h, changes=((change,),)) for h in verdict.hazards)
        made = replace(verdict, hazards=hazards)
        return [*lsp_fixes.fixes(made, str(file), text, Policy.PTX, Limits(2))]

    assert {name: offered(one) for name, one in wrong.items()} == {name: [] for name in wrong}
    (fix,) = offered(Replacement(at, fence))
    assert fix.proved


def hazard(kind: HazardKind, variable: str, second: str) -> Hazard:
    site = Occurrence(Span("f", 1, 1, 1, 1), second)
    return Hazard("H701", kind, variable, (), {}, None, None, site, "", "", True)


def test_better_is_fewer_of_the_same() -> None:
    def verdict(word: str, *hazards: Hazard) -> Verdict:
        return Verdict("p", word, None, Policy.PTX, 0.0, hazards=hazards)  # type: ignore[arg-type]

    raw, war = hazard(HazardKind.RAW, "a", "x"), hazard(HazardKind.WAR, "a", "y")
    before = verdict("refuted", raw, war)
    assert better(before, verdict("proved"), raw)
    assert better(before, verdict("refuted", war), raw)
    assert not better(before, verdict("refuted", raw), raw), "the other one is mended"
    assert not better(before, verdict("refuted", hazard(HazardKind.WAW, "a", "y")), raw)
    assert not better(before, verdict("refuted", war, war), raw), "one more of the other"
    assert not better(before, verdict("undecided"), raw)
    assert not better(before, verdict("error"), raw)
    twice = verdict("refuted", raw, raw, war)
    assert better(twice, verdict("refuted", raw, war), raw)


LINES = st.lists(st.text("ab é\U0001f980", max_size=4), max_size=6)


@given(LINES, LINES, st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_edits_make_the_other_text(old: list[str], new: list[str], ended: bool, end: str) -> None:
    before, after = (end.join(one) + (end if ended and one else "") for one in (old, new))
    change = tuple(
        Replacement(Span("f", *edit.place), edit.text.replace("\r\n", "\n"))
        for edit in edits_of(before, after)
    )
    # Lines that an edit brings end as those of the text do.
    made = apply_change(before, change)
    assert made.replace("\r\n", "\n") == after.replace("\r\n", "\n")
