"""The examples of codes of the command line: the command draws the code, and the remedy changes
what comes of it.  What a machine lacks, or has too little of, is planted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from code_frames import parts
from code_scenes import FILES, SCENES, TEXTS
from typer.testing import CliRunner

from exogpu.cli.commands import app
from exogpu.codegen.toolchain import find
from exogpu.solvers import smt


def told(command: str) -> tuple[int, str]:
    """Exit status and output of a command, with the variables of its environment in front."""
    words = shlex.split(command, comments=True)
    with pytest.MonkeyPatch.context() as patch:
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            patch.setenv(*words.pop(0).split("=", 1))
        match words:
            case ["exogpu", *arguments]:
                result = CliRunner().invoke(app, arguments[: (*arguments, ">").index(">")])
                return result.exit_code, result.output
            case ["mkdir", name]:
                Path(name).mkdir()
            case ["cut", name]:
                Path(name).write_text(Path(name).read_text()[:100])
            case _:
                raise ValueError(command)
    return 0, ""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EXOGPU_DEBUG", raising=False)
    monkeypatch.delenv("TILE", raising=False)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("code", SCENES)
def test_the_repair_of_a_command_changes_what_comes_of_it(code, folder):
    scene = SCENES[code]
    bad, good = parts(code)
    for name, text in scene.files.items():
        (folder / name).write_text(text)
    assert len(bad.splitlines()) == 1
    for command in scene.before:
        status, output = told(command)
        assert status == 0, output
    with pytest.MonkeyPatch.context() as patch:
        scene.plant(patch)
        status, output = told(bad)
        assert code in output and status == scene.status, (status, output)
        if not scene.lifted:
            after, repaired = told(good.splitlines()[-1])
    if scene.lifted:
        after, repaired = told(bad)
        if code == "X961" and find.find_toolchain() is None:
            pytest.skip("there is no CUDA compiler")
        if code == "X972" and smt.cvc5_version() is None:
            pytest.skip("cvc5 is not installed")
    elif scene.again:
        assert after == 0, repaired
        after, repaired = told(bad)
    assert after == scene.good, repaired
    if scene.says:
        assert scene.says in repaired and scene.says not in output
    else:
        assert code not in repaired


@pytest.mark.parametrize("code", TEXTS)
def test_the_repair_of_a_file_changes_what_comes_of_it(code, folder):
    text, command = TEXTS[code]
    made = []
    for snippet in parts(code):
        (folder / "k.py").write_text(text.replace("HERE", snippet))
        made.append(told(command))
    (status, output), (after, repaired) = made
    assert code in output and status == 2
    assert code not in repaired and after == 0, repaired


def test_a_pipe_to_a_full_disk_is_no_other_failure(folder):
    """What is planted for X957 is what the system says."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with pytest.raises(OSError) as caught, Path("/dev/full").open("w") as full:
        full.write("x")
        full.flush()
    assert caught.value.errno == 28
