"""Shipped kernels, with their instructions and synchronisation, as procedures to schedule."""

from __future__ import annotations

import numpy as np
import pytest

from exogpu import ExoGpuError, schedule
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemm_sm90 import make_gemm
from exogpu.kernels.gemv_f32 import gemv

pytestmark = pytest.mark.slow


def test_unrolled_loads_of_the_gemv() -> None:
    p = schedule.unroll_loop(schedule.unroll_loop(gemv, "i"), "i")
    assert not schedule.find_all(p, "i") and len(schedule.find_all(p, "cuda_load")) == 8
    assert not p.diagnostics
    random = np.random.default_rng(1)
    A = random.integers(-3, 4, (19, 260)).astype(np.float32)
    x = random.integers(-3, 4, 260).astype(np.float32)
    y = np.zeros(19, np.float32)
    p.run(A=A, x=x, y=y)
    np.testing.assert_array_equal(y, A @ x)


def test_instructions_keep_their_order() -> None:
    with pytest.raises(ExoGpuError, match=r"RAW.*cuda_shfl_xor.*part\[w, t\] \+= other"):
        schedule.reorder_stmts(gemv, "cuda_shfl_xor #1")
    with pytest.raises(ExoGpuError, match=r"RAW.*Sm80_load_B.*Sm80_mma_tf32"):
        schedule.reorder_stmts(gemm_sm80, "for j in _: _ #1")
    schedule.reorder_stmts(gemm_sm80, "for i in _: _ #1")  # the loads of A and of B


def test_the_hopper_kernel_can_be_read_and_checked() -> None:
    kernel = make_gemm(2, 1, 128, 128)
    p = schedule.simplify(schedule.unroll_loop(kernel, "for kk in _: _"))
    assert len(schedule.find_all(p, "Sm90_wgmma_tf32")) == 4
    assert not p.diagnostics
