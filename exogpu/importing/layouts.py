"""Reads TTGIR's types: shapes, element types, and the threads that hold a tensor's elements."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

BITS: Final[Mapping[str, int]] = {
    **{f"i{n}": n for n in (8, 16, 32, 64)},
    **{"i1": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64},
    **dict.fromkeys(("f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ"), 8),
}
"""Bits of an element in shared memory."""

_SHAPED: Final = re.compile(
    r"(!ttg\.memdesc)?<((?:\d+x)+)([\w!.]+)(?:<[^<>]*>)?, (#[^<>]*(?:<.*?>)?)"
)
_TENSOR: Final = re.compile(r"tensor<((?:\d+x)+)([^,]*), (.*)>$")


@dataclass(frozen=True, slots=True)
class Shape:
    """Extents and element type of a memory description or tensor, with its layout's text."""

    extents: tuple[int, ...]
    element: str
    layout: str

    @property
    def bytes(self) -> int | None:
        """Its size; None for an element of unknown width."""
        bits = BITS.get(self.element)
        return None if bits is None else prod(self.extents) * bits // 8


def types_in(text: str) -> list[str]:
    """The types of a list of types, as `a, b -> c` or `a * b -> c`."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "([{<":
            depth += 1
        elif char in ")]}>" and text[at - 1 : at + 1] != "->":
            depth -= 1
        elif depth == 0 and (char in ",*" or text[at : at + 2] == "->"):
            found.append(text[start:at])
            start = at + (2 if char == "-" else 1)
    found.append(text[start:])
    return [one.strip() for one in found if one.strip()]


def memory(text: str) -> Shape | None:
    """A memory description; None for another type."""
    found = _SHAPED.match(text)
    if found is None or "smem" not in text:
        return None
    extents = tuple(int(n) for n in found[2].rstrip("x").split("x"))
    inside = text[text.index("<") + 1 :]
    layout = inside.split(", ", 1)[1].rpartition(", #")[0]
    return Shape(extents, found[3], layout)


def tensor(text: str) -> Shape | None:
    """A tensor type; None for another one."""
    found = _TENSOR.match(text)
    if found is None:
        return None
    return Shape(tuple(int(n) for n in found[1].rstrip("x").split("x")), found[2], found[3])


def description(text: str) -> tuple[int, ...] | None:
    """The extents of a tensor descriptor's block; None for another type."""
    found = re.match(r"!tt\.tensordesc<(?:tensor<)?((?:\d+x)+)", text)
    return None if found is None else tuple(int(n) for n in found[1].rstrip("x").split("x"))


def held_once(shape: Shape, aliases: Mapping[str, str]) -> bool:
    """Returns whether no two threads hold one element; False for a layout of unknown kind."""
    text = aliases.get(shape.layout, shape.layout)
    match text.partition("<")[0]:
        case "#ttg.blocked":
            rows = [_numbers(text, name) for name in _BLOCKED]
            return all(row is not None for row in rows) and _fits_extents(shape.extents, rows)
        case "#ttg.nvidia_mma":
            warps, instruction = _numbers(text, "warpsPerCTA"), _numbers(text, "instrShape")
            if warps is None or instruction is None or "versionMajor = 3" not in text:
                return False
            return _fits_extents(shape.extents, [warps, instruction[: len(warps)]])
        case "#ttg.linear":
            bases = re.findall(r"(?:lane|warp) = \[((?:\[[\d, ]*\](?:, )?)*)\]", text)
            steps = [step for part in bases for step in re.findall(r"\[([\d, ]*)\]", part)]
            return len(bases) == 2 and all(re.search("[1-9]", step) for step in steps)
        case _:
            return False


_BLOCKED: Final = ("sizePerThread", "threadsPerWarp", "warpsPerCTA")


def _numbers(text: str, name: str) -> tuple[int, ...] | None:
    found = re.search(rf"\b{name} = \[([\d, ]+)\]", text)
    return None if found is None else tuple(int(n) for n in found[1].split(", "))


def _fits_extents(extents: Sequence[int], rows: Sequence[Sequence[int] | None]) -> bool:
    """Returns whether the threads of a layout cover no more than the extents."""
    columns = list(zip(*(row or () for row in rows), strict=False))
    return len(columns) == len(extents) and all(
        prod(column) <= extent for column, extent in zip(columns, extents, strict=True)
    )
