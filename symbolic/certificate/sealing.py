"""The text of a certificate, and the digest that seals it.

A certificate is a folder: `program.json` is the abstract machine's program, `witness.json` what was
found about it, and `certificate.json` lists the obligations that the two make.  `certificate.json`
holds the digests of the other files, and in `digest` the digest of itself without that field: one
digest stands for the whole folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final, TypeAlias

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"

FORMAT: Final = "exogpu certificate"
VERSION: Final = 6
"""Changes whenever a reader of an older version could misread a certificate."""

CERTIFICATE: Final = "certificate.json"
PROGRAM: Final = "program.json"
WITNESS: Final = "witness.json"

DIGEST: Final = "digest"

ASSUMED: Final = (
    "sizes satisfy the preconditions, and a size is at least its least value",
    "array arguments have the declared extents and do not overlap",
)
"""Of every proof."""

TRUSTED: Final = (
    "the reading of the source, and its conversion into the abstract machine's program",
    "the abstract machine's rules under the policy: that the hardware keeps what they promise",
    "the loops of one allocation and of one task, which the scope analysis says",
    "the encoder of the obligations, and the solver",
    "collective tilings, and who has which part of shared memory and barriers in a cluster",
)
"""By every proof."""


def json_text(value: Json) -> str:
    """The one text of a value: indented by 1, keys in their order, a line break at the end."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def sha256(data: str | bytes) -> str:
    """The SHA-256 of bytes, or of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def sealed(content: Mapping[str, Json]) -> dict[str, Json]:
    """The content with its digest as the last field, whether or not it had one."""
    rest = {key: value for key, value in content.items() if key != DIGEST}
    return {**rest, DIGEST: sha256(json_text(rest))}
