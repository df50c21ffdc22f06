"""Products in one call: which kernel gets which arrays, and what is said of arrays that do not fit.

The kernel itself is replaced by its meaning: what is tested here is what it is given.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.kernels import (
    gemm,
    gemm_alternating_sm90,
    gemm_calls,
    gemm_sm90,
    gemm_splitk_sm90,
    gemm_splitk_sum_sm90,
    gemm_staged_sm90,
    gemv,
    gemv_f32,
)
from exogpu.kernels.select import Choice, Product, Variant, among, fastest, measured, shipped, warm

SUMS = gemm_splitk_sum_sm90.KERNELS
STAGED = gemm_staged_sm90.KERNELS
TURNS = gemm_alternating_sm90.KERNELS
KERNELS = {
    **gemm_sm90.KERNELS,
    **gemm_splitk_sm90.KERNELS,
    **SUMS,
    **STAGED,
    **TURNS,
    **gemv_f32.KERNELS,
}


@pytest.fixture
def called(monkeypatch):
    """The names of the kernels that were called; they compute what their loops say."""
    names: list[str] = []

    def meaning(name):
        def run(stream=None, **arrays):
            names.append(name)
            if "x" in arrays:
                arrays["y"][...] = arrays["A"] @ arrays["x"]
            elif arrays["A"].ndim == 4:
                arrays["C"][...] = np.einsum("lmsk,lnsk->lmn", arrays["A"], arrays["B"])
            else:
                arrays["C"][...] = np.einsum("lmk,lnk->lmn", arrays["A"], arrays["B"])

        return run

    monkeypatch.setattr(gemm_calls, "kernel", meaning)
    return names


def integers(*shape: int) -> np.ndarray:
    """Of which every sum is exact."""
    return np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)


def test_every_shipped_kernel_has_a_model():
    """On the GPU that stands for those that were not measured; on others some have."""
    modelled = {**gemm_sm90.KERNELS, **gemm_splitk_sm90.KERNELS}.keys()
    for number, kernels in enumerate(measured().values()):
        assert number or modelled <= kernels.keys()
        assert kernels.keys() <= modelled | SUMS.keys() | STAGED.keys() | TURNS.keys()
    for name, variant in chain.from_iterable(kernels.items() for kernels in measured().values()):
        (cm, cn), (tm, tn) = variant.cluster, variant.tile
        assert f"_{cm}x{cn}_{tm}x{tn}" in name and ("split" in name) == variant.split
        assert (f"alternating{variant.turns}_" in name) == (variant.turns > 1)
        assert min(variant.seconds) >= 0 and max(variant.seconds) > 0


@pytest.mark.parametrize(
    "shape", [(1, 1, 4), (64, 4096, 1024), (128, 128, 8192), (300, 500, 36), (5, 7, 128)]
)
def test_gemm_is_a_product(called, shape):
    m, n, k = shape
    a, b = integers(m, k), integers(n, k)
    assert np.array_equal(gemm(a, b), a @ b.T)
    a, b = integers(3, m, k), integers(3, n, k)
    out = np.empty((3, m, n), np.float32)
    assert gemm(a, b, out) is out
    assert np.array_equal(out, a @ b.transpose(0, 2, 1))
    assert set(called) <= KERNELS.keys() and len(called) == 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gemm_of_16_bits(called, dtype):
    a, b = (HalfArray(integers(m, 256), dtype) for m in (300, 500))
    gemm(a, b, HalfArray(np.empty((300, 500), np.float16), dtype))
    (name,) = called
    assert name.startswith({"float16": "gemm_f16", "bfloat16": "gemm_bf16"}[dtype])


def test_both_are_of_one_type(called):
    a = integers(8, 8)
    with pytest.raises(LaunchError, match="A is float32 and B is float16"):
        gemm(a, a.astype(np.float16))
    with pytest.raises(LaunchError, match="A is int32"):
        gemm(a.astype(np.int32), a)
    with pytest.raises(LaunchError, match="K is 4: rows of 8 bytes"):
        gemm(a[:, :4].astype(np.float16), a[:, :4].astype(np.float16))


class HalfArray(np.ndarray):
    """An array that says it is of another type, as those of other libraries do."""

    def __new__(cls, of: np.ndarray, dtype: str) -> HalfArray:
        made = of.view(cls)
        made.said = dtype
        return made

    def __array_finalize__(self, of: object) -> None:
        self.said = getattr(of, "said", None)

    dtype = property(lambda self: self.said)  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("rows", "columns", "name"),
    [(1000, 1024, "gemv"), (128, 65536, "gemv_rows"), (16, 4096, "gemv_rows"), (8, 64, "gemv")],
)
def test_gemv_is_a_product(called, rows, columns, name):
    a, x = integers(rows, columns), integers(columns)
    assert np.array_equal(gemv(a, x), a @ x)
    assert called == [name]


sizes = st.integers(1, 20000)


@given(sizes, sizes, sizes, st.integers(1, 9), st.sampled_from(["f32", "bf16", "f16"]))
def test_a_choice_can_be_run(m, n, k, batches, dtype):
    """Its kernel ships, its slices divide K, and its preconditions hold."""
    product = Product(batches, m, n, 8 * k, dtype)
    choice = fastest(product)
    parameters = {str(p.name): p for p in KERNELS[choice.name].ir.params}
    assert parameters["A"].dtype.value == dtype
    assert bool(choice.slices) == shipped()[choice.name].split
    if choice.slices:
        assert product.K % (4 * choice.slices) == 0 and n % 4 == 0


def test_the_fastest_is_the_least_sum():
    """Twice the tile takes three times as long: it pays where its waves are a third."""
    small = Variant("small", (1, 1), (64, 64), False, 1, (0.0, 1.0, *10 * (0.0,)))
    large = Variant("large", (1, 1), (128, 128), False, 1, (0.0, 3.0, *10 * (0.0,)))
    variants = {"small": small, "large": large}
    assert among(Product(1, 512, 512, 64), variants) == Choice("small", 0)
    assert among(Product(1, 8192, 8192, 64), variants) == Choice("large", 0)


@pytest.mark.parametrize(("seconds", "chosen"), [(1.019, "bulk"), (1.021, "other")])
def test_of_what_is_as_fast_the_one_that_stores_by_tma(seconds, chosen):
    """Up to 2 % where power limits; and not where rows of C are no multiples of 16 bytes."""
    other = Variant("other", (1, 1), (64, 64), False, 1, (0.0, 1.0, *10 * (0.0,)))
    bulk = Variant("bulk", (1, 1), (64, 64), False, 1, (0.0, seconds, *10 * (0.0,)), bulk=True)
    variants = {"other": other, "bulk": bulk}
    assert among(Product(1, 8192, 8192, 8192), variants).name == chosen
    assert among(Product(1, 8192, 8191, 8192), variants).name == "other"
    assert among(Product(1, 512, 512, 64), variants).name == "other"


def test_slices_that_take_turns_are_as_many_whatever_k_is():
    """Of 8192 steps of 32 columns 15 slices have 547 each, and 10 tiles are 10 waves of 15."""
    turns = Variant("turns", (4, 2), (128, 256), False, bulk=True, turns=15)
    product = Product(1, 512, 5120, 32 * 8192)
    assert [*turns.slices(product)] == [1]
    assert turns.features(product, 1)[:3] == (1, 10, 10 * 547)
    assert turns.features(product, 1)[11] == 15 * 512 * 5120


def test_power_lowers_the_clock_of_long_products_alone():
    """Not in the first millisecond, and no more after some ten."""
    assert warm(2.0 * 1024**3) == warm(2.0 * 4096**3) == warm(0.0) == 0.0
    assert 0.0 < warm(2.0 * 8192**3) < warm(2.0 * 12288**3) < 1.0 == warm(2.0 * 16384**3)

    def told(dtype):
        product = Product(1, 8192, 8192, 8192, dtype)
        return Variant("", (1, 1), (64, 64), False, dtype=dtype).features(product, 1)[-2]

    assert 0.0 < told("bf16") < told("f32") == 2.0 * 8192**3 * warm(2.0 * 8192**3)


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ((4,), (4, 4), "A has 1 dimension "),
        ((4, 4), (1, 4, 4), "B has 3 dimensions"),
        ((4, 8), (4, 4), "A is (4, 8) and B is (4, 4)"),
        ((4, 6), (4, 6), "K is 6: rows of 24 bytes"),
        ((2, 4, 4), (3, 4, 4), "A is (2, 4, 4) and B is (3, 4, 4)"),
    ],
)
def test_arrays_that_do_not_fit(called, a, b, said):
    with pytest.raises(LaunchError, match=said.replace("(", r"\(").replace(")", r"\)")):
        gemm(integers(*a), integers(*b))
    assert not called


def test_other_libraries_give_the_result(called):
    class Other:
        shape, dtype = (4, 4), "float32"

        def __getitem__(self, _):
            raise AssertionError("not read")

    with pytest.raises(LaunchError, match="give `out=`"):
        gemv(Other(), integers(4))
