"""docs/scheduling.md is true: its session runs, and its table has every primitive."""

from __future__ import annotations
import __future__

import doctest
import re
from pathlib import Path

import pytest

from exogpu import schedule

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parent.parent / "docs" / "scheduling.md"
TEXT = PAGE.read_text()


def test_the_session_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```pycon\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    session, known = "\n".join(blocks), {"annotations": __future__.annotations}
    test = doctest.DocTestParser().get_doctest(session, known, "scheduling", str(PAGE), 0)
    assert len(test.examples) > 40
    found = doctest.DocTestRunner().run(test)
    assert found.failed == 0, capsys.readouterr().out


@pytest.mark.parametrize("higher", [False, True])
def test_the_tables_have_every_step_with_its_first_sentence(higher: bool) -> None:
    section = TEXT.split("## Higher steps" if higher else "## The primitives")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE))
    steps = {n: f for n, f in vars(schedule).items() if hasattr(f, "__wrapped__")}
    made = {n: f for n, f in steps.items() if hasattr(f, "is_higher") == higher}
    first = {
        n: " ".join((f.__doc__ or "").strip().split("\n\n")[0].split()) for n, f in made.items()
    }
    assert rows == first and len(rows) > 8
