"""Certificates: a proof as files that other people's solvers can answer again.

Equal sources, proved by equal versions, give equal bytes: there is no time, no timing and no path
of the machine in them.  The format is described in docs/proof.md, and checked by
`exogpu.symbolic.certificate.recheck`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path, PurePath
from typing import Protocol, TypeAlias
from weakref import WeakKeyDictionary

from exogpu.amir.export import to_json
from exogpu.amir.nodes import Program
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import Occurrence
from exogpu.diagnostics.verdict import Answered, Obligation, Policy, Verdict
from exogpu.ir.digest import digest as procedure_digest
from exogpu.ir.nodes import Proc
from exogpu.solvers.smt import Reply, z3_version
from exogpu.symbolic.certificate import strict_json
from exogpu.symbolic.certificate.witness_json import witness_of
from exogpu.symbolic.encode.chain_text import named_obligations
from exogpu.symbolic.encode.obligations import check_sizes, drafts
from exogpu.symbolic.model import Placed


class Certified(Protocol):
    """The parts of a procedure that a certificate reads."""

    name: str
    ir: Proc | None

    def amir(self, policy: Policy = ...) -> Program:
        """The abstract machine program."""


def certificate_digest(procedure: Certified, verdict: Verdict) -> str:
    """The SHA-256 that stands for the whole certificate, in hexadecimal.

    Asked of a verdict with a proof.
    """
    digest = _files(procedure, verdict)[0]["digest"]
    assert isinstance(digest, str)
    return digest


def program_digest(procedure: Certified, policy: Policy) -> str:
    """The SHA-256 of the program that a certificate is about, whatever tools made it."""
    return strict_json.sha256(strict_json.json_text(program_json(procedure.amir(policy))))


def write_certificate(folder: Path, procedure: Certified, verdict: Verdict) -> str:
    """Writes `certificate.json`, `program.json` and `witness.json`; the digest of it all.

    Other files of the folder stay.  An older certificate is replaced as a whole: what is written
    lies in a folder beside it until it is complete, and `certificate.json` goes first and comes
    last.  Asked of a verdict with a proof.  Raises OSError.
    """
    certificate, program, witness = _files(procedure, verdict)
    folder.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".certificate-", dir=folder))
    try:
        _write(made / strict_json.CERTIFICATE, strict_json.json_text(certificate))
        _write(made / strict_json.PROGRAM, program)
        _write(made / strict_json.WITNESS, witness)
        (folder / strict_json.CERTIFICATE).unlink(missing_ok=True)
        for part in (strict_json.PROGRAM, strict_json.WITNESS, strict_json.CERTIFICATE):
            (made / part).replace(folder / part)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return str(certificate["digest"])


def write_scripts(folder: Path, scripts: Iterable[tuple[str, str]]) -> None:
    """Writes what solvers are asked, by the names of obligations, as `NAME.smt2`; older scripts
    there go.  Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.smt2"):
        old.unlink()
    for name, script in scripts:
        _write(folder / f"{name}.smt2", script)


def remove_certificate(folder: Path) -> None:
    """Removes an older certificate, so that none is left of what is proved no longer.

    Other files of the folder stay; the folder goes if there are none.  Raises OSError.
    """
    if not (folder / strict_json.CERTIFICATE).is_file():
        return
    # First what a reader looks for.
    (folder / strict_json.CERTIFICATE).unlink()
    for part in (strict_json.PROGRAM, strict_json.WITNESS):
        (folder / part).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


# --- contents -----------------------------------------------------------------------------------


_Files: TypeAlias = tuple[dict[str, strict_json.Json], str, str]

_made: WeakKeyDictionary[Certified, tuple[Verdict, _Files]] = WeakKeyDictionary()
"""A procedure's last verdict: a report states the digest of the certificate that it writes."""


def _files(procedure: Certified, verdict: Verdict) -> _Files:
    """The certificate, the program, and the witness."""
    known = _made.get(procedure)
    if known is None or known[0] is not verdict:
        known = _made[procedure] = verdict, _content(procedure, verdict)
    return known[1]


def _content(procedure: Certified, verdict: Verdict) -> _Files:
    proof, proc = verdict.proof, procedure.ir
    assert proof is not None and proof.complete and proc is not None
    described = program_json(procedure.amir(verdict.policy))
    program = strict_json.json_text(described)
    content: dict[str, strict_json.Json] = {
        "format": strict_json.FORMAT,
        "version": strict_json.VERSION,
        "procedure": procedure.name,
        "source": _source(proc.span),
        "program": {"file": strict_json.PROGRAM, "sha256": strict_json.sha256(program)},
        "witness": {"file": strict_json.WITNESS, "sha256": strict_json.sha256(proof.witness)},
        "policy": verdict.policy.value,
        "preconditions": described["preconditions"],
        "assumptions": [*strict_json.ASSUMED, *verdict.assumptions],
        "trusted": [*strict_json.TRUSTED],
        "versions": {
            "exogpu": version("exogpu"),
            "z3": z3_version(),
            "islpy": version("islpy"),
        },
        "obligations": [
            {**obligation_json(one.obligation), **_answer(one)} for one in proof.answered
        ],
    }
    return strict_json.sealed(content), program, proof.witness


@cache
def version(package: str) -> str:
    """The version of an installed package, as this process found it first: it goes on with what it
    has loaded, whatever is installed meanwhile."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def _source(span: Span) -> strict_json.Json:
    """The source file's name and digest; no digest where it is no file."""
    digest = None
    with suppress(OSError):
        digest = strict_json.sha256(Path(span.file).read_bytes())
    return {"file": file_name(span.file), "line": span.line, "sha256": digest}


def program_json(program: Program) -> dict[str, strict_json.Json]:
    """The program as JSON, with the names of its files alone."""
    found = {**to_json(program)}
    body = found["body"]
    assert isinstance(body, list)
    found["body"] = [_without_folder(op) for op in body]
    return found


def _without_folder(op: strict_json.Json) -> strict_json.Json:
    assert isinstance(op, dict)
    found, file, body = {**op}, op["file"], op.get("body")
    assert isinstance(file, str)
    found["file"] = file_name(file)
    if isinstance(body, list):
        found["body"] = [_without_folder(inner) for inner in body]
    return found


def obligation_json(made: Obligation) -> dict[str, strict_json.Json]:
    """Returns an obligation as JSON, without the answer."""
    return {
        "name": made.name,
        "kind": made.kind.value,
        "first": _statement(made.first),
        "second": _statement(made.second),
        "claim": made.claim,
        "by": "solver" if made.smt else "rules",
    }


def _answer(one: Answered) -> dict[str, strict_json.Json]:
    if not one.obligation.smt:
        return {}
    return {"solver": one.solver, "answer": one.answer}


def _statement(site: Occurrence | None) -> strict_json.Json:
    if site is None:
        return None
    return {"file": file_name(site.span.file), "line": site.span.line, "text": site.text}


def file_name(path: str) -> str:
    """A file's name without its folder, as it can be printed: names may have line ends in them."""
    return strict_json.printable(PurePath(path).name)


# The lock of a folder of proofs: what was proved of each procedure, in digests.
#
# A lock says of each procedure under which policy it was proved, from how many obligations, of
# which program and with which witness. Types of data, memories and instructions are no part of
# that program; they are of the procedure, which is digested too. Both are without the places of
# their statements: a comment in a kernel changes the digest of its source and nothing else.

LOCK = "proofs.lock"
PLACE = ("file", "line", "column")


def entry(
    proc: Proc, program: Program, verdict: Verdict, source: Path
) -> dict[str, strict_json.Json]:
    """Makes the entry of a lock for one procedure. Asked of a verdict with a proof."""
    proof = verdict.proof
    assert proof is not None and proof.complete
    return {
        "policy": verdict.policy.value,
        "obligations": len(proof.answered),
        "source": strict_json.sha256(source.read_bytes()),
        "procedure": procedure_digest(proc, places=False),
        "program": digest(program),
        "witness": strict_json.sha256(proof.witness),
    }


def digest(program: Program) -> str:
    """The SHA-256 of a program's JSON without the places of its statements."""
    return strict_json.sha256(strict_json.json_text(_unplaced(program_json(program))))


def _unplaced(value: strict_json.Json) -> strict_json.Json:
    if isinstance(value, dict):
        return {name: _unplaced(one) for name, one in value.items() if name not in PLACE}
    if isinstance(value, list):
        return [_unplaced(one) for one in value]
    return value


def obligations(program: Program, witness: bytes) -> tuple[Obligation, ...]:
    """The obligations of a program, encoded with a witness that was written down.

    Raises MalformedError, WitnessError and UndecidedError.
    """
    placed, read = Placed(program), witness_of(strict_json.json_value(witness))
    check_sizes(placed, read.sizes)
    return named_obligations(placed, drafts(placed, read))


def unconfirmed(
    made: Sequence[Obligation], ask: Callable[[Sequence[str]], Sequence[Reply]]
) -> Iterator[str]:
    """The claims that a solver, asked of all scripts, does not confirm."""
    asked = [one for one in made if one.smt]
    for one, reply in zip(asked, ask([one.smt for one in asked]), strict=True):
        if reply.word != "unsat":
            yield one.claim
