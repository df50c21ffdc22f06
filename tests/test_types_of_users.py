"""What a type checker says of a user's file: the install is found, and kernels are no Python."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import exogpu
from exogpu.hw import names
from exogpu.hw.language import LANGUAGE

ROOT = Path(__file__).parent.parent

KERNELS = """from __future__ import annotations

from typing import no_type_check

from exogpu import *
from exogpu.ir.types import DataType


@macro
@no_type_check
def clear(x, n, i):
    if i < n:
        x[i] = 0.0


def make(threads: int, dtype: DataType = f32) -> Procedure:
    @proc(name=f"fill_{threads}")
    @no_type_check
    def fill(M: size, x: dtype[M, 64] @ CudaGmemLinear):
        assert M % 2 == 0
        with CudaDeviceFunction(blockDim=threads):
            for m in cuda_tasks(0, M):
                tile: f32[64] @ CudaSmemLinear
                done: barrier[2] @ CudaMbarrier
                for t in cuda_threads(0, 64, unit=2 * cuda_thread):
                    tile[t] = relu(x[m, t])
                    clear(x[m, :], 64, t)
                Fence(cuda_in_order, cuda_in_order)
                Arrive(cuda_in_order) >> done[0]

    return fill


kernel = make(64)
word: str = kernel.check().word
"""
ONCE = re.sub(r" *@no_type_check\n", "", KERNELS)
WRONG = "kernel.chek()\nmake('64')\nf31\nnumber: int = kernel.check().word\n"
CODES = ["attr-defined", "arg-type", "name-defined", "assignment"]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with an editable install of exogpu, as pip makes it."""
    folder = tmp_path_factory.mktemp("editable")
    clone = folder / "clone"
    for part in ("exogpu", "symbolic", "codegen"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, clone / part, symlinks=True, ignore=ignored)
    for part in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / part, clone / part)
    build = "from setuptools.build_meta import build_editable; build_editable('..')"
    subprocess.run([sys.executable, "-c", build], cwd=clone, check=True, capture_output=True)
    venv.create(folder / "environment", with_pip=False)
    (packages,) = (folder / "environment").glob("lib/python*/site-packages")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(packages)
    return folder / "environment" / "bin" / "python"


def mypy(python: Path, folder: Path, text: str, plugin: bool = True) -> list[str]:
    """The codes of what mypy finds in a file, strictly."""
    (folder / "kernels.py").write_text(text)
    plugins = "plugins = exogpu.mypy_plugin\n" if plugin else ""
    (folder / "mypy.ini").write_text(f"[mypy]\nstrict = True\n{plugins}")
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--python-executable", python, "-O", "json", "kernels.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MYPY_CACHE_DIR": str(python.parent)},
        capture_output=True,
        text=True,
    )
    assert found.returncode in (0, 1), found.stderr
    assert "Traceback" not in found.stdout, found.stdout
    return [json.loads(line)["code"] for line in found.stdout.splitlines() if line[:1] == "{"]


@pytest.mark.ci
def test_mypy_finds_an_editable_install_and_no_fault_in_kernels(python: Path, tmp_path) -> None:
    assert mypy(python, tmp_path, ONCE) == []
    # The Python around them is checked, and what they make.
    assert mypy(python, tmp_path, KERNELS + WRONG) == CODES
    # What the plugin leaves out is wrong for mypy, and the install is found without it.
    plain = mypy(python, tmp_path, ONCE, plugin=False)
    assert {"name-defined", "valid-type"} <= {*plain} and "import-not-found" not in plain


def test_pyright_finds_the_same(python: Path, tmp_path: Path) -> None:
    """Where it is installed: it is a program of node."""
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    (tmp_path / "kernels.py").write_text(KERNELS + WRONG)
    found = subprocess.run(
        [pyright, "--pythonpath", python, "--outputjson", "kernels.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    errors = [
        one["range"]["start"]["line"]
        for one in json.loads(found.stdout)["generalDiagnostics"]
        if one["severity"] == "error"
    ]
    first = KERNELS.count("\n")
    assert errors == [first, first + 1, first + 2, first + 3]


def test_decorated_twice_a_kernel_is_the_same(tmp_path: Path) -> None:
    """`no_type_check` marks a function and leaves it as it is."""
    from exogpu.cli.loader import load

    for name, text in (("twice.py", KERNELS), ("once.py", ONCE)):
        (tmp_path / name).write_text(text)
        (unit,) = load(str(tmp_path / name))
        assert unit.procedure is not None and unit.procedure.ir is not None


def test_the_names_that_are_written_out_are_those_of_the_language() -> None:
    assert {name: vars(names)[name] for name in names.__all__} == dict(LANGUAGE)
    own = {"Diagnostic", "ExoGpuError", "Hazard", "HazardKind", "Policy", "Procedure", "Span"}
    assert {*exogpu.__all__} == {
        *LANGUAGE,
        *own,
        "Verdict",
        "instr",
        "macro",
        "proc",
        "watch_triton",
    }
    assert all(hasattr(exogpu, name) for name in exogpu.__all__)
