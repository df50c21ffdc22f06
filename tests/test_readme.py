"""What the README shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from exogpu.cli.commands import app
from exogpu.cli.loader import load
from tests.pages import blocks

README = (Path(__file__).parent.parent / "README.md").read_text()
SOURCE, FROM_PYTHON = (block.text for block in blocks(README) if block.language == "python")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("reverse.py").write_text(SOURCE)


def test_a_refutation_stands_in_the_first_screen():
    """What it prints is compared with the other pages' consoles."""
    screen = README.splitlines()[:40]
    assert any(line.startswith("hazard H701 RAW") for line in screen)
    assert CliRunner().invoke(app, ["check", "reverse.py"]).exit_code == 1


def test_the_repair_is_proved_and_both_fences_are_needed():
    fence = "            Fence(cuda_in_order, cuda_in_order)\n"
    second_loop = SOURCE.rindex("            for t in")
    repaired = SOURCE[:second_loop] + fence + SOURCE[second_loop:]
    for text, status in ((repaired, 0), (repaired.removesuffix(fence), 1)):
        Path("repaired.py").write_text(text)
        assert CliRunner().invoke(app, ["check", "repaired.py"]).exit_code == status


def test_the_lines_from_python_run(monkeypatch, capsys):
    monkeypatch.syspath_prepend(".")
    x = np.arange(256, dtype=np.float32).reshape(4, 64)
    y = np.zeros_like(x)
    exec(FROM_PYTHON, {"x": x, "y": y})
    assert (y == x[:, ::-1]).all()
    assert "HazardKind.RAW 10 12" in capsys.readouterr().out


def test_every_command_of_the_readme_exists():
    listed = set(re.findall(r"^    exogpu (\w+)", README, re.MULTILINE))
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert listed == commands


def test_the_readme_has_every_option():
    told = README.partition("## The command line")[2].partition("\nA `TARGET`")[0]
    of = dict(
        re.findall(r"^    exogpu (\w+)(.*?)(?=^    exogpu |\Z)", told, re.MULTILINE | re.DOTALL)
    )
    for name, command in get_command(app).commands.items():
        long = [max(option.opts, key=len) for option in command.params if option.opts[0][0] == "-"]
        known = [option for option in long if option not in ("--help", "--output")]
        assert set(known) == set(re.findall(r"--[a-z][a-z-]*", of[name])), name
        assert ("--output" in long) == ("-o DIR" in of[name]), name


def test_every_linked_file_exists():
    for target in re.findall(r"\]\((?!http)([^)]+)\)", README):
        file, _, heading = target.partition("#")
        path = Path(__file__).parent.parent / file
        assert path.exists(), target
        headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE) if heading else []
        names = [re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in headings]
        assert not heading or heading in names, target


def test_the_kernels_the_readme_names_are_shipped():
    units = load("exogpu.kernels")
    names = " ".join(unit.name for unit in units)
    assert all(unit.procedure is not None for unit in units)
    assert all(name in names for name in ("gemm_sm90", "gemm_splitk", "gemm_sm80", "gemv"))
