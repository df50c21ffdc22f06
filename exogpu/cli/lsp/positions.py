"""Places of the checker as positions of the protocol: from 0, in the units that were agreed on."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types as lsp

from exogpu.cli.lsp.records import Place

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
