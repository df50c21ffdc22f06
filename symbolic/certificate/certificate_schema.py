"""Schema and reader of a certificate's JSON, to the last field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Lemma
from exogpu.symbolic.certificate import program_schema, strict_json

REMAKE: Final = "make it again from the kernel's source"

_VERSION: Final = strict_json.matching(r"[\w.+-]+", "version")

KINDS: Final = tuple(kind.value for group in (HazardKind, Lemma) for kind in group)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that could be read."""

    procedure: str
    policy: str
    preconditions: tuple[str, ...]
    source: str | None
    """The digest of the source file, if it had one."""
    source_file: str
    source_line: int
    program: str
    """The digest of the program."""
    witness: str
    """The digest of the witness."""
    digest: str
    """The digest of all of it."""
    fits: bool
    """This is the digest of the written program."""
    entries: tuple[Mapping[str, Any], ...]
    """The obligations, as `write.obligation_json` makes them."""
    assumptions: tuple[str, ...] = ()
    """Assumptions on the contents of arrays, beside those of every certificate."""
    of: Literal["proof"] = "proof"


def read_certificate(folder: Path) -> Certificate:
    """The certificate of a folder.  Raises ExoGpuError for what cannot be read as one."""
    path = folder / strict_json.CERTIFICATE
    try:
        if folder.is_symlink():
            raise strict_json.MalformedError("the folder is a symbolic link")
        data = strict_json.file_bytes(path)
        content = _validate(_recognised(strict_json.json_value(data)))
    except strict_json.MalformedError as error:
        message = f"{strict_json.printable(path)} cannot be read: {error}"
        raise ExoGpuError([Diagnostic("X971", message, NOWHERE, REMAKE)]) from None
    return Certificate(
        content["procedure"],
        content["policy"],
        tuple(content["preconditions"]),
        content["source"]["sha256"],
        content["source"]["file"],
        content["source"]["line"],
        content["program"]["sha256"],
        content["witness"]["sha256"],
        content["digest"],
        data == strict_json.json_text(strict_json.sealed(content)).encode(errors="surrogatepass"),
        tuple(_entry(one) for one in content["obligations"]),
        tuple(content["assumptions"][len(strict_json.ASSUMED) :]),
    )


def _recognised(content: object) -> object:
    if not isinstance(content, dict) or content.get("format") != strict_json.FORMAT:
        raise strict_json.MalformedError("it is no certificate of exogpu")
    if content.get("version") != strict_json.VERSION:
        found = json.dumps(content.get("version"))
        raise strict_json.MalformedError(
            f"it has version {found} of the format, and this is for version {strict_json.VERSION}"
        )
    return content


def _validate(content: object) -> dict[str, Any]:
    return strict_json.fields(
        "",
        content,
        format=strict_json.one_of([strict_json.FORMAT]),
        version=strict_json.one_of([strict_json.VERSION]),
        procedure=strict_json.TEXT,
        source=strict_json.an_object(
            file=strict_json.FILE_NAME,
            line=strict_json.integer_between(0),
            sha256=strict_json.maybe(strict_json.SHA256),
        ),
        program=strict_json.an_object(
            file=strict_json.one_of([strict_json.PROGRAM]), sha256=strict_json.SHA256
        ),
        witness=strict_json.an_object(
            file=strict_json.one_of([strict_json.WITNESS]), sha256=strict_json.SHA256
        ),
        policy=program_schema.policy,
        preconditions=strict_json.a_list(strict_json.TEXT),
        assumptions=_assumptions,
        trusted=strict_json.one_of([list(strict_json.TRUSTED)]),
        versions=strict_json.an_object(exogpu=_VERSION, z3=_VERSION, islpy=_VERSION),
        obligations=strict_json.a_list(_obligation),
        digest=strict_json.SHA256,
    )


def _assumptions(value: object, where: str) -> None:
    strict_json.a_list(strict_json.TEXT)(value, where)
    assert isinstance(value, list)
    if value[: len(strict_json.ASSUMED)] != [*strict_json.ASSUMED]:
        strict_json.malformed(where, f"it does not begin with {'; '.join(strict_json.ASSUMED)}")


# --- obligations --------------------------------------------------------------------------------

_SITE: Final = strict_json.an_object(
    file=strict_json.FILE_NAME, line=strict_json.integer_between(0), text=strict_json.TEXT
)

_OBLIGATION: Final[dict[str, strict_json.Shape]] = {
    "name": strict_json.matching(r"[a-z0-9_-]+", "name of an obligation"),
    "kind": strict_json.one_of(KINDS),
    "first": strict_json.maybe(_SITE),
    "second": strict_json.maybe(_SITE),
    "claim": strict_json.SENTENCE,
    "by": strict_json.one_of(["solver", "rules"]),
}

_ANSWERED: Final[dict[str, strict_json.Shape]] = {
    "solver": strict_json.matching(r"[a-z0-9]+ [\w.+-]+", "solver with its version"),
    "answer": strict_json.one_of(["unsat"]),
}


def _obligation(value: object, where: str) -> None:
    solved = not isinstance(value, dict) or value.get("by") != "rules"
    strict_json.fields(where, value, **_OBLIGATION, **(_ANSWERED if solved else {}))


def _entry(one: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: one[name] for name in _OBLIGATION}
