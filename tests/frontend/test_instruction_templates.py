"""The fields of an instruction's text are known where it is defined, not when a call is emitted."""

from __future__ import annotations

import pytest

from exogpu.diagnostics.errors import ExoGpuError
from exogpu.frontend.instructions import instr
from exogpu.hw.language import f32
from exogpu.hw.operands import CUDA_MEMORY, CUDA_REGISTER
from exogpu.hw.units import cuda_thread


def made(text: str) -> str:
    """The messages and remedies of an instruction with this text; none if it is one."""

    @instr(unit=cuda_thread, dst=CUDA_REGISTER, src=CUDA_MEMORY, template=text)
    def copy(
        count: index,
        dst: f32[n, n] @ CudaRmem,
        src: dtype[n, n] @ CudaGmemLinear,
        *,
        n=4,
        dtype=f32,
    ):
        for i in seq(0, n):
            for j in seq(0, n):
                dst[i, j] = src[i, j]

    try:
        copy.instantiate({})
    except ExoGpuError as error:
        assert all(one.code == "T221" for one in error.diagnostics)
        return "; ".join(f"{one.message}: {one.help}" for one in error.diagnostics)
    return ""


GOOD = (
    "copy<{n}>({dst}, {src}, {src.ld}, {count});",
    "copy({dst}, {src}, {src.strides[0]}); // {dtype} {dtype_name}",
    "asm({{{dst}}}, {src});",
)

BAD = {
    "f({dst}, {scr});": "the field {scr}: its fields are {count}, {dst}, {src}, {n}, {dtype};",
    "f({dst}, {}, {src});": "the field {}",
    "f({dst}, {src.pitch});": "takes {src.pitch}, which src has not",
    "f({dst}, {src.strides[2]});": "takes {src.strides[2]}, which src has not",
    "f({dst}, {n.ld}, {src});": "takes {n.ld}, which n has not",
    "{ f({dst}, {src}); }": "is no format: unexpected '{' in field name",
    "f({dst}, {src}); }": "is no format",
}


@pytest.mark.parametrize("text", GOOD)
def test_what_is_a_text(text: str) -> None:
    assert made(text) == ""


@pytest.mark.parametrize("text", BAD)
def test_what_is_none(text: str) -> None:
    assert BAD[text] in made(text)
