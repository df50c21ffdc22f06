"""Kernels of rows, transposes and stencils against float64: their meaning, and what is emitted."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated
from campaigns.emulator.orders import ORDERS
from exogpu.api import Procedure, proc
from exogpu.diagnostics.verdict import Policy
from exogpu.gpu_trial.run_data import at_sizes, difference
from exogpu.interpreter.values import round_bf16
from exogpu.ir.nodes import Fence
from exogpu.ir.walk import walk
from exogpu.kernels.norm_rows import make_layer_norm, make_rms_norm
from exogpu.kernels.row_layout import SHAPES, Shape, shape_of
from exogpu.kernels.softmax_rows import make_softmax
from exogpu.kernels.stencil_kernels import make_stencil, make_stencil_rows
from exogpu.kernels.transpose_kernels import make_transpose, make_transpose_blocks
from tests.codegen.sync_mutants import inserted
from tests.marks import long_among

EPS = 1e-5
MAKERS = {"softmax": make_softmax, "rms_norm": make_rms_norm, "layer_norm": make_layer_norm}

CASES = [
    # one warp a row, several; the last vector of a span, and less than one warp has
    (Shape("f32", 1, 2), 19, 244),
    (Shape("f32", 1, 2), 8, 4),
    (Shape("bf16", 1, 1), 9, 256),
    (Shape("f32", 4, 1), 3, 412),
    (Shape("bf16", 2, 2), 2, 1016),
    (Shape("f32", 2, 3, vectors=False), 2, 191),
    (Shape("bf16", 1, 5, vectors=False), 9, 131),
    # in shared memory
    (Shape("bf16", 2, 2, staged=True), 2, 1016),
    (Shape("f32", 2, 3, staged=True), 3, 260),
    # steps of a whole span, of a part of one, and of less than a thread has
    (Shape("f32", 2, 2, looped=True), 2, 1540),
    (Shape("bf16", 2, 1, looped=True), 2, 1032),
    (Shape("f32", 2, 2, vectors=False, looped=True), 2, 300),
    (Shape("f32", 2, 2, looped=True), 2, 4),
]
IDS = [f"{shape.warps} {shape} {M}x{N}" for shape, M, N in CASES]


def given(name, shape, M, N, seed=0):
    """The arguments; rows are of different sizes and means."""
    rng = np.random.default_rng(seed)

    def array(*extents):
        return rng.standard_normal(extents).astype(np.float32)

    x = array(M, N) * np.exp(array(M, 1)) + 3 * array(M, 1)
    arrays = {"x": x, "y": np.full((M, N), np.nan, np.float32)}
    if name != "softmax":
        arrays |= {
            "weight": array(N),
            "count": np.array(N, np.float32),
            "eps": np.array(EPS, np.float32),
        }
    if name == "layer_norm":
        arrays["bias"] = array(N)
    if shape.dtype == "bf16":
        return {of: a if a.ndim == 0 else round_bf16(a) for of, a in arrays.items()}
    return arrays


def exact(name, x, weight=1.0, bias=0.0, **_):
    """In float64."""
    x, weight, bias = (np.asarray(a, np.float64) for a in (x, weight, bias))
    if name == "softmax":
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)
    if name == "layer_norm":
        x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * weight + bias


def assert_close(shape, found, wanted):
    """Of sums of f32, rounded at last to the type of the rows."""
    assert not np.isnan(found).any()
    rounded = {"f32": 0.0, "bf16": 2.0**-8}[shape.dtype]
    error = np.abs(found.astype(np.float64) - wanted)
    assert (error <= 2e-5 * np.abs(wanted).max() + rounded * np.abs(wanted)).all()
    if shape.dtype == "bf16":
        assert np.array_equal(found, round_bf16(found))


@pytest.mark.parametrize(("shape", "M", "N"), CASES, ids=IDS)
@pytest.mark.parametrize("name", MAKERS)
def test_the_meaning_is_that_of_float64(name, shape, M, N):
    arrays = given(name, shape, M, N)
    MAKERS[name](shape).run(**arrays)
    assert_close(shape, arrays["y"], exact(name, **arrays))


EXTREME = {
    "a row of one value": (np.full(8, 7.0), np.full(8, 0.125)),
    "far apart": (np.array([-3e38, 0, 0, 3e38] * 2), np.array([0, 0, 0, 0.5] * 2)),
    "masked": (np.array([-np.inf] * 4 + [1.0] * 4), np.array([0.0] * 4 + [0.25] * 4)),
    "all masked": (np.full(8, -np.inf), np.full(8, np.nan)),
    "not a number": (np.array([np.nan] + [0.0] * 7), np.full(8, np.nan)),
    "without limit": (np.array([np.inf] + [0.0] * 7), np.full(8, np.nan)),
}


@pytest.mark.parametrize("shape", [Shape("f32", 1, 1), Shape("f32", 2, 1, looped=True)], ids=str)
@pytest.mark.parametrize("what", EXTREME)
def test_softmax_of_extreme_rows(what, shape):
    row, wanted = EXTREME[what]
    x, y = row.astype(np.float32)[None], np.zeros((1, 8), np.float32)
    with np.errstate(all="ignore"):
        make_softmax(shape).run(x=x, y=y)
    np.testing.assert_allclose(y[0], wanted, rtol=1e-6)


@pytest.mark.parametrize("looped", [False, True])
def test_layer_norm_of_a_mean_far_from_zero(looped):
    """The variance is that of deviations, not a difference of squares."""
    shape = Shape("f32", 2, 1, looped=looped)
    arrays = given("layer_norm", shape, 1, 256)
    arrays["x"] = np.float32(4096) + np.arange(256, dtype=np.float32)[None] / 64
    make_layer_norm(shape).run(**arrays)
    assert_close(shape, arrays["y"], exact("layer_norm", **arrays))


def called(of: object) -> str:
    """A parameter in a test's name, the same in every process."""
    return getattr(of, "__name__", None) or str(of)


@pytest.mark.parametrize("kind", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("make", "extents"),
    [
        (make_transpose, (1, 1, 1)),
        (make_transpose, (2, 65, 130)),
        (make_transpose, (1, 64, 63)),
        (make_transpose_blocks, (2, 72, 40)),
        (make_transpose_blocks, (1, 8, 136)),
    ],
    ids=called,
)
def test_transpose(kind, make, extents):
    x = round_bf16(np.random.default_rng(0).standard_normal(extents).astype(np.float32))
    y = np.full((extents[0], extents[2], extents[1]), np.nan, np.float32)
    make(kind).run(x=x, y=y)
    assert np.array_equal(y, x.transpose(0, 2, 1))


@proc
def exchanged(L: size, M: size, N: size, x: f32[L, M, N] @ DRAM, y: f32[L, N, M] @ DRAM):
    for b in seq(0, L):
        for n in seq(0, N):
            for m in seq(0, M):
                y[b, n, m] = x[b, m, n]


def test_a_transpose_is_its_textbook_loops_for_all_sizes():
    assert make_transpose("f32").equivalent_to(exchanged).word == "equivalent"


@pytest.mark.parametrize(
    ("make", "extents"),
    [
        (make_stencil, (1, 1)),
        (make_stencil, (33, 129)),
        (make_stencil, (64, 127)),
        (make_stencil_rows, (1, 4)),
        (make_stencil_rows, (33, 132)),
    ],
    ids=called,
)
def test_stencil(make, extents):
    rng = np.random.default_rng(0)
    x, weight = (rng.integers(-9, 9, e).astype(np.float32) for e in (extents, (3, 3)))
    y = np.full(extents, np.nan, np.float32)
    make().run(x=x, weight=weight, y=y)
    assert np.array_equal(y, neighbours(x, weight))


def neighbours(x, weight):
    """Of whole numbers, exactly."""
    wide, (M, N) = np.pad(x, 1), x.shape
    return sum(weight[a, b] * wide[a : a + M, b : b + N] for a in range(3) for b in range(3))


SMALL = {
    **{f"{n} {s}": MAKERS[n](s) for n in MAKERS for s in (Shape("f32", 2, 1), Shape("bf16", 1, 1))},
    "looped": make_softmax(Shape("f32", 2, 1, looped=True)),
    "staged": make_softmax(Shape("bf16", 2, 1, staged=True)),
    "blocks": make_transpose_blocks("bf16", warps=(1, 1)),
    "stencil rows": make_stencil_rows(2, 2),
    "transpose": make_transpose("bf16"),
    "stencil": make_stencil(ROWS=4, COLUMNS=32, STEP=2),
}


@pytest.mark.parametrize(
    "name", long_among(SMALL, [n for n in SMALL if n.endswith("f32_2x128") and "soft" not in n])
)
def test_proved_and_refuted_without_any_of_its_fences(name):
    kernel = SMALL[name]
    assert [kernel.check(policy=policy).word for policy in Policy] == ["proved", "proved"]
    fences = [s for s in walk(kernel.ir.body) if isinstance(s, Fence)]
    # a warp that has a row for itself needs none
    assert bool(fences) == ("bf16_1x256" not in name and name != "stencil rows")
    for fence in fences:
        body = inserted(kernel.ir.body, fence, ())
        without = Procedure(kernel.name, replace(kernel.ir, body=body), ())
        sizes = {"L": 1, "M": 3, "N": 300} if name == "transpose" else {"M": 2, "N": 16}
        if name == "blocks":
            sizes = {"L": 2, "M": 8, "N": 16}
        assert without.check_at(**sizes).word == "refuted"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [
        (make_softmax(Shape("bf16", 2, 1, looped=True)), {"M": 3, "N": 1032}),
        (make_rms_norm(Shape("bf16", 2, 2, vectors=False)), {"M": 5, "N": 99}),
        (make_layer_norm(Shape("f32", 2, 1)), {"M": 3, "N": 244}),
        (make_softmax(Shape("bf16", 2, 1, staged=True)), {"M": 3, "N": 504}),
        (make_transpose("f32"), {"L": 2, "M": 65, "N": 70}),
        (make_transpose_blocks("bf16"), {"L": 2, "M": 136, "N": 72}),
        (make_stencil_rows(2, 2), {"M": 7, "N": 132}),
        (make_stencil(ROWS=8, COLUMNS=32, STEP=4), {"M": 19, "N": 70}),
    ],
    ids=lambda of: getattr(of, "name", None),
)
def test_emitted_code_in_every_order(kernel, sizes, builds):
    made, manifest = kernel.emit(unchecked=True)
    emulated = Emulated(made.source, manifest, builds)
    types = {p["name"]: p["dtype"] for p in manifest["parameters"] if p["kind"] == "data"}
    there = at_sizes(kernel, sizes, 1)
    for order in ORDERS[1:4]:
        arrays = {of: array.copy() for of, array in there.given.items()}
        emulated(arrays, sizes, order)
        for of, wanted in there.wanted.items():
            assert difference(arrays[of], wanted, types[of], 1e-2) == ""


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_every_row_has_a_shape(kind):
    for columns in (1, 2, 3, 4, 8, 100, 1023, 1024, 8192, 9001, 16384, 16392, 10**6, 2**31 - 2**20):
        shape = shape_of(kind, columns)
        assert columns <= shape.most and columns % shape.vector == 0
        assert shape.vectors == (columns * shape.type.bytes % 16 == 0)
    names = [str(shape) for shape in SHAPES]
    assert len(names) == len(set(names))
