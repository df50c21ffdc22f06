"""Events of a thread, which others can see: accesses of memory, and synchronisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from exogpu.amir import nodes as amir
from exogpu.ir.types import Sym
from exogpu.solvers import bitvectors as bv

Space: TypeAlias = Literal["global", "shared"]

Kind: TypeAlias = Literal["ordinary", "cp.async"]
"""Who carries out an access: the thread itself, or cp.async for it."""


@dataclass(frozen=True, slots=True)
class Access:
    """Adjacent bytes that an instruction reads or writes."""

    write: bool
    space: Space
    kind: Kind
    address: bv.Term
    """Its first byte: 64 bits of a global address, 32 of a shared one."""
    bytes: int
    read_only: bool = False
    """A load by a path on which writes of the kernel need not be seen."""


@dataclass(frozen=True, slots=True)
class Sync:
    """A synchronisation, or a copy that others wait for: with the constants of the instruction."""

    word: str
    numbers: tuple[int, ...] = ()
    terms: tuple[bv.Term, ...] = ()
    """Addresses, parities and coordinates."""

    def __str__(self) -> str:
        return " ".join([self.word, *map(str, self.numbers)])


@dataclass(frozen=True, slots=True)
class Expected:
    """An access that the program makes, and the operation that it comes from."""

    access: Access
    variable: Sym
    origin: amir.Origin


@dataclass(frozen=True, slots=True)
class ExpectedSync:
    """A synchronisation that the program asks for."""

    sync: Sync
    origin: amir.Origin | None
    condition: bv.Formula = bv.TRUE
    """The condition under which the thread performs it."""
