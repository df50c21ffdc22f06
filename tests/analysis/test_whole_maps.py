"""Tensor maps are of whole arrays, whatever windows they are made through.

Decision `whole-tensor-maps`.
"""

from __future__ import annotations

import pytest

from exogpu.api import Procedure, collecting
from tests.texts import run_text

ONES = """
@proc
def ones(n: size, x: f32[n, 32] @ CudaGmemLinear):
    x_map = x[:, :] @ Sm90_tensorMap(0, 4, 32)
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, (n + 3) / 4):
            s: f32[4, 32] @ CudaSmemLinear
            for t in cuda_threads(0, 32, unit=cuda_thread):
                for k in seq(0, 4):
                    s[k, t] = 1.0
            Fence(cuda_in_order, cuda_generic_and_async)
            Sm90_tma_store(x_map[4*i:4*i+4, :], s[:, :], rows=4, cols=32, box=(4, 32))
            Fence(tma_to_gmem_async, cuda_in_order)
"""

CALLED = """
@proc
def caller(PARAMETERS):
    STATEMENT
"""


def procedures(text: str) -> dict[str, Procedure]:
    with collecting() as found:
        run_text(text)
    return {one.name: one for one in found}


@pytest.mark.parametrize(
    ("parameters", "statement", "whole"),
    [
        ("x: f32[8, 32] @ CudaGmemLinear", "ones(8, x)", True),
        ("x: f32[8, 32] @ CudaGmemLinear", "ones(8, x[0:8, :])", True),
        ("m: size, x: f32[m, 32] @ CudaGmemLinear", "ones(m, x[0:m, :])", True),
        ("x: f32[8, 32] @ CudaGmemLinear", "ones(3, x[0:3, :])", False),
        ("x: f32[8, 32] @ CudaGmemLinear", "ones(4, x[4:8, :])", False),
        ("x: f32[8, 64] @ CudaGmemLinear", "ones(8, x[:, 0:32])", False),
        ("m: size, x: f32[m + 1, 32] @ CudaGmemLinear", "ones(m, x[0:m, :])", False),
    ],
)
def test_a_call_with_a_part_is_refused(parameters: str, statement: str, whole: bool) -> None:
    text = CALLED.replace("PARAMETERS", parameters).replace("STATEMENT", statement)
    verdict = procedures(ONES + text)["caller"].check()
    assert [d.code for d in verdict.diagnostics] == ([] if whole else ["S333"])
    assert verdict.word == ("proved" if whole else "error")


@pytest.mark.parametrize(
    ("window", "whole"),
    [("x[:, :]", True), ("x[0:n, 0:32]", True), ("x[1:n, :]", False), ("x[0:n - 1, :]", False)],
)
def test_a_map_of_a_part_is_refused(window: str, whole: bool) -> None:
    found = procedures(ONES.replace("x[:, :]", window))["ones"].check()
    assert [d.code for d in found.diagnostics] == ([] if whole else ["S333"])
