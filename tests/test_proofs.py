"""The committed proofs are those of the kernels as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exogpu.cli.loader import load
from exogpu.ir.types import Policy
from exogpu.symbolic.certificate.recheck import recheck, solvers
from exogpu.symbolic.certificate.write import program_digest

PROOFS = Path(__file__).parent.parent / "proofs"
UPDATE = "`exogpu report --all -o proofs` makes them again"
KERNELS = {unit.name: unit.procedure for unit in load("exogpu.kernels")}


def test_every_shipped_kernel_has_a_proof_and_no_other() -> None:
    assert {folder.name for folder in PROOFS.iterdir() if folder.is_dir()} == set(KERNELS), UPDATE


@pytest.mark.parametrize("name", KERNELS)
def test_the_proof_is_that_of_the_kernel(name: str) -> None:
    stated = json.loads((PROOFS / name / "certificate.json").read_text())
    assert stated["policy"] == Policy.PTX.value
    assert stated["program"]["sha256"] == program_digest(KERNELS[name], Policy.PTX), UPDATE


@pytest.mark.parametrize("name", KERNELS)
def test_a_solver_confirms_the_committed_files(name: str) -> None:
    found = recheck(PROOFS / name, solvers("z3"))
    assert not found.flaws, found.flaws[0]
