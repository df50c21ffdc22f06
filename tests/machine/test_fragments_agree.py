"""Loops over fragments: the literal machine, the fast one and the prover say the same."""

from __future__ import annotations

import numpy as np
import pytest

from exogpu.diagnostics.verdict import Policy
from exogpu.machine import fast, literal
from tests.machine.fragment_procs import CHOICES, make

SOUND = ("fragment", True, True, "rows", "waited for", True)


def kinds(*arguments):
    """The hazards that the literal machine finds at one and at two products."""
    program = make(*arguments).amir(Policy.PTX)
    found = set()
    for n in (1, 2):
        violations = literal.run(program, {"n": n})
        assert fast.run(program, {"n": n}).violations == violations
        found |= {v.kind.value for v in violations}
    return found


def agree(*arguments):
    """The prover's word is the machine's."""
    found = kinds(*arguments)
    verdict = make(*arguments).check(policy=Policy.PTX)
    assert verdict.word == ("refuted" if found else "proved"), (arguments, found)
    return found


@pytest.mark.slow
def test_the_sound_one_is_proved():
    assert not agree(*SOUND)
    assert not agree("scale", True, True, "fragment", "never", False)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({1: False}, "RAW"),  # the accumulator's zeros are not seen by the product
        ({2: False, 4: "never"}, "RAW"),  # the accumulator is read in flight
        ({4: "in flight"}, "WAR"),  # A is overwritten in flight
        ({5: False}, "RAW"),  # the next product does not see what was written
    ],
)
def test_what_is_left_out_is_a_hazard(change, kind):
    arguments = [change.get(at, one) for at, one in enumerate(SOUND)]
    assert kind in agree(*arguments)


@pytest.mark.slow
def test_many_choices_agree():
    safe = 0
    some = CHOICES[::5]
    for number, arguments in enumerate(some):
        safe += not (kinds if number % 3 else agree)(*arguments)
    assert 0 < safe < len(some) / 2


def test_the_meaning_is_a_loop_over_all_elements():
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (64, 8)).astype(np.float32)
    y = np.zeros((64, 8), np.float32)
    make(*SOUND).run(n=2, x=x, y=y)
    want = np.zeros((64, 8), np.float32)
    factor = x
    for i in range(2):
        want += factor @ x[:8].T
        big = want.max(axis=1, keepdims=True)
        want[:, : i + 1] -= big
        factor = np.full((64, 8), 2.0, np.float32)
    assert np.array_equal(y, want)
