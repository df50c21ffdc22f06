"""Macros, and names of control expressions: what is read is what could have been written out."""

from __future__ import annotations

import numpy as np
import pytest

from exogpu import ExoGpuError, macro, proc
from exogpu.ir.printer import print_proc
from exogpu.isa.sm90 import Sm90_tma_multicast


@macro
def clear(x, n, value):
    for i in seq(0, n):
        x[i] = value


@macro
def halves(each, x, n):
    each(x[0:n], n, 1.0)
    t: f32
    t = x[0]
    each(x[n : n + n], n, value=2.0)


def codes(refused: pytest.ExceptionInfo[ExoGpuError]) -> list[str]:
    return [one.code for one in refused.value.diagnostics]


def test_a_macro_is_written_out_at_each_call() -> None:
    @proc
    def p(n: size, x: f32[4 * n] @ DRAM):
        i: f32  # not the macro's
        i = 0.0
        halves(clear, x, n)
        halves(clear, x[2 * n : 4 * n], n)
        clear(x, 1, i)

    @proc
    def q(n: size, x: f32[4 * n] @ DRAM):
        for i in seq(0, n):
            x[i] = 1.0
            x[n + i] = 2.0
            x[2 * n + i] = 1.0
            x[3 * n + i] = 2.0
        x[0] = 0.0

    x, y = np.ones((2, 12), np.float32)
    p.run(n=3, x=x)
    q.run(n=3, x=y)
    assert (x == y).all()
    assert p.check().word == "proved"


def test_an_element_is_an_argument() -> None:
    """A window of no dimensions: as a scalar it is read and written."""

    @macro
    def add(x, y):
        x += y
        y = 0.0

    @proc
    def p(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
        for i in seq(0, n):
            add(x[n - 1 - i], y[i])

    x, y = np.ones(3, np.float32), np.arange(3, dtype=np.float32)
    p.run(x=x, y=y)
    assert x.tolist() == [3, 2, 1] and y.tolist() == [0, 0, 0]


def test_windows_keep_their_extent() -> None:
    @proc
    def p(n: size, x: f32[2 * n] @ DRAM):
        clear(x[0:n], n + 1, 0.0)

    found = p.check()
    assert found.word == "refuted" and "x" in found.hazards[0].message


def test_names_do_not_meet() -> None:
    """What is declared in a macro ends with it, and it does not see what is around its call."""

    @macro
    def leaves(x):
        t: f32
        t = x[0]

    @macro
    def sees(x):
        x[0] = hidden

    @proc
    def p(x: f32[4] @ DRAM):
        leaves(x)
        x[0] = t

    assert [found.code for found in p.diagnostics] == ["P102"]

    @proc
    def q(x: f32[4] @ DRAM):
        hidden: f32
        hidden = 0.0
        sees(x)

    (one,) = q.diagnostics
    assert one.code == "P102" and "x[0] = hidden" in one.span.text
    assert [note.span.text.strip() for note in one.notes] == ["sees(x)"]


def test_parts_of_barriers_and_tensor_maps() -> None:
    @macro
    def load(tile, part, full):
        Sm90_tma_multicast(tile, part, n=1, rows=64, cols=32, box=(64, 32)) >> full

    @macro
    def indexes(full):
        Await(full[0], cuda_temporal, ~0)

    def make(misuse: bool):
        @proc
        def p(n: size, x: f32[64 * n, 32] @ CudaGmemLinear):
            x_map = x[:, :] @ Sm90_tensorMap(128, 64, 32)
            with CudaDeviceFunction(blockDim=32):
                for i in cuda_tasks(0, n):
                    tile: f32[2, 64, 32] @ Sm90_SmemSwizzled(128)
                    full: barrier[1] @ CudaMbarrier
                    for c in cuda_threads(0, 1, unit=cuda_warp_in_cluster):
                        load(tile[0:1, :, :], x_map[64 * i : 64 * i + 64, :], full[:])
                        if misuse:
                            indexes(full[:])
                        Arrive(cuda_temporal) >> full[0]
                    Await(full[0], cuda_generic_and_async, ~0)

        return p

    assert ">> full[0:1]" in print_proc(make(False).ir)
    assert [found.code for found in make(True).diagnostics] == ["T205"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("x", "T222"),
        ("x, n, 0.0, 1.0", "T222"),
        ("x, n, value=0.0, n=3", "T222"),
        ("x, n, values=0.0", "T222"),
        ("x, x, 0.0", "T201"),
        ("y, n, 0.0", "P102"),
        ("x, n, x[0] + 1.0", "T223"),
        ("x, n, 0.0) >> (x", "T220"),
    ],
)
def test_wrong_calls(tmp_path, arguments: str, code: str) -> None:
    text = (
        "from __future__ import annotations\nfrom exogpu import *\n"
        "@macro\ndef clear(x, n, value):\n    for i in seq(0, n):\n        x[i] = value\n"
        f"@proc\ndef p(n: size, x: f32[n] @ DRAM):\n    clear({arguments})\n"
    )
    assert code in checked(tmp_path, text)


def checked(tmp_path, text: str) -> str:
    from typer.testing import CliRunner

    from exogpu.cli.commands import app

    (tmp_path / "k.py").write_text(text)
    ran = CliRunner().invoke(app, ["check", str(tmp_path / "k.py")])
    assert ran.exit_code == 2 and "Traceback" not in ran.output
    return ran.output


def test_what_is_too_deep_or_too_large_is_refused(tmp_path) -> None:
    head = "from __future__ import annotations\nfrom exogpu import *\n"
    endless = "@macro\ndef again(x):\n    again(x)\n@proc\ndef p(x: f32 @ DRAM):\n    again(x)\n"
    assert "P130" in checked(tmp_path, head + endless)
    doubled = (
        "@macro\ndef more(x, k, n):\n    if n > 0:\n        more(x, k + k, n - 1)\n"
        "    else:\n        x[k] = 0.0\n"
        "@proc\ndef p(n: size, x: f32[n] @ DRAM):\n    more(x, n, 40)\n"
    )
    assert "P130" in checked(tmp_path, head + doubled)
    many = (
        "@macro\ndef all(x, n):\n    x[0] = 0.0\n    if n > 0:\n        all(x, n - 1)\n"
        "        all(x, n - 1)\n"
        "@proc\ndef p(n: size, x: f32[n] @ DRAM):\n    all(x, 30)\n"
    )
    assert "P132" in checked(tmp_path, head + many)


def test_a_macro_is_no_function() -> None:
    with pytest.raises(ExoGpuError) as refused:
        clear(1, 2, 3)
    assert codes(refused) == ["P133"]
    with pytest.raises(ExoGpuError) as refused:

        @macro
        def defaults(x, n=3):
            x[n] = 0.0

    assert codes(refused) == ["P126"]


def test_a_macro_does_not_see_what_is_defined_after_it() -> None:
    @macro
    def first(x):
        second(x)

    @macro
    def second(x):
        x[0] = 1.0

    @proc
    def p(x: f32[4] @ DRAM):
        first(x)

    verdict = p.check()
    assert verdict.word == "error" and "P102: name 'second' is not defined" in str(verdict)


# --- names of control expressions ---------------------------------------------------------------


def test_a_control_expression_has_a_name() -> None:
    @proc
    def p(n: size, x: f32[n] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=256):
            for b in cuda_tasks(0, (n + 255) / 256):
                for t in cuda_threads(0, 256, unit=cuda_thread):
                    i = 256 * b + t
                    j = i
                    if i < n:
                        k = j - 0
                        x[k] = 1.0

    @proc
    def q(n: size, x: f32[n] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=256):
            for b in cuda_tasks(0, (n + 255) / 256):
                for t in cuda_threads(0, 256, unit=cuda_thread):
                    if 256 * b + t < n:
                        x[256 * b + t - 0] = 1.0

    assert print_proc(p.ir).replace("def p", "def q") == print_proc(q.ir)
    assert p.check().word == "proved"


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        ("j = i\n        j = i + 1", "T201"),  # a name is given once
        ("j = i + x[0]", "P102"),  # it reads data
        ("j = 0.0", "P102"),  # no control variable: x is forgotten
        ("if i < n:\n            j = i\n        x[j] = 0.0", "P102"),  # it ends with its block
        ("j = i * n", "T204"),
        ("j: f32 = i", "P115"),
    ],
)
def test_what_is_no_name_of_a_control_expression(tmp_path, statements: str, code: str) -> None:
    text = (
        "from __future__ import annotations\nfrom exogpu import *\n"
        "@proc\ndef p(n: size, x: f32[n] @ DRAM):\n    for i in seq(0, n):\n"
        f"        {statements}\n"
    )
    assert code in checked(tmp_path, text)
