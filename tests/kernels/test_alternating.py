"""GEMMs whose slices of K take turns: proved for any K, right, and refuted with a mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from exogpu.kernels import gemm_alternating_sm90, gemm_sm90, gemm_splitk_sm90
from exogpu.kernels.gemm_alternating_sm90 import KERNELS, make_gemm_alternating
from exogpu.kernels.gemm_splitk_sm90 import staged_columns
from tests.kernels.altered_modules import changed
from tests.kernels.random_operands import close, near, random

WRONG = {
    "a slice is added before it is staged": (
        gemm_splitk_sm90,
        "                            Fence(cuda_in_order, cuda_generic_and_async)\n"
        "                            for _",
        "                            for _",
    ),
    "what was added is not waited for": (
        gemm_splitk_sm90,
        "Await(done[m, n, wg], cuda_in_order, 0)",
        "Await(done[m, n, wg], cuda_in_order, 1)",
    ),
    "the ring is still read when results are staged": (
        gemm_splitk_sm90,
        "        Fence(cuda_in_order, cuda_generic_and_async)\n        C_smem",
        "        C_smem",
    ),
    "a slice without a step has no sums": (
        gemm_sm90,
        "steps = (K + TK * every - 1) / (TK * every)",
        "steps = ((K + TK - 1) / TK + every - 1 - s) / every",
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_proved_for_all_sizes(name: str) -> None:
    verdict = KERNELS[name].check()
    assert verdict.word == "proved"
    assert verdict.warnings == ()


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_refuted(mistake: str, tmp_path: Path, monkeypatch) -> None:
    module, before, after = WRONG[mistake]
    wrong = changed(module, before, after, tmp_path)
    for name in ("make_product", "make_adding", "make_zeroing"):
        if hasattr(wrong, name):
            monkeypatch.setattr(gemm_alternating_sm90, name, getattr(wrong, name))
    verdict = make_gemm_alternating(2, 1, 64, 64, 3, 2, 1).check()
    assert verdict.word == "refuted", verdict


@pytest.mark.parametrize("K", [4, 36, 96, 100, 516])
@pytest.mark.parametrize("name", ["gemm_alternating15_sm90_4x2_128x256", "3 of 64 x 48"])
def test_it_computes_the_product(name: str, K: int) -> None:
    kernel = KERNELS.get(name) or make_gemm_alternating(1, 1, 64, 48, 3, 2, 1)
    A, B = random(2, 70, K), random(2, 52, K)
    C = np.full((2, 70, 52), np.nan, np.float32)
    kernel.run(A=A, B=B, C=C)
    close(C, np.einsum("lmk,lnk->lmn", *map(near, (A, B))), K)


@pytest.mark.parametrize(("columns", "at_a_time"), [(256, 32), (96, 32), (48, 16), (8, 8)])
def test_all_columns_are_staged(columns: int, at_a_time: int) -> None:
    assert staged_columns(columns) == at_a_time
