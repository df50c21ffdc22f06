"""One compilation of a program that loads values serves all contents of its arrays, and what is
learnt with some is used with others: the violations are those of the literal machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TypeAlias

import pytest

from exogpu.amir.nodes import Program
from exogpu.diagnostics.verdict import Policy
from exogpu.machine import fast, index_contents, literal
from exogpu.machine.concrete_program import CHOICES, assign_tasks
from exogpu.machine.index_contents import sample_contents, with_contents
from exogpu.machine.observer import Violation
from exogpu.machine.required_conditions import slots_of
from tests.machine.shapes.left_out import left_out
from tests.machine.shapes.loads import loads

Shape: TypeAlias = Callable[[Random, Policy], Program]

SEEDS = 24


def key(violation: Violation) -> tuple[object, ...]:
    return (violation.kind, violation.variable, violation.index, violation.iteration)


def is_safe(program: Program, sizes: Mapping[str, int]) -> bool:
    """Tests whether the program is safe with all contents, by both machines and separate runs."""
    together = fast.run(program, sizes)
    operations, first = list[int](), tuple[Violation, ...]()
    for contents in sample_contents(program, sizes) if index_contents.loads(program) else [{}]:
        one = fast.run(with_contents(program, sizes, contents), sizes)
        operations.append(one.operations)
        first = one.violations
        if first:
            break
    assert list(map(key, together.violations)) == list(map(key, first))
    assert list(map(key, first)) == list(map(key, literal.run(program, sizes)))
    if not slots_of(program):  # else tasks may be written out, which makes more operations
        assert together.operations == sum(operations)
    return not first


@pytest.mark.parametrize("shape", [loads, left_out])
def test_learnt_with_some_contents_and_used_with_others(shape: Shape) -> None:
    words = set[bool]()
    for seed in range(SEEDS):
        random = Random(seed)
        program = shape(random, Policy.PTX)
        sizes = {parameter.name.name: random.randint(1, 3) for parameter in program.params}
        words.add(is_safe(assign_tasks(program, sizes, random.choice(CHOICES)), sizes))
    assert words == {True, False}


@pytest.mark.parametrize("shape", [loads, left_out])
def test_contents_are_not_written_into_a_safe_program(
    shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Program:
        raise AssertionError("a program was made for some contents")

    monkeypatch.setattr(fast, "with_contents", refuse)
    for seed in range(SEEDS):
        random = Random(seed)
        program = shape(random, Policy.PTX)
        sizes = {parameter.name.name: random.randint(1, 3) for parameter in program.params}
        if not literal.run(program, sizes):
            assert fast.run(program, sizes).violations == ()
