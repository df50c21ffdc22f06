"""Generated programs with slots: no verdict that the literal machine does not share."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from exogpu.amir.nodes import Loop
from exogpu.diagnostics.verdict import Policy
from exogpu.machine import fast, literal
from exogpu.machine.concrete_program import CHOICES, assign_tasks, dealt
from exogpu.pipeline.check import answer
from exogpu.symbolic.search.analysis import analyse
from tests.machine.build import Builder
from tests.machine.shapes.slots import slots
from tests.symbolic import agreement

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
            one = assign_tasks(program, sizes, choice)
            violations = literal.run(one, sizes)
            assert fast.run(one, sizes).violations == violations, (seed, sizes)
            looped = dealt(program, sizes, choice)
            assert bool(fast.run(looped, sizes).violations) == bool(violations), (seed, sizes)
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


@pytest.mark.parametrize(
    "seed",
    [
        # A slot clears what is known to be its own alone: not that of any count.
        12,
        # `full` is arrived on twice as often as `empty`: what came before an iteration differs.
        121,
        994,
    ],
)
def test_nothing_that_the_machine_finds_is_missed(seed: int) -> None:
    program = agreement.admitting_zero(agreement.generated("slots", seed))
    findings = agreement.check(program, SIZES)
    assert not findings.undecided
    assert agreement.machine_set(program, {"I": 2, "K": 1})


def test_what_resides_and_serves_no_tasks_is_undecided() -> None:
    program = agreement.generated("slots", 121)
    (nest,) = [op for op in program.body if isinstance(op, Loop)]
    findings = analyse(replace(program, body=tuple(op for op in program.body if op is not nest)))
    (undecided,) = findings.undecided
    assert undecided.reason == "what resides serves other than one nest of cuda_tasks loops"
