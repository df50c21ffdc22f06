"""Higher steps: what each makes of a procedure, and that it is made of primitives alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from steps import same_results

from exogpu import ExoGpuError, cuda_thread, proc, schedule
from exogpu.api import Procedure
from exogpu.diagnostics.errors import Diagnostic
from exogpu.hw.memories import CudaGmemLinear, Sm90_SmemSwizzled, Sm90_tensorMap
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.hw.units import cuda_warp
from exogpu.ir.nodes import Proc, WarpConfig
from exogpu.isa.sm90 import Sm90_tma_load
from exogpu.schedule import derivations, reparse

GOLDEN = Path(__file__).parent / "golden"


@proc
def product(m: size, n: size, k: size, A: f32[m, k], B: f32[n, k], C: f32[m, n]):
    for i in seq(0, m):
        for j in seq(0, n):
            C[i, j] = 0
            for c in seq(0, k):
                C[i, j] += A[i, c] * B[j, c]


@proc
def added(n: size, x: f32[8, n], y: f32[8]):
    for i in seq(0, 8):
        if i < n:
            for c in seq(0, n):
                y[i] += x[i, c]


@proc
def steps(n: size, x: f32[n, 4], y: f32[n, 2]):
    for k in seq(0, n):
        for c in seq(0, 2):
            for i in seq(0, 4):
                y[k, c] += x[k, i]


@proc
def copies(n: size, x: f32[n], y: f32[n]):
    t: f32[n]
    for k in seq(0, n):
        t[k] = x[k]
        y[k] = 2 * t[k]


@proc
def twice(x: f32[4, 4], y: f32[4], z: f32[4]):
    for i in seq(0, 4):
        for j in seq(0, 4):
            y[i] += x[i, j]
            z[i] += x[i, j]


@proc
def guarded_steps(n: size, m: size, x: f32[n, 4], y: f32[n, 2]):
    for k in seq(0, n):
        for d in seq(0, 2):
            if k < m:
                for i in seq(0, 4):
                    y[k, d] += x[k, i]


@proc
def stores(d: f32[2, 4], y: f32[2, 4]):
    for w in seq(0, 2):
        for i in seq(0, 4):
            y[w, i] += d[w, i]


@proc
def of_rounded(n: size, x: f32[n], y: f32[n, 4]):
    t: f32[n]
    for i in seq(0, n):
        t[i] = x[i]
    for i in seq(0, n):
        for j in seq(0, 4):
            y[i, j] += tf32(t[i]) * tf32(t[n - 1 - i])


WARPS = [WarpConfig("producer", 1), WarpConfig("consumer", 1)]


@proc
def loaded(n: size, x: f32[n, 4, 32], y: f32[n, 4, 32]):
    for task in seq(0, 1):
        t: f32[3, 4, 32]
        for k in seq(0, n):
            for w in seq(0, 1):
                for i in seq(0, 4):
                    for j in seq(0, 32):
                        t[k % 3, i, j] = x[k, i, j]
            for w in seq(0, 1):
                for c in seq(0, 32):
                    for r in seq(0, 4):
                        y[k, r, c] = t[k % 3, r, c]


def launched(p: Procedure) -> Procedure:
    """With one warp that loads and one that copies."""
    box = Sm90_tensorMap(128, 1, 4, 32)
    p = schedule.bind_window(p, schedule.find(p, "task"), "x[0:n, 0:4, 0:32]", "x_map", box)
    p = schedule.replace(p, "i", Sm90_tma_load, rows=4, cols=32, box=(1, 4, 32))
    for name, memory in (
        ("x", CudaGmemLinear),
        ("y", CudaGmemLinear),
        ("t", Sm90_SmemSwizzled(128)),
    ):
        p = schedule.set_memory(p, name, memory)
    p = schedule.wrap_kernel(p, "task", WARPS)
    for loop, mode in (
        ("task", "tasks"),
        ("w", cuda_warp),
        ("w #1", cuda_warp),
        ("c", cuda_thread),
    ):
        p = schedule.set_loop_mode(p, loop, mode)
    producer, consumer = schedule.CudaWarps(name="producer"), schedule.CudaWarps(name="consumer")
    return schedule.split_warps(p, "w", ["w #1"], producer, consumer)


def ring(p: Procedure) -> Procedure:
    """With a proxy fence before each load: what it overwrites was read as ordinary memory."""
    both, temporal, in_order = (
        SYNC_TIMELINES[f"cuda_{n}"] for n in ("generic_and_async", "temporal", "in_order")
    )
    timelines = (both, temporal, both, in_order)
    over = [("w", 1, cuda_warp)]
    return schedule.guard_ring(launched(p), {"Sm90_tma_load": "[w]"}, "c", 3, over, timelines)


ACCEPTED: dict[str, tuple[Procedure, Callable[[Procedure], Procedure]]] = {
    "tile": (product, lambda p: schedule.tile(p, "i", (8, 4), ["io", "jo"], ["ii", "ji"])),
    "round_copies": (of_rounded, lambda p: schedule.round_copies(p, "t")),
    "tile_for_cluster": (
        product,
        lambda p: schedule.tile_for_cluster(
            p, "i", (2, 1), (8, 4), ["io", "jo"], ["ci", "cj"], ["ii", "ji"]
        ),
    ),
    "outwards": (added, lambda p: schedule.outwards(p, "c", over="i")),
    "accumulate": (product, lambda p: schedule.accumulate(p, "c", "t", over="i")),
    "accumulate in an element": (added, lambda p: schedule.accumulate(p, "c", "t", over="i")),
    "stage_ring": (steps, lambda p: schedule.stage_ring(p, "i", "x[k, 0:4]", "t", "k", slots=3)),
    "stage_ring in a guard": (
        guarded_steps,
        lambda p: schedule.stage_ring(p, "i", "x[k, 0:4]", "t", "k", slots=3),
    ),
    "tile_for_cluster of the same names": (
        product,
        lambda p: schedule.tile_for_cluster(
            p, "i", (2, 1), (8, 4), ["i", "j"], ["i", "j"], ["i", "j"]
        ),
    ),
    "stage_ring of all": (steps, lambda p: schedule.stage_ring(p, "c", "x[k, 0:4]", "t", "k")),
    "pipeline": (copies, lambda p: schedule.pipeline(p, "y[_] = _", ["t"])),
    "pipeline of three": (copies, lambda p: schedule.pipeline(p, "y[_] = _", ["t"], slots=3)),
    "stage_epilogue": (
        stores,
        lambda p: schedule.stage_epilogue(p, "i", "d[w, 0:4]", "t", over="w"),
    ),
    "split_warps": (loaded, launched),
    "guard_ring": (loaded, ring),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_it_makes_this_of_that(name: str, request: pytest.FixtureRequest) -> None:
    before, step = ACCEPTED[name]
    after = step(before)
    text = f"{schedule.text(before)}\n->\n\n{schedule.text(after)}"
    golden = GOLDEN / f"{name.replace(' ', '_')}.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(text)
    assert text == golden.read_text()
    if name != "split_warps":  # which are not a kernel before the load signals
        assert same_results(before, after) > 0


@pytest.mark.parametrize("name", ACCEPTED)
def test_its_steps_say_what_they_are_part_of(name: str) -> None:
    before, step = ACCEPTED[name]
    made = [d for _, d in schedule.chain(step(before))]
    assert made and any(d.within and d.within[0].startswith(name.split()[0]) for d in made)
    assert all(re.fullmatch(r"\w+\(.*\)", part) for d in made for part in d.within)


def test_what_is_derived_afterwards_is_part_of_nothing() -> None:
    with pytest.raises(ExoGpuError):
        schedule.tile(product, "i", (8, 4), ["io", "jo"], ["ii", "ji"], tail="perfect")
    after = schedule.derivation(schedule.rename(product, "other"))
    assert after is not None and after.within == ()


def test_a_ring_of_proved_synchronisation() -> None:
    in_order = SYNC_TIMELINES["cuda_in_order"]
    p = ring(loaded)
    assert (
        schedule.insert_fence(p, schedule.find(p, "k").after(), in_order, in_order).check().word
        == "proved"
    )


REFUSED: dict[str, tuple[Procedure, Callable[[Procedure], Procedure], str]] = {
    "a tile that does not fit": (
        product,
        lambda p: schedule.tile(p, "i", (8, 4), ["io", "jo"], ["ii", "ji"], tail="perfect"),
        "X992",
    ),
    "a loop that is not around": (product, lambda p: schedule.outwards(p, "i", over="c"), "X990"),
    "too few slots": (
        copies,
        lambda p: schedule.pipeline(p, "y[_] = _", ["t"], slots=1),
        "",
    ),
    "no loops": (
        copies,
        lambda p: schedule.tile(p, "y[_] = _", (2, 2), ["a", "b"], ["c", "d"]),
        "X991",
    ),
    "one loop": (copies, lambda p: schedule.tile(p, "k", (2, 2), ["a", "b"], ["c", "d"]), "X991"),
    "no sum": (copies, lambda p: schedule.accumulate(p, "y[_] = _", "u", over="k"), "X991"),
    "sums of two": (twice, lambda p: schedule.accumulate(p, "j", "u", over="i"), "X991"),
    "a guard around": (added, lambda p: schedule.pipeline(p, "c", []), "X991"),
    "no loads": (
        loaded,
        lambda p: schedule.guard_ring(
            p, {}, "c", 3, [("w", 1, cuda_warp)], (SYNC_TIMELINES["cuda_in_order"],) * 4
        ),
        "X991",
    ),
    "loads of no warps": (
        loaded,
        lambda p: schedule.guard_ring(
            p,
            {"t[_] = _": "[w]"},
            "c",
            3,
            [("w", 1, cuda_warp)],
            (SYNC_TIMELINES["cuda_in_order"],) * 4,
        ),
        "X990",
    ),
    "no loop around": (copies, lambda p: schedule.pipeline(p, "k", []), "X990"),
    "another's element": (
        stores,
        lambda p: schedule.stage_epilogue(p, "i", "d[w, 0:3]", "t", over="w"),
        "X992",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name: str) -> None:
    before, step, code = REFUSED[name]
    if not code:
        assert same_results(before, step(before)) > 0
        return
    with pytest.raises(ExoGpuError) as refusal:
        step(before)
    assert {d.code for d in refusal.value.diagnostics} == {code}


def test_a_derived_procedure_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    plain = reparse.refusals

    def counted(ir: Proc) -> tuple[Diagnostic, ...]:
        read.append(ir.name)
        return plain(ir)

    monkeypatch.setattr(derivations, "refusals", counted)
    p = schedule.rename(schedule.tile(product, "i", (8, 4), ["io", "jo"], ["ii", "ji"]), "tiled")
    assert read == []
    assert p.diagnostics == () and p.check().word == "proved" and read == ["tiled"]
