"""Generated programs with values from memory: no verdict that the literal machine does not share,
whatever the contents."""

from __future__ import annotations

from random import Random

import pytest

from exogpu.amir.nodes import Program
from exogpu.diagnostics.verdict import Policy
from exogpu.machine import fast, literal
from exogpu.machine.index_contents import sample_contents, with_contents
from exogpu.pipeline.check import answer
from tests.machine.shapes.loads import loads

SIZES = [{"G": g, "K": k} for g in (1, 2, 3) for k in (1, 2, 3)]


def generated(seed: int) -> Program:
    random = Random(seed)
    return loads(random, random.choice((Policy.PTX, Policy.PAPER)))


def word(seed: int) -> str:
    """The verdict on a program, held against the machines at all small sizes and contents."""
    program = generated(seed)
    found = answer(program)
    wrong = []
    for sizes in SIZES:
        for contents in sample_contents(program, sizes):
            violations = literal.run(program, sizes, contents=contents)
            here = with_contents(program, sizes, contents)
            assert fast.run(here, sizes).violations == literal.run(here, sizes), (seed, sizes)
            told = [(v.kind, v.index, v.iteration) for v in violations]
            assert told == [(v.kind, v.index, v.iteration) for v in literal.run(here, sizes)]
            if violations:
                wrong.append((sizes, contents))
    if found.proof is not None:
        assert not wrong, (seed, wrong)
        return "proved"
    if found.refutation is not None:
        at, violation = found.refutation.sizes, found.refutation.violation
        assert literal.run(program, at, contents=dict(violation.contents)), seed
        return "refuted"
    return "undecided"


@pytest.mark.parametrize("seed", range(10))
def test_verdicts_agree_with_the_machines(seed: int) -> None:
    word(seed)


@pytest.mark.slow
def test_most_are_decided() -> None:
    words = [word(seed) for seed in range(10, 20)]
    assert {"proved", "refuted"} <= set(words)
    assert words.count("undecided") < 3
