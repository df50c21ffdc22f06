"""Messages of the worker to the server: data, sent as JSON a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from lsprotocol import types as lsp

from exogpu.diagnostics.codec import Json, decode, encode
from exogpu.diagnostics.errors import Span

Place: TypeAlias = tuple[int, int, int, int]
"""Line and column, end line and column, as in a Span: from 1, in characters, the end exclusive."""


def place_of(span: Span) -> Place:
    """The place of a span in its file."""
    return span.line, span.column, span.end_line, span.end_column


@dataclass(frozen=True, slots=True)
class Related:
    """A second place that a finding speaks of."""

    path: str
    place: Place
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault at a place of the document."""

    place: Place
    severity: Literal["error", "warning", "information"]
    code: str
    message: str
    related: tuple[Related, ...] = ()
    source: int = -1
    """Number of the hazard among those of its procedure; -1 of what is no hazard."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A procedure that was checked."""

    name: str
    place: Place
    word: str
    summary: str
    """`proved for all sizes (90 obligations)`"""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The file was executed: it has so many procedures, and rests on these files."""

    procedures: int
    files: tuple[str, ...]
    failed: bool
    """The file could not be loaded, which a change of another file may mend."""


@dataclass(frozen=True, slots=True)
class Edit:
    """The text of a range becomes another."""

    place: Place
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A change of the document that was tried: with it, the finding is gone and none has come."""

    procedure: str
    source: int
    """The source of the finding."""
    title: str
    proved: bool
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Hover:
    """A text about a place, in Markdown."""

    place: Place
    text: str


@dataclass(frozen=True, slots=True)
class Stage:
    """All verdicts are in; all repairs; all there is."""

    done: Literal["checked", "repaired", "all"]


@dataclass(frozen=True, slots=True)
class Failed:
    """The check ended before it was done: why, in a sentence."""

    reason: str
    loading: bool
    """The file was still being executed."""


Told: TypeAlias = Judged | Loaded | Fix | Hover | Stage | Failed

_KINDS = {kind.__name__: kind for kind in (Judged, Loaded, Fix, Hover, Stage, Failed)}


def to_json(told: Told) -> dict[str, Json]:
    """One message as an object."""
    return {"kind": type(told).__name__, "told": encode(told)}


def from_json(message: Mapping[str, Json]) -> Told:
    """The message of an object.  Raises KeyError and UnreadableError for what is none."""
    return cast(Told, decode(_KINDS[str(message["kind"])], message["told"]))


# Places of the checker as positions of the protocol: from 0, in the units that were agreed on.

_UNIT = {
    lsp.PositionEncodingKind.Utf8: "utf-8",
    lsp.PositionEncodingKind.Utf16: "utf-16-le",
    lsp.PositionEncodingKind.Utf32: "utf-32-le",
}
_WIDTH = {"utf-8": 1, "utf-16-le": 2, "utf-32-le": 4}


def to_range(
    place: Place, lines: Sequence[str], encoding: lsp.PositionEncodingKind | str
) -> lsp.Range:
    """The range of a place in a text of these lines."""
    line, column, end_line, end_column = place
    return lsp.Range(
        _position(line, column, lines, encoding), _position(end_line, end_column, lines, encoding)
    )


def _position(
    line: int, column: int, lines: Sequence[str], encoding: lsp.PositionEncodingKind | str
) -> lsp.Position:
    row = max(line - 1, 0)
    if row >= len(lines):
        return lsp.Position(row, 0)
    text = lines[row].rstrip("\r\n")[: max(column - 1, 0)]
    unit = _UNIT[lsp.PositionEncodingKind(encoding)]
    return lsp.Position(row, len(text.encode(unit, "surrogatepass")) // _WIDTH[unit])


def contains(outer: lsp.Range, at: lsp.Position) -> bool:
    """Tests whether a position is in a range, its end included."""
    start, end = (outer.start.line, outer.start.character), (outer.end.line, outer.end.character)
    return start <= (at.line, at.character) <= end


def overlap(one: lsp.Range, other: lsp.Range) -> bool:
    """Tests whether two ranges touch."""
    return contains(one, other.start) or contains(other, one.start)
