"""A file that derives procedures is a target like any other."""

from __future__ import annotations

from pathlib import Path

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
