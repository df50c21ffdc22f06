"""Bounds of windows and calls at concrete sizes, extents by iterators, index arguments."""

from __future__ import annotations

import json

import numpy as np
import pytest

from exogpu import Procedure, proc
from exogpu.analysis.sizes import bound_of
from exogpu.analysis.thread_names import listing
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir import nodes as ir
from exogpu.ir.nodes import Add, CVar, FloorDiv, Int, Mul, Sub
from exogpu.ir.types import Sym
from exogpu.ir.walk import evaluate
from exogpu.isa.cuda import cuda_memset0_1d
from exogpu.machine import fast, literal
from exogpu.solvers import isl


@proc
def inner(n: size, x: f32[n]):
    assert n >= 0
    x[n] = 1.0


@proc
def window(K: size, a: f32[64]):
    assert K <= 10
    w = a[0:K]
    w[K + 1] = 1.0


@proc
def window_of_window(K: size, a: f32[64, 4]):
    assert K <= 10
    w = a[2 : K + 2, 1]
    v = w[1 : K + 3]
    v[K - 1] = 1.0


@proc
def empty_window(K: size, a: f32[64]):
    assert K <= 10
    w = a[K:K]
    w[0] = 1.0


@proc
def called(K: size, a: f32[64]):
    assert K <= 10
    w = a[0:32]
    inner(K, w[1 : K + 1])


@proc
def nothing(n: size, x: f32[n]):
    pass


@proc
def passed(K: size, a: f32[64]):
    assert K <= 10
    w = a[0:K]
    nothing(K + 1, w[0 : K + 1])


@pytest.mark.parametrize("made", [window, window_of_window, empty_window, called, passed])
def test_a_window_keeps_its_extent_everywhere(made: Procedure) -> None:
    assert made.check().word == "refuted"
    for size in (1, 2, 10):
        found = made.check_at(K=size)
        assert [h.kind for h in found.hazards] == [HazardKind.BOUNDS]
        shape = (64, 4) if made is window_of_window else 64
        with pytest.raises(ExoGpuError) as raised:
            made.run(K=size, a=np.zeros(shape, np.float32))
        assert raised.value.diagnostics[0].code == "X927"


def test_a_procedure_is_judged_at_the_sizes_of_its_calls() -> None:
    @proc
    def third(n: size, x: f32[n]):
        x[2] = 1.0

    @proc
    def guarded(K: size, a: f32[K]):
        if K >= 3:
            third(K, a[:])

    @proc
    def unguarded(K: size, a: f32[K + 1]):
        third(K + 1, a[:])

    assert third.check().word == "refuted"
    assert guarded.check().word == "proved"
    found = unguarded.check()
    (hazard,) = found.hazards
    assert (hazard.sizes, hazard.first.text) == ({"K": 1}, "third(K + 1, a[:])")
    assert found.condition == "K >= 2"
    assert unguarded.check_at(K=1).word == "refuted" and unguarded.check_at(K=2).word == "proved"


# --- extents that use iterators -----------------------------------------------------------------


@proc
def rows(K: size, x: f32[K]):
    for i in seq(0, K):
        t: f32[i + 1]
        for k in seq(0, i + 1):
            t[k] = x[k]
        x[i] = t[i]


@proc
def rows_too_far(K: size, x: f32[K]):
    for i in seq(0, K):
        t: f32[i + 1]
        t[i + 1] = x[i]


def test_extents_by_iterators() -> None:
    assert rows.check().word == "proved"
    assert rows.check_at(K=5).word == "proved"
    x = np.arange(5, dtype=np.float32)
    rows.run(K=5, x=x)
    assert rows.emit()[0].host.source.count("std::vector<float> t;") == 1
    document = rows.amir().to_json()
    (shape,) = [v["shape"] for v in document["variables"] if v["name"] == "t_2"]
    assert shape == ["((K - (1)) + (1))"]
    assert rows_too_far.check().word == rows_too_far.check_at(K=1).word == "refuted"


def test_extents_by_iterators_in_shared_memory() -> None:
    @proc
    def triangle(M: size, x: f32[M, 32] @ CudaGmemLinear, fenced: index):
        assert fenced >= 0
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, M):
                for i in seq(0, 4):
                    s: f32[i + 1, 32] @ CudaSmemLinear
                    for u in cuda_threads(0, 32, unit=cuda_thread):
                        s[i, u] = x[m, u]
                    if fenced <= i:
                        Fence(cuda_in_order, cuda_in_order)
                    for u in cuda_threads(0, 32, unit=cuda_thread):
                        x[m, u] = s[i, 31 - u]
                    Fence(cuda_in_order, cuda_in_order)

    found = triangle.check()
    assert found.word == "refuted" and found.hazards[0].sizes == {"M": 1, "fenced": 1}
    for sizes in ({"M": 2, "fenced": 0}, {"M": 1, "fenced": 1}, {"M": 2, "fenced": 9}):
        program = triangle.amir()
        slow, quick = literal.run(program, sizes), fast.run(program, sizes).violations
        assert bool(slow) == bool(quick) == (sizes["fenced"] > 0)
    with pytest.raises(ExoGpuError) as raised:
        triangle.emit(unchecked=True)
    assert raised.value.diagnostics[0].code == "G802"


def test_bounds_of_extents() -> None:
    k, i, j = Sym("K"), Sym("i"), Sym("j")
    loops = {i: (Int(-3), Sub(CVar(k), Int(1))), j: (CVar(i), Add(CVar(i), Int(2)))}
    terms = [CVar(i), CVar(j), Mul(-2, CVar(j)), FloorDiv(CVar(i), 3), ir.Mod(CVar(j), 4)]
    terms += [Sub(a, b) for a in terms for b in terms]
    for size in range(1, 4):
        points = [{k: size, i: a, j: b} for a in range(-3, size) for b in range(a, a + 3)]
        for term in terms:
            values = [evaluate(term, point) for point in points]
            least, most = bound_of(term, loops, least=True), bound_of(term, loops)
            assert evaluate(least, {k: size}) <= min(values)
            assert max(values) <= evaluate(most, {k: size})
    assert bound_of(CVar(k), loops) == CVar(k)


# --- index arguments ----------------------------------------------------------------------------


def racing(low: int, high: int) -> Procedure:
    @proc
    def racing(j: index, M: size, y: f32[M, 64] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for m in cuda_tasks(0, M):
                tile: f32[64] @ CudaSmemLinear
                for u in cuda_threads(0, 64, unit=cuda_thread):
                    tile[u] = 1.0
                if j < low or j > high:
                    Fence(cuda_in_order, cuda_in_order)
                for u in cuda_threads(0, 64, unit=cuda_thread):
                    y[m, u] = tile[63 - u]
                Fence(cuda_in_order, cuda_in_order)

    return racing


@pytest.mark.parametrize(
    ("low", "high", "smallest"), [(-9, 9, 0), (-9, -4, -4), (2, 9, 2), (-3, -3, -3)]
)
def test_an_unbounded_index_has_a_smallest_magnitude(low: int, high: int, smallest: int) -> None:
    found = racing(low, high).check()
    assert found.word == "refuted"
    assert found.hazards[0].sizes == {"j": smallest, "M": 1}


def test_a_hazard_at_every_index() -> None:
    @proc
    def anywhere(j: index, y: f32[64] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for m in cuda_tasks(0, 1):
                tile: f32[64] @ CudaSmemLinear
                for u in cuda_threads(0, 64, unit=cuda_thread):
                    tile[u] = 1.0
                for u in cuda_threads(0, 64, unit=cuda_thread):
                    y[u] = tile[63 - u]

    assert anywhere.check().hazards[0].sizes == {"j": 0}
    assert anywhere.check_at(j=-7).word == "refuted"


def test_a_smallest_point_where_isl_has_none() -> None:
    text = "(i mod 2 = 0 and i >= -3 or i >= 5 and i mod 3 = 1) and (4k = i or 7k = i - 1)"
    assert isl.lexmin(isl.set_of((), ("i", "k"), text)) == (0, 0)
    assert isl.lexmin(isl.set_of((), ("i", "k"), "i >= 3 and 5k = i + 1")) == (4, 1)
    assert isl.lexmin(isl.set_of((), ("i",), "i > 3 and i < 2")) is None
    assert isl.lexmin(isl.set_of((), (), "")) == ()
    point = isl.lexmin(isl.set_of((), ("i", "k"), "i = 2 and k < i and k mod 2 = 0"))
    assert point is not None and point[0] == 2 and point[1] < 2


# --- memset ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [8, 7])
def test_a_memset_of_a_part_is_not_one_of_the_whole(rows: int) -> None:
    @proc
    def clears(x: f32[8] @ CudaGmemLinear):
        cuda_memset0_1d(rows, x[0:rows])

    (step,) = clears.emit(unchecked=True)[0].manifest["steps"]
    assert (step["op"], step["offset"], step["count"]) == ("memset", 0, rows)


# --- huge sizes -----------------------------------------------------------------------------------


def test_huge_sizes_of_empty_loops() -> None:
    @proc
    def copies(K: size, y: f32[4]):
        for i in seq(K, 4):
            y[i] = 1.0

    found = copies.check_at(K=2**40)
    assert found.word == "proved" and found.operations < 100

    @proc
    def idle(K: size, y: f32[4]):
        for i in seq(0, K):
            pass

    assert idle.check_at(K=2**40).word == "proved"


# --- names ----------------------------------------------------------------------------------------


@proc
def reserved(exists: size, x: f32[exists, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for Mod in cuda_tasks(0, exists):
            for t in cuda_threads(0, 2, unit=cuda_warp):
                for j0 in cuda_threads(0, 32, unit=cuda_thread):
                    x[Mod, 32 * t + j0] = 1.0


def maps(document: object) -> list[str]:
    text = json.dumps(document)
    return [part.split('"')[0] for part in text.split('"threads": "')[1:]]


def test_thread_maps_say_what_they_mean() -> None:
    expected = {
        "{ [t_2, j0_2]": "{ [w, u] -> [x] : x = 32w + u }",
        "{ [t_2]": "{ [w] -> [x] : 32w <= x < 32w + 32 }",
        "{ []": "{ [] -> [x] : 0 <= x < 64 }",
    }
    texts = maps(reserved.amir().to_json())
    assert texts
    for text in texts:
        meaning = isl.parse_map(expected[text.partition(" ->")[0]])
        assert isl.is_equal_map(isl.parse_map(text), meaning), text
    facts = reserved.facts
    for line in listing(facts.proc, facts.collective):
        threads = isl.image(isl.parse_map(line.relation))
        assert isl.is_equal(threads, isl.parse_set("{ [x] : 0 <= x < 64 }")), line.relation
    assert reserved.check().word == "proved"
