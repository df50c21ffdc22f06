"""A branch that does nothing is none: `else: pass` around all that a task does."""

from __future__ import annotations

import pytest

from tests.texts import made

LEAVES_OUT = """
@proc
def leaves_out(
    M: size,
    o: i32[M + 1] @ CudaGmemLinear,
    x: f32[M, 32] @ CudaGmemLinear,
    y: f32[M, 32] @ CudaGmemLinear,
):
    with CudaDeviceFunction(blockDim=32):
        s: f32[32] @ CudaSmemLinear
        for m in cuda_tasks(0, M):
            lo = load_index(o[m], 0, 10)
            hi = load_index(o[m + 1], 0, 10)
            if lo < hi:
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    s[t] = x[m, t]
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[m, t] = s[31 - t]
                Fence(cuda_in_order, cuda_in_order)
"""


@pytest.mark.parametrize("rest", ["", "            else:\n                pass\n"])
def test_proved_with_and_without(rest: str) -> None:
    assert made(LEAVES_OUT + rest).check().word == "proved"


def test_an_empty_condition_still_asks_for_what_it_loads() -> None:
    """What is loaded for it may trap, and is in bounds."""
    outside = LEAVES_OUT.replace("o[m + 1]", "o[m + 2]")
    assert made(outside).check().word == "refuted"
    alone = outside[: outside.index("                for t")] + "                pass\n"
    assert made(alone).check().word == "refuted"
