"""Every file of `tests/cases/verdicts` gets the verdicts that its comments state.

# expect NAME: proved [CODE]                  CODE: a warning
# expect NAME: refuted KIND[,KIND] VARIABLE   one of the kinds, on the variable
# expect NAME: error CODE
# expect NAME: undecided
# repair NAME: TEXT                           part of a remedy

Decision `point-window`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from exogpu.api import Procedure, collecting
from exogpu.cli.loader import load
from exogpu.diagnostics.verdict import Verdict

CASES = sorted((Path(__file__).parent / "cases" / "verdicts").glob("*.py"))
_EXPECT = re.compile(
    r"^# expect (\w+): (proved|refuted|error|undecided)(?: (\S+))?(?: (\S+))?$", re.M
)
_REPAIR = re.compile(r"^# repair (\w+): (.+)$", re.M)


@cache
def procedures(path: Path) -> dict[str, Procedure]:
    with collecting():
        units = load(str(path))
    return {u.procedure.name: u.procedure for u in units if u.procedure is not None}


@cache
def verdict(path: Path, name: str) -> Verdict:
    return procedures(path)[name].check()


def stated(pattern: re.Pattern[str]) -> list[tuple[Path, tuple[str, ...]]]:
    found = [(path, m.groups("")) for path in CASES for m in pattern.finditer(path.read_text())]
    assert len(found) > 1
    return found


def named(case: object) -> str:
    return case.stem if isinstance(case, Path) else case[0] if isinstance(case, tuple) else ""


@pytest.mark.parametrize(("path", "expected"), stated(_EXPECT), ids=named)
def test_the_verdict_is_as_stated(path: Path, expected: tuple[str, str, str, str]) -> None:
    name, word, what, variable = expected
    found = verdict(path, name)
    assert found.word == word, found
    match word:
        case "error":
            assert {d.code for d in found.diagnostics} == set(what.split(","))
        case "proved":
            codes = {d.code for d in found.warnings}
            assert codes == set(filter(None, what.split(",")))
        case "undecided":
            assert found.reason
        case _:
            kinds = set(what.split(","))
            assert any(h.kind.value in kinds and h.variable == variable for h in found.hazards)


@pytest.mark.parametrize(("path", "expected"), stated(_REPAIR), ids=named)
def test_the_remedy_is_as_stated(path: Path, expected: tuple[str, str]) -> None:
    name, text = expected
    found = verdict(path, name)
    told = (*found.diagnostics, *found.warnings)
    remedies = [*(h.help for h in found.hazards), *(d.help for d in told)]
    assert any(text in remedy for remedy in remedies), remedies


@pytest.mark.parametrize("path", CASES, ids=named)
def test_every_procedure_has_a_verdict(path: Path) -> None:
    assert {m[1] for m in _EXPECT.finditer(path.read_text())} == set(procedures(path))
