"""What a ring by slots computes is the same whichever cluster executes a task (decision
`private-slot`).

A cluster that executes a task alone begins it with other slots than one that executes all.  Of
what is accepted the results are equal; of what is refused some are not, so that this would tell.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from exogpu.api import Procedure
from exogpu.interpreter import elementwise
from tests.symbolic.slot_files import CASES, alone, procedures

ROOT = Path(__file__).parent.parent
COUNTED = ROOT / "cases" / "certificates" / "counted.py"


def results(procedure: Procedure, M: int, K: int, one_by_one: bool) -> np.ndarray:
    assert procedure.ir is not None
    x = np.random.default_rng(0).random((M, K, 32), np.float32)
    y = np.zeros_like(x)
    several = alone(procedure.ir, M) if one_by_one else [procedure.ir]
    for proc in several:
        elementwise.run(proc, {"M": M, "K": K, "x": x, "y": y})
    return y


SIZES = [(1, 2), (3, 2), (4, 5), (2, 3)]
RIGHT = {
    "counted": COUNTED,
    "as_it_should_be": CASES / "rings.py",
    "counted_by_a_third": CASES / "rings.py",
}
WRONG = {
    "by_steps": CASES / "rings.py",
    "other_depth": CASES / "rings.py",
    "once_in_a_task": CASES / "rings.py",
}


def differ(procedure: Procedure) -> bool:
    """Whether some results depend on who executes a task."""
    return not all(
        np.array_equal(
            results(procedure, *size, False), results(procedure, *size, True), equal_nan=True
        )
        for size in SIZES
    )


@pytest.mark.parametrize("name", RIGHT)
def test_results_are_the_same_on_every_cluster(name: str) -> None:
    procedure = procedures(RIGHT[name])[name]
    assert procedure.check().word == "proved"
    assert not differ(procedure)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused_depends_on_the_cluster(name: str) -> None:
    procedure = procedures(WRONG[name])[name]
    assert procedure.check().word == "error"
    assert differ(procedure)
