"""Two neighbours in memory that a loop writes are one store, where that writes the same."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from campaigns.emulator.launch import Emulated
from campaigns.emulator.orders import ORDERS
from exogpu.codegen.toolchain import compile_cubin, disassemble, find, find_toolchain
from tests.texts import made

NO_DISASSEMBLER = not (find.find_program("nvdisasm") or find.find_program("cuobjdump"))

WRITES = """
@proc
def writes(M: size, N: size, x: {type}[M, N] @ CudaGmemLinear, y: {type}[M, N] @ CudaGmemLinear):
    assert {assumed}
    with CudaDeviceFunction(blockDim=128):
        for tm in cuda_tasks(0, (M + 63) / 64):
            for tn in cuda_tasks(0, (N + 15) / 16):
                D: f32[64, 16] @ Sm90_RmemMatrixD(64, 16)
                {memory}
                for wg in cuda_threads(0, 1, unit=cuda_warpgroup):
                    for m, n in fragment(D):
                        D[m, n] = 0.0
                        if 64 * tm + m < M and 16 * tn + n < N:
                            D[m, n] = x[64 * tm + m, 16 * tn + n]
                    for m, n in fragment(D):
                        {statement}
                Fence(cuda_in_order, cuda_in_order)
"""


GUARDED = "if 64 * tm + m < M and 16 * tn + n < N:\n    y[64 * tm + m, 16 * tn + n] = "


def writes(statement: str, type: str = "f32", assumed: str = "N % 2 == 0", memory: str = "pass"):
    def indented(text: str, columns: int) -> str:
        return text.strip("\n").replace("\n", "\n" + " " * columns)

    return made(
        WRITES.format(statement=indented(statement, 24), type=type, assumed=assumed, memory=memory)
    )


ONE_STORE = {
    "under a guard": (GUARDED + "D[m, n]", {}),
    "pairs of bf16": (GUARDED + "2.0 * D[m, n]", {"type": "bf16"}),
    "pairs of f16": (GUARDED + "D[m, n]", {"type": "f16"}),
    "a constant": (GUARDED + "1.0", {"type": "bf16"}),
    "from one to the other": (GUARDED + "x[64 * tm + m, 16 * tn + n + 1 - 2 * (n % 2)]", {}),
    "guards apart, and one the other way": (
        "if 64 * tm + m < M:\n    if not 16 * tn + n >= N:\n        if n % 4 < 2:\n"
        "            y[64 * tm + m, 16 * tn + n] = D[m, n]",
        {"assumed": "N % 4 == 2"},
    ),
}

TWO_STORES = {
    "an extent may be odd": (GUARDED + "D[m, n]", {"assumed": "N % 3 == 0"}),
    "a guard of the first": (
        "if 64 * tm + m < M and 16 * tn + n < N - 1:\n    y[64 * tm + m, 16 * tn + n] = D[m, n]",
        {},
    ),
    "a guard of the second": (
        "if 64 * tm + m < M and 16 * tn + n < N and n % 2 == 1:\n"
        "    y[64 * tm + m, 16 * tn + n] = D[m, n]",
        {},
    ),
    "at most": (
        "if 64 * tm + m < M and 16 * tn + n <= N - 2:\n    y[64 * tm + m, 16 * tn + n] = D[m, n]",
        {},
    ),
    "an element further": (
        "if 64 * tm + m < M and 16 * tn + n + 1 < N:\n"
        "    y[64 * tm + m, 16 * tn + n + 1] = D[m, n]",
        {},
    ),
    "backwards": (
        "if 64 * tm + m < M and 16 * tn + 16 <= N:\n    y[64 * tm + m, 16 * tn + 15 - n] = D[m, n]",
        {},
    ),
    "what was written": (
        "if 64 * tm + m < M and 16 * tn + n < N:\n"
        "    y[64 * tm + m, 16 * tn + n] = y[64 * tm + m, 16 * tn + n] + D[m, n]",
        {},
    ),
    "a sum": (
        "if 64 * tm + m < M and 16 * tn + n < N:\n    y[64 * tm + m, 16 * tn + n] += D[m, n]",
        {},
    ),
}


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
@pytest.mark.parametrize("name", [*ONE_STORE, *TWO_STORES])
def test_both_are_written(name: str, builds) -> None:
    text, options = {**ONE_STORE, **TWO_STORES}[name]
    procedure = writes(text, **options)
    emitted, manifest = procedure.emit(unchecked=True)
    assert ("store_pair(" in emitted.source) is (name in ONE_STORE)
    emulated = Emulated(emitted.source, manifest, builds)
    stored = options.get("type", "f32")
    for M, N in ((3, 6), (66, 18)):
        x = np.random.default_rng(N).integers(-8, 8, (M, N))
        x = x.astype(np.float16 if stored == "f16" else np.float32)
        meant, found = ({"x": x, "y": np.ones_like(x)} for _ in range(2))
        procedure.run(**meant)
        if stored == "f32":
            emulated(found, {"M": M, "N": N}, ORDERS[0])
        else:
            bits = {n: _bits(a, stored) for n, a in found.items()}
            emulated(bits, {"M": M, "N": N}, ORDERS[0])
            found["y"] = _numbers(bits["y"], stored)
        assert np.array_equal(found["y"], meant["y"])


def _bits(numbers: np.ndarray, stored: str) -> np.ndarray:
    if stored == "f16":
        return numbers.view(np.uint16)
    return (numbers.view(np.uint32) >> 16).astype(np.uint16)


def _numbers(bits: np.ndarray, stored: str) -> np.ndarray:
    if stored == "f16":
        return bits.view(np.float16)
    return (bits.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.skipif(find_toolchain() is None, reason="there is no CUDA compiler")
@pytest.mark.skipif(NO_DISASSEMBLER, reason="no nvdisasm or cuobjdump here")
def test_a_stage_of_bf16_takes_words() -> None:
    """And so does global memory: none of 16 bits is stored."""
    for statement, options in (
        (GUARDED + "D[m, n]", {"type": "bf16"}),
        ("stage[m, n] = D[m, n]", {"memory": "stage: bf16[64, 64] @ Sm90_SmemSwizzled(128)"}),
    ):
        procedure = writes(statement, **options)
        sass = disassemble(compile_cubin(procedure.emit(unchecked=True)[0].source, "sm_90a").cubin)
        assert "STG.E.U16" not in sass and "STS.U16" not in sass
        assert "STG.E" in sass or "STS" in sass
