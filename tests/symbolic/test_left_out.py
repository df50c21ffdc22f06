"""Tasks that are left out where memory resides: proved for every choice of tasks and all contents,
wrong ones refuted; and no verdict on generated programs but the machines'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from exogpu.amir.nodes import Block, Guard, Loop, Program
from exogpu.cli.loader import load
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.nodes import BExpr
from exogpu.machine import fast, literal
from exogpu.machine.concrete_program import CHOICES, Choice, assign_tasks, at_random
from exogpu.machine.index_contents import Contents, loads, sample_contents, with_contents
from exogpu.machine.observer import Violation
from exogpu.pipeline.check import Answer, answer
from exogpu.symbolic import tasks_by_position
from tests.machine.shapes.left_out import left_out
from tests.symbolic.leaving_out import (
    ALLOCATED,
    AT_ONE_PLACE,
    DEPENDS,
    EMPTY,
    LOADED_INSIDE,
    NOT_PROVED,
    OF_SIZES,
    RIGHT,
    UNDECIDED,
    UNDER_BOTH,
    WRONG,
    Expected,
    LeavingOut,
)

Sizes = Mapping[str, int]

EVERY: Sequence[Choice] = (*CHOICES, at_random(1))


def program_of(kernel: LeavingOut, tmp_path: Path) -> Program:
    path = tmp_path / "left_out.py"
    path.write_text(kernel.text())
    (unit,) = load(str(path))
    assert unit.procedure is not None
    return unit.procedure.amir()


def violations(
    program: Program, sizes: Sizes, choices: Sequence[Choice], most: int
) -> Iterator[tuple[Violation, ...]]:
    """The literal machine's at these sizes, for choices and some contents; the fast one's are
    these."""
    every: list[Contents | None] = list(islice(sample_contents(program, sizes), most)) or [None]
    for choice in choices:
        one = assign_tasks(program, sizes, choice)
        for contents in every:
            here = one if contents is None else with_contents(one, sizes, contents)
            found = literal.run(here, sizes)
            assert fast.run(here, sizes).violations == found
            yield found


def shared(program: Program, found: Answer) -> bool:
    """Whether the literal machine finds a violation where it is refuted."""
    assert found.refutation is not None
    contents = dict(found.refutation.violation.contents) if loads(program) else None
    return bool(literal.run(program, found.refutation.sizes, contents=contents))


# --- kernels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RIGHT)
def test_proved_for_all_sizes_choices_and_contents(name: str, tmp_path: Path) -> None:
    program = program_of(RIGHT[name], tmp_path)
    found = answer(program)
    assert found.proof is not None, found.reason
    assert not any(violations(program, {"M": 3, "K": 2}, EVERY[:2], 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_machines_agree_whatever_the_choice(name: str, tmp_path: Path) -> None:
    program = program_of(RIGHT[name], tmp_path)
    for sizes in ({"M": 2, "K": 1}, {"M": 3, "K": 2}, {"M": 4, "K": 3}):
        assert not any(violations(program, sizes, EVERY, 6))


@pytest.mark.parametrize("name", WRONG)
def test_refuted_with_its_tasks(name: str, tmp_path: Path) -> None:
    kernel, expected = WRONG[name]
    program = program_of(kernel, tmp_path)
    found = answer(program)
    assert found.refutation is not None, found.reason
    violation = found.refutation.violation
    at: Expected = (
        violation.kind.value,
        violation.variable,
        violation.task,
        violation.record_task,
    )
    assert at == expected
    assert shared(program, found)


@pytest.mark.parametrize("name", UNDECIDED)
def test_undecided_where_not_all_of_a_task_is_left_out(name: str, tmp_path: Path) -> None:
    kernel, right = UNDECIDED[name]
    program = program_of(kernel, tmp_path)
    found = answer(program)
    assert found.proof is None and found.refutation is None
    assert DEPENDS in found.reason
    assert right == (not any(violations(program, {"M": 4, "K": 3}, CHOICES[:1], 4)))


@pytest.mark.parametrize("name", NOT_PROVED)
def test_how_many_are_left_is_not_known(name: str, tmp_path: Path) -> None:
    """What is right is not proved; what is wrong is refuted, with as many tasks as it takes."""
    kernel, right = NOT_PROVED[name]
    program = program_of(kernel, tmp_path)
    found = answer(program)
    assert found.proof is None
    assert (found.refutation is None) == right
    assert right == (not any(violations(program, {"M": 4, "K": 2}, CHOICES[:1], 1)))


# --- what loses nothing ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", EMPTY)
def test_a_task_that_does_nothing(name: str, tmp_path: Path) -> None:
    assert answer(program_of(EMPTY[name], tmp_path)).proof is not None


@pytest.mark.parametrize("name", LOADED_INSIDE)
def test_what_is_at_one_place_is_loaded_under_a_condition(name: str, tmp_path: Path) -> None:
    program = program_of(LOADED_INSIDE[name], tmp_path)
    assert answer(program).proof is not None
    assert not any(violations(program, {"M": 3, "K": 2}, EVERY[:2], 4))


@pytest.mark.parametrize("name", OF_SIZES)
def test_a_condition_on_sizes_is_kept(name: str, tmp_path: Path) -> None:
    program = program_of(OF_SIZES[name], tmp_path)
    found = answer(program)
    assert found.proof is not None, found.reason
    assert not any(violations(program, {"M": 3, "K": 2}, EVERY[:2], 1))


def test_an_array_of_the_host_is_as_one_of_the_caller(tmp_path: Path) -> None:
    program = program_of(ALLOCATED, tmp_path)
    found = answer(program)
    assert found.proof is not None, found.reason
    assert not any(violations(program, {"M": 3, "K": 2}, EVERY[:2], 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_ONE_PLACE)
def test_a_condition_on_what_is_at_one_place_is_not_kept(name: str, tmp_path: Path) -> None:
    program = program_of(AT_ONE_PLACE[name], tmp_path)
    found = answer(program)
    assert found.proof is not None, found.reason
    assert not any(violations(program, {"M": 3, "K": 2}, EVERY[:2], 4))


def test_what_the_task_tells_is_allocated_under_conditions(tmp_path: Path) -> None:
    program = program_of(UNDER_BOTH, tmp_path)
    found = answer(program)
    assert found.proof is not None, found.reason
    assert not any(violations(program, {"M": 3, "K": 2}, EVERY[:2], 1))


# --- mistakes -------------------------------------------------------------------------------------


def without_what_is_before(self: object, op: object) -> bool:
    return True


def without_what_is_after(self: object, block: Block) -> Iterator[BExpr]:
    for op in block:
        if isinstance(op, Guard):
            yield op.condition
        if isinstance(op, Guard) or (isinstance(op, Loop) and op.source is not None):
            yield from without_what_is_after(self, op.body)
            return


@pytest.mark.parametrize(
    ("method", "mistake", "name"),
    [
        ("beside_all", without_what_is_before, "all tasks produce"),
        ("task_conditions", without_what_is_after, "all tasks consume"),
    ],
)
def test_mistakes_are_seen(
    method: str, mistake: object, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where something beside the condition is overlooked, a wrong kernel is proved."""
    kernel, right = UNDECIDED[name]
    assert not right
    monkeypatch.setattr(tasks_by_position._Positions, method, mistake)
    assert answer(program_of(kernel, tmp_path)).proof is not None


# --- generated programs ---------------------------------------------------------------------------

SIZES = [{"I": i, "K": k} for i in (1, 2, 3, 4) for k in (1, 2, 3)]


def generated(seed: int) -> Program:
    random = Random(seed)
    return left_out(random, random.choice((Policy.PTX, Policy.PAPER)))


def word(seed: int) -> str:
    """The verdict on a program, held against the machines at small sizes, in choices of tasks for
    clusters, and with contents."""
    program = generated(seed)
    found = answer(program)
    proved = found.proof is not None
    choices, most = ((*EVERY, at_random(seed)), 6) if proved else (CHOICES[:1], 2)
    for sizes in SIZES if proved else SIZES[4:6]:
        wrong = any(violations(program, sizes, choices, most))
        assert not (proved and wrong), (seed, sizes)
    if found.refutation is not None:
        assert shared(program, found), seed
        return "refuted"
    return "proved" if proved else "undecided"


@pytest.mark.parametrize("seed", range(3))
def test_verdicts_agree_with_the_machines(seed: int) -> None:
    word(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_more_verdicts_agree_with_the_machines(seed: int) -> None:
    word(seed)


@pytest.mark.slow
def test_most_are_decided() -> None:
    words = [word(seed) for seed in range(24)]
    assert {"proved", "refuted"} <= set(words)
    assert words.count("undecided") < 12
