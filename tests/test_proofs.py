"""The committed proofs are those of the kernels as they are, and a solver confirms each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from exogpu.api import Procedure
from exogpu.cli.loader import load
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.digest import digest as procedure_digest
from exogpu.solvers import smt
from exogpu.symbolic.certificate import write
from exogpu.symbolic.certificate.recheck import recheck, solvers
from exogpu.symbolic.certificate.strict_json import WITNESS, sha256

PROOFS = Path(__file__).parent.parent / "proofs"
UPDATE = "`make proofs` makes them again"
LOCKED = json.loads((PROOFS / write.LOCK).read_text())["proofs"]


@cache
def kernels() -> Mapping[str, Procedure]:
    """Loads the shipped kernels: seconds, which collecting the tests does not need."""
    units = load("exogpu.kernels")
    return {unit.name: unit.procedure for unit in units if unit.procedure is not None}


def test_every_shipped_kernel_has_a_proof_and_no_other() -> None:
    folders = {path.name for path in PROOFS.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert set(LOCKED) == folders == set(kernels()), UPDATE


@pytest.mark.parametrize("name", LOCKED)
def test_the_proof_is_that_of_the_kernel(name: str) -> None:
    """The program as it is now, and the committed witness."""
    locked, program = LOCKED[name], kernels()[name].amir(Policy(LOCKED[name]["policy"]))
    assert locked["procedure"] == procedure_digest(kernels()[name].ir, places=False), UPDATE
    assert locked["program"] == write.digest(program), UPDATE
    assert locked["witness"] == sha256((PROOFS / name / WITNESS).read_bytes()), UPDATE


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCKED)
def test_a_solver_confirms_what_the_witness_obliges_to(name: str) -> None:
    locked, program = LOCKED[name], kernels()[name].amir(Policy(LOCKED[name]["policy"]))
    obligations = write.obligations(program, (PROOFS / name / WITNESS).read_bytes())
    assert len(obligations) == locked["obligations"], UPDATE
    assert not list(write.unconfirmed(obligations, smt.ask_together))


def test_the_example_is_a_certificate() -> None:
    (example,) = PROOFS.glob("*/certificate.json")
    found = recheck(example.parent, solvers("all"))
    assert not found.flaws, found.flaws[0]


COPY = """from exogpu import *

FACTOR = 2.0

@proc
def copy(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = FACTOR * x[m, t]
"""


def entry(folder: Path, text: str) -> dict[str, object]:
    """What a lock says of a text's procedure."""
    (file := folder / "copy.py").write_text(text)
    (procedure,) = [unit.procedure for unit in load(str(file))]
    return write.entry(procedure.ir, procedure.amir(), procedure.check(), file)


def test_a_comment_changes_no_digest_but_the_source_s(tmp_path: Path) -> None:
    one = entry(tmp_path, COPY)
    other = entry(tmp_path, COPY.replace("@proc", "# A copy.\n@proc"))
    assert {key for key in one if one[key] != other[key]} == {"source"}


@pytest.mark.parametrize(("old", "new"), [("y: f32", "y: f64"), ("= 2.0", "= 3.0")])
def test_what_the_abstract_machine_does_not_see_is_locked(
    tmp_path: Path, old: str, new: str
) -> None:
    """A type of data, and a constant whose name alone stands in the statement."""
    one, other = entry(tmp_path, COPY), entry(tmp_path, COPY.replace(old, new))
    assert {key for key in one if one[key] != other[key]} == {"source", "procedure"}
