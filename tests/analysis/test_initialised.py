"""Tests of UNINIT (`initialised`): reads of what nothing has written, at the smallest sizes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.texts import made

HEAD = """
@proc
def kernel(n: size, K: size, x: f32[n, K, 32] @ CudaGmemLinear, y: f32[n, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for i in cuda_tasks(0, n):
"""

SUM = """
            for t in cuda_threads(0, 32, unit=cuda_thread):
                acc: f32 @ CudaRmem
                FIRST
                for k in seq(0, K):
                    acc += x[i, k, t]
                y[i, t] = acc
"""

STAGES = """
            s: f32[2, 32] @ CudaSmemLinear
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[i, t] = 0.0
            for k in seq(0, K):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    s[WRITTEN, t] = x[i, k, t]
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    y[i, t] += s[READ, 31 - t]
                Fence(cuda_in_order, cuda_in_order)
"""

EDGE = """
            s: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 32, unit=cuda_thread):
                if t < K:
                    s[t] = x[i, 0, t]
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[i, t] = s[31 - t] + s[PLACE]
            Fence(cuda_in_order, cuda_in_order)
"""

SHUFFLED = """
            a: f32[32] @ CudaRmem
            b: f32[32] @ CudaRmem
            for t in cuda_threads(0, 32, unit=cuda_thread):
                FIRST
            cuda_shfl_xor(b[:], a[:], mask=1)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[i, t] = b[t]
"""


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (SUM.replace("FIRST", "pass"), "acc"),
        (SUM.replace("FIRST", "acc = 0.0"), ""),
        (SUM.replace("FIRST", "if n > 2:\n                    acc = 0.0"), "acc"),
        (SUM.replace("FIRST", "if t > 2:\n                    acc = 0.0"), "acc"),
        (STAGES.replace("WRITTEN", "k % 2").replace("READ", "k % 2"), ""),
        (STAGES.replace("WRITTEN", "k % 2").replace("READ", "(k + 1) % 2"), "s"),
        (STAGES.replace("WRITTEN", "0").replace("READ", "0"), ""),
        # A tile that is filled in part, unless K = 32.
        (EDGE.replace("PLACE", "t"), "s"),
        (EDGE.replace("PLACE", "32 + t"), "s"),
        (SHUFFLED.replace("FIRST", "a[t] = x[i, 0, t]"), ""),
        (SHUFFLED.replace("FIRST", "pass"), "a"),
    ],
)
def test_a_read_of_what_nothing_has_written_is_refuted(text: str, read: str) -> None:
    procedure = made(HEAD + text)
    verdict = procedure.check()
    assert verdict.word == ("refuted" if read else "proved"), str(verdict)
    assert {(h.kind.value, h.variable) for h in verdict.hazards} == (
        {("UNINIT", read)} if read else set()
    )
    at = dict(verdict.hazards[0].sizes) if read else {"n": 3, "K": 32}
    # The sequential reading has NaN where nothing was written.
    n, K = at["n"], at["K"]
    x, y = np.ones((n, K, 32), np.float32), np.zeros((n, 32), np.float32)
    procedure.run(n=n, K=K, x=x, y=y)
    assert bool(np.isnan(y).any()) == bool(read)
    assert procedure.check_at(**at).word == ("refuted" if read else "proved")


def test_uninit_says_that_values_do_not_matter() -> None:
    text = SUM.replace("FIRST", "uninit(acc)")
    assert made(HEAD + text).check().word == "proved"
