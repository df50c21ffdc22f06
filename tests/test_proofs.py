"""The committed proofs are those of the kernels as they are, and a solver confirms each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exogpu.cli.loader import load
from exogpu.ir.types import Policy
from exogpu.solvers import smt
from exogpu.symbolic.certificate import lock
from exogpu.symbolic.certificate.recheck import recheck, solvers
from exogpu.symbolic.certificate.sealing import WITNESS, sha256

PROOFS = Path(__file__).parent.parent / "proofs"
UPDATE = "`make proofs` makes them again"
LOCKED = json.loads((PROOFS / lock.LOCK).read_text())["proofs"]
KERNELS = {unit.name: unit.procedure for unit in load("exogpu.kernels")}


def test_every_shipped_kernel_has_a_proof_and_no_other() -> None:
    folders = {path.name for path in PROOFS.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert set(LOCKED) == folders == set(KERNELS), UPDATE


@pytest.mark.parametrize("name", KERNELS)
def test_the_proof_is_that_of_the_kernel(name: str) -> None:
    """The program as it is now, with the committed witness, obliges to what a solver confirms."""
    locked, program = LOCKED[name], KERNELS[name].amir(Policy(LOCKED[name]["policy"]))
    witness = (PROOFS / name / WITNESS).read_bytes()
    assert locked["program"] == lock.digest(program), UPDATE
    assert locked["witness"] == sha256(witness), UPDATE
    obligations = lock.obligations(program, witness)
    assert len(obligations) == locked["obligations"], UPDATE
    assert not list(lock.unconfirmed(obligations, smt.ask_z3))


def test_the_example_is_a_certificate() -> None:
    (example,) = PROOFS.glob("*/certificate.json")
    found = recheck(example.parent, solvers("all"))
    assert not found.flaws, found.flaws[0]


def test_a_comment_changes_no_digest_but_the_source_s(tmp_path: Path) -> None:
    source = """from exogpu import *

@proc
def copy(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = x[m, t]
"""
    entries = []
    for name, text in (("a", source), ("b", source.replace("@proc", "# A copy.\n@proc"))):
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        ((procedure,), path) = ([unit.procedure for unit in load(str(file))], file)
        verdict = procedure.check()
        entries.append(lock.entry(procedure.amir(), verdict, path))
    one, other = entries
    assert {key for key in one if one[key] != other[key]} == {"source"}
