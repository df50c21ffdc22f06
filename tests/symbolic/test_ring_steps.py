"""Rings that are taken out of their tasks: of how many steps, with what certificate, and that what
is done in some steps alone is not taken for done in all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.attention_runs_on import causal_attention, sequence_attention
from exogpu.amir.nodes import Guard, Loop, Op
from exogpu.api import Procedure
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables
from exogpu.machine import literal
from exogpu.pipeline.check import answer
from exogpu.symbolic.certificate.recheck import recheck, solvers
from exogpu.symbolic.certificate.write import write_certificate
from exogpu.symbolic.model import Placed
from exogpu.symbolic.ring_steps import _Taking
from exogpu.symbolic.search.ring_sizes import step_counts
from tests.forging import CERTIFICATE, Content, change, problems
from tests.symbolic.slot_files import CASES, procedures

KERNELS = procedures(CASES / "unequal.py")


def test_steps_are_those_of_all_tasks() -> None:
    placed = Placed(KERNELS["by_task"].amir())
    (residence,) = placed.by_position.residences
    assert residence.ring is not None
    assert step_counts(placed, {"M": 4})[residence.count.name] == 1 + 2 + 3 + 4


def test_a_ring_of_tasks_and_one_of_their_steps_are_two() -> None:
    placed = Placed(KERNELS["by_memory"].amir())
    counts = [
        step_counts(placed, {"M": 3, "K": 5})[one.count.name]
        for one in placed.by_position.residences
    ]
    assert sorted(counts) == [3, 15]


@pytest.mark.parametrize("name", ["too_early", "without_arrivals"])
def test_a_refutation_is_at_the_smallest_sizes(name: str) -> None:
    program = KERNELS[name].amir()
    found = answer(program)
    assert found.refutation is not None and not found.doubt
    size = found.refutation.sizes["M"]
    assert literal.run(program, {"M": size})
    assert not any(literal.run(program, {"M": smaller}) for smaller in range(1, size))


def read(op: Loop | Guard) -> frozenset[Sym]:
    """The iterators that tell how often the body is executed."""
    if isinstance(op, Guard):
        return control_variables(op.condition)
    return control_variables(op.lo) | control_variables(op.hi)


@pytest.mark.parametrize("name", ["sometimes_fenced", "fenced_in_a_loop"])
def test_a_condition_that_is_forgotten_does_not_hold(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were it dropped, so that what it guards is done in each step, a race would be proved."""
    program = KERNELS[name].amir()
    assert answer(program).proof is None

    original = _Taking.loop if name == "fenced_in_a_loop" else _Taking.guard

    def done(taking: _Taking, op: Any, forgotten: frozenset[Sym]) -> Iterator[Op]:
        if read(op) & forgotten:
            return taking.block(op.body, forgotten)
        return original(taking, op, forgotten)

    monkeypatch.setattr(_Taking, original.__name__, done)
    assert answer(program).proof is not None


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rings") / "causal"
    verdict = causal_attention.check()
    assert verdict.word == "proved", verdict.reason
    write_certificate(folder, causal_attention, verdict)
    return folder


def test_attention_has_a_certificate(written: Path) -> None:
    """Its commit groups are there once for each ring, and once for the tasks."""
    assert recheck(written, solvers("z3")).word == "confirmed"


def test_more_than_commit_groups_is_not_counted_again(written: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(written, tmp_path / "causal"))

    def twice(certificate: Content) -> None:
        listed = certificate["obligations"]
        one = next(o for o in listed if o["kind"] == "COUNT" and "K_full" in o["second"]["text"])
        listed.append({**one, "name": "again"})

    change(folder, CERTIFICATE, twice)
    assert "no obligation of the program: COUNT" in problems(folder)


@pytest.mark.parametrize("kernel", [causal_attention, sequence_attention])
def test_emitted_code_counts_slots(kernel: Procedure) -> None:
    emitted, _ = kernel.emit(unchecked=True)
    assert "K_full_slot = (K_full_slot + 1) & 1;" in emitted.source
