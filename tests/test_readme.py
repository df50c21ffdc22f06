"""The README, and the pages on the command line, Python and PyTorch, are true."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from exogpu.cli.commands import app
from exogpu.cli.loader import load
from exogpu.codegen.runtime import driver
from tests.codegen.fake_cuda import CudaArray, FakeDriver, aligned
from tests.pages import DOCS, ROOT, blocks

README = (ROOT / "README.md").read_text()
MUSEUM = (DOCS / "museum.md").read_text()
COMMANDS = (DOCS / "command-line.md").read_text()
SOURCE, CALL, SHORT = (block.text for block in blocks(README) if block.language == "python")
(FROM_PYTHON,) = (
    block.text for block in blocks((DOCS / "python.md").read_text()) if block.language == "python"
)
FENCE = "            Fence(cuda_in_order, cuda_in_order)\n"
SECOND_LOOP = SOURCE.rindex("            for t in")
REPAIRED = SOURCE[:SECOND_LOOP] + FENCE + SOURCE[SECOND_LOOP:]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(".")
    monkeypatch.delitem(sys.modules, "reverse", raising=False)
    Path("reverse.py").write_text(SOURCE)


def test_the_readme_is_short():
    assert len(README.split()) <= 900


def test_bugs_and_the_install_line_stand_in_the_first_screen():
    screen = README.splitlines()[:24]
    assert sum("](examples/museum/" in line for line in screen) == 3
    assert any(line.startswith("    pip install") for line in screen)
    assert CliRunner().invoke(app, ["check", "reverse.py"]).exit_code == 1


def test_the_bugs_are_refuted_as_the_museum_says():
    rows = re.findall(r"^\| \[.*\]\((\S+)\) \| .* \| `(.*)` \| `?(.*?)`? \|$", README, re.M)
    assert len(rows) == 3
    for path, sizes, hidden in rows:
        assert re.search(
            rf"^\| .*\({re.escape('../' + path)}\) `bug` \| .* \| `{sizes}` \| `?{hidden}`? \|$",
            MUSEUM,
            re.M,
        ), path


def test_the_figures_are_those_of_the_performance_page():
    performance = (DOCS / "performance.md").read_text()
    (line,) = re.findall(r"^\| speed, H200 \|.*$", README, re.M)
    of_cublas, of_flash, of_cudnn = map(float, re.findall(r"\b\d\.\d+\b", line))
    h200 = performance[performance.index("NVIDIA H200, torch") :]
    (ratio,) = re.findall(r"^\| 4096 \| .* \| ([\d.]+) \| [\d.]+ \| gemm_bf16", h200, re.M)
    ours, cudnn, flash = map(
        float, re.findall(r"^\| 128, 16 x 4096 \| (\d+) \| (\d+) \| (\d+) ", performance, re.M)[0]
    )
    assert of_cublas == round(float(ratio), 2)
    assert (of_flash, of_cudnn) == (round(ours / flash, 1), round(ours / cudnn, 2))


def test_the_repair_is_proved_and_both_fences_are_needed():
    for text, status in ((REPAIRED, 0), (REPAIRED.removesuffix(FENCE), 1)):
        Path("repaired.py").write_text(text)
        assert CliRunner().invoke(app, ["check", "repaired.py"]).exit_code == status


def test_the_lines_from_python_run(capsys):
    x = np.arange(256, dtype=np.float32).reshape(4, 64)
    y = np.zeros_like(x)
    exec(FROM_PYTHON, {"x": x, "y": y})
    assert (y == x[:, ::-1]).all()
    assert "HazardKind.RAW 10 12" in capsys.readouterr().out


def test_the_short_lines_from_python_run():
    Path("reverse.py").write_text(REPAIRED)
    made: dict[str, np.ndarray] = {}
    exec(SHORT, made)
    assert (made["y"] == made["x"][:, ::-1]).all()


def test_the_call_from_pytorch_launches_the_kernel(monkeypatch):
    """With a driver that remembers what it is asked for, and arrays in the place of tensors."""
    Path("reverse.py").write_text(REPAIRED)
    assert CliRunner().invoke(app, ["compile", "reverse.py", "-o", "build"]).exit_code == 0
    Path("build/reverse.cubin").write_bytes(b"cubin")
    cached = (driver.gpus, driver._primary)
    for one in cached:
        one.cache_clear()
    fake = FakeDriver()
    monkeypatch.setattr(driver, "_driver", lambda: fake)
    x, y = aligned((1000, 64)), aligned((1000, 64))
    x[:] = np.arange(x.size).reshape(x.shape)

    def launch(function: object, grid: tuple[int, ...], arguments: object) -> None:
        y[:] = x[:, ::-1]

    fake.on_launch = launch
    tensor = CudaArray(x)
    tensor.flip = lambda axis: np.flip(x, axis)
    torch = SimpleNamespace(
        randn=lambda *shape, device: tensor,
        empty_like=lambda like: CudaArray(y),
        equal=lambda made, wanted: np.array_equal(made.array, wanted),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    exec(CALL, {})
    assert fake.names().count("cuLaunchKernelEx") == 1
    for one in cached:
        one.cache_clear()


def test_every_command_is_listed():
    listed = set(re.findall(r"^    exogpu (\w+)", COMMANDS, re.MULTILINE))
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert listed == commands


def test_the_page_has_every_option():
    told = COMMANDS.partition("\nA `TARGET`")[0]
    of = dict(
        re.findall(r"^    exogpu (\w+)(.*?)(?=^    exogpu |\Z)", told, re.MULTILINE | re.DOTALL)
    )
    for name, command in get_command(app).commands.items():
        long = [max(option.opts, key=len) for option in command.params if option.opts[0][0] == "-"]
        known = [option for option in long if option not in ("--help", "--output")]
        assert set(known) == set(re.findall(r"--[a-z][a-z-]*", of[name])), name
        assert ("--output" in long) == ("-o DIR" in of[name]), name


def test_the_commands_of_the_readme_exist():
    used = re.findall(r"^(?:\$ |    )make (\w+)", README, re.MULTILINE)
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert used == ["demo", "test"] and {*used} <= {*targets}
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_the_kernels_the_readme_names_are_shipped():
    from exogpu import kernels

    named = re.findall(r"`(?:exogpu\.kernels\.)?(\w+)\((?:A, B|q, k, v|x)\)`", README)
    assert len(named) == 3
    assert all(callable(getattr(kernels, name)) for name in named)
    assert all(unit.procedure is not None for unit in load("exogpu.kernels"))
