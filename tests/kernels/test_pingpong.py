"""Two consumers that take turns from task to task are proved, and are not where one takes none."""

from __future__ import annotations

import numpy as np
import pytest

from exogpu.hw.language import bf16, f32
from exogpu.kernels.gemm_sm90 import make_gemm
from tests.kernels.pingpong import make_pingpong


@pytest.mark.parametrize("dtype", [f32, bf16], ids=lambda t: t.value)
def test_it_is_proved_for_all_sizes(dtype) -> None:
    verdict = make_pingpong(128, 128, 3, dtype).check()
    assert verdict.word == "proved", verdict


def test_it_computes_what_others_do() -> None:
    found = make_pingpong(64, 64, 2).equivalent_to(make_gemm(1, 1, 64, 64, groups=1, rounded=False))
    assert found, found.reason
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((2, n, 68), np.float32) for n in (200, 70))
    c = np.full((2, 200, 70), np.nan, np.float32)
    make_pingpong(64, 64, 2).run(A=a, B=b, C=c)
    assert np.allclose(c, np.einsum("lmk,lnk->lmn", a, b), atol=1e-3)
