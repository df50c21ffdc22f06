"""Reads PTX: entries with their parameters, instructions and labels.  What it does not know it
refuses; nothing is left out but directives that carry no meaning here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from exogpu.validate.refusals import refusal_of

_SILENT: Final = frozenset(
    {".version", ".target", ".address_size", ".reg", ".loc", ".file", ".pragma"}
)
"""Directives that say nothing of what a thread does.  Registers are known by their names."""

_LIMITS: Final = (".maxntid", ".minnctapersm", ".reqntid", ".maxnreg", ".explicitcluster",
                  ".reqnctapercluster", ".maxclusterrank")  # fmt: skip
"""Directives between the parameters and the body."""

_SHARED: Final = re.compile(r"\.extern \.shared \.align (\d+) \.b8 (\w+)\[\];")
_PARAMETER: Final = re.compile(r"\.param (?:\.align \d+ )?\.(\w+) (\w+)(?:\[(\d+)\])?")
_STATEMENT: Final = re.compile(r"(?:@(!?)(%?\w+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
_LABEL: Final = re.compile(r"(\$?\w+):")


@dataclass(frozen=True, slots=True)
class Guard:
    """The predicate of an instruction."""

    register: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction."""

    guard: Guard | None
    opcode: tuple[str, ...]
    """Its name, and its modifiers in order."""
    operands: tuple[str, ...]
    text: str
    line: int

    @property
    def name(self) -> str:
        """The opcode as it is written."""
        return ".".join(self.opcode)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an entry; `bytes` of one that is passed by value, else 0."""

    type: str
    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel."""

    name: str
    parameters: tuple[Parameter, ...]
    code: tuple[Instruction, ...]
    labels: Mapping[str, int]
    """The instruction that follows each label."""
    shared: str | None
    """The name of its dynamic shared memory."""


def read_ptx(text: str) -> Mapping[str, Entry]:
    """The entries of a module, by name.  Raises NotValidatedError for what it does not know."""
    lines = list(enumerate(text.split("\n"), 1))
    found: dict[str, Entry] = {}
    shared: str | None = None
    at = 0
    while at < len(lines):
        number, line = lines[at][0], _code_of(lines[at][1])
        at += 1
        if not line or line.split()[0] in _SILENT:
            continue
        if line.startswith(".section"):
            at = _after_block(lines, at)
        elif declared := _SHARED.fullmatch(line):
            shared = declared[2]
        elif line.startswith(".visible .entry "):
            entry, at = _entry(lines, at - 1, shared)
            found[entry.name] = entry
        else:
            raise refusal_of("a directive of PTX that is not known", line, number)
    return found


def _code_of(line: str) -> str:
    return line.partition("//")[0].strip()


def _after_block(lines: Sequence[tuple[int, str]], at: int) -> int:
    depth = 0
    while at < len(lines):
        line = _code_of(lines[at][1])
        depth += line.count("{") - line.count("}")
        at += 1
        if depth == 0 and line:
            break
    return at


def _entry(lines: Sequence[tuple[int, str]], at: int, shared: str | None) -> tuple[Entry, int]:
    head, number = "", lines[at][0]
    while "{" not in head:
        if at == len(lines):
            raise refusal_of("an entry without a body", head, number)
        head += " " + _code_of(lines[at][1])
        at += 1
    named = re.search(r"\.entry (\w+)\s*\(([^)]*)\)(.*)\{$", head.strip())
    if named is None:
        raise refusal_of("an entry that is not known", head, number)
    limits = re.findall(r"\.\w+", named[3])
    if unknown := [one for one in limits if one not in _LIMITS]:
        raise refusal_of("a directive of PTX that is not known", unknown[0], number)
    code, labels, at = _body(lines, at)
    parameters = tuple(_parameters(named[2], number))
    return Entry(named[1], parameters, tuple(code), labels, shared), at


def _parameters(text: str, number: int) -> Iterator[Parameter]:
    for one in filter(None, (part.strip() for part in text.split(","))):
        found = _PARAMETER.fullmatch(one)
        if found is None:
            raise refusal_of("a parameter that is not known", one, number)
        yield Parameter(found[1], found[2], int(found[3] or 0))


def _body(
    lines: Sequence[tuple[int, str]], at: int
) -> tuple[list[Instruction], dict[str, int], int]:
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    depth, text = 1, ""
    while depth:
        if at == len(lines):
            raise refusal_of("an entry without an end")
        number, line = lines[at][0], _code_of(lines[at][1])
        at += 1
        if line == "{":
            depth += 1
        elif line == "}":
            depth -= 1
        elif not text and (label := _LABEL.fullmatch(line)):
            labels[label[1]] = len(code)
        elif line and (text or line.split()[0] not in _SILENT):
            text += " " + line
            *whole, text = text.split(";")
            code += [_instruction(one.strip(), number) for one in whole if one.strip()]
            text = text.strip()
    if text:
        raise refusal_of("an instruction without an end", text)
    return code, labels, at


def _instruction(text: str, number: int) -> Instruction:
    if text.startswith(".reg "):  # of inline assembly
        return Instruction(None, ("nop",), (), text, number)
    found = _STATEMENT.fullmatch(text)
    if found is None:
        raise refusal_of("an instruction that is not known", text, number)
    guard = Guard(found[2], found[1] == "!") if found[2] else None
    return Instruction(guard, tuple(found[3].split(".")), _split(found[4]), text, number)


def _split(text: str) -> tuple[str, ...]:
    """The operands: commas inside of brackets and braces are theirs."""
    found, depth = [""], 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if character == "," and not depth:
            found.append("")
        else:
            found[-1] += character
    return tuple(one.strip() for one in found if one.strip())
