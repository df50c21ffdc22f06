"""The greatest elements of rows against numpy: their meaning, and what is emitted."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated
from campaigns.emulator.orders import ORDERS
from exogpu.api import Procedure
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.nodes import Fence
from exogpu.ir.walk import walk
from exogpu.kernels import row_calls, topk
from exogpu.kernels.topk_rows import make_topk
from exogpu.kernels.topk_selection import MOST, TYPES, Part, TopkShape, topk_shape
from tests.codegen.sync_mutants import inserted

SMALL = Part("i32", 1)
"""Of further levels, so that short rows have some."""

CASES = [
    # in registers: one warp a row, several; shorter rows than a warp has, and as long; all of a row
    (TopkShape(Part("f32", 1), 5, warps=2), 3, 100),
    (TopkShape(Part("f32", 1), 4), 2, 4),
    (TopkShape(Part("f32", 2, vectors=False), 37, warps=2), 3, 37),
    (TopkShape(Part("bf16", 1), 40), 2, 256),
    (TopkShape(Part("f16", 1), 1, warps=2), 3, 8),
    (TopkShape(Part("f16", 2), 9), 2, 272),
    (TopkShape(Part("bf16", 4, vectors=False), 3), 2, 101),
    # in shared memory; a lane looks at one element of a group, or at two
    (TopkShape(Part("f32", 2), 8, warps=2), 3, 200),
    (TopkShape(Part("f32", 8, vectors=False), 60), 2, 60),
    (TopkShape(Part("f32", 64, vectors=False), 4), 1, 1999),
    # parts, the last of which has fewer than are asked for; parts of parts
    (TopkShape(Part("f32", 1), 9, 2, further=SMALL), 2, 1156),
    (TopkShape(Part("bf16", 2, vectors=False), 3, 2, further=SMALL), 2, 129),
    (TopkShape(Part("f32", 1), 6, 3, further=SMALL), 1, 2100),
]
IDS = [f"{shape.warps} {shape} {M}x{N}" for shape, M, N in CASES]

CONTENTS = ("ties", "extremes", "any")


def given(what, kind, M, N, seed=0):
    """Numbers that all types have, as f32 has them."""
    rng = np.random.default_rng(seed)
    if what == "ties":
        x = rng.integers(-2, 3, (M, N))
        x[0] = 1
        return x.astype(np.float32)
    if what == "any":
        return rng.integers(-128, 128, (M, N)).astype(np.float32) / 16
    values = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0**-14, -(2.0**-14)]
    x = rng.choice(np.array(values, np.float32), (M, N))
    x[-1] = rng.choice(np.array([-np.inf, -0.0, 0.0], np.float32), N)
    return x


def first(x, K):
    """Columns in order: NaN, then falling numbers, 0 before -0, and of equal ones the smaller."""
    nan, negative = np.isnan(x), np.signbit(x) & (x == 0)
    falling = -np.where(nan, 0, x)
    return np.lexsort((negative, falling, ~nan), axis=-1)[:, :K]


def assert_right(shape, x, y, indices):
    columns = first(x, shape.K)
    assert np.array_equal(indices, columns)
    np.testing.assert_array_equal(y, np.take_along_axis(x, columns, 1))
    assert np.array_equal(np.signbit(y), np.signbit(np.take_along_axis(x, columns, 1)))


@pytest.mark.parametrize(("shape", "M", "N"), CASES, ids=IDS)
@pytest.mark.parametrize("what", CONTENTS)
def test_the_meaning_is_that_of_numpy(shape, M, N, what):
    x = given(what, shape.part.dtype, M, N)
    y, indices = np.full((M, shape.K), 7, np.float32), np.full((M, shape.K), -1)
    kind = np.float16 if shape.part.dtype == "f16" else np.float32
    x, y = x.astype(kind), y.astype(kind)
    make_topk(shape).run(x=x, y=y, indices=indices)
    assert_right(shape, x, y, indices)


def test_rows_in_registers_need_no_fence():
    for shape in (TopkShape(Part("f32", 1), 40, warps=2), TopkShape(Part("bf16", 1), 3)):
        kernel = make_topk(shape)
        assert [kernel.check(policy=policy).word for policy in Policy] == ["proved", "proved"]
        assert not [s for s in walk(kernel.ir.body) if isinstance(s, Fence)]


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        (TopkShape(Part("f32", 2), 3, warps=2), {"M": 5, "N": 8}),
        (TopkShape(Part("bf16", 1), 2, 2, further=SMALL), {"M": 2, "N": 264}),
    ],
    ids=str,
)
def test_proved_and_refuted_without_any_of_its_fences(shape, sizes):
    kernel = make_topk(shape, "i32")
    assert [kernel.check(policy=policy).word for policy in Policy] == ["proved", "proved"]
    fences = [s for s in walk(kernel.ir.body) if isinstance(s, Fence)]
    assert len(fences) == 2 * shape.levels
    for fence in fences:
        body = inserted(kernel.ir.body, fence, ())
        without = Procedure(kernel.name, replace(kernel.ir, body=body), ())
        assert without.check_at(**sizes).word == "refuted"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
@pytest.mark.parametrize(
    ("shape", "M", "N", "index"),
    [
        (*CASES[0], "i32"),
        (*CASES[3], "i64"),
        (*CASES[11], "i64"),
        (topk_shape("f32", 256, 8), 19, 256, "i64"),
        (topk_shape("f32", 9000, 64), 2, 9000, "i64"),
        (topk_shape("bf16", 9001, 50), 1, 9001, "i32"),
    ],
    ids=str,
)
def test_emitted_code_in_every_order(shape, M, N, index, builds):
    made, manifest = make_topk(shape, index).emit(unchecked=True)
    emulated = Emulated(made.source, manifest, builds)
    for order, what in zip(ORDERS[1:4], CONTENTS, strict=True):
        x = given(what, shape.part.dtype, M, N)
        y, indices = np.full((M, shape.K), 7, np.float32), np.full((M, shape.K), -1)
        indices = indices.astype({"i32": np.int32, "i64": np.int64}[index])
        halves = shape.part.dtype == "bf16"
        arrays = {"x": of_bf16(x), "y": of_bf16(y)} if halves else {"x": x, "y": y}
        emulated({**arrays, "indices": indices}, {"M": M, "N": N}, order)
        assert_right(shape, x, to_f32(arrays["y"]) if halves else y, indices)


def of_bf16(x):
    """The bits of numbers that are bf16 already."""
    return (x.view(np.uint32) >> 16).astype(np.uint16)


def to_f32(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize("kind", TYPES)
def test_every_row_has_a_shape(kind):
    for columns in (1, 2, 8, 100, 256, 1023, 1024, 4096, 4097, 50257, 151936, 10**7, 2**31 - 2**13):
        for K in (1, min(columns, 50), min(columns, MOST)):
            shape = topk_shape(kind, columns, K)
            assert K <= columns <= shape.longest and columns % shape.part.vector == 0
            assert shape.part.vectors == (columns * shape.part.type.bytes % 16 == 0)
            assert 4 * shape.warps * max(shape.part.words, shape.further.words) <= 227 * 1024


@pytest.fixture
def called(monkeypatch):
    """The shapes of the kernels that were called; they compute what they mean."""
    shapes: list[str] = []

    def kernel(shape, index):
        def run(stream=None, *, x, y, indices):
            shapes.append(f"{index}_{shape}")
            assert x.ndim == y.ndim == indices.ndim == 2
            indices[...] = first(x, shape.K)
            y[...] = np.take_along_axis(x, first(x, shape.K), 1)

        return run

    monkeypatch.setattr(row_calls, "topk_kernel", kernel)
    return shapes


def test_rows_of_any_array(called):
    x = given("any", "f32", 6, 100).reshape(2, 3, 100)
    y, indices = topk(x, 5)
    assert y.shape == indices.shape == (2, 3, 5) and indices.dtype == np.int64
    assert np.array_equal(y, -np.sort(-x, -1)[..., :5])
    out, places = np.empty((2, 3, 5), np.float32), np.empty((2, 3, 5), np.int32)
    found = topk(x, 5, out, places)
    assert found[0] is out and found[1] is places and np.array_equal(out, y)
    assert np.array_equal(places, indices)
    assert topk(x[0, 0], 1)[0].shape == (1,)
    assert called == ["i64_f32_128_5", "i32_f32_128_5", "i64_f32_128_1"]
