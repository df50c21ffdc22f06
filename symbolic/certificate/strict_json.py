"""Files and JSON read strictly: regular files of a size, one text a value, shapes without slack.

A shape is a function of a value and of where it stands, which raises MalformedError for what it
does not admit.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

# The text of a certificate, and the digest that seals it.
#
# A certificate is a folder: `program.json` is the abstract machine's program, `witness.json` what
# was found about it, and `certificate.json` lists the obligations that the two make.
# `certificate.json` holds the digests of the other files, and in `digest` the digest of itself
# without that field: one digest stands for the whole folder.

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
"""Assumptions of every proof."""

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


LARGEST: Final = 8 << 20
"""Bytes of a file; ours have some hundred thousand."""

DEEPEST: Final = 200
"""Lists and objects within each other."""

Shape: TypeAlias = Callable[[object, str], None]


class MalformedError(ValueError):
    """A fault in a file's bytes or in a value in it, in words."""


# --- files --------------------------------------------------------------------------------------


def file_bytes(path: Path, largest: int = LARGEST) -> bytes:
    """The bytes of a regular file.  Raises MalformedError for anything else."""
    try:
        if path.is_symlink():
            raise MalformedError("it is a symbolic link")
        # A FIFO would be waited for.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise MalformedError("it is no file")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(largest + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise MalformedError("it is missing") from None
    except OSError as error:
        raise MalformedError(error.strerror or "it cannot be opened") from None
    if len(data) > largest:
        raise MalformedError(f"it has more than {largest} bytes")
    return data


# --- JSON ---------------------------------------------------------------------------------------


def json_value(data: bytes) -> Json:
    """The value of a JSON text.

    Raises MalformedError for other bytes, keys that stand twice, and numbers with a fraction.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise MalformedError("it is no UTF-8") from None
    try:
        value: Json = json.loads(
            text, object_pairs_hook=_without_duplicates, parse_float=_float, parse_constant=_float
        )
        _shallow(value)
        return value
    except MalformedError:
        raise
    except RecursionError:
        raise _deep() from None
    except ValueError as error:
        raise MalformedError(f"it is no JSON: {error}") from None


def strange_line(value: Json, data: bytes) -> int | None:
    """The first line of a file that is not written as we write the value; None if there is
    none."""
    written = json_text(value).encode(errors="surrogatepass")
    if written == data:
        return None
    return _first_difference(written.splitlines(), data.splitlines())


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise MalformedError(f"the key {key!r} stands twice in an object")
        found[key] = value
    return found


def _float(text: str) -> NoReturn:
    raise MalformedError(f"{text} is no whole number")


def _shallow(value: object) -> None:
    layer: list[object] = [value]
    for _ in range(DEEPEST):
        layer = [inner for one in layer for inner in _children(one)]
        if not layer:
            return
    raise _deep()


def _children(value: object) -> Collection[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _deep() -> MalformedError:
    return MalformedError(f"more than {DEEPEST} lists and objects within each other")


def _first_difference(one: list[bytes], other: list[bytes]) -> int:
    pairs = enumerate(zip(one, other, strict=False), 1)
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)) + 1)


def printable(text: object) -> str:
    """A path or name with escapes for what is not to be printed as it is."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text))


# --- shapes -------------------------------------------------------------------------------------


def malformed(where: str, why: str) -> NoReturn:
    """Raises MalformedError."""
    raise MalformedError(f"{where}: {why}" if where else why)


def shorten(value: object) -> str:
    """A value for a message."""
    text = json.dumps(value, ensure_ascii=True) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def fields(where: str, value: object, /, **shapes: Shape) -> dict[str, Any]:
    """The value as an object of exactly these fields, in this order."""
    if not isinstance(value, dict):
        malformed(where, f"{shorten(value)} is no object")
    for name in shapes:
        if name not in value:
            malformed(where, f"the field {name} is missing")
    for name in value:
        if name not in shapes:
            malformed(where, f"a field {shorten(name)} is not known here")
    if list(value) != list(shapes):
        malformed(where, "the fields stand in another order")
    for name, shape in shapes.items():
        shape(value[name], f"{where}.{name}" if where else name)
    return value


def list_members(where: str, value: object) -> Iterator[tuple[str, Any]]:
    """The places and members of a list."""
    if not isinstance(value, list):
        malformed(where, f"{shorten(value)} is no list")
    for at, one in enumerate(value):
        yield f"{where}[{at}]", one


def an_object(**shapes: Shape) -> Shape:
    """An object of exactly these fields, in this order."""
    return lambda value, where: void(fields(where, value, **shapes))


def a_list(shape: Shape) -> Shape:
    """A list whose members have the shape."""

    def check(value: object, where: str) -> None:
        for place, one in list_members(where, value):
            shape(one, place)

    return check


def one_of(values: Collection[object]) -> Shape:
    """One of these texts, numbers and truths."""

    def check(value: object, where: str) -> None:
        if not any(value == one and type(value) is type(one) for one in values):
            malformed(where, f"{shorten(value)} is not known here")

    return check


def matching(pattern: str, what: str) -> Shape:
    """A text that the pattern matches as a whole."""
    compiled = re.compile(pattern)

    def check(value: object, where: str) -> None:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            malformed(where, f"{shorten(value)} is no {what}")

    return check


def integer_between(least: int = -(10**9), most: int = 10**9) -> Shape:
    """A whole number between bounds."""

    def check(value: object, where: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            malformed(where, f"{shorten(value)} is no whole number from {least} to {most}")

    return check


def maybe(shape: Shape) -> Shape:
    """Null, or of the shape."""
    return lambda value, where: None if value is None else shape(value, where)


def void(_: object) -> None:
    """Nothing."""


_CONTROL: Final = r"\x00-\x08\x0a-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""Characters that a terminal might obey, and line ends."""

TEXT: Final = matching(rf"[^{_CONTROL}]*", "text on one line")
SENTENCE: Final = matching(rf"[^{_CONTROL}]+", "sentence")
NAME: Final = matching(r"[^\W\d]\w*", "name")
FILE_NAME: Final = matching(rf"[^/{_CONTROL}]+", "name of a file without its folder")
SHA256: Final = matching(r"[0-9a-f]{64}", "SHA-256")
TRUTH: Final = one_of([False, True])
