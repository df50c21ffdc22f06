"""Reads MLIR's text as Triton prints TTGIR: operations, regions, types, locations.

Every line becomes an operation, the head or end of a region, an alias or a location; a line that
is none of these is refused, so that nothing is left out unseen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from exogpu.importing.refusals import unread

_RESULTS: Final = re.compile(r"((?:%[\w$.#-]+(?::\d+)?(?:, )?)+) = ")
_NAME: Final = re.compile(r'"?([a-z_][\w]*(?:\.[\w]+)+)"?')
_VALUE: Final = re.compile(r"%[\w$.-]+(?:#\d+)?")
_ANOTHER: Final = re.compile(r'(?<![\w!#%$."-])"?[a-z_]\w*(?:\.[a-z_]\w*)+\b|\bloc\(|%\S+ = ')
"""A second operation on the line of a first one."""
_ARGUMENT: Final = re.compile(r"(%[\w$.-]+): ")
_OPEN, _CLOSE = "([{<", ")]}>"
_REGIONS: Final = frozenset(
    {"tt.func", "scf.for", "scf.if", "scf.while", "tt.reduce", "tt.scan", "tt.map_elementwise"}
)
"""Operations with regions, besides `ttg.warp_specialize`, whose syntax is its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation, compared by identity."""

    name: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    """The values before the types, in the order of the text."""
    attributes: Mapping[str, str]
    text: str
    """The text between the name and the types, without the attributes."""
    types: str
    """The text after the ` : `."""
    location: str
    line: int
    """The line of the TTGIR, from 1."""
    regions: tuple[Region, ...] = ()

    def integer(self, name: str) -> int | None:
        """An integer attribute, whose type follows it; None where there is none."""
        found = re.match(r"-?\d+", self.attributes.get(name, ""))
        return None if found is None else int(found[0])


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A region of one block."""

    label: str
    """`default` and `partition0` of warp_specialize; `else` and `do`; otherwise empty."""
    arguments: tuple[str, ...]
    operations: tuple[Operation, ...]
    warps: int = 0

    @property
    def terminator(self) -> Operation | None:
        """Its last operation, where that ends a block."""
        last = self.operations[-1] if self.operations else None
        ends = ("scf.yield", "scf.condition", "ttg.warp_yield", "ttg.warp_return", "tt.return")
        return last if last is not None and last.name in ends else None


@dataclass(frozen=True, slots=True)
class Module:
    """A file of TTGIR."""

    function: Operation
    """The kernel: the one public function."""
    attributes: Mapping[str, str]
    aliases: Mapping[str, str]
    locations: Mapping[str, str]
    operations: int
    """The number of operations read."""

    def integer(self, name: str) -> int | None:
        """An integer attribute of the module."""
        found = re.match(r"-?\d+", self.attributes.get(name, ""))
        return None if found is None else int(found[0])


def read_module(text: str) -> Module:
    """Read the text of a module.  Raises RefusedError (K101) for a line of another form."""
    reader = _Reader(text.splitlines())
    return reader.module()


def walk(operations: tuple[Operation, ...]) -> Iterator[Operation]:
    """All operations, outer ones first."""
    for operation in operations:
        yield operation
        for region in operation.regions:
            yield from walk(region.operations)


@dataclass(slots=True)
class _Reader:
    lines: list[str]
    at: int = 0
    locations: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def module(self) -> Module:
        self._aliases()
        head = self._aliases_until("module")
        attributes = attributes_of(without_location(head)[0])
        functions = self._operations(_ends)
        self.at += 1
        while self.at < len(self.lines):
            if (left := self._line()) and not self._alias(left):
                raise self._unread(left)
            self.at += 1
        kernels = [one for one in functions if " public " in f" {one.text} "]
        if len(kernels) != 1 or any(one.name != "tt.func" for one in functions):
            raise unread(f"the module has {len(kernels)} public functions, not one kernel")
        return Module(kernels[0], attributes, self.aliases, self.locations, self.count)

    def _line(self) -> str:
        return self.lines[self.at].strip() if self.at < len(self.lines) else ""

    def _unread(self, line: str) -> Exception:
        return unread(f"line {self.at + 1} of the TTGIR is of no known form: {line[:80]}")

    def _alias(self, line: str) -> bool:
        """Returns whether the line is empty, a comment, or names an attribute or a location."""
        if not line or line.startswith("//"):
            return True
        found = re.fullmatch(r"(#\w+) = (.*)", line)
        if found is None:
            return False
        name, value = found[1], found[2]
        if name.startswith("#loc") and value.startswith("loc("):
            self.locations[name] = value[4:-1]
        else:
            self.aliases[name] = value
        return True

    def _aliases(self) -> None:
        while self.at < len(self.lines) and self._alias(self._line()):
            self.at += 1

    def _aliases_until(self, word: str) -> str:
        line = self._line()
        if not line.startswith(word) or not line.partition(" loc(")[0].endswith("{"):
            raise self._unread(line or "the file's end")
        self.at += 1
        return line

    def _operations(self, stop: Callable[[str], bool]) -> tuple[Operation, ...]:
        found: list[Operation] = []
        while True:
            if self.at >= len(self.lines):
                raise unread("the TTGIR ends within a region")
            line = self._line()
            if stop(line):
                return tuple(found)
            self.at += 1
            if line and not line.startswith("//"):
                found.append(self._operation(line))

    def _operation(self, line: str) -> Operation:
        self.count += 1
        number, results = self.at, tuple[str, ...]()
        rest = line
        if named := _RESULTS.match(line):
            results = _results(named[1])
            rest = line[named.end() :]
        called = _NAME.match(rest)
        if called is None:
            self.at -= 1
            raise self._unread(line)
        name, rest = called[1], rest[called.end() :].strip()
        if name == "ttg.warp_specialize":
            return self._specialized(results, rest, number)
        if name in _REGIONS and rest.endswith("{"):
            return self._with_regions(name, results, rest, number)
        if rest.endswith("{"):
            self.at -= 1
            raise self._unread(line)
        rest, location = without_location(rest)
        head, types = _split(rest)
        body = _without_attributes(head)
        if _ANOTHER.search(f"{body} {_without_attributes(types)}"):
            self.at -= 1
            raise self._unread(line)
        operands = tuple(_VALUE.findall(body))
        return Operation(
            name, results, operands, attributes_of(head), body, types, location, number
        )

    def _with_regions(
        self, name: str, results: tuple[str, ...], rest: str, number: int
    ) -> Operation:
        head = _without_argument_locations(rest)
        operands, arguments = _head(name, head)
        regions: list[Region] = []
        label = ""
        while True:
            while self._line().startswith("^bb"):
                arguments = tuple(_ARGUMENT.findall(self._line()))
                self.at += 1
            inside = self._operations(_ends_region)
            regions.append(Region(label, arguments, inside))
            end = self._line()
            self.at += 1
            if end.startswith("^bb"):
                raise unread(f"line {self.at} of the TTGIR begins a second block of one region")
            again = re.match(r"\} (else|do) \{", end)
            if again is None:
                break
            label, arguments = again[1], ()
        end, location = without_location(end)
        if not re.match(r"\}\)?( (attributes )?\{.*\})?( :.*)?$", end):
            self.at -= 1
            raise self._unread(end)
        attributes = {**attributes_of(head), **attributes_of(end.lstrip("})"))}
        text = _without_attributes(_split(head)[0])
        types = head if name == "tt.func" else end
        return Operation(
            name, results, operands, attributes, text, types, location, number, tuple(regions)
        )

    def _specialized(self, results: tuple[str, ...], rest: str, number: int) -> Operation:
        operands = tuple(_VALUE.findall(rest.partition(")")[0]))
        regions: list[Region] = []
        while True:
            head = _without_argument_locations(self._line())
            found = re.match(r"(default|partition\d+)\b.*\{$", head)
            if found is None:
                raise self._unread(head)
            self.at += 1
            inside = self._operations(_ends)
            warps = re.search(r"num_warps\(([1-9]\d*)\)", head)
            if (warps is None) != (found[1] == "default"):
                raise unread(f"a partition of another form: {head[:80]}")
            regions.append(
                Region(
                    found[1],
                    tuple(_ARGUMENT.findall(head)),
                    inside,
                    int(warps[1]) if warps else 0,
                )
            )
            end, location = without_location(self._line())
            self.at += 1
            if end != "}":
                if not end.startswith("} :"):
                    self.at -= 1
                    raise self._unread(end)
                break
        head = _without_argument_locations(rest)
        return Operation(
            "ttg.warp_specialize",
            results,
            operands,
            attributes_of(head),
            _without_attributes(head),
            end,
            location,
            number,
            tuple(regions),
        )


def _ends(line: str) -> bool:
    return line.startswith("}")


def _ends_region(line: str) -> bool:
    return line.startswith(("}", "^bb"))


def _results(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for part in text.split(", "):
        name, _, count = part.partition(":")
        found += [f"{name}#{at}" for at in range(int(count))] if count else [name]
    return tuple(found)


def _head(name: str, head: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The operands of an operation with regions, and the arguments of its first region."""
    match name:
        case "tt.func":
            return (), tuple(_ARGUMENT.findall(head))
        case "scf.for":
            found = re.match(
                r"(?:unsigned )?(%[\w$.-]+) = (%[\w$.#-]+) to (%[\w$.#-]+) step (%[\w$.#-]+)", head
            )
            if found is None:
                raise unread(f"a loop of another form: {head[:80]}")
            carried = re.search(r"iter_args\((.*?)\) ->", head)
            pairs = re.findall(r"(%[\w$.-]+) = (%[\w$.#-]+)", carried[1] if carried else "")
            operands = (found[2], found[3], found[4], *(value for _, value in pairs))
            return operands, (found[1], *(argument for argument, _ in pairs))
        case "scf.while":
            pairs = re.findall(r"(%[\w$.-]+) = (%[\w$.#-]+)", head)
            return tuple(value for _, value in pairs), tuple(argument for argument, _ in pairs)
        case _:
            return tuple(_VALUE.findall(_without_attributes(_split(head)[0]))), ()


def without_location(line: str) -> tuple[str, str]:
    """The text before a `loc(...)` at the end, and what is in it."""
    line = line.rstrip()
    if not line.endswith(")"):
        return line, ""
    depth = 0
    for at in range(len(line) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(line[at], 0)
        if depth == 0:
            if line[:at].endswith("loc"):
                return line[: at - 3].rstrip(), line[at + 1 : -1]
            break
    return line, ""


def _without_argument_locations(text: str) -> str:
    while (at := text.find(" loc(")) >= 0:
        depth, end = 0, at + 4
        while end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                break
            end += 1
        text = text[:at] + text[end + 1 :]
    return text


def _split(text: str) -> tuple[str, str]:
    """Splits a text at the ` : ` that is in no brackets."""
    if text.startswith(": "):
        return "", text[2:]
    depth = 0
    for at, char in enumerate(text):
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE and text[at - 1 : at + 1] != "->":
            depth -= 1
        elif depth == 0 and text[at : at + 3] == " : ":
            return text[:at], text[at + 3 :]
    return text, ""


def _without_attributes(text: str) -> str:
    """The text without what stands in braces."""
    kept, depth = [], 0
    for char in text:
        depth += char == "{"
        if depth == 0:
            kept.append(char)
        depth -= char == "}"
    return "".join(kept).strip()


def attributes_of(text: str) -> dict[str, str]:
    """The attributes in the braces of a text, by name; a flag's is empty."""
    found: dict[str, str] = {}
    for part in _parts("".join(_braced(text))):
        name, _, value = part.partition(" = ")
        if name:
            found[name.strip().strip('"')] = value.strip()
    return found


def _braced(text: str) -> Iterator[str]:
    depth = 0
    for char in text:
        depth -= char == "}"
        if depth > 0:
            yield char
        elif char == "}":
            yield ", "
        depth += char == "{"


def _parts(text: str) -> Iterator[str]:
    """The parts between commas that are in no brackets and no quotes."""
    depth, start, quoted = 0, 0, False
    for at, char in enumerate(text):
        quoted ^= char == '"'
        if quoted:
            continue
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE and text[at - 1 : at + 1] != "->":
            depth -= 1
        elif char == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()
