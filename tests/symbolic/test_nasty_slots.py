"""Kernels written by mistake around slots and resident memory: no verdict but the machine's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from exogpu.cli.loader import load
from exogpu.machine import fast, literal
from exogpu.machine.concrete_program import CHOICES, assign_tasks, at_random
from exogpu.pipeline.check import answer
from tests.symbolic.nasty_slots import KERNELS

pytestmark = pytest.mark.slow

SIZES = [{"M": m, "K": k} for m, k in ((2, 1), (3, 2))]


@pytest.mark.parametrize("name", KERNELS)
def test_the_verdict_is_the_machines(name: str, tmp_path: Path) -> None:
    nasty = KERNELS[name]
    path = tmp_path / "nasty.py"
    path.write_text(nasty.text())
    (unit,) = load(str(path))
    assert unit.procedure is not None
    if isinstance(nasty.right, str):
        assert {d.code for d in unit.procedure.diagnostics} == {nasty.right}
        return
    program = unit.procedure.amir()
    found = answer(program)
    choices = (CHOICES[0], CHOICES[2], at_random(1)) if found.proof is not None else CHOICES[:1]
    wrong = False
    for sizes in SIZES:
        for choice in choices:
            one = assign_tasks(program, sizes, choice)
            violations = literal.run(one, sizes)
            assert fast.run(one, sizes).violations == violations
            wrong |= bool(violations)
    if found.refutation is not None:
        assert literal.run(program, found.refutation.sizes)
    assert (found.proof is not None) == bool(nasty.right), found.reason
    if nasty.right is not None:
        assert wrong == (not nasty.right)


def test_a_statement_with_two_slots_runs_in_those_alone(tmp_path: Path) -> None:
    """The relay writes one slot of its ring in a step, and the others stay as they were."""
    path = tmp_path / "nasty.py"
    text = KERNELS["a relay"].text()
    text = text.replace("cuda_tasks(0, M)", "cuda_tasks(0, 1)")  # Slots are then of one task.
    path.write_text(text.replace("= more[slot(empty2), t]", "= more[(k + 1) % 3, t]"))
    (unit,) = load(str(path))
    assert unit.procedure is not None
    x = np.ones((1, 1, 32), np.float32)
    y, z = np.zeros_like(x), np.zeros((1, 32), np.float32)
    unit.procedure.run(M=1, K=1, x=x, y=y, z=z)
    assert np.isnan(y).all()
