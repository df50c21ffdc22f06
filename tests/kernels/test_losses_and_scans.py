"""Cross entropy and sums along rows: their meaning, what is emitted, and their calls.

Decision `picked-element`.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated
from campaigns.emulator.orders import ORDERS
from exogpu.api import Procedure, proc
from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.diagnostics.verdict import Policy
from exogpu.interpreter.values import round_bf16
from exogpu.ir.nodes import Fence
from exogpu.ir.walk import walk
from exogpu.isa.cuda import cuda_pick
from exogpu.kernels import cross_entropy, cumsum, row_calls
from exogpu.kernels.row_layout import SCANNED, Shape, scan_shape
from exogpu.kernels.scan_rows import make_scan
from exogpu.kernels.softmax_rows import make_cross_entropy
from tests.codegen.sync_mutants import inserted
from tests.marks import long_among


def exact(x, target):
    """The losses and the logarithms of sums, in float64."""
    x = x.astype(np.float64)
    top = x.max(-1)
    lse = top + np.log(np.exp(x - top[:, None]).sum(-1))
    inside = (target >= 0) & (target < x.shape[1])
    picked = np.where(inside, x[np.arange(len(x)), np.where(inside, target, 0)], np.nan)
    return np.where(target < 0, 0.0, lse - picked), lse


def losses_of(kernel, x, target):
    loss, lse = (np.full(len(x), 77, np.float32) for _ in range(2))
    kernel.run(x=x, target=target, loss=loss, lse=lse)
    return loss, lse


@pytest.mark.parametrize(
    ("shape", "index", "M", "N"),
    [
        (Shape("f32", 1, 2), "i64", 19, 244),
        (Shape("bf16", 2, 2), "i32", 3, 1016),
        (Shape("bf16", 2, 1, staged=True), "i64", 3, 504),
        (Shape("f32", 2, 3, vectors=False), "i32", 3, 191),
        (Shape("bf16", 2, 1, looped=True), "i64", 3, 1032),
    ],
    ids=str,
)
def test_losses_are_those_of_float64(shape, index, M, N):
    rng = np.random.default_rng(0)
    x = round_bf16(5 * rng.standard_normal((M, N)).astype(np.float32) + 40)
    target = rng.integers(0, N, M).astype({"i32": np.int32, "i64": np.int64}[index])
    target[:2] = 0, N - 1
    found = losses_of(make_cross_entropy(shape, index), x, target)
    for mine, wanted in zip(found, exact(x, target), strict=True):
        assert np.allclose(mine, wanted, rtol=2e-6, atol=1e-5)


def test_targets_that_are_no_columns_and_rows_without_a_sum():
    x = np.zeros((6, 8), np.float32)
    x[4], x[5, :4] = -np.inf, -np.inf
    target = np.array([-100, 8, 2**32, -(2**40), 0, 0], np.int64)
    with np.errstate(all="ignore"):
        loss, lse = losses_of(make_cross_entropy(Shape("f32", 1, 1)), x, target)
    assert np.array_equal(np.isnan(loss), [0, 1, 1, 0, 1, 0])  # 2^32 is not 0
    assert loss[0] == loss[3] == 0 and loss[5] == np.inf and lse[4] == -np.inf
    assert np.allclose(lse[[0, 5]], np.log([8, 4]))


SCANS = [
    (Shape("f32", 1, 4), 9, 500),
    (Shape("i32", 2, 4), 3, 900),
    (Shape("i32", 1, 2, vectors=False), 9, 63),
    (Shape("f32", 2, 2, looped=True), 2, 1300),
    (Shape("i32", 2, 3, vectors=False, looped=True), 2, 601),
]


@pytest.mark.parametrize(("shape", "M", "N"), SCANS, ids=str)
def test_sums_of_whole_numbers_are_exact(shape, M, N):
    ends = (-(2**31), 2**31) if shape.dtype == "i32" else (-999, 999)
    x = (
        np.random.default_rng(0)
        .integers(*ends, (M, N))
        .astype(np.int32 if shape.dtype == "i32" else np.float32)
    )
    y = np.full_like(x, 77)
    make_scan(shape).run(x=x, y=y)
    assert np.array_equal(y, np.cumsum(x, -1, dtype=x.dtype))


def test_every_row_has_a_scan():
    for kind in SCANNED:
        for columns in (1, 4, 511, 512, 513, 4096, 4097, 10**6):
            shape = scan_shape(kind, columns)
            assert columns <= shape.most and columns % shape.vector == 0


SMALL = {
    "losses": make_cross_entropy(Shape("bf16", 2, 1)),
    "losses looped": make_cross_entropy(Shape("f32", 2, 1, looped=True)),
    "losses of warps": make_cross_entropy(Shape("f32", 1, 1)),
    "scan looped": make_scan(Shape("i32", 2, 1, looped=True)),
    "scan of warps": make_scan(Shape("f32", 1, 1)),
}


@pytest.mark.parametrize("name", long_among(SMALL, ["scan looped", "losses"]))
def test_proved_and_refuted_without_any_of_its_fences(name):
    kernel = SMALL[name]
    assert [kernel.check(policy=policy).word for policy in Policy] == ["proved", "proved"]
    fences = [s for s in walk(kernel.ir.body) if isinstance(s, Fence)]
    assert bool(fences) == ("warps" not in name)
    for fence in fences:
        body = inserted(kernel.ir.body, fence, ())
        without = Procedure(kernel.name, replace(kernel.ir, body=body), ())
        # three steps of a loop, since every other one uses the same memory
        sizes = {"M": 2, "N": 768 if "scan looped" in name else 16}
        assert without.check_at(**sizes).word == "refuted"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [
        pytest.param(
            make_cross_entropy(Shape("f32", 2, 1, staged=True)), (3, 252), marks=pytest.mark.long
        ),
        (make_cross_entropy(Shape("f32", 1, 2, vectors=False), "i32"), (9, 61)),
        (make_scan(Shape("i32", 2, 2, looped=True)), (3, 1028)),
        pytest.param(make_scan(Shape("f32", 1, 3, vectors=False)), (9, 95), marks=pytest.mark.long),
    ],
    ids=lambda of: getattr(of, "name", None),
)
def test_emitted_code_in_every_order(kernel, sizes, tmp_path):
    made, manifest = kernel.emit(unchecked=True)
    emulated = Emulated(made.source, manifest, tmp_path)
    (M, N), rng = sizes, np.random.default_rng(0)
    x = rng.integers(-9, 9, (M, N)).astype(np.int32 if "i32_" in kernel.name else np.float32)
    for order in ORDERS[1:4]:
        if kernel.name.startswith("scan"):
            arrays = {"x": x if "i32" in kernel.name else x.astype(np.float32), "y": x * 0}
            arrays["y"] = np.zeros_like(arrays["x"])
            emulated(arrays, {"M": M, "N": N}, order)
            assert np.array_equal(arrays["y"], np.cumsum(arrays["x"], -1))
            continue
        target = rng.integers(-1, N + 1, M)
        arrays = {
            "x": x.astype(np.float32),
            "target": target.astype(np.int64 if "i64" in kernel.name else np.int32),
            "loss": np.zeros(M, np.float32),
            "lse": np.zeros(M, np.float32),
        }
        emulated(arrays, {"M": M, "N": N}, order)
        for of, wanted in zip(("loss", "lse"), exact(arrays["x"], target), strict=True):
            assert np.allclose(arrays[of], wanted, rtol=1e-5, equal_nan=True)


@pytest.fixture
def called(monkeypatch):
    """The kernels that were called, by name; they compute what they mean."""
    names: list[str] = []

    def kernel(name, shape):
        def run(stream=None, *, x, y=None, target=None, loss=None, lse=None):
            names.append(f"{name}_{shape}")
            assert x.ndim == 2
            if y is not None:
                y[...] = np.cumsum(x, -1)
            else:
                loss[...], lse[...] = exact(x, target)

        return run

    monkeypatch.setattr(row_calls, "kernel", kernel)
    return names


def test_calls_on_arrays(called):
    x = np.random.default_rng(0).standard_normal((2, 3, 8)).astype(np.float32)
    target = np.array([[1, 2, 3], [4, 5, -1]])
    lse = np.zeros((2, 3), np.float32)
    loss = cross_entropy(x, target, lse)
    assert loss.shape == (2, 3) and np.allclose(lse, np.log(np.exp(x).sum(-1)))
    out = np.zeros((2, 3), np.float32)
    assert cross_entropy(x, target.astype(np.int32), out=out) is out and np.array_equal(out, loss)
    assert np.allclose(cumsum(x), np.cumsum(x, -1))
    assert called == [
        "cross_entropy_i64_f32_1x128",
        "cross_entropy_i32_f32_1x128",
        "scan_f32_1x512",
    ]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x, i: cross_entropy(x, x[:, 0]), "target is float32"),
        (lambda x, i: cross_entropy(x, i[:2]), r"logits has rows of \(3,\) and target is \(2,\)"),
        (lambda x, i: cross_entropy(x, i, x), r"logits has rows of \(3,\) and lse is \(3, 4\)"),
        (lambda x, i: cross_entropy(x, i, out=i), "out is int64"),
        (lambda x, i: cross_entropy(x.T, i[:1].repeat(4)), "logits has strides"),
        (lambda x, i: cumsum(i), "x is int64"),
        (lambda x, i: cumsum(x, x[:2]), r"out is \(2, 4\) \(give an array of \(3, 4\)\)"),
        (lambda x, i: cumsum(np.float32(3)), "x has 0 dimensions"),
    ],
)
def test_arrays_that_do_not_fit(called, call, said):
    with pytest.raises(LaunchError, match=said):
        call(np.zeros((3, 4), np.float32), np.zeros(3, np.int64))
    assert not called


def test_what_is_picked_from_has_no_gaps():
    @proc
    def column(
        M: size,
        at: i32[M] @ CudaGmemLinear,
        x: f32[M, 8] @ CudaGmemLinear,
        y: f32[M] @ CudaGmemLinear,
    ):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, M):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    r: f32
                    a: i32
                    a = at[m]
                    r = 0.0
                    cuda_pick(M, r, a, x[:, 3])
                    y[m] = r

    verdict = column.check()
    assert verdict.word == "refuted"
    assert [hazard.code for hazard in verdict.hazards] == ["B606"]
