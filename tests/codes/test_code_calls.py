"""The examples of codes that are calls from Python: one raises the code, the other does not."""

from __future__ import annotations

import ast
import importlib.util
import linecache
from pathlib import Path

import pytest
from code_calls import BODIES, CALLS
from code_frames import HEAD, parts

from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.verdict import Verdict
from exogpu.ir.printer import print_proc
from exogpu.schedule import primitive
from exogpu.schedule.checking import checker
from exogpu.schedule.checking.checker import Objection
from exogpu.schedule.rewrite import Rewrite


def loaded(file: Path, text: str) -> dict[str, object]:
    """The names of a module of this text."""
    file.write_text(f"{HEAD}import numpy as np\n{text}")
    linecache.checkcache(str(file))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


def codes(text: str, names: dict[str, object]) -> set[str]:
    """What statements raise; of a verdict that the last of them gives, what it has found."""
    *before, last = ast.parse(text).body
    try:
        exec(compile(ast.Module(before, []), "<example>", "exec"), names)
        if not isinstance(last, ast.Expr):
            exec(compile(ast.Module([last], []), "<example>", "exec"), names)
            return set()
        value = eval(compile(ast.Expression(last.value), "<example>", "eval"), names)
    except ExoGpuError as error:
        return {d.code for d in error.diagnostics}
    if not isinstance(value, Verdict):
        return set()
    return {d.code for d in value.diagnostics} | {hazard.code for hazard in value.hazards}


def undecided(edit: Rewrite) -> Objection | None:
    """ISL gives up where the constant is large."""
    if "7919" in print_proc(edit.new):
        return Objection("UNDECIDED", "ISL could not decide whether the results stay the same")
    return checker.objection(edit)


@pytest.mark.parametrize("code", CALLS)
def test_the_repair_of_a_call_is_accepted(code, tmp_path, monkeypatch):
    bad, good = parts(code)
    monkeypatch.setattr(primitive, "objection", undecided)
    names = loaded(tmp_path / f"of_{code.lower()}.py", CALLS[code])
    assert codes(bad, names) == {code}
    assert codes(good, names) == set()


@pytest.mark.parametrize("code", BODIES)
def test_the_repair_of_a_statement_runs(code, tmp_path):
    text, call = BODIES[code]
    found = []
    for kind, snippet in zip(("bad", "good"), parts(code), strict=True):
        lines = []
        for line in text.splitlines():
            shift = line[: len(line) - len(line.lstrip())]
            inside = "\n".join(shift + one for one in snippet.splitlines())
            lines.append(inside if line.strip() == "HERE" else line.replace("HERE", snippet))
        try:
            names = loaded(tmp_path / f"{kind}_{code.lower()}.py", "\n".join(lines) + "\n")
        except ExoGpuError as error:
            found.append({d.code for d in error.diagnostics})
            continue
        found.append(codes(call, names))
    assert found == [{code}, set()]


def test_source_that_is_in_no_file():
    """P101: as typed into a plain interpreter, which keeps no text."""
    bad, _ = parts("P101")
    text = "\n".join(line.removeprefix(">>> ").removeprefix("... ") for line in bad.splitlines())
    names: dict[str, object] = {}
    exec("from exogpu import *", names)
    assert codes(text, names) == {"P101"}


def test_source_that_is_in_a_file(tmp_path):
    _, good = parts("P101")
    assert "f" in loaded(tmp_path / "f.py", good)
