"""Products of 8-bit floats in one call: which kernel gets which arrays, and what is refused.

The kernel itself is replaced by its meaning.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.kernels import gemm_calls, gemm_fp8, gemm_fp8_sm90


class Eights(np.ndarray):
    """Numbers that say they are floats of 8 bits, as arrays of other libraries do."""

    def __new__(cls, of: np.ndarray, dtype: str = "float8_e4m3fn") -> Eights:
        made = of.view(cls)
        made.said = dtype
        return made

    def __array_finalize__(self, of: object) -> None:
        self.said = getattr(of, "said", None)

    dtype = property(lambda self: self.said)  # type: ignore[assignment]


@pytest.fixture
def called(monkeypatch):
    names: list[tuple[int, str, str]] = []

    def meaning(columns, dtype, result):
        names.append((columns, dtype, result))

        def run(stream=None, *, A, B, C, scale=(1.0,), A_scale=None, B_scale=None):
            A, B = A.view(np.ndarray), B.view(np.ndarray)
            if A_scale is not None:
                k, n = np.arange(A.shape[-1]) // 128, np.arange(B.shape[1]) // 128
                A = A * A_scale[:, k, : A.shape[1]].swapaxes(1, 2)
                B = B * B_scale[:, n][:, :, k]
            C[...] = np.einsum("lmk,lnk->lmn", A, B) * scale[0]

        return run

    monkeypatch.setattr(gemm_calls, "fp8_kernel", meaning)
    return names


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)


TWO = np.array([2.0], np.float32)


@pytest.mark.parametrize("batches", [None, 2])
@pytest.mark.parametrize(("m", "n", "columns"), [(40, 30, 128), (2000, 3000, 256)])
def test_it_is_a_scaled_product(called, m, n, columns, batches):
    lead = () if batches is None else (batches,)
    a, b = integers(*lead, m, 32), integers(*lead, n, 32)
    out = np.empty((*lead, m, n), np.float32)
    assert gemm_fp8(Eights(a), Eights(b), TWO, out) is out
    assert np.array_equal(out, 2 * a @ b.swapaxes(-1, -2))
    gemm_fp8(Eights(a, "float8_e5m2"), Eights(b, "float8_e5m2"), TWO[0:1].reshape(()), out)
    assert called == [(columns, "f8e4m3", "f32"), (columns, "f8e5m2", "f32")]


def test_the_chosen_ones_ship():
    from exogpu.ir.types import DataType

    for columns in (128, 256):
        name = gemm_fp8_sm90.name_of(1, 1, 128, columns, DataType.F8E4M3, DataType.BF16)
        assert name in gemm_fp8_sm90.KERNELS


@pytest.mark.parametrize(
    ("a", "b", "scale", "said"),
    [
        ((8, 32), (1, 8, 32), TWO, "B has 3 dimensions"),
        ((8, 32), (8, 16), TWO, "A is (8, 32) and B is (8, 16)"),
        ((8, 40), (8, 40), TWO, "K is 40: rows of 40 bytes, read by 16"),
        ((8, 32), (8, 32), np.ones(2, np.float32), "scale is (2,)"),
        ((8, 32), (8, 32), np.ones(1), "scale is float64"),
    ],
)
def test_arrays_that_do_not_fit(called, a, b, scale, said):
    with pytest.raises(LaunchError, match=re.escape(said)):
        gemm_fp8(Eights(integers(*a)), Eights(integers(*b)), scale, np.empty((8, 8), np.float32))
    assert not called


def test_types(called):
    a = integers(8, 32)
    with pytest.raises(LaunchError, match="A is float32"):
        gemm_fp8(a, a, TWO)
    with pytest.raises(LaunchError, match="A is float8_e4m3fn and B is float8_e5m2"):
        gemm_fp8(Eights(a), Eights(a, "float8_e5m2"), TWO)
    with pytest.raises(LaunchError, match="out is float16"):
        gemm_fp8(Eights(a), Eights(a), TWO, np.empty((8, 8), np.float16))


@pytest.mark.parametrize("batches", [None, 2])
def test_scales_of_blocks(called, batches):
    lead = () if batches is None else (batches,)
    a, b = integers(*lead, 10, 272), integers(*lead, 140, 272)
    scales = integers(*lead, 3, 12), integers(*lead, 2, 3)
    out = np.empty((*lead, 10, 140), np.float32)
    gemm_fp8(Eights(a), Eights(b), scales, out)
    wide = np.repeat(scales[0][..., :10].swapaxes(-1, -2), 128, -1)[..., :272]
    block = np.repeat(np.repeat(scales[1], 128, -2), 128, -1)[..., :140, :272]
    assert np.array_equal(out, (a * wide) @ (b * block).swapaxes(-1, -2))
    assert called == [(0, "f8e4m3", "f32")]
    with pytest.raises(LaunchError, match="give a scale for all"):
        gemm_fp8(Eights(a, "float8_e5m2"), Eights(b, "float8_e5m2"), scales, out)
    with pytest.raises(LaunchError, match=r"B_scale is \(2, 3\)" if batches is None else "B_scale"):
        gemm_fp8(Eights(a), Eights(b), (scales[0], scales[1][..., :2]), out)
    with pytest.raises(LaunchError, match="scale has 3 arrays"):
        gemm_fp8(Eights(a), Eights(b), [*scales, TWO], out)
    with pytest.raises(LaunchError, match="A_scale has 3 rows"):
        gemm_fp8(Eights(a), Eights(b), (scales[0][..., :2, :], scales[1]), out)
