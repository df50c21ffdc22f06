"""Several targets on one line, the version, short help, and what is shown while a proof goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from exogpu.cli import progress_display
from exogpu.cli.commands import app
from exogpu.cli.loader import load
from exogpu.cli.progress_display import MOMENT, SoFar
from exogpu.diagnostics.verdict import Proving

TEXT = """from __future__ import annotations
from exogpu import *


@proc
def {name}({size}: size, x: f32[{size}] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, {size}):
            for t in cuda_threads(0, 1, unit=cuda_thread):
                x[m] = 0.0
"""


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, size in (("one", "M"), ("two", "N"), ("three", "M")):
        Path(f"{name}.py").write_text(TEXT.format(name=name, size=size))
    Path("both.py").write_text(TEXT.format(name="four", size="M") + "\n\nfrom three import three\n")

    def run(*arguments: str):
        return CliRunner().invoke(app, [*arguments])

    return run


@pytest.mark.parametrize("limits", [(), ("--timeout", "60")])
def test_several_targets_are_checked_in_their_order(call, limits):
    result = call("check", "two.py", "one.py::one", "two.py", *limits)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["two", "one", "2 procedures"]


def test_what_targets_share_is_checked_once(call):
    result = call("check", "one.py", ".")
    words = [line.split(":")[0] for line in result.stdout.splitlines()]
    assert sorted(words[:-1]) == ["four", "one", "three", "two"]


def test_one_wrong_target_leaves_the_others(call):
    result = call("check", "one.py", "none.py", "two.py::three")
    assert result.exit_code == 2
    assert "one: proved" in result.stdout and result.stdout.count("error X94") == 2


def test_a_size_of_one_target_is_ignored_by_others(call):
    result = call("check", "one.py", "two.py", "--at", "N=4", "--at", "M=2")
    assert result.exit_code == 0 and "safe at M=2" in result.stdout
    assert "safe at N=4" in result.stdout
    assert "X901" in call("check", "one.py", "two.py", "--at", "K=4").stdout


def test_sizes_by_name_leave_out_who_lacks_one(call):
    result = call("check", "one.py", "two.py", "three.py", "--at", "M=2")
    assert result.exit_code == 3
    assert result.stdout.count("safe at M=2") == 2
    assert "two: not checked: --at gives no N" in result.stdout.splitlines()
    assert "error" not in result.stdout


def test_sizes_by_name_leave_out_whose_precondition_they_break(call):
    even = TEXT.format(name="even", size="M").replace(
        ":\n    with", ":\n    assert M % 2 == 0\n    with"
    )
    Path("even.py").write_text(even)
    result = call("check", "one.py", "even.py", "--at", "M=3")
    assert result.exit_code == 3 and "safe at M=3" in result.stdout
    told = [line for line in result.stdout.splitlines() if line.startswith("even: ")]
    assert told == ["even: not checked: the precondition M % 2 == 0 of even does not hold: M = 3"]


def test_sizes_that_suit_no_procedure_are_an_error(call):
    for name in ("one", "two"):
        pair = TEXT.format(name=name, size="M").replace("M: size", "M: size, N: size")
        Path(f"{name}.py").write_text(pair)
    result = call("check", "one.py", "two.py", "--at", "M=3")
    assert result.exit_code == 2 and result.stdout.count("error X902") == 2


def test_the_version_and_short_help(call):
    assert call("--version").stdout.startswith("exogpu ")
    for before in ([], ["check"]):
        short, long = call(*before, "-h"), call(*before, "--help")
        assert short.exit_code == 0 and short.stdout == long.stdout and "Usage: " in short.stdout


def test_a_proof_shows_how_far_it_is_on_a_terminal_alone(call, monkeypatch):
    shown: list[str] = []
    monkeypatch.setattr(SoFar, "_show", lambda _, text: shown.append(text))
    now = iter([0.0, MOMENT / 2, 2 * MOMENT])
    monkeypatch.setattr(progress_display, "perf_counter", lambda: next(now))
    told = SoFar("k", True)
    told.proving(Proving(8))
    assert not shown
    told.proving(Proving(1600))
    assert shown == ["k: proving, 1,600 obligations answered"]
    now = iter([0.0, 9.0])
    SoFar("k", False).proving(Proving(8))
    assert len(shown) == 1
    # Nothing of it is in a pipe.
    monkeypatch.undo()
    assert "answered" not in call("check", "one.py", "--no-cache").output


def test_obligations_are_told_while_they_are_answered(call):
    told: list[int] = []
    path = Path("one.py").resolve()
    (unit,) = load(str(path))
    verdict = unit.procedure.check(progress=lambda p: told.append(p.answered))
    assert told == sorted(told) and told[-1] == len(verdict.proof.answered)
