"""Random kernels of two and three roles: none is proved that goes wrong in some order."""

from __future__ import annotations

import random

import pytest

from exogpu.imported import import_ttgir
from tests.importing.interpreter import StuckError, intended, right, run
from tests.importing.random_roles import Choice, draw, text


def test_the_interpreter_tells_right_from_wrong():
    assert right(text(Choice())) == "" and intended(text(Choice()), 5)
    assert right(text(Choice(missing=frozenset({"fence_write"}))))
    assert right(text(Choice(early=frozenset({"ready"}))))
    assert right(text(Choice(phases={"full": 1})))
    # The other warps of the role store their halves later than the TMA store reads.
    assert right(text(Choice(storing=False, missing=frozenset({"meet_store"}))))
    assert right(text(Choice(storing=False, missing=frozenset({"meet_wait"}))))
    assert right(text(Choice(depth=1, storing=False, double=True, count=-1)))
    assert right(text(Choice(masks={"load": ("below", 1)})))
    with pytest.raises(StuckError):
        run(text(Choice(phases={"empty": 1})), 2, 0)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_proved_stores_the_same_tiles_in_all_orders(seed):
    program = text(draw(random.Random(seed)))
    verdict = import_ttgir(program).check(timeout=60)
    if verdict.word == "proved":
        assert right(program) == ""


def test_a_wrong_hand_over_without_a_race_is_no_race():
    """The roles take turns, and the first turn is the wrong one's: it stores what nothing wrote."""
    program = text(Choice(depth=3, phases={"free": 1, "ready": 1}))
    assert right(program) == "" and not intended(program, 1)


def test_right_programs_are_proved():
    for depth in (1, 2, 4):
        for storing in (True, False):
            program = text(Choice(depth=depth, storing=storing))
            assert import_ttgir(program).check(timeout=60).word == "proved"
    program = text(Choice(depth=3, storing=False, double=True))
    assert right(program) == "" and intended(program, 4)
    assert import_ttgir(program).check(timeout=60).word == "proved"
