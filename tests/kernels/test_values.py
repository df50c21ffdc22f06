"""The sequential meaning of each shipped kernel equals numpy, at uneven sizes, on random data."""

from __future__ import annotations

import numpy as np
import pytest

from exogpu.interpreter import round_bf16
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemm_sm90 import KERNELS as GEMM
from exogpu.kernels.gemm_splitk_sm90 import KERNELS as SPLITK
from exogpu.kernels.gemv_f32 import gemv
from tests.kernels.random_operands import close, near, random


@pytest.mark.parametrize("name", GEMM)
def test_gemm(name: str) -> None:
    kind = name.removeprefix("gemm_").partition("_")[0]
    rounded = {"bf16": round_bf16, "f16": np.float16}.get(kind, np.float32)
    A, B = rounded(random(2, 130, 72)), rounded(random(2, 70, 72))
    C = rounded(np.full((2, 130, 70), np.nan, np.float32))
    GEMM[name].run(A=A, B=B, C=C)
    if kind == "sm90":
        close(C, np.einsum("lmk,lnk->lmn", *map(near, (A, B))), 72)
        return
    exact = np.einsum("lmk,lnk->lmn", A.astype(np.float64), B.astype(np.float64))
    bits = {"bf16": 2.0**-8, "f16": 2.0**-11}[kind]
    limit = 4 * 72 * np.finfo(np.float32).eps + 1.001 * bits * np.abs(exact) + 2.0**-25
    assert (np.abs(C.astype(np.float64) - exact) <= limit).all()
    assert np.array_equal(C, rounded(C))


@pytest.mark.parametrize("name", SPLITK)
def test_gemm_splitk(name: str) -> None:
    A, B = random(1, 130, 3, 36), random(1, 68, 3, 36)
    C = np.full((1, 130, 68), np.nan, np.float32)
    SPLITK[name].run(A=A, B=B, C=C)
    close(C, np.einsum("lmsk,lnsk->lmn", *map(near, (A, B))), 108)


@pytest.mark.parametrize("size", [(37, 100), (1, 4), (65, 32)], ids=str)
def test_gemv(size: tuple[int, int]) -> None:
    A, x = random(*size), random(size[1])
    y = np.full(size[0], np.nan, np.float32)
    gemv.run(A=A, x=x, y=y)
    close(y, A.astype(np.float64) @ x.astype(np.float64), size[1])


@pytest.mark.parametrize("size", [(70, 65, 36), (1, 1, 4), (64, 128, 20)], ids=str)
def test_gemm_sm80(size: tuple[int, int, int]) -> None:
    m, n, k = size
    A, B = random(m, k), random(n, k)
    C = np.full((m, n), np.nan, np.float32)
    gemm_sm80.run(A=A, B=B, C=C)
    close(C, A.astype(np.float64) @ B.astype(np.float64).T, k)
