"""Output of a compiler for a `.cu` text, and its report on each kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Compiled:
    """A text compiled for one architecture."""

    cubin: bytes
    ptx: str
    log: str
    """What the compiler and ptxas printed: warnings, registers, spills."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that one kernel needs, from the log of ptxas; all but `registers` in bytes a
    thread."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int


_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_HELD_UP = re.compile(r"\((C75\d\d)\) (?!\S+arrive is injected)(.*?) in (?:the )?function '(\w+)'")
"""What is said of products that run on, but that one more may begin; older ones say `warpgroup`."""


def usage(log: str) -> Mapping[str, Usage]:
    """The needs of each kernel that ptxas compiled."""
    found = {}
    for part in re.split(r"(?=Compiling entry function)", log)[1:]:
        name, frame, registers = (p.search(part) for p in (_ENTRY, _FRAME, _REGISTERS))
        if name and frame and registers:
            found[name[1]] = Usage(int(registers[1]), *map(int, frame.groups()))
    return found


def held_up(log: str) -> Mapping[str, tuple[str, ...]]:
    """By kernel, where ptxas makes wgmma wait, and why, in its words."""
    found: dict[str, dict[str, None]] = {}
    for number, why, name in _HELD_UP.findall(log):
        found.setdefault(name, {})[f"{why} ({number})"] = None
    return {name: tuple(reasons) for name, reasons in found.items()}
