"""Folders and odd files as targets: nothing that may hold a procedure is passed over in silence."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from exogpu.cli.files import LARGEST, Unit
from exogpu.cli.loader import load

ROOT = Path(__file__).parent.parent

GOOD = "from exogpu import *\n@proc\ndef good(n: size, x: f32[n] @ DRAM):\n    x[0] = 1.0\n"
BODY = "def k(n: size, x: f32[n] @ DRAM):\n    x[n - 1] = 1.0\n"


def codes(units: tuple[Unit, ...]) -> list[str]:
    return sorted(d.code for unit in units if unit.procedure is None for d in unit.diagnostics)


def names(units: tuple[Unit, ...]) -> list[str]:
    return [unit.name for unit in units if unit.procedure is not None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "unrelated.py").write_text("raise SystemExit('never run')\n")
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        f"import exogpu\n@exogpu.proc\n{BODY}",
        f"import exogpu as e\n@e.proc\n{BODY}",
        f"from exogpu import proc as kernel\n@kernel\n{BODY}",
        f"from exogpu.api import proc\n@proc(name='k')\n{BODY}",
    ],
)
def test_aliases_are_read_and_broken_files_reported(folder: Path, text: str) -> None:
    (folder / "alias.py").write_text(text)
    assert names(load(str(folder))) == ["k", "good"]
    (folder / "alias.py").write_text(text + "    x[0] = (\n")
    assert codes(load(str(folder))) == ["X942"]


MAKE = """
from __future__ import annotations
from exogpu import *

def make():
    @proc(name="k")
    def any(n: size):
        pass
    return any
"""


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, f"from base1 import proc as q\n@q\n{BODY}"),
        (2, f"import base2\nq = base2.proc\n@q\n{BODY}"),
        (3, "from base3 import make\nk = make()\n"),
        (4, "import base4\nkernels = [base4.make()]\n"),
    ],
)
def test_procedures_made_through_another_file_are_found(
    folder: Path, number: int, text: str
) -> None:
    (folder / f"base{number}.py").write_text(MAKE)
    (folder / "user.py").write_text(text)
    units = load(str(folder))
    assert names(units) == ["good", "k"] and not codes(units)


@pytest.mark.parametrize(
    "data",
    [
        b"def broken(:\n",
        b"\xff\xfe\x00",
        b"# coding: nonsense\n",
        b"x = '\xe4'\n",
        b"x = 1\0\n",
        b"x = " + b"-" * 20000 + b"1\n",
        b"x = " + b"+".join([b"1"] * 20000) + b"\n",
        b"x = " + b"(" * 500,
        b"#" * (LARGEST + 1),
    ],
)
def test_what_is_no_python_is_reported(folder: Path, data: bytes) -> None:
    (folder / "odd.py").write_bytes(data)
    units = load(str(folder))
    assert codes(units) == ["X942"] and names(units) == ["good"]
    assert codes(load(str(folder / "odd.py"))) == ["X942"]


def test_odd_kinds_of_files_are_reported_and_never_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "fifo.py")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "socket.py"))
    (folder / "loop.py").symlink_to("loop.py")
    (folder / "dangling.py").symlink_to("nothing.py")
    (folder / "device.py").symlink_to("/dev/zero")
    (folder / "folder.py").mkdir()
    (folder / "folder.py" / "inner.py").write_text(GOOD.replace("good", "inner"))
    units = load(str(folder))
    listener.close()
    assert codes(units) == ["X941"] * 3 + ["X942"] * 2
    assert names(units) == ["good", "inner"]
    for name in ("fifo", "loop", "dangling", "device"):
        assert codes(load(str(folder / f"{name}.py"))) in (["X941"], ["X942"])


def test_each_folder_is_entered_once_though_links_lead_there(folder: Path) -> None:
    (folder / "a_link").symlink_to("real")
    (folder / "real").mkdir()
    (folder / "real" / "up").symlink_to("..")
    (folder / "real" / "kernel.py").write_text(GOOD.replace("good", "kernel"))
    elsewhere = folder.parent / f"{folder.name}-elsewhere"
    elsewhere.mkdir()
    (elsewhere / "linked.py").write_text(GOOD.replace("good", "linked"))
    (folder / "outside").symlink_to(elsewhere)
    assert names(load(str(folder))) == ["good", "kernel", "linked"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_is_not_readable_is_reported(folder: Path) -> None:
    (folder / "shut").mkdir(mode=0)
    (folder / "secret.py").write_text(GOOD)
    (folder / "secret.py").chmod(0)
    assert codes(load(str(folder))) == ["X941", "X941"]


def test_a_folder_that_cannot_be_read_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = os.scandir

    def refuse(path: Path) -> object:
        if path.name == "shut":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    (folder / "shut").mkdir()
    monkeypatch.setattr(os, "scandir", refuse)
    assert codes(load(str(folder))) == ["X941"]


def test_two_points_name_the_folder_above(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "below").mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.chdir(folder / "below")
    for target in ("..", "../good.py", "../below/../good.py"):
        assert names(load(target)) == ["good"]


@pytest.mark.parametrize("name", ["a b.py", "1.py", "x.y.py", "-x.py", "größe.py", "class.py"])
def test_files_may_have_any_name(folder: Path, name: str) -> None:
    (folder / name).write_text(GOOD.replace("good", "odd"))
    assert "odd" in names(load(str(folder)))


def test_a_name_that_is_no_text_can_be_printed(tmp_path: Path) -> None:
    os.mkdir(bytes(tmp_path) + b"/\xff")
    Path(os.fsdecode(bytes(tmp_path) + b"/\xff/\xfe.py")).write_text("(")
    command = [sys.executable, "-m", "exogpu", "check", "."]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == 2 and b"X942" in done.stdout and not done.stderr


@pytest.mark.parametrize(
    "raised",
    [
        "raise SystemExit(0)",
        "raise GeneratorExit",
        "class Own(BaseException): pass\nraise Own",
        "class Mute(BaseException):\n    def __str__(self): raise Mute\nraise Mute",
        "import typer; raise typer.Exit(0)",
        "def f(): f()\nf()",
        "raise MemoryError",
    ],
)
def test_a_target_may_raise_anything(folder: Path, raised: str) -> None:
    (folder / "raises.py").write_text(GOOD.replace("good", "raises") + raised)
    units = load(str(folder))
    assert codes(units) == ["X944"] and names(units) == ["good", "raises"]


def test_a_target_that_leaves_its_folder_is_called_back(folder: Path) -> None:
    (folder / "goes.py").write_text(GOOD + "import os, sys\nos.chdir('/')\nsys.path.clear()\n")
    before, path = os.getcwd(), list(sys.path)
    try:
        load(str(folder / "goes.py"))
        assert os.getcwd() == before
    finally:
        sys.path[:] = path
