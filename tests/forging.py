"""Altered certificates: files changed, digests that fit, obligations listed as a forger would."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from exogpu.diagnostics.errors import ExoGpuError
from exogpu.solvers import smt
from exogpu.symbolic.certificate.program_reader import program_of
from exogpu.symbolic.certificate.program_schema import check_program
from exogpu.symbolic.certificate.recheck import Ask, Compare, Rechecked, recheck
from exogpu.symbolic.certificate.strict_json import json_text, sealed, sha256
from exogpu.symbolic.certificate.witness_json import witness_of
from exogpu.symbolic.certificate.write import obligation_json
from exogpu.symbolic.encode.chain_text import named_obligations
from exogpu.symbolic.encode.obligations import drafts
from exogpu.symbolic.model import Placed

Content = dict[str, Any]
Alter = Callable[[Content], object]

CERTIFICATE, PROGRAM, WITNESS = "certificate.json", "program.json", "witness.json"


def content(folder: Path, file: str) -> Content:
    """The JSON of a file."""
    found: Content = json.loads((folder / file).read_text())
    return found


def seal(folder: Path, alter: Alter = lambda certificate: None) -> None:
    """Makes every digest fit what the files and the altered certificate say."""
    certificate = content(folder, CERTIFICATE)
    alter(certificate)
    for name in ("program", "witness"):
        path = folder / f"{name}.json"
        if path.is_file():
            certificate[name]["sha256"] = sha256(path.read_bytes())
    (folder / CERTIFICATE).write_text(json_text(sealed(certificate)))


def change(folder: Path, file: str, alter: Alter) -> None:
    """Alters the JSON of a file, and seals."""
    found = content(folder, file)
    before = json_text(found)
    alter(found)
    assert json_text(found) != before
    (folder / file).write_text(json_text(found))
    seal(folder)


def forge(folder: Path) -> None:
    """Makes the certificate list what its program and witness oblige to, and seals."""
    program = content(folder, PROGRAM)
    placed = Placed(program_of(check_program(program)))
    made = named_obligations(placed, drafts(placed, witness_of(content(folder, WITNESS))))
    listed = [
        {**obligation_json(one), **({"solver": "z3 5", "answer": "unsat"} if one.smt else {})}
        for one in made
    ]

    def relist(certificate: Content) -> None:
        certificate.update(
            procedure=program["name"],
            policy=program["policy"],
            preconditions=program["preconditions"],
            obligations=listed,
        )

    seal(folder, relist)


# --- parts --------------------------------------------------------------------------------------


def find(block: list[Content], kind: str) -> Iterator[tuple[list[Content], int]]:
    """Where operations of a kind stand."""
    for at, op in enumerate(block):
        if op["op"] == kind:
            yield block, at
        yield from find(op.get("body", []), kind)


def ops(program: Content, kind: str) -> list[Content]:
    """The operations of a kind."""
    return [block[at] for block, at in find(program["body"], kind)]


def first(program: Content, kind: str) -> Content:
    """The first operation of a kind."""
    return ops(program, kind)[0]


def of(certificate: Content, name: str) -> Content:
    """The obligation of that name."""
    (found,) = (one for one in certificate["obligations"] if one["name"] == name)
    return found  # type: ignore[no-any-return]


def names(folder: Path, kind: str) -> list[str]:
    """The obligations of a kind."""
    listed = content(folder, CERTIFICATE)["obligations"]
    return [one["name"] for one in listed if one["kind"] == kind]


# --- answers ------------------------------------------------------------------------------------


def never(script: str) -> smt.Reply:
    raise AssertionError(f"a solver was asked: {script}")


def flaws(found: Rechecked) -> str:
    return "\n".join(f"{flaw.where}: {flaw.problem}" for flaw in found.flaws)


def problems(folder: Path) -> str:
    """What is wrong, none of it found by a solver."""
    try:
        found = recheck(folder, [never])
    except ExoGpuError as error:
        return str(error)
    assert found.word == "rejected" and found.solvers == ()
    return flaws(found)


def rejected(
    folder: Path, ask: Sequence[Ask], compare: Compare = lambda certificate, program: None
) -> str:
    """What is wrong, by whomever it is found."""
    found = recheck(folder, ask, compare=compare)
    assert found.word == "rejected", found.word
    return flaws(found)
