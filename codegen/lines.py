"""Lines of C++ text: blocks in braces."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

Lines: TypeAlias = list[str]

_JOINS: Final = re.compile(r"(\\|\?\?/|\s)+$")
"""An end that makes the next line of C++ a part of this one; also as a trigraph."""


def comment(text: str) -> str:
    """`// text`: one line, whatever the text, and without an end that takes the next one in."""
    return f"// {_JOINS.sub('', one_line(text))}"


def one_line(text: str) -> str:
    """The text with spaces for its ends of lines."""
    return " ".join(text.splitlines())


def indented(lines: Lines) -> Lines:
    """The lines of a block's inside."""
    return [f"    {line}" if line else line for line in lines]


def braces(head: str, inside: Lines) -> Lines:
    """`head { inside }`"""
    return [f"{head} {{" if head else "{", *indented(inside), "}"]
