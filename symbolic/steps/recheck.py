"""Certificates of steps answered again: by solvers alone, without ISL and without the scheduler.

A step's certificate is confirmed if its files are those that were sealed, its record is of two
procedures, the obligations are those that record and witness have, and every solver answers each
with `unsat`: in a script that is made here.  A derivation is confirmed if each step is made of what
the one before it made, and each is certified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal, TypeAlias

from exogpu.result.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.symbolic.certificate.recheck import (
    Compare,
    Compared,
    Flaw,
    Prepared,
    Rechecked,
)
from exogpu.symbolic.certificate.recheck import prepare as prepare_proof
from exogpu.symbolic.certificate.sealing import (
    CERTIFICATE,
    PROGRAM,
    WITNESS,
    json_text,
    sealed,
    sha256,
)
from exogpu.symbolic.certificate.strict_json import (
    NAME,
    SENTENCE,
    SHA256,
    TEXT,
    MalformedError,
    a_list,
    an_object,
    fields,
    file_bytes,
    json_value,
    matching,
    maybe,
    one_of,
    printable,
    strange_line,
    whole,
)
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.steps import record_json, witnesses
from exogpu.symbolic.steps.certificate import (
    ASSUMED,
    DERIVATION,
    FORMAT,
    LIST_FORMAT,
    TRUSTED,
    VERSION,
    folder_name,
    program_digest,
)
from exogpu.symbolic.steps.laws import REALS
from exogpu.symbolic.steps.obligations import assumed
from exogpu.symbolic.steps.obliged import Obliged, UnlikeError, entry, obliged
from exogpu.symbolic.steps.record import Record
from exogpu.symbolic.steps.witnesses import Found

REMAKE: Final = "make it again with `exogpu history TARGET --certify -o DIR`"

_VERSION: Final = matching(r"[\w.+-]+", "version")
_PRIMITIVE: Final = matching(r"[a-z_]+", "name of a primitive")


@dataclass(frozen=True, slots=True)
class StepCertificate:
    """A certificate of a step that could be read."""

    procedure: str
    digest: str
    entries: tuple[dict[str, Any], ...]
    content: dict[str, Any]
    policy: str = ""
    of: Literal["step"] = "step"


# --- steps --------------------------------------------------------------------------------------


def prepare(folder: Path, compare: Compare = lambda certificate, program: None) -> Prepared:
    """Reads a certificate, of a proof or of a step, and encodes its obligations.

    Nothing is asked of a solver.  Raises ExoGpuError for what cannot be read as a certificate.
    """
    content = _content(folder)
    if content is None:
        return prepare_proof(folder, compare)
    start = perf_counter()
    flaws: list[Flaw] = []
    found, data = _certificate(folder)
    if data != json_text(sealed(found.content)).encode(errors="surrogatepass"):
        flaws.append(Flaw(CERTIFICATE, "its digest differs: it is not the text that was written"))
    record = _record(folder, found, flaws)
    witness = None if record is None else _witness(folder, found, record, flaws)
    obligations: tuple[Obliged, ...] = ()
    if record is not None and witness is not None and not flaws:
        obligations = _obligations(record, witness, found, flaws)
        flaws += () if flaws else _listed(found, obligations)
    asked = () if flaws else obligations
    return Prepared(folder, found, asked, tuple(flaws), False, perf_counter() - start)


def _content(folder: Path) -> object:
    """The JSON of a step's certificate; None where it is another, or none that can be read."""
    try:
        content = json_value(file_bytes(folder / CERTIFICATE))
    except MalformedError:
        return None
    return content if isinstance(content, dict) and content.get("format") == FORMAT else None


def _certificate(folder: Path) -> tuple[StepCertificate, bytes]:
    path = folder / CERTIFICATE
    try:
        if folder.is_symlink():
            raise MalformedError("the folder is a symbolic link")
        data = file_bytes(path)
        content = fields(
            "",
            json_value(data),
            format=one_of([FORMAT]),
            version=one_of([VERSION]),
            procedure=NAME,
            number=whole(1),
            primitive=_PRIMITIVE,
            arguments=a_list(TEXT),
            old=SHA256,
            new=SHA256,
            program=an_object(file=one_of([PROGRAM]), sha256=SHA256),
            witness=an_object(file=one_of([WITNESS]), sha256=SHA256),
            assumptions=one_of([[*ASSUMED], [*ASSUMED, REALS]]),
            trusted=one_of([[*TRUSTED]]),
            versions=an_object(exogpu=_VERSION, z3=_VERSION, islpy=_VERSION),
            obligations=a_list(
                an_object(
                    name=matching(r"[a-z0-9_-]+", "name of an obligation"),
                    kind=matching(r"[A-Z]+", "kind of an obligation"),
                    claim=SENTENCE,
                    solver=matching(r"[a-z0-9]+ [\w.+-]+", "solver with its version"),
                    answer=one_of(["unsat"]),
                )
            ),
            digest=SHA256,
        )
    except MalformedError as error:
        message = f"{printable(path)} cannot be read: {error}"
        raise ExoGpuError([Diagnostic("X971", message, NOWHERE, REMAKE)]) from None
    entries = tuple({**entry(one), "by": "solver"} for one in content["obligations"])
    name = f"{content['procedure']}, step {content['number']} ({content['primitive']})"
    return StepCertificate(name, content["digest"], entries, content), data


def _record(folder: Path, found: StepCertificate, flaws: list[Flaw]) -> Record | None:
    try:
        data = file_bytes(folder / PROGRAM)
        if sha256(data) != found.content["program"]["sha256"]:
            flaws.append(Flaw(PROGRAM, f"its digest differs from that in {CERTIFICATE}"))
        record = record_json.record_of(json_value(data))
        if line := strange_line(record_json.to_json(record), data):
            flaws.append(Flaw(PROGRAM, f"line {line} is not written as such a file is"))
    except MalformedError as error:
        flaws.append(Flaw(PROGRAM, str(error)))
        return None
    for which, program in (("old", record.old), ("new", record.new)):
        if program_digest(program) != found.content[which]:
            flaws.append(Flaw(CERTIFICATE, f"the {which} procedure is not that of {PROGRAM}"))
    return record


def _witness(
    folder: Path, found: StepCertificate, record: Record, flaws: list[Flaw]
) -> Found | None:
    try:
        data = file_bytes(folder / WITNESS)
        if sha256(data) != found.content["witness"]["sha256"]:
            flaws.append(Flaw(WITNESS, f"its digest differs from that in {CERTIFICATE}"))
        witness = witnesses.witness_of(json_value(data), record)
        if line := strange_line(witnesses.to_json(witness), data):
            flaws.append(Flaw(WITNESS, f"line {line} is not written as such a file is"))
    except MalformedError as error:
        flaws.append(Flaw(WITNESS, str(error)))
        return None
    return witness


def _obligations(
    record: Record, witness: Found, found: StepCertificate, flaws: list[Flaw]
) -> tuple[Obliged, ...]:
    try:
        obligations = tuple(obliged(record, witness))
        if [*ASSUMED, *assumed(record, witness)] != found.content["assumptions"]:
            flaws.append(Flaw(CERTIFICATE, "it rests on other assumptions than it states"))
        return obligations
    except UnlikeError as error:
        flaws.append(Flaw(PROGRAM, str(error)))
    except WitnessError as error:
        flaws.append(Flaw(WITNESS, str(error)))
    return ()


def _listed(found: StepCertificate, obligations: Sequence[Obliged]) -> Iterator[Flaw]:
    """The certificate lists the obligations that were made, in their order."""
    made = {one.name: one.to_json() for one in obligations}
    stated = {one["name"]: entry(one) for one in found.entries}
    for name in made.keys() - stated.keys():
        yield Flaw(CERTIFICATE, f"an obligation of the step is missing: {name}")
    for name in stated.keys() - made.keys():
        yield Flaw(CERTIFICATE, f"no obligation of the step: {name}")
    for name in made.keys() & stated.keys():
        if made[name] != stated[name]:
            yield Flaw(name, "it is stated otherwise than it is")
    if [*made] != [one["name"] for one in found.entries]:
        yield Flaw(CERTIFICATE, "its obligations stand in another order, or twice")


# --- derivations --------------------------------------------------------------------------------


Stepped: TypeAlias = tuple[str, tuple[str, ...], str, str]
"""A step's primitive and arguments, and the digests of what it was given and of what it made."""

Remake: TypeAlias = Callable[[str, Sequence[Stepped]], Compared]
"""Compares steps with those of a procedure of the source."""


def derivations_in(folder: Path) -> tuple[Path, ...]:
    """The folders in it that have the list of a derivation."""
    try:
        return tuple(sorted(one for one in folder.iterdir() if (one / DERIVATION).exists()))
    except OSError:
        return ()


def derivation(folder: Path, remake: Remake = lambda procedure, steps: None) -> Rechecked | None:
    """Rechecks the list of a derivation's steps; None if the folder has none.

    That each step is what it says is for the certificates in the folder to show.  Raises
    ExoGpuError for what cannot be read as a list.
    """
    start, path = perf_counter(), folder / DERIVATION
    if not path.exists():
        return None
    try:
        data = file_bytes(path)
        content = fields(
            "",
            json_value(data),
            format=one_of([LIST_FORMAT]),
            version=one_of([VERSION]),
            procedure=NAME,
            steps=a_list(
                an_object(
                    number=whole(1),
                    primitive=_PRIMITIVE,
                    arguments=a_list(TEXT),
                    decided=one_of(["certificate", "same", "isl"]),
                    why=TEXT,
                    old=SHA256,
                    new=SHA256,
                    certificate=maybe(SHA256),
                )
            ),
            digest=SHA256,
        )
    except MalformedError as error:
        message = f"{printable(path)} cannot be read: {error}"
        raise ExoGpuError([Diagnostic("X971", message, NOWHERE, REMAKE)]) from None
    flaws = [*_chained(folder, content)]
    listed = [
        (step["primitive"], tuple(step["arguments"]), step["old"], step["new"])
        for step in content["steps"]
    ]
    why = remake(content["procedure"], listed)
    if why:
        flaws.append(Flaw(DERIVATION, why))
    if data != json_text(sealed(content)).encode(errors="surrogatepass"):
        flaws.append(Flaw(DERIVATION, "its digest differs: it is not the text that was written"))
    steps = content["steps"]
    name = f"{content['procedure']}, as derived"
    same = sum(step["decided"] == "same" for step in steps)
    seconds = perf_counter() - start
    found = Rechecked(folder, name, "", len(steps), same, (), tuple(flaws), seconds)
    compared = why is not None
    return replace(found, digest=content["digest"], of="derivation", compared=compared)


def _chained(folder: Path, content: dict[str, Any]) -> Iterator[Flaw]:
    before: str | None = None
    for at, step in enumerate(content["steps"], 1):
        told = f"step {step['number']} ({step['primitive']})"
        if step["number"] != at:
            yield Flaw(DERIVATION, f"{told} stands in place {at}")
        if before is not None and step["old"] != before:
            yield Flaw(DERIVATION, f"{told} is not made of what the one before it made")
        before = step["new"]
        if step["decided"] == "same" and step["old"] != step["new"]:
            yield Flaw(DERIVATION, f"{told} has other statements than the one before it")
        if step["decided"] == "isl":
            why = f"{told} was decided by ISL; it has no certificate: {step['why']}"
            yield Flaw(DERIVATION, why, open=True)
        if step["decided"] == "certificate":
            stated = {"procedure": content["procedure"], **step}
            yield from _named(folder / folder_name(at, step["primitive"]), told, stated)


def _named(folder: Path, told: str, step: dict[str, Any]) -> Iterator[Flaw]:
    """The certificate of a step is the one that the list names."""
    try:
        data = file_bytes(folder / CERTIFICATE)
        content = json_value(data)
    except MalformedError as error:
        yield Flaw(DERIVATION, f"the certificate of {told}: {error}")
        return
    if sha256(data) != step["certificate"]:
        yield Flaw(DERIVATION, f"the certificate of {told} is another")
    keys = ("procedure", "number", "primitive", "arguments", "old", "new")
    if not isinstance(content, dict) or any(content.get(k) != step[k] for k in keys):
        yield Flaw(DERIVATION, f"the certificate of {told} is of another step")
