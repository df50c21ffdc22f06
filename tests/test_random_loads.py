"""`exogpu run --random` of procedures that load indices: in the ranges, and as contracts say."""

from __future__ import annotations

import pytest

from exogpu import proc
from exogpu.cli.random_run import run_on_random_data
from tests.cases.certificates.loaded import loaded


@pytest.mark.parametrize("seed", range(4))
def test_indices_are_what_the_kernel_expects(seed: int) -> None:
    text = str(run_on_random_data(loaded, {"G": 3, "N": 5}, seed).text)
    assert "cuts: int32[4] unchanged" in text


def test_contracts_hold_of_what_is_not_loaded() -> None:
    @proc
    def kernel(N: size, a: i32[N] @ CudaGmemLinear, y: f32[N] @ CudaGmemLinear):
        assert monotone(a)
        assert injective(a)
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, N):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    y[i] = 1.0

    assert "a: int32[9] unchanged, sum 36" in str(run_on_random_data(kernel, {"N": 9}, 0).text)
