"""Spellings of the kernel's variables in C++: the source's own names wherever they are free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from exogpu.codegen.reserved import identifier, is_reserved
from exogpu.ir.names import Sym

THREAD: Final = Sym("thread")
"""threadIdx.x"""
WARP: Final = Sym("warp")
"""threadIdx.x / 32, the same for all threads of a warp and known to be so by the compiler."""
LANE: Final = Sym("lane")
"""threadIdx.x % 32"""
CTA: Final = Sym("cta")
"""Rank of the CTA in its cluster."""


@dataclass(slots=True)
class Names:
    """Spellings by scope: a name in use in an enclosing scope gets a number."""

    _scopes: list[set[str]] = field(default_factory=lambda: [set()])
    _spelling: dict[Sym, str] = field(default_factory=dict)
    _spelled: list[set[Sym]] = field(default_factory=lambda: [set()])
    """What was spelled since each recording began, the innermost last."""

    def __post_init__(self) -> None:
        for builtin in (THREAD, WARP, LANE, CTA):
            self.declare(builtin)

    def declare(self, name: Sym) -> str:
        """The spelling of a variable from here to the end of the scope."""
        taken = {spelled for scope in self._scopes for spelled in scope}
        spelled = plain = identifier(name.name)
        number = 0
        if (spelled in taken or is_reserved(spelled)) and is_reserved(f"{plain}_1"):
            # Kept by its beginning: a number would not free it.
            spelled = plain = f"v_{plain}"
        while spelled in taken or is_reserved(spelled):
            number += 1
            spelled = f"{plain}_{number}"
        self._scopes[-1].add(spelled)
        self._spelling[name] = spelled
        return spelled

    def __call__(self, name: Sym) -> str:
        self._spelled[-1].add(name)
        return self._spelling[name]

    @contextmanager
    def recording(self) -> Iterator[set[Sym]]:
        """Gathers the variables that are spelled within it; they count as spelled around it only
        if `use` says so, for what is written is not always kept."""
        self._spelled.append(set())
        try:
            yield self._spelled[-1]
        finally:
            self._spelled.pop()

    def use(self, names: Iterable[Sym]) -> None:
        """The variables are spelled in what is kept."""
        self._spelled[-1].update(names)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A block: what is declared inside is free again after it."""
        self._scopes.append(set())
        yield
        self._scopes.pop()
