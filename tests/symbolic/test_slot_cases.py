"""Every file of `tests/cases/slots` gets the verdicts, and draws the codes, that its comments say.

`# expect NAME: proved`, `refuted KIND VARIABLE`, `error CODE` or `undecided` is of a procedure; a
line that ends in `# expect: CODE` draws it.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.symbolic.slot_files import procedures

FOLDER = Path(__file__).parent.parent / "cases"
CASES = sorted((FOLDER / "slots").glob("*.py"))
_VERDICT = re.compile(
    r"^# expect (\w+): (proved|refuted|error|undecided)(?: (\w+))?(?: (\w+))?$", re.MULTILINE
)
_LINE = re.compile(r"# expect: (.+)$")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_lines_draw_what_they_say(path: Path) -> None:
    expected: set[tuple[int, str]] = set()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := _LINE.search(line):
            expected |= {(number, code) for code in match[1].split()}
    told = {match[1] for match in _VERDICT.finditer(path.read_text())}
    drawn = {
        (d.span.line, d.code)
        for name, procedure in procedures(path).items()
        if name not in told
        for d in procedure.diagnostics
    }
    assert drawn == expected


def verdicts() -> list[tuple[Path, str, str, str, str]]:
    return [(path, *m.groups("")) for path in CASES for m in _VERDICT.finditer(path.read_text())]


@pytest.mark.parametrize(("path", "name", "word", "kind", "variable"), verdicts())
def test_the_verdict_is_as_said(path: Path, name: str, word: str, kind: str, variable: str) -> None:
    found = procedures(path)[name].check()
    assert found.word == word, found.reason or found.hazards
    if word == "error":
        assert {d.code for d in found.diagnostics} == {kind}
    if word == "refuted":
        assert (kind, variable) in {(h.kind.value, h.variable) for h in found.hazards}


@pytest.mark.parametrize("name", ["window", "loop", "operand", "loop_of_a_task"])
def test_a_window_of_one_element_is_the_element(name: str) -> None:
    procedure = procedures(FOLDER / "slots" / "windows.py")[name]
    x = np.random.default_rng(0).random((3, 5, 32), np.float32)
    y = np.zeros_like(x)
    procedure.run(M=3, K=5, x=x, y=y)
    assert np.array_equal(y, x[:, :, ::-1])
    emitted, _ = procedure.emit(unchecked=True)
    assert "slot" in emitted.source


def test_there_are_cases() -> None:
    assert len(verdicts()) > 7
