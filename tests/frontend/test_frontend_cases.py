"""Every file of `tests/cases/frontend` draws exactly the diagnostics that its comments expect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exogpu.api import collecting

CASES = sorted((Path(__file__).parent.parent / "cases" / "frontend").glob("*.py"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_the_comments_say_what_is_found(path: Path) -> None:
    text = path.read_text()
    expected = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.search(r"# expect: (.+)$", line):
            expected += [(number, code) for code in match.group(1).split()]
    # A header with several faults lists their codes below it.
    for match in re.finditer(r"# the header draws: (.+)$", text, re.MULTILINE):
        header = text[: match.start()].count("\n")
        expected += [(header, code) for code in match.group(1).split()]
    with collecting() as found:
        exec(compile(text, str(path), "exec"), {"__name__": path.stem})
    # Only what reading finds: bounds and tilings are judged elsewhere.
    drawn = [(d.span.line, d.code) for p in found if p.ir is None for d in p.diagnostics]
    assert sorted(drawn) == sorted(expected)
