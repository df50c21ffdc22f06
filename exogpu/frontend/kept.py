"""The backstop of reading: a procedure whose IR lost a statement is not a procedure.

It counts.  Each statement that is read becomes one statement of the IR with its place, unless a
compile-time value dissolves it (a dead `if`, an unrolled loop) or leaves it out (a branch not
taken).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from exogpu.frontend.source import Source
from exogpu.result.errors import Span


@dataclass(slots=True)
class Reading:
    """The fate of each statement of the source, by node."""

    seen: Counter[ast.stmt] = field(default_factory=Counter)
    """How often each was read: once for each time that its loop is unrolled."""
    dissolved: Counter[ast.stmt] = field(default_factory=Counter)
    """How often a compile-time value decided it, so that nothing is left but what is inside."""
    expanded: list[tuple[Source, list[ast.stmt]]] = field(default_factory=list)
    """The statements of macros that were called."""
    left_out: set[ast.stmt] = field(default_factory=set)
    """Branches that are not taken, and bodies of loops over nothing."""


def bodies(reading: Reading) -> Iterator[tuple[Source, list[ast.stmt]]]:
    """The statements of each macro that was called, once however often it was."""
    yield from {nodes[0]: (source, nodes) for source, nodes in reading.expanded if nodes}.values()


def lost(
    nodes: Iterable[ast.stmt], made: Mapping[Span, int], reading: Reading, source: Source
) -> ast.stmt | None:
    """A statement of the source that is missing from the IR, or stands there too often; `made` is
    how often the IR has one of a place."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node in reading.left_out and not reading.seen[node]:
            continue
        expected = reading.seen[node] - reading.dissolved[node]
        if not reading.seen[node] or made.get(source.span(node), 0) != expected:
            return node
        waiting += (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))
    return None
