"""Whatever goes wrong ends with a line and a status of its own, never with that of a verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from exogpu.api import Procedure
from exogpu.cli import loader
from exogpu.cli.commands import app
from exogpu.cli.exit_handler import worst

ROOT = Path(__file__).parent.parent

KERNEL = "from exogpu import *\n@proc\ndef {name}(n: size, x: f32[n] @ DRAM):\n    x[0] = 1.0\n"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EXOGPU_DEBUG", raising=False)
    Path("k.py").write_text(KERNEL.format(name="k"))
    return tmp_path / "k.py"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def plant(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(loader, "load", fail)


@pytest.mark.parametrize(
    "command",
    [
        "check k.py",
        "run k.py --random",
        "compile k.py -o out",
        "threads k.py",
        "amir k.py",
        "report k.py -o out",
    ],
)
@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ZeroDivisionError("planted"), 4, "X955"),
        (RecursionError("planted"), 4, "X955"),
        (AssertionError(), 4, "X955"),
        (MemoryError(), 3, "X956"),
        (OSError(28, "planted"), 2, "planted"),
        (ModuleNotFoundError("no", name="missing_package"), 2, "X940"),
        (ModuleNotFoundError("no", name="exogpu.missing"), 4, "X955"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_what_commands_raise(
    kernel: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    error: BaseException,
    status: int,
    said: str,
) -> None:
    monkeypatch.setattr("exogpu.cli.exit_handler._silence", lambda: None)
    plant(monkeypatch, error)
    result = call(*command.split())
    assert result.exit_code == status and said in result.stderr
    assert "Traceback" not in result.stderr and isinstance(result.exception, SystemExit)


def test_the_traceback_is_kept_for_those_who_ask(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, ZeroDivisionError("planted"))
    monkeypatch.setenv("EXOGPU_DEBUG", "1")
    result = call("check", "k.py")
    assert result.exit_code == 4 and "Traceback" in result.stderr and "X955" in result.stderr


def test_a_failure_with_one_procedure_does_not_keep_others_from_being_compiled(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emit = Procedure.emit

    def fail(self: Procedure, *arguments: object, **options: object) -> object:
        if self.name == "k":
            raise ZeroDivisionError("planted")
        return emit(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Procedure, "emit", fail)
    kernel.write_text(KERNEL.format(name="k") + KERNEL.format(name="l"))
    result = call("compile", "k.py", "-o", "out")
    assert result.exit_code == 4 and "planted" in result.stderr
    assert Path("out/l.cu").exists() and not Path("out/k.cu").exists()


def test_of_several_a_failure_of_exogpu_comes_first() -> None:
    assert worst({0, 1, 2, 3, 4}) == 4 and worst({0, 1, 2, 3}) == 2


def process(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The real program, in a shell."""
    program = f"'{sys.executable}' -m exogpu"
    return subprocess.run(
        ["bash", "-c", command.replace("exogpu", program, 1)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("exogpu explain > /dev/full", 2),
        ("exogpu --help > /dev/full", 2),
        ("exogpu check k.py > /dev/full 2> /dev/full", 2),
        ("exogpu check k.py >&- 2>&-", 0),
        ("exogpu explain | true; exit ${PIPESTATUS[0]}", 141),
        ("exogpu --help | true; exit ${PIPESTATUS[0]}", 141),
        ("exogpu check k.py --sarif /dev/full", 2),
        ("exogpu compile k.py -o k.py", 2),
        ("exogpu report k.py -o k.py/x", 2),
        ("exogpu run k.py --random --seed -1", 2),
        ("exogpu run k.py --random --at n=100000000000", 2),
        ("exogpu check k.py --at n=" + "1" * 5000, 2),
        ("exogpu check k.py --at n=9223372036854775808", 2),
        ("exogpu check " + "a" * 5000, 2),
        ("exogpu check " + "a" * 300 + ".py", 2),
    ],
)
def test_the_program_itself(kernel: Path, command: str, status: int) -> None:
    done = process(command, kernel.parent)
    assert done.returncode == status, done
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


def test_a_target_that_interrupts_is_an_interruption(kernel: Path) -> None:
    kernel.write_text("raise KeyboardInterrupt\n")
    assert process("exogpu check k.py", kernel.parent).returncode == 130


def test_a_target_that_breaks_python_is_not_a_verdict(kernel: Path) -> None:
    with kernel.open("a") as file:
        file.write("import builtins, sys\nbuiltins.len = None\nsys.modules.clear()\n")
    done = process("exogpu check k.py", kernel.parent)
    assert done.returncode in (2, 4) and "Traceback" not in done.stderr
