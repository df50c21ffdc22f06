"""Helpers for compiling one operation: its threads and its elements, as functions of iterators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from exogpu.amir.nodes import Loop
from exogpu.analysis.threadmap import ThreadMap
from exogpu.ir.affine import Affine
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access
from exogpu.machine.fast.arrivals import Barrier
from exogpu.machine.fast.cells import Run, Store
from exogpu.machine.fast.control import Values, numbers, tuple_source
from exogpu.machine.fast.layout import Unsupported, bounds_of
from exogpu.machine.fast.machine import Machine
from exogpu.machine.fast.parts import Parts
from exogpu.machine.fast.records import EVERYONE, Threads

Step: TypeAlias = Callable[[], None]
Masks: TypeAlias = Callable[[Values], Threads]
Elements: TypeAlias = Callable[[Values], tuple[int, ...]]
Windows: TypeAlias = Callable[[Values], tuple[Run, ...]]

Made = TypeVar("Made")

KEPT: Final = 1 << 16
"""Entries that a cache keeps before it starts anew."""


class Context:
    """The machine that is being compiled for, and what control variables mean at this place."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.scope = machine.layout.scope
        self.swept = False
        """Whether a loop around this place is executed by cell (`fast.sweeps`)."""
        self.at_once: set[Loop] = set()
        """The loops that begin with a task, and have some iteration whatever the iterators are."""

    def masks(self, threads: ThreadMap | None, parts: Parts) -> Masks:
        """`g(sigma, iota)`: the executing threads; everyone at CPU scope."""
        if threads is None:
            return lambda e: EVERYONE
        offsets = [self.scope.form(axis.offset) for axis in threads.axes]
        parts.exact |= dict.fromkeys(offsets)
        shape = [(axis.pitch, axis.extent) for axis in threads.axes]
        return self._cached(offsets, lambda at: mask_of(shape, at))

    def windows(self, store: Store, access: Access, parts: Parts) -> Windows:
        """The cells of an access; those outside the variable do not exist (decision `bounds`)."""
        bounds = tuple(bounds_of(coord, self.scope) for coord in access.coords)
        parts.windows.setdefault(access.name, {})[bounds] = None
        return self._cached([b for pair in bounds for b in pair], store.window)

    def elements(self, accesses: tuple[Access, ...], parts: Parts) -> Elements:
        """The numbers of barrier elements, within their variable, in rising order."""
        facts = self.machine.layout.barriers[accesses[0].name]
        bounds = [b for a in accesses for c in a.coords for b in bounds_of(c, self.scope)]
        parts.exact |= dict.fromkeys(bounds)
        parts.barriers.add(accesses[0].name)
        dims = len(facts.shape)

        def numbered(at: tuple[int, ...]) -> tuple[int, ...]:
            found: set[int] = set()
            for start in range(0, len(at) or 1, 2 * dims or 1):
                box = [0]
                for d, extent in enumerate(facts.shape):
                    lo, hi = at[start + 2 * d], at[start + 2 * d + 1]
                    box = [i * extent + j for i in box for j in range(max(lo, 0), min(hi, extent))]
                found.update(box)
            return tuple(sorted(found))

        return self._cached(bounds, numbered)

    def element(self, access: Access, parts: Parts) -> Callable[[Values], int]:
        """The number of the one element of an access.  Raises ValueError if it is not one."""
        elements = self.elements((access,), parts)

        def the(e: Values) -> int:
            (element,) = elements(e)
            return element

        return the

    def barrier(self, name: Sym) -> Callable[[], Barrier]:
        """The barrier's present allocation."""
        barriers = self.machine.barriers

        def now() -> Barrier:
            barrier = barriers[name]
            assert barrier is not None
            return barrier

        return now

    def _cached(
        self, values: list[Affine], make: Callable[[tuple[int, ...]], Made]
    ) -> Callable[[Values], Made]:
        """`make` of the values, made once for each."""
        if all(not value.terms for value in values):
            constant = make(tuple(value.constant for value in values))
            return lambda e: constant
        known: dict[tuple[int, ...], Made] = {}
        at = numbers(tuple_source([self.scope.source(value) for value in values]))

        def cached(e: Values) -> Made:
            key = at(e)
            found = known.get(key)
            if found is None:
                if len(known) >= KEPT:
                    known.clear()
                found = known[key] = make(key)
            return found

        return cached


def mask_of(shape: Sequence[tuple[int, int]], at: tuple[int, ...]) -> Threads:
    """`{ sum pitch_i * (offset_i + j_i) }` as bits."""
    sums = [0]
    for (pitch, extent), offset in zip(shape, at, strict=True):
        sums = [s + pitch * (offset + j) for s in sums for j in range(extent)]
    if min(sums, default=0) < 0:
        raise Unsupported("a negative thread index")
    mask = 0
    for thread in sums:
        mask |= 1 << (thread + 1)
    return mask
