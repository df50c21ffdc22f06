"""Finds the place of a TTGIR operation in the user's file."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from exogpu.diagnostics.errors import NOWHERE, Span
from exogpu.importing.mlir_text import Module, Operation

_COMPILER: Final = ("/triton/language/", "/triton/experimental/", "/triton/tools/", "/tlx/")
"""Folders of files that users do not write: their callers' lines are told instead."""


@dataclass(frozen=True, slots=True)
class Places:
    """The locations of a module."""

    locations: Mapping[str, str]
    end: Span

    def span(self, operation: Operation) -> Span:
        """The innermost line of the user's own file; where there is none, of the kernel."""
        found = list(self._chain(operation.location, 0))
        own = [one for one in found if not is_compilers(one[0])]
        if not (own or found):
            return self.end
        return _span(*(own or found)[0])

    def name(self, operation: Operation) -> str:
        """The name of the user's variable that the location tells; empty where it tells none."""
        text = self._resolve(operation.location)
        if text.startswith("callsite("):
            text = self._resolve(_sides(text)[0])
        found = re.match(r'"([^"/]+)"\(', text)
        return found[1] if found else ""

    def _resolve(self, text: str) -> str:
        text = text.strip()
        return self.locations.get(text, text)

    def _chain(self, text: str, depth: int) -> Iterator[tuple[str, int, int]]:
        """Files, lines and columns, the innermost first."""
        text = self._resolve(text)
        if depth > 64:
            return
        if text.startswith("callsite("):
            for side in _sides(text):
                yield from self._chain(side, depth + 1)
        elif found := re.match(r'"([^"]*)":(\d+):(\d+)', text):
            yield found[1], int(found[2]), int(found[3])
        elif found := re.match(r'"[^"]*"\((.*)\)$', text):
            yield from self._chain(found[1], depth + 1)
        elif found := re.match(r"fused<?.*\[(.*)\]$", text):
            for part in found[1].split(", "):
                yield from self._chain(part, depth + 1)


def is_compilers(file: str) -> bool:
    """Returns whether a file is one of Triton's, and not the user's."""
    return any(part in f"/{file}" for part in _COMPILER)


def places_of(module: Module) -> Places:
    """The places of a module; those of its function are told where there is no better one."""
    first = Places(module.locations, NOWHERE)
    return Places(module.locations, first.span(module.function))


def _sides(text: str) -> tuple[str, str]:
    """The callee and the caller of a `callsite(a at b)`."""
    inside = text[len("callsite(") : -1]
    callee, _, caller = inside.partition(" at ")
    return callee, caller


def _span(file: str, line: int, column: int) -> Span:
    text = linecache.getline(file, line).rstrip("\n")
    column = max(column, 1)
    return Span(file, line, column, line, max(len(text.rstrip()), column) + 1, text)
