"""Generated programs with slots: no verdict that the literal machine does not share."""

from __future__ import annotations

from random import Random

import pytest

from exogpu.ir.types import Policy
from exogpu.machine import fast, literal
from exogpu.machine.assigned import CHOICES, assigned
from exogpu.pipeline.allsizes import answer
from tests.machine.build import Builder
from tests.machine.shapes.slots import slots

SIZES = [{"I": i, "K": k} for i in range(4) for k in range(4)]


def word(seed: int) -> str:
    """The verdict on a program, held against the machines at all small sizes."""
    random, b = Random(seed), Builder()
    slots(random, b)
    program = b.program(random.choice((Policy.PTX, Policy.PAPER)))
    found = answer(program)
    wrong = []
    for sizes in SIZES:
        for choice in CHOICES[:3] if found.proof is None else CHOICES:
            one = assigned(program, sizes, choice)
            violations = literal.run(one, sizes)
            assert fast.run(one, sizes).violations == violations, (seed, sizes)
            if violations:
                wrong.append(sizes)
    if found.proof is not None:
        assert not wrong, (seed, wrong)
        return "proved"
    if found.refutation is not None:
        assert literal.run(program, found.refutation.sizes), seed
        return "refuted"
    return "undecided"


@pytest.mark.parametrize("seed", range(12))
def test_verdicts_agree_with_the_machines(seed: int) -> None:
    word(seed)


def test_most_are_decided() -> None:
    words = [word(seed) for seed in range(12, 24)]
    assert {"proved", "refuted"} <= set(words)
    assert words.count("undecided") < 6
