"""A digest of a procedure: equal for procedures that are read alike, in any process.

It covers everything that the representation holds: statements, types, the instructions and
procedures that are called, and the places of it all in the source, which verdicts name.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Final

from exogpu.diagnostics.errors import Span
from exogpu.ir.nodes import Proc
from exogpu.ir.types import Sym


def digest(proc: Proc, *, places: bool = True, from_first_line: bool = False) -> str | None:
    """The SHA-256, in hexadecimal; None where a compile-time parameter is an object of which it is
    not known what determines it.  Without `places`, neither they nor docstrings count, nor whether
    equal parts are one object.  With `from_first_line`, lines of the procedure's file are counted
    from its first one: it is the same where it moves up or down as a whole."""
    origin = proc.span if from_first_line else None
    return _digest(_Writer(places, identity=places, origin=origin), proc)


def digest_of(value: object) -> str | None:
    """The same of anything made of tuples and exogpu's own records: which of its parts are one
    object counts, places and docstrings do not."""
    return _digest(_Writer(places=False, identity=True), value)


def _digest(writer: _Writer, value: object) -> str | None:
    try:
        writer.write(value)
    except (_UnknownError, RecursionError):
        return None
    return hashlib.sha256("\n".join(writer.words).encode()).hexdigest()


class _UnknownError(Exception):
    """An object of another kind."""


@cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


_PLAIN: Final = frozenset({int, float, Fraction, str})
"""A member of an enumeration is an integer too, and not told by what it prints."""


_PLACES: Final = frozenset({"span", "doc"})


def _ours(kind: type) -> bool:
    """Tests whether a type is exogpu's own: the cache knows the text of these, but not of a
    user's."""
    return kind.__module__.startswith("exogpu.")


class _Writer:
    """Writes objects as words; what was written before is written as its number."""

    def __init__(self, places: bool, identity: bool, origin: Span | None = None) -> None:
        self.words: list[str] = []
        self._places, self._identity, self._origin = places, identity, origin
        self._known: dict[int, int] = {}
        self._names: dict[int, int] = {}

    def write(self, value: object) -> None:
        """Each word tells how it is to be read, and strings are quoted."""
        say = self.words.append
        kind: type = type(value)
        match value:
            case None | bool():
                say(repr(value))
            case Enum() if _ours(kind):
                say(f"enum {kind.__qualname__}.{value.name}")
            case _ if kind in _PLAIN:
                say(f"{kind.__name__} {value!r}")
            case Sym():
                number = self._names.setdefault(value.number, len(self._names))
                say(f"name {number} {value.name!r}")
            case tuple() if kind is tuple:
                say(f"tuple {len(value)}")
                for item in value:
                    self.write(item)
            case frozenset() if kind is frozenset:
                say(f"set {len(value)}")
                self.words += sorted(map(self._member_text, value))
            case _ if is_dataclass(kind) and _ours(kind):
                if self._identity and id(value) in self._known:
                    say(f"again {self._known[id(value)]}")
                    return
                self._known[id(value)] = len(self._known)
                say(f"{kind.__qualname__}")
                value = self._relative_span(value) if isinstance(value, Span) else value
                for name in _fields(kind):
                    if self._places or name not in _PLACES:
                        self.write(getattr(value, name))
            case _:
                raise _UnknownError(kind)

    def _relative_span(self, span: Span) -> Span:
        """With its lines counted from the origin's."""
        if self._origin is None or span.file != self._origin.file:
            return span
        up = self._origin.line
        return replace(span, line=span.line - up, end_line=span.end_line - up)

    def _member_text(self, value: object) -> str:
        """A member of a set, in one word."""
        if not isinstance(value, Enum | str | int | Sym):
            raise _UnknownError(type(value))
        before, self.words = self.words, []
        self.write(value)
        (word,) = self.words
        self.words = before
        return word
