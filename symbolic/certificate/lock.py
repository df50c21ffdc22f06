"""The lock of a folder of proofs: what was proved of each procedure, in digests.

A lock says of each procedure under which policy it was proved, from how many obligations, of which
program and with which witness.  Types of data, memories and instructions are no part of that
program; they are of the procedure, which is digested too.  Both are without the places of their
statements: a comment in a kernel changes the digest of its source and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from exogpu.amir.nodes import Program
from exogpu.ir.digest import digest as procedure_digest
from exogpu.ir.nodes import Proc
from exogpu.result.proof import Obligation
from exogpu.result.verdict import Verdict
from exogpu.solvers.smt import Reply
from exogpu.symbolic.certificate.sealing import Json, json_text, sha256
from exogpu.symbolic.certificate.strict_json import json_value
from exogpu.symbolic.certificate.witness_json import witness_of
from exogpu.symbolic.certificate.write import program_json
from exogpu.symbolic.encode.links import told
from exogpu.symbolic.encode.obligations import check_sizes, drafts
from exogpu.symbolic.placed import Placed

LOCK = "proofs.lock"
PLACE = ("file", "line", "column")


def entry(proc: Proc, program: Program, verdict: Verdict, source: Path) -> dict[str, Json]:
    """Makes the entry of a lock for one procedure. Asked of a verdict with a proof."""
    proof = verdict.proof
    assert proof is not None and proof.complete
    return {
        "policy": verdict.policy.value,
        "obligations": len(proof.answered),
        "source": sha256(source.read_bytes()),
        "procedure": procedure_digest(proc, places=False),
        "program": digest(program),
        "witness": sha256(proof.witness),
    }


def digest(program: Program) -> str:
    """The SHA-256 of a program's JSON without the places of its statements."""
    return sha256(json_text(_unplaced(program_json(program))))


def _unplaced(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _unplaced(one) for name, one in value.items() if name not in PLACE}
    if isinstance(value, list):
        return [_unplaced(one) for one in value]
    return value


def obligations(program: Program, witness: bytes) -> tuple[Obligation, ...]:
    """The obligations of a program, encoded with a witness that was written down.

    Raises MalformedError, WitnessError and UndecidedError.
    """
    placed, read = Placed(program), witness_of(json_value(witness))
    check_sizes(placed, read.sizes)
    return told(placed, drafts(placed, read))


def unconfirmed(
    made: Sequence[Obligation], ask: Callable[[Sequence[str]], Sequence[Reply]]
) -> Iterator[str]:
    """The claims that a solver, asked of all scripts, does not confirm."""
    asked = [one for one in made if one.smt]
    for one, reply in zip(asked, ask([one.smt for one in asked]), strict=True):
        if reply.word != "unsat":
            yield one.claim
