"""Register tiles: which thread holds an element, in which of its registers (PTX ISA, fragments).

An index of a tile is a mixed-radix number.  Each digit says a part of the thread, or of the
register: `8 T4` is a digit of 8 values, each 4 threads further than the one before, `2 R1` one of
2 values, each a register further.  `* R` is what is left of an extent, in the registers after all
others; of several the last dimension's come first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from exogpu.ir.nodes import Add, CExpr, FloorDiv, Int, Mod, Mul
from exogpu.ir.types import DataMemory, DataType

_TABLE: Final = """
layout  bits | rows               | columns         | PTX ISA
wgmma D  32  | 8 T4, 2 R2, 4 T32, * R | 2 R1, 4 T1, * R | wgmma, register fragments: D of m64nN
wgmma A  32  | 8 T4, 2 R1, 4 T32  | 4 T1, 2 R2, * R | wgmma, register fragments: A of m64nNk8
wgmma A  16  | 8 T4, 2 R2, 4 T32  | 2 R1, 4 T1, * R | wgmma, register fragments: A of m64nNk16
rows     32  | 8 T4, 2 R1, 4 T32, * R | 4 T1        | the rows of wgmma D, one copy a lane
mma A    32  | 8 T4, 2 R1         | 4 T1, * R       | fragments of mma.m16n8k4 and m16n8k8, tf32
mma A    16  | 8 T4, 2 R2         | 2 R1, 4 T1, * R | fragments of mma.m16n8k16
mma A    8   | 8 T4, 2 R4         | 4 R1, 4 T1, * R | fragments of mma.m16n8k16 and m16n8k32, bytes
mma B    32  | 8 T4               | 4 T1, * R       | fragments of mma.m16n8k4 and m16n8k8, tf32
mma B    16  | 8 T4               | 2 R1, 4 T1, * R | fragments of mma.m16n8k16
mma B    8   | 8 T4               | 4 R1, 4 T1, * R | fragments of mma.m16n8k16 and m16n8k32, bytes
mma D    32  | 8 T4, 2 R2         | 2 R1, 4 T1      | fragments of mma.m16n8k8 and m16n8k16
"""


@dataclass(frozen=True, slots=True)
class Digit:
    """A digit of an index: `extent` values, `stride` threads or registers apart."""

    extent: int
    of_thread: bool
    stride: int


@dataclass(frozen=True, slots=True)
class Held:
    """A digit, and what one of it counts in which dimension."""

    dimension: int
    place: int
    digit: Digit


@dataclass(frozen=True, slots=True)
class Fragment:
    """The map of one register tile; `digits` has one tuple a dimension, the least digit first."""

    shape: tuple[int, ...]
    digits: tuple[tuple[Digit, ...], ...]

    @property
    def threads(self) -> int:
        """The number of threads that hold the tile."""
        return self._values(of_thread=True)

    @property
    def registers(self) -> int:
        """The number of elements that each of them holds."""
        return self._values(of_thread=False)

    def _values(self, of_thread: bool) -> int:
        mine = [d.extent for digits in self.digits for d in digits if d.of_thread is of_thread]
        return math.prod(mine)

    def thread(self, index: Sequence[CExpr]) -> CExpr:
        """The thread, of those that hold the tile, that holds an element."""
        return self._part(index, of_thread=True)

    def register(self, index: Sequence[CExpr]) -> CExpr:
        """In which of the thread's registers the element is."""
        return self._part(index, of_thread=False)

    def _part(self, index: Sequence[CExpr], of_thread: bool) -> CExpr:
        terms: list[CExpr] = []
        for at, digits in zip(index, self.digits, strict=True):
            for place, last, digit in _places(digits):
                if digit.of_thread is of_thread:
                    high = at if place == 1 else FloorDiv(at, place)
                    terms.append(_times(digit.stride, high if last else Mod(high, digit.extent)))
        return _sum(terms)

    @property
    def register_digits(self) -> tuple[Held, ...]:
        """The digits that tell a thread's registers apart, the greatest stride first."""
        return tuple(one for one in self._all() if not one.digit.of_thread)

    @property
    def holders(self) -> tuple[Held, ...]:
        """The digits that tell the threads apart, the greatest stride first."""
        return tuple(one for one in self._all() if one.digit.of_thread)

    def _all(self) -> list[Held]:
        found = [
            Held(dimension, place, digit)
            for dimension, digits in enumerate(self.digits)
            for place, _, digit in _places(digits)
            if digit.extent > 1
        ]
        return sorted(found, key=lambda one: -one.digit.stride)

    def index(self, values: Mapping[Held, CExpr]) -> tuple[CExpr, ...]:
        """The element with these values of the digits of `held` and `holders`."""
        found: list[list[CExpr]] = [[] for _ in self.shape]
        for one, value in sorted(values.items(), key=lambda item: -item[0].place):
            found[one.dimension].append(_times(one.place, value))
        return tuple(map(_sum, found))


def _places(digits: Sequence[Digit]) -> Iterator[tuple[int, bool, Digit]]:
    """The digits with what one counts, and whether it is the last."""
    place = 1
    for at, digit in enumerate(digits):
        yield place, at + 1 == len(digits), digit
        place *= digit.extent


def _times(factor: int, term: CExpr) -> CExpr:
    return term if factor == 1 else Mul(factor, term)


def _sum(terms: Sequence[CExpr]) -> CExpr:
    total: CExpr = Int(0)
    for at, term in enumerate(terms):
        total = term if at == 0 else Add(total, term)
    return total


def _rows() -> Iterator[tuple[tuple[str, int], tuple[tuple[str, ...], ...]]]:
    _, *lines = _TABLE.strip().splitlines()
    for line in lines:
        head, *dimensions, _ = line.split("|")
        *layout, bits = head.split()
        digits = tuple(tuple(d.strip() for d in each.split(",")) for each in dimensions)
        yield (" ".join(layout), int(bits)), digits


LAYOUTS: Final = dict(_rows())
"""The digits of each dimension, by layout and bits of an element."""


@lru_cache(maxsize=256)
def fragment_of(layout: str, bits: int, shape: tuple[int, ...]) -> Fragment | None:
    """The map of a tile of a shape; None where the hardware has no such tile."""
    rows = LAYOUTS.get((layout, bits))
    if rows is None or len(rows) != len(shape):
        return None
    known = [[_digit(text) for text in row] for row in rows]
    fixed = math.prod(d.extent for row in known for d in row if d and not d.of_thread)
    found: list[tuple[Digit, ...]] = []
    for row, extent in reversed(list(zip(known, shape, strict=True))):
        given = [d for d in row if d is not None]
        rest, over = divmod(extent, math.prod(d.extent for d in given))
        if over or rest < 1 or (len(given) == len(row) and rest != 1):
            return None
        if len(given) < len(row):
            given.append(Digit(rest, False, fixed))
            fixed *= rest
        found.append(tuple(given))
    return Fragment(shape, tuple(reversed(found)))


def _digit(text: str) -> Digit | None:
    """`8 T4`, `2 R1`; None for what is left, `* R`."""
    extent, place = text.split()
    return None if extent == "*" else Digit(int(extent), place[0] == "T", int(place[1:]))


def fragment(memory: DataMemory, dtype: DataType, shape: Sequence[int | None]) -> Fragment | None:
    """The map of a register tile with these trailing extents; None where there is none."""
    known = tuple(n for n in shape if n is not None)
    if not memory.layout or len(known) != len(shape):
        return None
    return fragment_of(memory.layout, 8 * dtype.bytes, known)
