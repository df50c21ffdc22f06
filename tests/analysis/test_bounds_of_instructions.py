"""An instruction whose body leaves its operands, at arguments that it does not exclude, is wrong
itself; no kernel is refuted by arguments that it does not give."""

from __future__ import annotations

import pytest

from tests.texts import made

SHIFTED = """
from exogpu.frontend.instructions import instr
from exogpu.hw.operands import CUDA_MEMORY, CUDA_REGISTER

@instr(unit=cuda_thread, dst=CUDA_REGISTER, src=CUDA_MEMORY)
def load_shifted(k: index, dst: f32[4] @ CudaRmem, src: f32[8] @ CudaDeviceVisibleLinear):
    ASKED
    for i in seq(0, 4):
        dst[i] = src[i + k]

@proc
def shifted(M: size, x: f32[M, 8] @ CudaGmemLinear, y: f32[M] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, COUNT, unit=cuda_thread):
                r: f32[4]
                load_shifted(t, r[:], x[m, :])
                if t == 0:
                    y[m] = r[0]
"""


@pytest.mark.parametrize(
    ("asked", "count", "word"),
    [
        ("pass", 5, "error"),
        ("pass", 6, "error"),
        ("assert 0 <= k and k <= 4", 5, "proved"),
        ("assert 0 <= k and k <= 4", 6, "error"),  # the call breaks the precondition
    ],
)
def test_the_instruction_says_what_it_takes(asked: str, count: int, word: str) -> None:
    kernel = made(SHIFTED.replace("ASKED", asked).replace("COUNT", str(count)))
    assert (kernel.check().word, kernel.check_at(M=2).word) == (word, word)
    if asked == "pass":
        (found,) = kernel.check().diagnostics
        assert found.code == "B601" and "assert" in found.help
