"""Reads of what nothing has written: told where the sequential reading has them, at all sizes."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from exogpu.analysis.unwritten import unwritten
from exogpu.cli.commands import app
from exogpu.kernels import attention_sm90, gemm_fused_sm90, gemm_half_sm80, gemm_sm90
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
        # May it be written, it is not told.
        (SUM.replace("FIRST", "if n > 2:\n                    acc = 0.0"), ""),
        (SUM.replace("FIRST", "if t > 2:\n                    acc = 0.0"), "acc"),
        (STAGES.replace("WRITTEN", "k % 2").replace("READ", "k % 2"), ""),
        (STAGES.replace("WRITTEN", "k % 2").replace("READ", "(k + 1) % 2"), "s"),
        (STAGES.replace("WRITTEN", "0").replace("READ", "0"), ""),
        # A tile that is filled in part: at K = 32 all of it is.
        (EDGE.replace("PLACE", "t"), ""),
        (EDGE.replace("PLACE", "32 + t"), "s"),
        (SHUFFLED.replace("FIRST", "a[t] = x[i, 0, t]"), ""),
        (SHUFFLED.replace("FIRST", "pass"), "a"),
    ],
)
def test_what_is_read_first_is_told(text: str, read: str) -> None:
    procedure = made(HEAD + text)
    verdict = procedure.check()
    assert verdict.word == "proved" and not verdict.limitations
    assert [w.code for w in verdict.unwritten] == ["B607"] * bool(read)
    for warning in verdict.unwritten:
        assert warning.message.startswith(read) and "whatever the sizes" in warning.message
    # The sequential reading has NaN where nothing was written.
    x, y = np.ones((3, 32, 32), np.float32), np.zeros((3, 32), np.float32)
    procedure.run(n=3, K=32, x=x, y=y)
    assert bool(np.isnan(y).any()) == bool(read)


@pytest.mark.parametrize("module", [attention_sm90, gemm_fused_sm90, gemm_half_sm80, gemm_sm90])
def test_kernels_that_ship_read_nothing_unwritten(module) -> None:
    for kernel in list(module.KERNELS.values())[:2]:
        assert unwritten(kernel.facts) == ()


def test_it_is_compiled_with_the_warning(tmp_path) -> None:
    file = tmp_path / "kernel.py"
    text = (HEAD + SUM.replace("FIRST", "pass")).lstrip()
    file.write_text(f"from exogpu import *\nfrom exogpu.isa.cuda import *\n\n\n{text}")
    for command in (["check"], ["compile", "-o", str(tmp_path)]):
        result = CliRunner().invoke(app, [command[0], str(file), *command[1:]])
        assert result.exit_code == 0
        assert "warning B607: acc is read before anything is written there" in result.output
        assert "cannot be compiled" not in result.output
    assert (tmp_path / "kernel.cu").exists()
