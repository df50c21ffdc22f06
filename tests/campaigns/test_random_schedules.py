"""The campaign of random schedules counts what was taken, and shows what is wrong."""

from __future__ import annotations

import pytest

from campaigns import schedules
from campaigns.schedules import Tally, outcome, page

pytestmark = pytest.mark.slow


def test_a_few_sequences() -> None:
    tally = Tally()
    for seed in map(str, range(6)):
        tally.add(seed, outcome(seed))
    assert (
        tally.sequences + tally.still + tally.unfit == 6
        and tally.steps == sum(tally.taken.values()) > 0
    )
    assert tally.wrong == []
    text = page(tally, 0)
    assert f"{tally.sequences:,} sequences of {tally.steps:,} accepted steps" in text
    assert "No sequence changed a result" in text and "| **all** |" in text
    assert text.count("first at") > 20


def test_what_is_wrong_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally()
    monkeypatch.setattr(schedules, "differences", lambda *_: ["y at n = 1"])
    tally.add("3", outcome("3"))
    tally.add("4", {"crash": "Traceback\nKeyError: w", "seconds": 0})
    assert tally.wrong == ["3: y at n = 1", "4: crash: KeyError: w"]
    assert "- 4: crash: KeyError: w" in page(tally, 3)
