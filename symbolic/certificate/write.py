"""Certificates: a proof as files that other people's solvers can answer again.

Equal sources, proved by equal versions, give equal bytes: there is no time, no timing and no path
of the machine in them.  The format is described in docs/proof.md, and checked by
`exogpu.symbolic.certificate.recheck`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path, PurePath
from typing import Protocol, TypeAlias
from weakref import WeakKeyDictionary

from exogpu.amir.export import to_json
from exogpu.amir.nodes import Program
from exogpu.ir.nodes import Proc
from exogpu.ir.types import Policy
from exogpu.result.errors import Span
from exogpu.result.hazards import Occurrence
from exogpu.result.proof import Answered, Obligation
from exogpu.result.verdict import Verdict
from exogpu.solvers.smt import z3_version
from exogpu.symbolic.certificate.sealing import (
    ASSUMED,
    CERTIFICATE,
    FORMAT,
    PROGRAM,
    TRUSTED,
    VERSION,
    WITNESS,
    Json,
    json_text,
    sealed,
    sha256,
)
from exogpu.symbolic.certificate.strict_json import printable


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
    return sha256(json_text(program_json(procedure.amir(policy))))


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
        _write(made / CERTIFICATE, json_text(certificate))
        _write(made / PROGRAM, program)
        _write(made / WITNESS, witness)
        (folder / CERTIFICATE).unlink(missing_ok=True)
        for part in (PROGRAM, WITNESS, CERTIFICATE):
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
    if not (folder / CERTIFICATE).is_file():
        return
    # First what a reader looks for.
    (folder / CERTIFICATE).unlink()
    for part in (PROGRAM, WITNESS):
        (folder / part).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


# --- contents -----------------------------------------------------------------------------------


_Files: TypeAlias = tuple[dict[str, Json], str, str]

_made: WeakKeyDictionary[Certified, tuple[Verdict, _Files]] = WeakKeyDictionary()
"""Of a procedure's last verdict: a report states the digest of the certificate that it writes."""


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
    program = json_text(described)
    content: dict[str, Json] = {
        "format": FORMAT,
        "version": VERSION,
        "procedure": procedure.name,
        "source": _source(proc.span),
        "program": {"file": PROGRAM, "sha256": sha256(program)},
        "witness": {"file": WITNESS, "sha256": sha256(proof.witness)},
        "policy": verdict.policy.value,
        "preconditions": described["preconditions"],
        "assumptions": [*ASSUMED, *verdict.assumptions],
        "trusted": [*TRUSTED],
        "versions": {
            "exogpu": version("exogpu"),
            "z3": z3_version(),
            "islpy": version("islpy"),
        },
        "obligations": [
            {**obligation_json(one.obligation), **_answer(one)} for one in proof.answered
        ],
    }
    return sealed(content), program, proof.witness


@cache
def version(package: str) -> str:
    """The version of an installed package, as this process found it first: it goes on with what it
    has loaded, whatever is installed meanwhile."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def _source(span: Span) -> Json:
    """The source file's name and digest; no digest where it is no file."""
    digest = None
    with suppress(OSError):
        digest = sha256(Path(span.file).read_bytes())
    return {"file": file_name(span.file), "line": span.line, "sha256": digest}


def program_json(program: Program) -> dict[str, Json]:
    """The program as JSON, with the names of its files alone."""
    found = {**to_json(program)}
    body = found["body"]
    assert isinstance(body, list)
    found["body"] = [_without_folder(op) for op in body]
    return found


def _without_folder(op: Json) -> Json:
    assert isinstance(op, dict)
    found, file, body = {**op}, op["file"], op.get("body")
    assert isinstance(file, str)
    found["file"] = file_name(file)
    if isinstance(body, list):
        found["body"] = [_without_folder(inner) for inner in body]
    return found


def obligation_json(made: Obligation) -> dict[str, Json]:
    """Returns an obligation as JSON, without the answer."""
    return {
        "name": made.name,
        "kind": made.kind.value,
        "first": _statement(made.first),
        "second": _statement(made.second),
        "claim": made.claim,
        "by": "solver" if made.smt else "rules",
    }


def _answer(one: Answered) -> dict[str, Json]:
    if not one.obligation.smt:
        return {}
    return {"solver": one.solver, "answer": one.answer}


def _statement(site: Occurrence | None) -> Json:
    if site is None:
        return None
    return {"file": file_name(site.span.file), "line": site.span.line, "text": site.text}


def file_name(path: str) -> str:
    """A file's name without its folder, as it can be printed: names may have line ends in them."""
    return printable(PurePath(path).name)
