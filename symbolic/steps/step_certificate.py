"""The certificate of a step, and the list of those of a derivation, as text.

A step's certificate is a folder like that of a proof (`exogpu.symbolic.certificate.strict_json`):
`program.json` is the record of the step, `witness.json` what was found about it, and
`certificate.json` lists the obligations.  The folder of a derivation holds one folder a step and
`derivation.json`, which says of every step what it made of what, and how that was decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from exogpu.solvers.smt import Reply, z3_version
from exogpu.symbolic.certificate import strict_json
from exogpu.symbolic.certificate.write import version
from exogpu.symbolic.steps import record_json, sums_json
from exogpu.symbolic.steps.record import Program, Record
from exogpu.symbolic.steps.step_obligations import assumed, drafts, unlike
from exogpu.symbolic.steps.sums_json import Found

# Obligations of a step under names, and answers to them.


class UnlikeError(ValueError):
    """A map that is wrong whatever the sizes."""


@dataclass(frozen=True, slots=True)
class Obliged:
    """A claim about a step for all sizes, and a text that a solver must answer with `unsat`."""

    name: str
    kind: str
    claim: str
    smt: str

    def to_json(self) -> Mapping[str, strict_json.Json]:
        """Returns the obligation as JSON, without the answer."""
        return {"name": self.name, "kind": self.kind, "claim": self.claim}


def obliged(record: Record, witness: Found) -> Iterator[Obliged]:
    """The obligations of a step.

    Raises UnlikeError where the record shows that it is wrong, WitnessError where the witness does
    not fit the record.
    """
    if (why := unlike(record)) is not None:
        raise UnlikeError(why)
    names: dict[str, int] = {}
    for draft in drafts(record, witness):
        parts = [draft.kind.lower(), *(f"{which}{number}" for which, number in draft.statements)]
        plain = "-".join(parts)
        names[plain] = count = names.get(plain, 0) + 1
        name = plain if count == 1 else f"{plain}-{count}"
        yield Obliged(name, draft.kind, draft.claim, draft.script)


def entry(one: Mapping[str, Any]) -> dict[str, Any]:
    """Selects the fields of an obligation that a certificate states, without the answer."""
    return {key: one[key] for key in ("name", "kind", "claim")}


FORMAT: Final = "exogpu step certificate"
LIST_FORMAT: Final = "exogpu derivation"
VERSION: Final = 2
"""Changes whenever a reader of an older version could misread a certificate."""

DERIVATION: Final = "derivation.json"

ASSUMED: Final = (
    "sizes satisfy the preconditions, and a size is at least its least value",
    "array arguments have the declared extents and do not overlap",
    "the old procedure accesses elements of its variables only",
    "sums may be added up in any order, and 0 and -0 are one number",
)
"""Assumptions of every step."""

TRUSTED: Final = (
    "the reading of both procedures as statements: calls and windows opened, launches as their "
    "bodies, without modes of loops and synchronisation",
    "the encoder of the obligations, and the solver",
)
"""By every step."""

Decided: TypeAlias = Literal["certificate", "same", "isl"]
"""The way in which a step was decided: by a certificate; both procedures have the same statements;
by ISL alone, and there is no certificate."""


@dataclass(frozen=True, slots=True)
class Made:
    """Identity of a step: its place in a derivation, the primitive, and its arguments."""

    procedure: str
    number: int
    primitive: str
    arguments: tuple[str, ...]


def program_digest(program: Program) -> str:
    """The SHA-256 that stands for a procedure's statements."""
    return strict_json.sha256(strict_json.json_text(record_json.program_json(program)))


def files(
    made: Made, record: Record, witness: Found, answered: Iterable[tuple[Obliged, Reply]]
) -> dict[str, str]:
    """The files of a step's certificate, by name."""
    program = strict_json.json_text(record_json.to_json(record))
    found = strict_json.json_text(sums_json.any_witness_to_json(witness))
    content: dict[str, strict_json.Json] = {
        "format": FORMAT,
        "version": VERSION,
        **made_json(made),
        "old": program_digest(record.old),
        "new": program_digest(record.new),
        "program": {"file": strict_json.PROGRAM, "sha256": strict_json.sha256(program)},
        "witness": {"file": strict_json.WITNESS, "sha256": strict_json.sha256(found)},
        "assumptions": [*ASSUMED, *assumed(record, witness)],
        "trusted": [*TRUSTED],
        "versions": {
            "exogpu": version("exogpu"),
            "z3": z3_version(),
            "islpy": version("islpy"),
        },
        "obligations": [
            {**one.to_json(), "solver": reply.solver, "answer": reply.word}
            for one, reply in answered
        ],
    }
    return {
        strict_json.PROGRAM: program,
        strict_json.WITNESS: found,
        strict_json.CERTIFICATE: strict_json.json_text(strict_json.sealed(content)),
    }


def made_json(made: Made) -> dict[str, strict_json.Json]:
    """Returns a step's identity as JSON."""
    return {
        "procedure": made.procedure,
        "number": made.number,
        "primitive": made.primitive,
        "arguments": [*made.arguments],
    }


@dataclass(frozen=True, slots=True)
class Listed:
    """A step as the list of a derivation has it."""

    number: int
    primitive: str
    arguments: tuple[str, ...]
    decided: Decided
    why: str
    """The reason why an `isl` step has no certificate; else empty."""
    old: str
    new: str
    """The digests of both procedures."""
    digest: str
    """The digest of the certificate; empty where there is none."""


def derivation_text(procedure: str, steps: Sequence[Listed]) -> str:
    """The text of `derivation.json`."""
    content: dict[str, strict_json.Json] = {
        "format": LIST_FORMAT,
        "version": VERSION,
        "procedure": procedure,
        "steps": [
            {
                "number": step.number,
                "primitive": step.primitive,
                "arguments": [*step.arguments],
                "decided": step.decided,
                "why": step.why,
                "old": step.old,
                "new": step.new,
                "certificate": step.digest or None,
            }
            for step in steps
        ],
    }
    return strict_json.json_text(strict_json.sealed(content))


def folder_name(number: int, primitive: str) -> str:
    """The folder of a step's certificate: `007-divide_loop`."""
    return f"{number:03}-{primitive}"


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Writes files, the last one last: an older one of it goes first.  Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / [*texts][-1]).unlink(missing_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
