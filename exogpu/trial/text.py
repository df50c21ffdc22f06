"""The text of a program as a tree of lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Node: TypeAlias = "str | tuple[str, list[Node]]"
"""A line, or a line that opens a block."""


def nested(headers: Sequence[str], body: list[Node]) -> list[Node]:
    """The body inside blocks, outermost first."""
    for header in reversed(headers):
        body = [(header, body)]
    return body


def lines(nodes: Sequence[Node], depth: int) -> list[str]:
    """The text, indented."""
    found = []
    for node in nodes:
        header, body = node if isinstance(node, tuple) else (node, None)
        found.append("    " * depth + header)
        if body is not None:
            found += lines(body, depth + 1) or ["    " * (depth + 1) + "pass"]
    return found


def fence(pre: str = "cuda_in_order", post: str = "cuda_in_order") -> str:
    return f"Fence({pre}, {post})"
