"""The kernels of `tests/cases/planted` are proved; each bug planted in one is found as its comment
states, and mended as written where the comment says so.

    python -m campaigns.planted --write

makes the table of them in docs/campaigns.md.
"""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from exogpu.api import Procedure, collecting
from exogpu.cli.lsp.fixes import apply_change
from tests import planted
from tests.planted import Bug

BUGS = [bug for path in planted.kernels() for bug in planted.bugs(path)]


def load(text: str, path: Path) -> Procedure:
    path.write_text(text)
    linecache.checkcache(str(path))
    with collecting() as found:
        exec(compile(text, str(path), "exec"), {"__name__": path.stem})
    return found[-1]


@pytest.mark.parametrize("path", planted.kernels(), ids=lambda path: path.stem)
def test_the_kernel_is_proved(path: Path, tmp_path: Path) -> None:
    assert load(planted.source(path), tmp_path / path.name).check().word == "proved"


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.path.stem}-{bug.name}")
def test_the_comment_holds(bug: Bug, tmp_path: Path) -> None:
    verdict = load(bug.text, tmp_path / "wrong.py").check()
    assert verdict.word in ("refuted", "error") and "failed" not in verdict.note
    found = {h.kind.value for h in verdict.hazards} or {d.code for d in verdict.diagnostics}
    assert found == bug.expected
    said = [*(h.help for h in verdict.hazards), *(d.help for d in verdict.diagnostics)]
    assert planted.numbered(bug, bug.repair) in said[0]
    if bug.after:
        change, *_ = verdict.hazards[0].changes
        mended = load(apply_change(bug.text, change), tmp_path / "mended.py")
        assert mended.check().word == bug.after


def test_there_are_as_many_bugs_as_pages_say() -> None:
    assert len(planted.kernels()) >= 8 and len(BUGS) >= 37
    assert len({(bug.path, bug.name) for bug in BUGS}) == len(BUGS)
    multicast = [bug for bug in BUGS if bug.path.stem == "multicast_ring"]
    assert len(multicast) >= 4
    assert all(bug.expected and bug.text != planted.source(bug.path) for bug in BUGS)
