"""A file that derives procedures is a target like any other."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from exogpu.cli.commands import app
from exogpu.cli.loader import load

SOURCE = """from __future__ import annotations
from exogpu import *
from exogpu.schedule import *

@proc
def even(n: size, x: f32[n] @ DRAM):
    assert n % 4 == 0
    for i in seq(0, n):
        x[i] = 2

tiled = rename(divide_loop(even, "{loop}", 4, ["io", "ii"], "perfect"), "tiled")
"""


def test_derived_procedures_are_found(tmp_path: Path) -> None:
    file = tmp_path / "derived.py"
    file.write_text(SOURCE.format(loop="i"))
    units = {unit.name: unit.procedure for unit in load(str(file))}
    assert list(units) == ["even", "tiled"]
    assert units["tiled"] is not None and units["tiled"].check().word == "proved"


def test_a_refused_step_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "derived.py"
    file.write_text(SOURCE.format(loop="k"))
    (found,) = [d for unit in load(str(file)) for d in unit.diagnostics]
    assert found.code == "X990" and found.span.line == 6


def test_the_steps_are_told(tmp_path: Path) -> None:
    file = tmp_path / "derived.py"
    file.write_text(SOURCE.format(loop="i"))
    ran = CliRunner().invoke(app, ["history", str(file), "--diff"])
    lines = [line.rpartition("  ")[0] or line for line in ran.stdout.splitlines()]
    assert ran.exit_code == 0 and "even: written, not derived" in lines
    assert "   1 divide_loop('i', 4, ['io', 'ii'], 'perfect')" in lines
    assert "       +            x[4 * io + ii] = 2" in ran.stdout.splitlines()
    assert "   2 rename('tiled')" in lines
    ran = CliRunner().invoke(app, ["history", str(tmp_path / "none.py")])
    assert ran.exit_code == 2
