"""Lines of C++ text: blocks in braces."""

from __future__ import annotations

from typing import TypeAlias

Lines: TypeAlias = list[str]


def indented(lines: Lines) -> Lines:
    """The lines of a block's inside."""
    return [f"    {line}" if line else line for line in lines]


def braces(head: str, inside: Lines) -> Lines:
    """`head { inside }`"""
    return [f"{head} {{" if head else "{", *indented(inside), "}"]
