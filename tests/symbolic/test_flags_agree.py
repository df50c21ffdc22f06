"""Generated programs with flags: no verdict that the literal machine does not share."""

from __future__ import annotations

from random import Random

import pytest

from exogpu.amir import nodes as amir
from exogpu.diagnostics.verdict import Policy
from exogpu.machine import fast, literal
from exogpu.pipeline.check import answer
from tests.machine.build import Builder
from tests.machine.shapes.flags import flags
from tests.machine.shapes.mutate import mutate
from tests.symbolic.agreement import compared, key

SIZES = [{"K": k} for k in range(6)]


def program(seed: int) -> amir.Program:
    """A program, mutated in up to two places."""
    random, b = Random(seed), Builder()
    flags(random, b)
    made = b.program(random.choice((Policy.PTX, Policy.PAPER)))
    for _ in range(random.choice((0, 0, 1, 2))):
        made = mutate(random, made)
    return made


def word(seed: int) -> str:
    """The verdict on a program, held against the machines at all small sizes."""
    made = program(seed)
    found = answer(made)
    wrong = []
    for sizes in SIZES:
        violations = literal.run(made, sizes, collect=True)
        quick = fast.run(made, sizes, collect=True).violations
        assert {key(v) for v in quick} == {key(v) for v in violations}, (seed, sizes)
        first = literal.run(made, sizes)
        assert fast.run(made, sizes).violations == first, (seed, sizes)
        if sizes["K"] > 0:
            assert compared(made, found.findings, sizes).agree, (seed, sizes)
        if violations:
            wrong.append(sizes)
    if found.proof is not None:
        assert not [sizes for sizes in wrong if sizes["K"]], (seed, wrong)
        return "proved"
    if found.refutation is not None:
        assert literal.run(made, found.refutation.sizes), seed
        return "refuted"
    return "undecided"


@pytest.mark.parametrize("seed", range(15))
def test_verdicts_agree_with_the_machines(seed: int) -> None:
    word(seed)


@pytest.mark.slow
def test_most_are_decided() -> None:
    words = [word(seed) for seed in range(15, 30)]
    assert {"proved", "refuted"} <= set(words)
    assert words.count("undecided") < 5
