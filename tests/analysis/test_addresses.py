"""What the text of a user's instruction cannot know of its windows is asked of them."""

from __future__ import annotations

import pytest

from exogpu import proc
from exogpu.api import Procedure
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.frontend.instructions import InstructionTemplate, instr
from exogpu.hw.operands import CUDA_MEMORY, CUDA_REGISTER, aligned
from exogpu.hw.units import cuda_thread


def of_text(text: str, operand=CUDA_MEMORY) -> InstructionTemplate:
    @instr(unit=cuda_thread, dst=CUDA_REGISTER, src=operand, template=text)
    def total(dst: f32 @ CudaRmem, src: f32[2, 3, 4] @ CudaDeviceVisibleLinear):
        for i in seq(0, 2):
            for j in seq(0, 3):
                for k in seq(0, 4):
                    dst += src[i, j, k]

    return total


def taking(total: InstructionTemplate, which: str) -> Procedure:
    @proc
    def kernel(n: size, x: f32[n, 2, 3, 4] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, n):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    r: f32
                    r = 0.0
                    total(r, x[m, :, :, :])
                    y[m] = r

    @proc
    def columns(n: size, x: f32[n, 2, 3, 8] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, n):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    r: f32
                    r = 0.0
                    total(r, x[m, :, :, 4:8])
                    y[m] = r

    @proc
    def planes(n: size, x: f32[n, 2, 5, 4] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, n):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    r: f32
                    r = 0.0
                    total(r, x[m, :, 1:4, :])
                    y[m] = r

    @proc
    def scattered(n: size, x: f32[n, 2, 3, 4, 6] @ CudaGmemLinear, y: f32[n] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for m in cuda_tasks(0, n):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    r: f32
                    r = 0.0
                    total(r, x[m, :, :, :, 1])
                    y[m] = r

    made = {"kernel": kernel, "columns": columns, "planes": planes, "scattered": scattered}
    return made[which]


POINTER = "total({dst}, {src});"
PLANES = "total({dst}, {src}, {src.strides[0]});"
ROWS = "total({dst}, {src}, {src.strides[0]}, {src.ld});"
ALL = "total({dst}, {src}, {src.strides[0]}, {src.strides[1]}, {src.strides[-1]});"

ACCEPTED = {
    POINTER: {"kernel"},
    PLANES: {"kernel", "planes"},
    ROWS: {"kernel", "planes", "columns"},
    ALL: {"kernel", "planes", "columns", "scattered"},
}


@pytest.mark.parametrize("which", sorted(ACCEPTED[ALL]))
@pytest.mark.parametrize("text", ACCEPTED)
def test_windows_lie_as_the_text_takes_them(text: str, which: str) -> None:
    verdict = taking(of_text(text), which).check()
    if which in ACCEPTED[text]:
        assert verdict.word == "proved"
    else:
        assert verdict.word == "refuted"
        assert [hazard.code for hazard in verdict.hazards] == ["B606"]


def test_a_placement_of_ones_own_is_not_enough_where_the_text_takes_less() -> None:
    aligned_rows = aligned(CUDA_MEMORY, 16, stride=16)
    assert taking(of_text(POINTER, aligned_rows), "kernel").check().word == "proved"
    assert taking(of_text(POINTER, aligned_rows), "columns").check().word == "refuted"
    assert taking(of_text(ROWS, aligned_rows), "columns").check().word == "proved"


@pytest.mark.parametrize("field", ["{src.ld}", "{src.strides[2]}", "{src.strides[-2]}"])
def test_a_distance_further_in_is_not_enough(field: str) -> None:
    with pytest.raises(ExoGpuError, match=r"takes no \{src.strides\[0\]\}"):
        of_text(f"total({{dst}}, {{src}}, {field});").instantiate({})


def test_an_emitted_call_has_the_distances() -> None:
    made, _ = taking(of_text(ROWS), "columns").emit()
    (call,) = (line for line in made.source.split("\n") if line.strip().startswith("total("))
    assert call.endswith("], 24, 8);")
