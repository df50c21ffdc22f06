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

from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.symbolic.certificate import strict_json
from exogpu.symbolic.certificate.recheck import (
    Compare,
    Compared,
    Flaw,
    Prepared,
    Rechecked,
)
from exogpu.symbolic.certificate.recheck import (
    prepare as prepare_proof,
)
from exogpu.symbolic.encode.witness import WitnessError
from exogpu.symbolic.steps import record_json, step_certificate, sums_json
from exogpu.symbolic.steps.record import Record
from exogpu.symbolic.steps.replacement_laws import REALS
from exogpu.symbolic.steps.step_obligations import assumed
from exogpu.symbolic.steps.sums_json import Found

REMAKE: Final = "make it again with `exogpu history TARGET --certify -o DIR`"

_VERSION: Final = strict_json.matching(r"[\w.+-]+", "version")
_PRIMITIVE: Final = strict_json.matching(r"[a-z_]+", "name of a primitive")


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
    if data != strict_json.json_text(strict_json.sealed(found.content)).encode(
        errors="surrogatepass"
    ):
        flaws.append(
            Flaw(strict_json.CERTIFICATE, "its digest differs: it is not the text that was written")
        )
    record = _record(folder, found, flaws)
    witness = None if record is None else _witness(folder, found, record, flaws)
    obligations: tuple[step_certificate.Obliged, ...] = ()
    if record is not None and witness is not None and not flaws:
        obligations = _obligations(record, witness, found, flaws)
        flaws += () if flaws else _check_list(found, obligations)
    asked = () if flaws else obligations
    return Prepared(folder, found, asked, tuple(flaws), False, perf_counter() - start)


def _content(folder: Path) -> object:
    """The JSON of a step's certificate; None where it is another, or none that can be read."""
    try:
        content = strict_json.json_value(strict_json.file_bytes(folder / strict_json.CERTIFICATE))
    except strict_json.MalformedError:
        return None
    return (
        content
        if isinstance(content, dict) and content.get("format") == step_certificate.FORMAT
        else None
    )


def _certificate(folder: Path) -> tuple[StepCertificate, bytes]:
    path = folder / strict_json.CERTIFICATE
    try:
        if folder.is_symlink():
            raise strict_json.MalformedError("the folder is a symbolic link")
        data = strict_json.file_bytes(path)
        content = strict_json.fields(
            "",
            strict_json.json_value(data),
            format=strict_json.one_of([step_certificate.FORMAT]),
            version=strict_json.one_of([step_certificate.VERSION]),
            procedure=strict_json.NAME,
            number=strict_json.integer_between(1),
            primitive=_PRIMITIVE,
            arguments=strict_json.a_list(strict_json.TEXT),
            old=strict_json.SHA256,
            new=strict_json.SHA256,
            program=strict_json.an_object(
                file=strict_json.one_of([strict_json.PROGRAM]), sha256=strict_json.SHA256
            ),
            witness=strict_json.an_object(
                file=strict_json.one_of([strict_json.WITNESS]), sha256=strict_json.SHA256
            ),
            assumptions=strict_json.one_of(
                [[*step_certificate.ASSUMED], [*step_certificate.ASSUMED, REALS]]
            ),
            trusted=strict_json.one_of([[*step_certificate.TRUSTED]]),
            versions=strict_json.an_object(exogpu=_VERSION, z3=_VERSION, islpy=_VERSION),
            obligations=strict_json.a_list(
                strict_json.an_object(
                    name=strict_json.matching(r"[a-z0-9_-]+", "name of an obligation"),
                    kind=strict_json.matching(r"[A-Z]+", "kind of an obligation"),
                    claim=strict_json.SENTENCE,
                    solver=strict_json.matching(r"[a-z0-9]+ [\w.+-]+", "solver with its version"),
                    answer=strict_json.one_of(["unsat"]),
                )
            ),
            digest=strict_json.SHA256,
        )
    except strict_json.MalformedError as error:
        message = f"{strict_json.printable(path)} cannot be read: {error}"
        raise ExoGpuError([Diagnostic("X971", message, NOWHERE, REMAKE)]) from None
    entries = tuple(
        {**step_certificate.entry(one), "by": "solver"} for one in content["obligations"]
    )
    name = f"{content['procedure']}, step {content['number']} ({content['primitive']})"
    return StepCertificate(name, content["digest"], entries, content), data


def _record(folder: Path, found: StepCertificate, flaws: list[Flaw]) -> Record | None:
    try:
        data = strict_json.file_bytes(folder / strict_json.PROGRAM)
        if strict_json.sha256(data) != found.content["program"]["sha256"]:
            flaws.append(
                Flaw(
                    strict_json.PROGRAM,
                    f"its digest differs from that in {strict_json.CERTIFICATE}",
                )
            )
        record = record_json.record_of(strict_json.json_value(data))
        if line := strict_json.strange_line(record_json.to_json(record), data):
            flaws.append(Flaw(strict_json.PROGRAM, f"line {line} is not written as such a file is"))
    except strict_json.MalformedError as error:
        flaws.append(Flaw(strict_json.PROGRAM, str(error)))
        return None
    for which, program in (("old", record.old), ("new", record.new)):
        if step_certificate.program_digest(program) != found.content[which]:
            flaws.append(
                Flaw(
                    strict_json.CERTIFICATE,
                    f"the {which} procedure is not that of {strict_json.PROGRAM}",
                )
            )
    return record


def _witness(
    folder: Path, found: StepCertificate, record: Record, flaws: list[Flaw]
) -> Found | None:
    try:
        data = strict_json.file_bytes(folder / strict_json.WITNESS)
        if strict_json.sha256(data) != found.content["witness"]["sha256"]:
            flaws.append(
                Flaw(
                    strict_json.WITNESS,
                    f"its digest differs from that in {strict_json.CERTIFICATE}",
                )
            )
        witness = sums_json.witness_of(strict_json.json_value(data), record)
        if line := strict_json.strange_line(sums_json.any_witness_to_json(witness), data):
            flaws.append(Flaw(strict_json.WITNESS, f"line {line} is not written as such a file is"))
    except strict_json.MalformedError as error:
        flaws.append(Flaw(strict_json.WITNESS, str(error)))
        return None
    return witness


def _obligations(
    record: Record, witness: Found, found: StepCertificate, flaws: list[Flaw]
) -> tuple[step_certificate.Obliged, ...]:
    try:
        obligations = tuple(step_certificate.obliged(record, witness))
        if [*step_certificate.ASSUMED, *assumed(record, witness)] != found.content["assumptions"]:
            flaws.append(
                Flaw(strict_json.CERTIFICATE, "it rests on other assumptions than it states")
            )
        return obligations
    except step_certificate.UnlikeError as error:
        flaws.append(Flaw(strict_json.PROGRAM, str(error)))
    except WitnessError as error:
        flaws.append(Flaw(strict_json.WITNESS, str(error)))
    return ()


def _check_list(
    found: StepCertificate, obligations: Sequence[step_certificate.Obliged]
) -> Iterator[Flaw]:
    """The certificate lists the obligations that were made, in their order."""
    made = {one.name: one.to_json() for one in obligations}
    stated = {one["name"]: step_certificate.entry(one) for one in found.entries}
    for name in made.keys() - stated.keys():
        yield Flaw(strict_json.CERTIFICATE, f"an obligation of the step is missing: {name}")
    for name in stated.keys() - made.keys():
        yield Flaw(strict_json.CERTIFICATE, f"no obligation of the step: {name}")
    for name in made.keys() & stated.keys():
        if made[name] != stated[name]:
            yield Flaw(name, "it is stated otherwise than it is")
    if [*made] != [one["name"] for one in found.entries]:
        yield Flaw(strict_json.CERTIFICATE, "its obligations stand in another order, or twice")


# --- derivations --------------------------------------------------------------------------------


Stepped: TypeAlias = tuple[str, tuple[str, ...], str, str]
"""A step's primitive and arguments, and the digests of what it was given and of what it made."""

Remake: TypeAlias = Callable[[str, Sequence[Stepped]], Compared]
"""Compares steps with those of a procedure of the source."""


def derivations_in(folder: Path) -> tuple[Path, ...]:
    """The folders in it that have the list of a derivation."""
    try:
        return tuple(
            sorted(one for one in folder.iterdir() if (one / step_certificate.DERIVATION).exists())
        )
    except OSError:
        return ()


def derivation(folder: Path, remake: Remake = lambda procedure, steps: None) -> Rechecked | None:
    """Rechecks the list of a derivation's steps; None if the folder has none.

    That each step is what it says is for the certificates in the folder to show.  Raises
    ExoGpuError for what cannot be read as a list.
    """
    start, path = perf_counter(), folder / step_certificate.DERIVATION
    if not path.exists():
        return None
    try:
        data = strict_json.file_bytes(path)
        content = strict_json.fields(
            "",
            strict_json.json_value(data),
            format=strict_json.one_of([step_certificate.LIST_FORMAT]),
            version=strict_json.one_of([step_certificate.VERSION]),
            procedure=strict_json.NAME,
            steps=strict_json.a_list(
                strict_json.an_object(
                    number=strict_json.integer_between(1),
                    primitive=_PRIMITIVE,
                    arguments=strict_json.a_list(strict_json.TEXT),
                    decided=strict_json.one_of(["certificate", "same", "isl"]),
                    why=strict_json.TEXT,
                    old=strict_json.SHA256,
                    new=strict_json.SHA256,
                    certificate=strict_json.maybe(strict_json.SHA256),
                )
            ),
            digest=strict_json.SHA256,
        )
    except strict_json.MalformedError as error:
        message = f"{strict_json.printable(path)} cannot be read: {error}"
        raise ExoGpuError([Diagnostic("X971", message, NOWHERE, REMAKE)]) from None
    flaws = [*_chained(folder, content)]
    listed = [
        (step["primitive"], tuple(step["arguments"]), step["old"], step["new"])
        for step in content["steps"]
    ]
    why = remake(content["procedure"], listed)
    if why:
        flaws.append(Flaw(step_certificate.DERIVATION, why))
    if data != strict_json.json_text(strict_json.sealed(content)).encode(errors="surrogatepass"):
        flaws.append(
            Flaw(
                step_certificate.DERIVATION,
                "its digest differs: it is not the text that was written",
            )
        )
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
            yield Flaw(step_certificate.DERIVATION, f"{told} stands in place {at}")
        if before is not None and step["old"] != before:
            yield Flaw(
                step_certificate.DERIVATION, f"{told} is not made of what the one before it made"
            )
        before = step["new"]
        if step["decided"] == "same" and step["old"] != step["new"]:
            yield Flaw(
                step_certificate.DERIVATION, f"{told} has other statements than the one before it"
            )
        if step["decided"] == "isl":
            why = f"{told} was decided by ISL; it has no certificate: {step['why']}"
            yield Flaw(step_certificate.DERIVATION, why, open=True)
        if step["decided"] == "certificate":
            stated = {"procedure": content["procedure"], **step}
            yield from _check_named_certificate(
                folder / step_certificate.folder_name(at, step["primitive"]), told, stated
            )


def _check_named_certificate(folder: Path, told: str, step: dict[str, Any]) -> Iterator[Flaw]:
    """The certificate of a step is the one that the list names."""
    try:
        data = strict_json.file_bytes(folder / strict_json.CERTIFICATE)
        content = strict_json.json_value(data)
    except strict_json.MalformedError as error:
        yield Flaw(step_certificate.DERIVATION, f"the certificate of {told}: {error}")
        return
    if strict_json.sha256(data) != step["certificate"]:
        yield Flaw(step_certificate.DERIVATION, f"the certificate of {told} is another")
    keys = ("procedure", "number", "primitive", "arguments", "old", "new")
    if not isinstance(content, dict) or any(content.get(k) != step[k] for k in keys):
        yield Flaw(step_certificate.DERIVATION, f"the certificate of {told} is of another step")
