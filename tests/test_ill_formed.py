"""One ill-formed kernel leaves its module's others as they are, and is refused where it is used."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from exogpu import ExoGpuError, api, proc
from exogpu.cli.commands import app

TEXT = """from __future__ import annotations
from exogpu import *


@proc
def good(n: size, x: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for b in cuda_tasks(0, 1):
            s: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                s[t] = 1.0
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 64, unit=cuda_thread):
                if t < n:
                    x[t] = s[63 - t]
            Fence(cuda_in_order, cuda_in_order)


@proc
def bad(n: size, x: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = nowhere


@proc
def unknown(n: size, x: f32[n] @ DRAM):
    for i in seq(0, n):
        for j in cuda_threads(0, 4, unit=cuda_thread):
            x[i] = 0.0


@proc
def calls(n: size, x: f32[n] @ DRAM):
    bad(n, x[:])
"""
FENCE = TEXT[: TEXT.index("Fence")].count("\n") + 1
BAD = TEXT[: TEXT.index("nowhere")].count("\n") + 1


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "kernels_here.py").write_text(TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "kernels_here", raising=False)
    yield importlib.import_module("kernels_here")
    sys.modules.pop("kernels_here", None)


def test_the_others_of_a_module_can_be_used(module) -> None:
    assert module.good.check()
    x = np.zeros(4, np.float32)
    module.good.run(n=4, x=x)
    assert (x == 1).all()


def test_the_first_use_is_refused_with_all_that_is_wrong(module) -> None:
    x = np.zeros(4, np.float32)
    uses = {
        "run": lambda p: p.run(n=4, x=x),
        "emit": lambda p: p.emit(unchecked=True),
        "compile": lambda p: p.compile(),
        "amir": lambda p: p.amir(),
        "facts": lambda p: p.facts,
        "equivalent_to": lambda p: p.equivalent_to(module.good),
    }
    for procedure in (module.bad, module.calls):
        for name, use in uses.items():
            with pytest.raises(ExoGpuError) as refused:
                use(procedure)
            places = [found.span.file for found in refused.value.diagnostics]
            assert places and all(file.endswith("kernels_here.py") for file in places), name
    assert module.bad.check().word == module.bad.check_at(n=4).word == "error"
    assert repr(module.bad) == "<procedure bad: ill-formed>"
    assert "nowhere" in str(module.bad.check())


def test_what_is_no_function_is_refused_at_once() -> None:
    with pytest.raises(ExoGpuError, match=r"P101.*class Kernel is no function"):

        @proc
        class Kernel:
            pass

    @proc
    async def later():
        pass

    assert "an async function" in str(later.check())
    with pytest.raises(ExoGpuError, match="P101"):
        later.amir()


def test_check_tells_of_all(module) -> None:
    shown = CliRunner().invoke(app, ["check", "kernels_here.py"])
    assert shown.exit_code == 2
    assert "good: proved" in shown.stdout and "nowhere" in shown.stdout


def test_why_explains_what_is_well_formed(module) -> None:
    shown = CliRunner().invoke(app, ["why", f"kernels_here.py:{FENCE}"])
    assert shown.exit_code == 0 and "Needed by" in shown.stdout
    # A line of what is ill-formed has nothing to explain, but what is wrong.
    shown = CliRunner().invoke(app, ["why", f"kernels_here.py:{BAD}"])
    assert shown.exit_code == 2 and "nowhere" in shown.output and "good" not in shown.output
    assert "S3" not in shown.output


def test_where_nothing_is_well_formed_why_says_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(TEXT.replace("s[t] = 1.0", "s[t] = elsewhere"))
    shown = CliRunner().invoke(app, ["why", f"{path}:2"])
    assert shown.exit_code == 2 and "elsewhere" in shown.output


@pytest.mark.slow
def test_a_script_that_uses_others_goes_on(module, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(TEXT + "\nprint(good.check().word)\n")
    ran = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "proved\n", "")


# --- notebooks ----------------------------------------------------------------------------------


def test_a_notebook_shows_what_is_wrong_without_a_traceback(module) -> None:
    with pytest.raises(ExoGpuError) as refused:
        module.bad.emit()
    (first, *lines) = refused.value._render_traceback_()
    assert "kernels_here.py" in first and "nowhere" in first
    assert any("^" in line for line in lines) and not any("File " in line for line in lines)


def test_a_cell_that_defines_one_says_what_is_wrong(module, monkeypatch, capsys) -> None:
    shell = type("IPython", (), {"get_ipython": staticmethod(lambda: object())})
    monkeypatch.setitem(sys.modules, "IPython", shell)
    code = compile(TEXT, str(Path("kernels_here.py").absolute()), "exec")
    cell = {"__name__": "__main__"}
    exec(code, cell)
    said = capsys.readouterr().out
    assert "nowhere" in said and "good" not in said
    assert isinstance(cell["bad"], api.Procedure) and cell["good"].check()
    exec(code, {"__name__": "imported"})
    assert capsys.readouterr().out == "", "a module that a cell imports says nothing"
