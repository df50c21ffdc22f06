"""Schema and reader of a certificate's JSON, to the last field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from exogpu.result.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.result.hazards import HazardKind
from exogpu.result.proof import Lemma
from exogpu.symbolic.certificate.program_schema import policy
from exogpu.symbolic.certificate.sealing import (
    ASSUMED,
    CERTIFICATE,
    FORMAT,
    PROGRAM,
    TRUSTED,
    VERSION,
    WITNESS,
    json_text,
    sealed,
)
from exogpu.symbolic.certificate.strict_json import (
    FILE_NAME,
    SENTENCE,
    SHA256,
    TEXT,
    MalformedError,
    Shape,
    a_list,
    an_object,
    fields,
    file_bytes,
    json_value,
    malformed,
    matching,
    maybe,
    one_of,
    printable,
    whole,
)

REMAKE: Final = "make it again from the kernel's source"

_VERSION: Final = matching(r"[\w.+-]+", "version")

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
    """Of all of it."""
    fits: bool
    """Whether this is the digest of what is written."""
    entries: tuple[Mapping[str, Any], ...]
    """The obligations, as `write.obligation_json` makes them."""
    assumptions: tuple[str, ...] = ()
    """Of the contents of arrays, beside those of every certificate."""
    of: Literal["proof"] = "proof"


def read(folder: Path) -> Certificate:
    """The certificate of a folder.  Raises ExoGpuError for what cannot be read as one."""
    path = folder / CERTIFICATE
    try:
        if folder.is_symlink():
            raise MalformedError("the folder is a symbolic link")
        data = file_bytes(path)
        content = _checked(_recognised(json_value(data)))
    except MalformedError as error:
        message = f"{printable(path)} cannot be read: {error}"
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
        data == json_text(sealed(content)).encode(errors="surrogatepass"),
        tuple(_entry(one) for one in content["obligations"]),
        tuple(content["assumptions"][len(ASSUMED) :]),
    )


def _recognised(content: object) -> object:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise MalformedError("it is no certificate of exogpu")
    if content.get("version") != VERSION:
        found = json.dumps(content.get("version"))
        raise MalformedError(
            f"it has version {found} of the format, and this is for version {VERSION}"
        )
    return content


def _checked(content: object) -> dict[str, Any]:
    return fields(
        "",
        content,
        format=one_of([FORMAT]),
        version=one_of([VERSION]),
        procedure=TEXT,
        source=an_object(file=FILE_NAME, line=whole(0), sha256=maybe(SHA256)),
        program=an_object(file=one_of([PROGRAM]), sha256=SHA256),
        witness=an_object(file=one_of([WITNESS]), sha256=SHA256),
        policy=policy,
        preconditions=a_list(TEXT),
        assumptions=_assumptions,
        trusted=one_of([list(TRUSTED)]),
        versions=an_object(exogpu=_VERSION, z3=_VERSION, islpy=_VERSION),
        obligations=a_list(_obligation),
        digest=SHA256,
    )


def _assumptions(value: object, where: str) -> None:
    a_list(TEXT)(value, where)
    assert isinstance(value, list)
    if value[: len(ASSUMED)] != [*ASSUMED]:
        malformed(where, f"it does not begin with {'; '.join(ASSUMED)}")


# --- obligations --------------------------------------------------------------------------------

_SITE: Final = an_object(file=FILE_NAME, line=whole(0), text=TEXT)

_OBLIGATION: Final[dict[str, Shape]] = {
    "name": matching(r"[a-z0-9_-]+", "name of an obligation"),
    "kind": one_of(KINDS),
    "first": maybe(_SITE),
    "second": maybe(_SITE),
    "claim": SENTENCE,
    "by": one_of(["solver", "rules"]),
}

_ANSWERED: Final[dict[str, Shape]] = {
    "solver": matching(r"[a-z0-9]+ [\w.+-]+", "solver with its version"),
    "answer": one_of(["unsat"]),
}


def _obligation(value: object, where: str) -> None:
    solved = not isinstance(value, dict) or value.get("by") != "rules"
    fields(where, value, **_OBLIGATION, **(_ANSWERED if solved else {}))


def _entry(one: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: one[name] for name in _OBLIGATION}
