"""Kernels that a program compiles are collected and checked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import pytest

from exogpu.importing.triton_compiler import triton_version
from tests.importing.made import HERE
from tests.importing.stub_driver import stub_driver, tensor

pytestmark = pytest.mark.skipif(triton_version() is None, reason="Triton is not installed")

COMPILED = f"""
import sys
sys.path.insert(0, {str(HERE / "kernels")!r})
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import plain


def compile_matmul():
    pointers = dict.fromkeys("abc", "*fp16")
    sizes = dict.fromkeys(("m", "n", "k"), "i32")
    constants = {{"M": 64, "N": 64, "K": 32}}
    source = ASTSource(plain.matmul, {{**pointers, **sizes}}, constants)
    return triton.compile(source, GPUTarget("cuda", 90, 32), {{"num_stages": 3}})
"""


def test_what_is_compiled_is_checked(monkeypatch):
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    from exogpu import watch_triton

    names: dict[str, object] = {}
    exec(COMPILED, names)
    with watch_triton() as seen:
        names["compile_matmul"]()
    (verdict,) = seen.check()
    assert verdict.proc == "matmul" and verdict.word == "proved", str(verdict)
    assert not any("lowering" in one for one in verdict.assumptions)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The file of plain kernels, as a program imports it, and a cache of Triton's of its own."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    monkeypatch.syspath_prepend(str(HERE / "kernels"))
    yield import_module("plain")
    sys.modules.pop("plain")


def test_each_specialisation_that_is_launched_is_checked_once(kernels: ModuleType) -> None:
    from exogpu import watch_triton

    half = [tensor("fp16", 2048, 2048) for _ in range(3)]
    sizes = {"M": 64, "N": 64}
    with stub_driver() as driver, watch_triton() as seen:
        for step in (32, 32, 64):
            kernels.matmul[(32, 32)](*half, 2048, 2048, 2048, **sizes, K=step, num_stages=3)
    assert driver.launches == [("matmul", (32, 32, 1))] * 3
    verdicts = seen.check()
    assert [one.proc for one in verdicts] == ["matmul"] * 2
    assert all(one.word == "proved" for one in verdicts), [str(one) for one in verdicts]
    assert not any("lowering" in text for one in verdicts for text in one.assumptions)


def test_all_that_a_tuner_tries_is_checked(kernels: ModuleType) -> None:
    from exogpu import watch_triton

    with stub_driver() as driver, watch_triton() as seen:
        kernels.row_norms[(64,)](tensor("fp32", 64, 4096), tensor("fp32", 64), 4096)
    assert len(driver.launches) == 4 + 1  # each configuration, and the best one again
    verdicts = seen.check()
    assert [one.word for one in verdicts] == ["proved"] * 4, [str(one) for one in verdicts]


PLUGIN = "exogpu.pytest_plugin"

SUITE = """
import pytest
from tests.importing.stub_driver import stub_driver, tensor
import right, wrong


@pytest.mark.parametrize("module", [right, wrong])
def test_rows(exogpu_triton, module):
    rows = [tensor("fp32", 1024, 2048) for _ in range(2)]
    with stub_driver() as driver:
        module.scale_rows[(256,)](*rows, 2048, 2048, ROWS=4, WIDTH=32, DEPTH=3)
    assert driver.launches == [("scale_rows", (256, 1, 1))]
"""


def test_the_fixture_fails_a_test_that_launches_what_is_refuted(tmp_path: Path) -> None:
    source = (HERE / "kernels" / "copies.py").read_text()
    weaker = source.replace("wait_group(DEPTH - 1)", "wait_group(DEPTH)")
    assert weaker != source
    (tmp_path / "right.py").write_text(source)
    (tmp_path / "wrong.py").write_text(weaker)
    (tmp_path / "test_suite.py").write_text(SUITE)
    installed = any(one.value == PLUGIN for one in entry_points(group="pytest11"))
    command = [sys.executable, "-m", "pytest", "-q", *([] if installed else ["-p", PLUGIN])]
    root = str(HERE.parent.parent)
    caches = {"TRITON_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": root}
    result = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **caches}, capture_output=True, text=True
    )
    assert "2 passed" in result.stdout and "1 error" in result.stdout, result.stdout
    assert "hazard H701 RAW on ring" in result.stdout
    assert "wrong.py:37:17" in result.stdout and "right.py" not in result.stdout
