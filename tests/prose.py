"""Sentences of a page, how long they are by words, and the words that are written by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.pages import BLOCK

MEAN, LONGEST = 18, 35
"""Words: of a page's sentences at most so many in the mean, and of any at most so many."""
_COMMENT = re.compile(r"<!-- begin (\S+) -->.*?<!-- end \1 -->|<!--.*?-->", re.DOTALL)
"""A part that a campaign generates, or a comment."""
_GENERATED = re.compile(
    r"<!-- begin (\S+) -->.*?<!-- end \1 -->"
    r"|<!-- ([\w ]+): begin -->.*?<!-- \2: end -->"
    r"|<!-- What follows is written by (\S+)\. -->.*?(?:<!-- What \3 writes ends here\. -->|\Z)",
    re.DOTALL,
)
"""The parts that programs write: campaigns, benchmarks, and tests with `--update-golden`."""
_CONSOLE = re.compile(r"^```console\n.*?^```", re.DOTALL | re.M)
_PRINTED = re.compile(r"^(?!\$ |```).*\n", re.M)
_INDENTED = re.compile(r"(?<=\n\n)(?:(?: {4}|\t)[^\n]*\n+)+")
_LINE = re.compile(r"^(?:\||#)[^\n]*$", re.M)
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+", re.M)
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_END = re.compile(r"(?<=[.?!])[)\"*]*\s+")


def paragraphs(page: str) -> Iterator[str]:
    """The prose of a page: no code, tables, headings or comments; an item of a list is one."""
    text = page
    for skipped in (BLOCK, _COMMENT, _INDENTED, _LINE):
        text = skipped.sub("\n\n", text)
    text = _ITEM.sub("\n\n", text)
    for part in re.split(r"\n\s*\n", text):
        if part.strip():
            yield " ".join(part.split())


def sentences(page: str) -> list[int]:
    """The words of each sentence; inline code is one word."""
    lengths = []
    for part in paragraphs(page):
        plain = _LINK.sub(r"\1", _CODE.sub("code", part))
        for sentence in _END.split(plain):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if words:
                lengths.append(len(words))
    return lengths


def too_long(page: str) -> str | None:
    """What is wrong with the sentences of a page, or None."""
    lengths = sentences(page)
    if not lengths:
        return None
    mean, longest = sum(lengths) / len(lengths), max(lengths)
    if mean <= MEAN and longest <= LONGEST:
        return None
    return f"{mean:.1f} words a sentence in the mean, {longest} in the longest"


def handwritten(page: str) -> int:
    """The words of a page, code and tables too, without what programs write or print."""
    text = _CONSOLE.sub(lambda found: _PRINTED.sub("", found[0]), _GENERATED.sub("", page))
    return len(text.split())
