"""What Python or CUDA C++ has and the language has not: what is told, and that it is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from exogpu.cli.loader import load

HEAD = """import math
from exogpu import proc
from exogpu.isa.cuda import *

@proc
def kernel(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 64, unit=cuda_thread):
"""

MISTAKES = [
    (
        "for i in seq(0, 64, 4):\n    y[m, t] = x[m, i]",
        "write seq(0, (64 + 3) / 4), and 4 * i where i stands",
        "for i in seq(0, (64 + 3) / 4):\n    y[m, t] = x[m, 4 * i]",
    ),
    (
        "for i in seq(t, 64, 4):\n    y[m, t] = x[m, i]",
        "write seq(0, (64 - t + 3) / 4), and t + 4 * i where i stands",
        "for i in seq(0, (64 - t + 3) / 4):\n    y[m, t] = x[m, t + 4 * i]",
    ),
    ("y[m, t] = x[m, t & 31]", "write t % 32", "y[m, t] = x[m, t % 32]"),
    ("y[m, t] = x[m, t >> 5]", "write t / 32, which rounds down", "y[m, t] = x[m, t / 32]"),
    ("y[m, t] = x[m, t % 8 << 3]", "write (t % 8) * 8", "y[m, t] = x[m, (t % 8) * 8]"),
    ("y[m, t] = x[m, int(t / 2)]", "write t / 2: a division rounds down", "y[m, t] = x[m, t / 2]"),
    (
        "for i in seq(0, max(m, 31)):\n    y[m, t] = 0.0",
        "write if 31 < m: with m, and in its else 31",
        "for i in seq(0, min(m, 31)):\n    y[m, t] = 0.0",
    ),
    ("y[m, t] = math.exp(x[m, t])", "write exp(...)", "y[m, t] = exp(x[m, t])"),
    ("y[m, t] = __expf(x[m, t])", "write fast_exp(x)", "y[m, t] = fast_exp(x[m, t])"),
    ("y[m, t] = fabsf(x[m, t])", "write max(x, -x)", "y[m, t] = max(x[m, t], -x[m, t])"),
    ("y[m, t] = fmaxf(x[m, t], 0.0)", "write max(a, b)", "y[m, t] = max(x[m, t], 0.0)"),
    ("y[m, t] = x[m, t] ** 2", "multiply it with itself: x * x", "y[m, t] = x[m, t] * x[m, t]"),
    (
        "y[m, t] = max(x[m, t], 0.0, 1.0)",
        "nest them: max(max(x[m, t], 0.0), 1.0)",
        "y[m, t] = max(max(x[m, t], 0.0), 1.0)",
    ),
    (
        "y[m][t] = x[m, t]",
        "write all indices in one pair of brackets: y[m, ...]",
        "y[m, t] = x[m, t]",
    ),
    (
        "x[m, t], y[m, t] = y[m, t], x[m, t]",
        "assign one value a statement; to swap, copy one first: v: f32 = x[i]",
        "v: f32 = x[m, t]\nx[m, t] = y[m, t]\ny[m, t] = v",
    ),
    (
        "y[m, t] = x[m, t] if x[m, t] < 0.0 else 0.0",
        "write select(a, b, x, y), which is x where a < b, else y, of data; and of control "
        "variables two assignments in an if and its else",
        "y[m, t] = select(x[m, t], 0.0, x[m, t], 0.0)",
    ),
    (
        "for i in seq(0, 64):\n    if i == t:\n        break\n    y[m, t] += x[m, i]",
        "guard by `if` the statements that are not to be executed",
        "for i in seq(0, 64):\n    if i < t:\n        y[m, t] += x[m, i]",
    ),
    (
        "while True:\n    y[m, t] = 0.0",
        "write for i in seq(lo, hi), whose bounds are control values: also one from memory, "
        "n = load_index(x[i], lo, hi)",
        "for i in seq(0, M):\n    y[m, t] = 0.0",
    ),
    (
        "y[m, t] = t",
        "control variables are used in indices, bounds and conditions only, and keep their value: "
        "give another one another name, or declare data, such as x: i32 @ CudaRmem, in which "
        "cuda_number(t, x) writes it; a size as f32 is one more parameter, @ CudaGridConstant",
        "n: i32 @ CudaRmem\ncuda_number(t, n)\ny[m, t] = 0.0",
    ),
]


@pytest.mark.parametrize(("wrong", "remedy", "right"), MISTAKES)
def test_the_remedy_is_that_of_the_language(
    wrong: str, remedy: str, right: str, tmp_path: Path
) -> None:
    assert _remedies(wrong, tmp_path / "wrong.py")[:1] == [remedy]
    assert _remedies(right, tmp_path / "right.py") == []


def _remedies(body: str, file: Path) -> list[str]:
    file.write_text(HEAD + "".join(f"                {line}\n" for line in body.splitlines()))
    (unit,) = load(str(file))
    found = unit.diagnostics if unit.procedure is None else unit.procedure.diagnostics
    return [finding.help for finding in found]


def test_a_parameter_behind_a_star_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "star.py"
    text = HEAD.replace("size, x", "size, *, x") + "                y[m, t] = x[m, t]\n"
    file.write_text(text)
    (unit,) = load(str(file))
    found = unit.diagnostics if unit.procedure is None else unit.procedure.diagnostics
    assert [finding.code for finding in found] == ["P126"]


def test_a_size_that_is_no_parameter(tmp_path: Path) -> None:
    (remedy,) = _remedies("for i in seq(0, N):\n    y[m, t] = 0.0", tmp_path / "size.py")
    assert remedy == (
        "declare it, as a parameter, such as N: size, or a variable; or define or import the name"
    )


def test_more_indices_than_dimensions(tmp_path: Path) -> None:
    (remedy,) = _remedies("a: f32[4]\na[0, 1] = 0.0", tmp_path / "rank.py")
    assert remedy == "give one coordinate a dimension, or declare it with as many"
