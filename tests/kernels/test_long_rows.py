"""Kernels of rows that a cluster has: against float64, proved, and right where they are emitted."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated
from campaigns.emulator.orders import ORDERS
from exogpu.api import Procedure
from exogpu.diagnostics.verdict import Policy
from exogpu.interpreter.values import round_bf16
from exogpu.ir.nodes import Arrive, Await, Fence
from exogpu.ir.walk import walk
from exogpu.kernels.long_rows import LONG_MAKERS
from exogpu.kernels.row_layout import LONG, LONG_SHAPES, LongShape, long_shape_of
from tests.codegen.sync_mutants import inserted

EPS = 1e-5
SMALL = {"f32": LongShape("f32", 4, 1, 8), "bf16": LongShape("bf16", 2, 2, 16)}
WIDE = LongShape("f32", 2, 32, 4)
"""Two partial results a lane."""


def given(name, kind, M, N):
    """The arguments; rows are of different sizes and means."""
    rng = np.random.default_rng(0)
    x, scale, mean, weight, bias = (
        rng.standard_normal(extents).astype(np.float32)
        for extents in ((M, N), (M, 1), (M, 1), N, N)
    )
    arrays = {"x": x * np.exp(scale) + 3 * mean, "weight": weight, "bias": bias}
    if kind == "bf16":
        arrays = {of: round_bf16(array) for of, array in arrays.items()}
    arrays["y"] = np.full((M, N), np.nan, np.float32)
    arrays |= {"count": np.array(N, np.float32), "eps": np.array(EPS, np.float32)}
    taken = {"softmax": ("x", "y"), "rms_norm": ("x", "weight", "y", "count", "eps")}
    return {of: arrays[of] for of in taken.get(name, arrays)}


def exact(name, x, weight=1.0, bias=0.0, **_):
    """In float64."""
    x, weight, bias = (np.asarray(a, np.float64) for a in (x, weight, bias))
    if name == "softmax":
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)
    if name == "layer_norm":
        x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * weight + bias


def assert_close(kind, found, wanted):
    """Of sums of f32, rounded at last to the type of the rows."""
    error = np.abs(found.astype(np.float64) - wanted)
    rounded = {"f32": 0.0, "bf16": 2.0**-8}[kind]
    assert (error <= 2e-5 * np.abs(wanted).max() + rounded * np.abs(wanted)).all()


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("name", LONG_MAKERS)
def test_the_meaning_is_that_of_float64(name, kind):
    span = SMALL[kind].span
    for M, N in ((2, span), (3, span // 2 + 8), (1, 8)):
        arrays = given(name, kind, M, N)
        LONG_MAKERS[name](SMALL[kind]).run(**arrays)
        assert_close(kind, arrays["y"], exact(name, **arrays))


@pytest.mark.parametrize("name", LONG_MAKERS)
def test_many_warps(name):
    arrays = given(name, "f32", 1, 5000)
    LONG_MAKERS[name](WIDE).run(**arrays)
    assert_close("f32", arrays["y"], exact(name, **arrays))


EXTREME = {
    "a row of one value": (np.full(8, 7.0), np.full(8, 0.125)),
    "far apart": (np.array([-3e38, 0, 0, 3e38] * 2), np.array([0, 0, 0, 0.5] * 2)),
    "masked": (np.array([-np.inf] * 4 + [1.0] * 4), np.array([0.0] * 4 + [0.25] * 4)),
    "all masked": (np.full(8, -np.inf), np.full(8, np.nan)),
    "not a number": (np.array([np.nan] + [0.0] * 7), np.full(8, np.nan)),
    "without limit": (np.array([np.inf] + [0.0] * 7), np.full(8, np.nan)),
}


@pytest.mark.parametrize("what", EXTREME)
def test_softmax_of_extreme_rows(what):
    row, wanted = EXTREME[what]
    wide = np.full((1, 512), -np.inf, np.float32)  # most threads have nothing, one warp no element
    wide[0, 256::32] = row
    y = np.zeros_like(wide)
    with np.errstate(all="ignore"):
        LONG_MAKERS["softmax"](LongShape("f32", 4, 2, 4)).run(x=wide, y=y)
    np.testing.assert_allclose(y[0, 256::32], wanted, rtol=1e-6)


def test_layer_norm_of_a_mean_far_from_zero():
    """The variance is that of deviations, not a difference of squares."""
    arrays = given("layer_norm", "f32", 1, 1024)
    arrays["x"] = np.float32(4096) + np.arange(1024, dtype=np.float32)[None] / 64
    LONG_MAKERS["layer_norm"](SMALL["f32"]).run(**arrays)
    assert_close("f32", arrays["y"], exact("layer_norm", **arrays))


def test_proved_and_refuted_without_any_synchronisation():
    kernel = LONG_MAKERS["rms_norm"](LongShape("f32", 2, 1, 4))
    assert [kernel.check(policy=policy).word for policy in Policy] == ["proved", "proved"]
    fence, arrive, wait = (
        next(s for s in walk(kernel.ir.body) if isinstance(s, kind))
        for kind in (Fence, Arrive, Await)
    )
    for dropped in ((fence,), (arrive, wait)):
        body = kernel.ir.body
        for stmt in dropped:
            body = inserted(body, stmt, ())
        without = Procedure(kernel.name, replace(kernel.ir, body=body), ())
        assert without.check_at(M=2, N=16).word == "refuted"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
def test_emitted_code(tmp_path):
    name, kind = "layer_norm", "bf16"
    kernel, (M, N) = LONG_MAKERS[name](SMALL[kind]), (3, SMALL[kind].span - 8)
    made, manifest = kernel.emit(unchecked=True)
    assert f"__launch_bounds__({32 * SMALL[kind].warps}, 2)" in made.source
    emulated = Emulated(made.source, manifest, tmp_path)
    arrays = given(name, kind, M, N)
    there = {
        of: (array.view(np.uint32) >> 16).astype(np.uint16)
        if kind == "bf16" and array.ndim
        else array
        for of, array in arrays.items()
    }
    for order in ORDERS[1:4]:
        emulated(there, {"M": M, "N": N}, order)
        y = there["y"]
        found = (y.astype(np.uint32) << 16).view(np.float32) if kind == "bf16" else y
        assert_close(kind, found, exact(name, **arrays))


def test_every_long_row_has_a_shape():
    for kind in ("f32", "bf16"):
        assert long_shape_of(kind, LONG) is None
        for columns in (LONG + 8, 32768, 32776, 65536, 131072):
            shape = long_shape_of(kind, columns)
            assert shape is not None and columns <= shape.span
        assert long_shape_of(kind, 131080) is None and long_shape_of(kind, 30001) is None
    assert len({str(shape) for shape in LONG_SHAPES}) == len(LONG_SHAPES) == 6
