"""GEMMs in which the products of two steps overlap: proved, and refuted with one mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from exogpu.hw.language import bf16, f32
from exogpu.kernels import gemm_sm90
from exogpu.kernels.gemm_sm90 import make_gemm
from tests.kernels.altered_modules import changed

RIGHT = [(1, 1, 64, 64, 3, 1), (2, 1, 128, 64, 3, 2), (1, 2, 64, 32, 2, 1)]
"""Clusters too, of which none ships."""

WRONG = {
    "a slot is freed with its own products under way": (
        "if k > 0:  # of the step before\n",
        "if k >= 0:\n",
    ),
    "and the first of them": ("if k > 0:  # of the step before\n", "if k > 1 or k == 0:\n"),
    "two steps are left under way": ("cuda_in_order, int(overlapped))", "cuda_in_order, 2)"),
    "the last products are not waited for": (
        """                            Await(cg[m, n, wg], cuda_in_order, 0)
                        Arrive""",
        """                            pass
                        Arrive""",
    ),
}


@pytest.mark.parametrize("shape", RIGHT, ids=str)
@pytest.mark.parametrize("dtype", [f32, bf16], ids=lambda one: one.value)
def test_it_is_proved(shape, dtype) -> None:
    assert make_gemm(*shape, dtype=dtype, overlapped=True).check().word == "proved"


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_refuted(mistake: str, tmp_path: Path) -> None:
    module = changed(gemm_sm90, *WRONG[mistake], tmp_path)
    verdict = module.make_gemm(1, 1, 64, 64, 3, 1, overlapped=True).check()
    assert verdict.word == "refuted", verdict


def test_it_computes_the_same() -> None:
    one, other = (make_gemm(1, 1, 64, 64, 3, 1, overlapped=which) for which in (False, True))
    assert one.equivalent_to(other)
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((1, n, 100), np.float32) for n in (70, 65))
    found = [np.full((1, 70, 65), np.nan, np.float32) for _ in range(2)]
    for kernel, c in zip((one, other), found, strict=True):
        kernel.run(A=a, B=b, C=c)
    assert np.array_equal(*found)
