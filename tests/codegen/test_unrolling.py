"""The pragmas of loops: as `unroll=` asks, or for all iterations of those that are short."""

from __future__ import annotations

import pytest

from exogpu.cli.loader import load
from exogpu.codegen.host_steps import emit
from exogpu.ir.printer import print_proc
from tests.texts import made

KERNEL = """
@proc
def loops(x: f32[128] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 128, unit=cuda_thread):
                r: f32[64]
                for i in seq(0, {count}{unroll}):
{body}
"""
ONE = "                    x[t] += 1.0\n"
MANY = ONE * 20
REGISTERS = "                    r[i] = 0.0\n"
FENCE = "                    Fence(cuda_in_order, cuda_in_order)\n"


def pragma(count: int, unroll: str, body: str) -> tuple[str, str]:
    """The line before the loop, and the code of the warning if there is one."""
    emitted = emit(made(KERNEL.format(count=count, unroll=unroll, body=body)).facts)
    lines = [line.strip() for line in emitted.source.splitlines()]
    before = lines[next(n for n, line in enumerate(lines) if line.startswith("for (int i")) - 1]
    codes = "".join(sorted(warning.code for warning in emitted.addressed))
    return before if before.startswith("#") else "", codes


@pytest.mark.parametrize(
    ("count", "unroll", "body", "expected"),
    [
        (16, "", ONE, ("#pragma unroll", "")),
        (17, "", ONE, ("", "")),
        (16, "", MANY, ("", "")),
        (4, "", MANY, ("#pragma unroll", "")),
        (64, "", REGISTERS, ("#pragma unroll", "")),
        (64, ", unroll=True", ONE, ("#pragma unroll", "")),
        (16, ", unroll=False", ONE, ("#pragma unroll 1", "")),
        (64, ", unroll=4", ONE, ("#pragma unroll 4", "")),
        (64, ", unroll=4", REGISTERS, ("#pragma unroll 4", "G816")),
    ],
)
def test_the_compiler_is_told(count, unroll, body, expected):
    assert pragma(count, unroll, body) == expected


@pytest.mark.parametrize("unroll", ["", ", unroll=True", ", unroll=False", ", unroll=4"])
def test_the_printed_procedure_asks_for_the_same(unroll):
    procedure = made(KERNEL.format(count=8, unroll=unroll, body=ONE))
    assert procedure.ir is not None
    assert f"seq(0, 8{unroll})" in print_proc(procedure.ir)


@pytest.mark.parametrize("unroll", ["unroll=0", "unroll=-1", "unroll='all'", "step=2"])
def test_other_words_are_refused_with_a_remedy(unroll, tmp_path):
    path = tmp_path / "loops.py"
    text = KERNEL.format(count=8, unroll=f", {unroll}", body=ONE)
    path.write_text("from __future__ import annotations\nfrom exogpu import *\n" + text)
    (unit,) = load(str(path))
    assert unit.procedure is not None
    (error,) = unit.procedure.diagnostics
    assert error.code == "P120" and "unroll=4" in error.help
