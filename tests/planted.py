"""Kernels of `tests/cases/planted` and the bugs that are planted in them, out of their comments.

    # planted NAME: EDIT; EDIT | EXPECTED | REPAIR | AFTER

A line of the kernel has a name if it ends in `# [name]`.  An EDIT is one of

    drop LINE                     in its place stands `pass`
    cut LINE                      nothing stands in its place
    LINE: OLD -> NEW              another text in it
    move LINE before OTHER        or `after`, indented like that
    add TEXT before OTHER         or `after`
    put LINE under HEADER         in a block of its own

EXPECTED has the kinds of the hazards, or the codes of what is ill-formed; REPAIR a part of what the
first of them says, in which `{line}` is the number of a line; AFTER the verdict on the text with
that repair made as it is written.  What is empty is not asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CASES: Final = Path(__file__).parent / "cases" / "planted"

_PLANTED: Final = re.compile(r"^# planted (\w+): (.+)$", re.MULTILINE)
_EDIT: Final = re.compile(
    r"drop (?P<drop>\w+)"
    r"|cut (?P<cut>\w+)"
    r"|(?P<within>\w+): (?P<old>.+) -> (?P<new>.+)"
    r"|move (?P<moved>\w+) (?P<to>before|after) (?P<place>\w+)"
    r"|add (?P<text>.+) (?P<at>before|after) (?P<where>\w+)"
    r"|put (?P<put>\w+) under (?P<header>.+)"
)
_NAMED: Final = r"  # \[{}\]$"


@dataclass(frozen=True)
class Bug:
    """One planted bug: a kernel's file, the edits, and what its verdict says."""

    path: Path
    name: str
    edits: tuple[str, ...]
    expected: frozenset[str]
    repair: str
    after: str

    @property
    def text(self) -> str:
        """The file with the bug in it, without the comments that tell of bugs."""
        lines = source(self.path).splitlines()
        for edit in self.edits:
            lines = _edited(lines, edit)
        return "\n".join(lines) + "\n"


def source(path: Path) -> str:
    """The file of a kernel without the comments that tell of bugs."""
    return path.read_text().partition("\n# planted ")[0].rstrip() + "\n"


def kernels() -> list[Path]:
    """The files of all kernels."""
    return sorted(CASES.glob("*.py"))


def bugs(path: Path) -> list[Bug]:
    """The bugs of one kernel."""
    text = re.sub(r"\n#    +", " ", path.read_text())
    found = []
    for name, rest in _PLANTED.findall(text):
        edits, *asked = [part.strip() for part in rest.split(" | ")]
        expected, repair, after = [*asked, "", "", ""][:3]
        of = Bug(path, name, tuple(edits.split("; ")), frozenset(expected.split()), repair, after)
        found.append(of)
    return found


def numbered(bug: Bug, text: str) -> str:
    """The text with the number of a line in the place of each `{line}`."""
    lines = bug.text.splitlines()
    return re.sub(r"\{(\w+)\}", lambda name: str(_place(lines, name[1]) + 1), text)


def _place(lines: list[str], name: str) -> int:
    (found,) = [n for n, line in enumerate(lines) if re.search(_NAMED.format(name), line)]
    return found


def _edited(lines: list[str], edit: str) -> list[str]:
    given = _EDIT.fullmatch(edit)
    assert given is not None, edit
    if given["drop"]:
        at = _place(lines, given["drop"])
        return [*lines[:at], f"{_indent(lines[at])}pass", *lines[at + 1 :]]
    if given["cut"]:
        at = _place(lines, given["cut"])
        return [*lines[:at], *lines[at + 1 :]]
    if given["within"]:
        at = _place(lines, given["within"])
        assert lines[at].count(given["old"]) == 1, edit
        return [*lines[:at], lines[at].replace(given["old"], given["new"]), *lines[at + 1 :]]
    if given["put"]:
        at = _place(lines, given["put"])
        header = f"{_indent(lines[at])}{given['header']}"
        return [*lines[:at], header, f"    {lines[at]}", *lines[at + 1 :]]
    if given["moved"]:
        at = _place(lines, given["moved"])
        moved, lines = lines[at], [*lines[:at], *lines[at + 1 :]]
        return _inserted(lines, moved.strip(), given["to"], given["place"])
    return _inserted(lines, given["text"], given["at"], given["where"])


def _inserted(lines: list[str], text: str, to: str, name: str) -> list[str]:
    at = _place(lines, name)
    place = at + (to == "after")
    return [*lines[:place], f"{_indent(lines[at])}{text}", *lines[place:]]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
