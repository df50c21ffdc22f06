"""A file that derives procedures is a target like any other."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from exogpu import proc, schedule
from exogpu.cli import progress_display
from exogpu.cli.commands import app
from exogpu.cli.loader import load, load_modules
from exogpu.diagnostics.derivation_context import watched

ROOT = Path(__file__).parent.parent.parent

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


FIRST_USE = """from __future__ import annotations
from exogpu import *
from exogpu import schedule as s

@proc
def even(n: size, x: f32[n] @ DRAM):
    assert n % 4 == 0
    for i in seq(0, n):
        x[i] = 2

calls = []

@s.derives("{loop}", width=4)
def tiled(loop, width=2):
    calls.append(loop)
    return s.rename(s.divide_loop(even, loop, width, ["io", "ii"], "perfect"), "tiled")

@s.derives()
def number():
    return 3
"""


def history(*arguments: object) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["history", *map(str, arguments)])
    return ran.exit_code, ran.stdout + ran.stderr


def test_what_is_derived_on_first_use_is_made_for_its_history(tmp_path: Path) -> None:
    file = tmp_path / "derived.py"
    file.write_text(FIRST_USE.format(loop="i"))
    assert [unit.name for unit in load(str(file))] == ["even"]
    status, text = history(f"{file}::tiled")
    assert status == 0 and "tiled: 2 steps from even" in text
    file.write_text(FIRST_USE.format(loop="k"))
    status, text = history(file)
    assert status == 2 and "X990" in text


def test_a_function_makes_a_kernel_once(tmp_path: Path) -> None:
    file = tmp_path / "derived.py"
    file.write_text(FIRST_USE.format(loop="i"))
    (module,) = load_modules(str(file))
    assert module.tiled("i") is module.tiled("i") and module.calls == ["i"]
    assert module.tiled("i", width=4) is not module.tiled("i") and module.calls == ["i", "i"]


def test_an_error_of_the_user_s_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "derived.py"
    file.write_text(FIRST_USE.format(loop="i").replace("return 3", "return 1 / 0"))
    status, text = history(file)
    assert status == 2 and "ZeroDivisionError" in text and "derived.py:20" in text


@pytest.mark.slow
def test_importing_the_derivations_derives_nothing() -> None:
    program = (
        "import exogpu.kernels.derived_sm80, exogpu.kernels.derived_sm90\n"
        "import exogpu.kernels.derived_splitk_sm90, exogpu.kernels.derived_bias_relu_sm90\n"
        "from exogpu.kernels import derived_gemv\n"
        "import exogpu.schedule.derivations\n"
        "assert not len(exogpu.schedule.derivations._derived)\n"
        "assert derived_gemv.derived.cache_info().misses == 0\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_steps_are_kept_for_the_next_run(tmp_path: Path, verdicts: Path) -> None:
    file = tmp_path / "derived.py"
    file.write_text(SOURCE.format(loop="i"))
    history(file, "--no-cache")
    assert not [*verdicts.glob("*.step")]
    first = history(file)[1]
    kept = {path.name for path in verdicts.glob("*.step")}
    assert len(kept) == 2
    seconds = re.compile(r"[0-9.]+ s")
    assert seconds.sub("", history(file)[1]) == seconds.sub("", first)
    assert {path.name for path in verdicts.glob("*.step")} == kept


@pytest.mark.parametrize("options", [[], ["--timeout", "100"]], ids=str)
def test_a_check_keeps_the_steps_of_its_target(
    options: list[str], tmp_path: Path, verdicts: Path
) -> None:
    """Also where the target is loaded in a process of its own."""
    file = tmp_path / "derived.py"
    file.write_text(SOURCE.format(loop="i"))
    assert CliRunner().invoke(app, ["check", str(file), "--no-cache", *options]).exit_code == 0
    assert not [*verdicts.iterdir()]
    assert CliRunner().invoke(app, ["check", str(file), *options]).exit_code == 0
    assert len([*verdicts.glob("*.step")]) == len([*verdicts.glob("*.verdict")]) == 2


def test_pages_are_written(tmp_path: Path) -> None:
    file = tmp_path / "derived.py"
    file.write_text(SOURCE.format(loop="i"))
    status, text = history(file, "--html", tmp_path / "pages")
    assert status == 0 and "tiled: proved, " in text
    assert [path.name for path in (tmp_path / "pages").iterdir()] == ["tiled.html"]
    status, text = history(file, "--html", file)
    assert status == 2 and "X948" in text


def test_a_terminal_shows_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    drawn = Console(file=shown, force_terminal=True, width=200)
    monkeypatch.setattr(progress_display, "console", lambda **_: drawn)

    @proc
    def even(n: size, x: f32[n] @ DRAM):
        assert n % 4 == 0
        for i in seq(0, n):
            x[i] = 2

    for bar in (False, True):
        with progress_display.Steps(bar) as steps, watched(steps):
            tile = schedule.higher(
                lambda p: schedule.rename(
                    schedule.divide_loop(p, "i", 4, ["io", "ii"], "perfect"), "t"
                )
            )
            tile(even)
        assert bool(shown.getvalue()) == bar
    assert "t: step 2, rename('t') of " in shown.getvalue()
