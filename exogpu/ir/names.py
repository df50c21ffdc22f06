"""Variables of the IR: a readable name and a number that makes it unique."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

_numbers: Iterator[int] = itertools.count()


@dataclass(frozen=True, slots=True)
class Sym:
    """A variable (control, data, barrier or window); two of the same name differ by number."""

    name: str
    number: int = field(default_factory=lambda: next(_numbers))

    def __hash__(self) -> int:
        return hash(self.name) + self.number

    def __repr__(self) -> str:
        return self.name
