"""Tests whether a kernel's PTX leaves accumulators alone while a wgmma may still write them.

TTGIR has values and no registers: where it selects another value for an accumulator, LLVM chooses
when the registers change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_REGISTER: Final = re.compile(r"%\w+")
_LABEL: Final = re.compile(r"(\$\w+):")
_BRANCH: Final = re.compile(r"(@!?%\w+\s+)?bra(?:\.uni)?\s+(\$\w+)")


@dataclass(slots=True)
class _Block:
    """Instructions that are executed one after another."""

    lines: list[str] = field(default_factory=list)
    following: list[str] = field(default_factory=list)
    """The labels of the blocks that may come next."""


def touched_accumulator(ptx: str) -> str | None:
    """Returns an instruction that accesses an accumulator while a wgmma may be under way; None
    where there is none."""
    accumulators: set[str] = set()
    for line in ptx.splitlines():
        if line.strip().startswith("wgmma.mma_async"):
            accumulators |= set(_REGISTER.findall(line.partition("}")[0]))
    blocks = _blocks(ptx)
    entered = dict.fromkeys(blocks, False)
    """By label: whether a wgmma may be under way as the block begins."""
    waiting = list(blocks)
    while waiting:
        label = waiting.pop()
        under_way, touched = _state_after(blocks[label], entered[label], accumulators)
        if touched is not None:
            return touched
        for other in blocks[label].following:
            if under_way and not entered.get(other, True):
                entered[other] = True
                waiting.append(other)
    return None


def _state_after(block: _Block, under_way: bool, accumulators: set[str]) -> tuple[bool, str | None]:
    """Returns whether a wgmma may be under way at a block's end, and an access of accumulators."""
    for line in block.lines:
        if line.startswith("wgmma.mma_async"):
            under_way = True
        elif line.startswith("wgmma.wait_group") and re.search(r"\s0;$", line):
            under_way = False
        elif line.startswith("wgmma."):
            continue
        elif under_way and accumulators & set(_REGISTER.findall(line)):
            return under_way, line
    return under_way, None


def _blocks(ptx: str) -> dict[str, _Block]:
    """The blocks by label; branches within inline assembly stay in their block."""
    found = {"": _Block()}
    label, closed = "", False
    for text in ptx.splitlines():
        line = text.partition("//")[0].strip()
        if not line or line.startswith("."):
            continue
        if begins := _LABEL.match(line):
            if not closed:
                found[label].following.append(begins[1])
            label, closed = begins[1], False
            found[label] = _Block()
            continue
        found[label].lines.append(line)
        if branch := _BRANCH.match(line):
            found[label].following.append(branch[2])
            following = f"{label}+{len(found)}"
            if branch[1]:
                found[label].following.append(following)
            label, closed = following, not branch[1]
            found[label] = _Block()
    return found
