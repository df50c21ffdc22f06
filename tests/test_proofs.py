"""The lock is of the kernels as they are, and the exemplars are certificates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import metadata
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
LOCK = json.loads((PROOFS / write.LOCK).read_text())
LOCKED, VERSIONS = LOCK["proofs"], LOCK["versions"]
EXEMPLARS = sorted(file.parent for file in PROOFS.glob("*/certificate.json"))


@cache
def kernels() -> Mapping[str, Procedure]:
    """Loads the shipped kernels: seconds, which collecting the tests does not need."""
    units = load("exogpu.kernels")
    return {unit.name: unit.procedure for unit in units if unit.procedure is not None}


def test_the_lock_has_every_shipped_kernel_and_no_other() -> None:
    assert set(LOCKED) == set(kernels()), UPDATE


@pytest.mark.parametrize("name", LOCKED)
def test_the_lock_is_of_the_kernel_as_it_is(name: str) -> None:
    locked, program = LOCKED[name], kernels()[name].amir(Policy(LOCKED[name]["policy"]))
    assert locked["procedure"] == procedure_digest(kernels()[name].ir, places=False), UPDATE
    assert locked["program"] == write.digest(program), UPDATE


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCKED)
def test_the_kernel_is_proved_again_and_its_certificate_confirmed(
    name: str, tmp_path: Path
) -> None:
    """Continuous integration proves a share of the kernels, `make test-long` the rest.  Other
    versions of the solvers may find another witness."""
    verdict = kernels()[name].check(policy=Policy(LOCKED[name]["policy"]))
    proof = verdict.proof
    assert proof is not None and proof.complete
    write.write_certificate(tmp_path, kernels()[name], verdict)
    assert not recheck(tmp_path, solvers("z3")).flaws
    if VERSIONS["z3"] == smt.z3_version() and VERSIONS["islpy"] == metadata.version("islpy"):
        assert LOCKED[name]["witness"] == sha256(proof.witness), UPDATE
        assert LOCKED[name]["obligations"] == len(proof.answered), UPDATE


@pytest.mark.parametrize("folder", EXEMPLARS, ids=lambda folder: folder.name)
def test_an_exemplar_is_a_certificate_that_the_lock_has(folder: Path) -> None:
    flaws = recheck(folder, solvers("z3")).flaws
    assert not flaws, flaws[0]
    assert LOCKED[folder.name]["witness"] == sha256((folder / WITNESS).read_bytes()), UPDATE


def test_a_second_solver_confirms_an_exemplar() -> None:
    flaws = recheck(PROOFS / "gemm_sm90_2x1_128x256", solvers("all")).flaws
    assert not flaws, flaws[0]


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
