"""Signature of an iteration of a loop: its control values, and the cells that it may touch.

Two iterations of equal signature do the same to the cells of their boxes.  A value enters as far
as it can make a difference: a thread index as it is, the two sides of a comparison by their order,
the place of a window only relative to the other windows on its variable, because the box moves
with it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from exogpu.ir.affine import Affine, combine, interval, mentions
from exogpu.ir.nodes import Access
from exogpu.ir.types import Sym
from exogpu.machine.fast.affine_code import Scope, Split, Values, numbers, split, tuple_source
from exogpu.machine.fast.cells import Region, Store
from exogpu.machine.fast.layout import Layout

# Gathers the inputs of a block's behaviour while it is compiled, for `fast.loop_skipping`.

Bounds: TypeAlias = tuple[tuple[Affine, Affine], ...]
"""By dimension, where a window begins and ends."""


@dataclass(slots=True)
class Parts:
    """Control values and state that the operations of a block use."""

    exact: dict[Affine, None] = field(default_factory=dict)
    """Values that matter as they are."""
    compared: dict[Affine, None] = field(default_factory=dict)
    """Values whose sign matters."""
    windows: dict[Sym, dict[Bounds, None]] = field(default_factory=dict)
    """Accesses of cells."""
    inner: set[Sym] = field(default_factory=set)
    """Iterators of the loops in the block."""
    fresh: set[Sym] = field(default_factory=set)
    """Variables that the block allocates or releases."""
    barriers: set[Sym] = field(default_factory=set)
    """Barrier variables whose counts it uses."""
    slots: dict[tuple[Access, int], Callable[[], int]] = field(default_factory=dict)
    """By barrier element and ring, the slot that its count tells (decision `slots`)."""
    lifts: bool = False
    """It has operations that rewrite every record."""
    cpu: bool = False
    """Some of those stand at CPU scope."""
    tasks: bool = False
    """Tasks begin in it."""

    def add(self, other: Parts) -> None:
        """Joins what another block of the same loop depends on."""
        self.exact |= other.exact
        self.compared |= other.compared
        for name, windows in other.windows.items():
            self.windows.setdefault(name, {}).update(windows)
        self.inner |= other.inner
        self.fresh |= other.fresh
        self.barriers |= other.barriers
        self.slots |= other.slots
        self.lifts |= other.lifts
        self.cpu |= other.cpu
        self.tasks |= other.tasks


Place: TypeAlias = tuple[Hashable, Region]
"""Where the box's cells begin and end relative to its base, and which cells they are."""


@dataclass(frozen=True, slots=True)
class Side:
    """A box in one dimension: elements `base + lo .. base + hi - 1`; None is the whole extent."""

    base: Affine
    lo: int
    hi: int


class Box:
    """The cells of one variable that an iteration may touch."""

    def __init__(self, store: Store, sides: tuple[Side | None, ...], scope: Scope) -> None:
        self.store = store
        self._sides = sides
        self._bases = numbers(
            tuple_source([scope.source(side.base) for side in sides if side is not None])
        )
        self._known: dict[tuple[int, ...], Place] = {}
        self._along: tuple[dict[int, tuple[tuple[int, int], Hashable]], ...] = tuple(
            {} for _ in sides
        )
        """By dimension and base, the cells and where they begin."""
        self.slots = frozenset(
            slot for side in sides if side is not None for slot in scope.slots_of(side.base)
        )

    def place_at(self, e: Values) -> Place:
        """The box of the present iteration."""
        bases = self._bases(e)
        found = self._known.get(bases)
        if found is None:
            found = self._known[bases] = self._place(bases)
        return found

    def _place(self, bases: tuple[int, ...]) -> Place:
        store, used = self.store, 0
        spans: list[tuple[int, int]] = []
        shape: list[Hashable] = []
        for dim, side in enumerate(self._sides):
            if side is None:
                spans.append((0, len(store.breaks[dim]) - 1))
                continue
            base, used = bases[used], used + 1
            known = self._along[dim]
            if base not in known:
                known[base] = self._span(dim, side, base)
            span, about = known[base]
            spans.append(span)
            shape.append(about)
        return (tuple(shape), store.region(spans))

    def _span(self, dim: int, side: Side, base: int) -> tuple[tuple[int, int], Hashable]:
        """The cells of the box in one dimension, and where they begin relative to the base."""
        breaks = self.store.breaks[dim]
        first, last = self.store.enclosing_cells(dim, base + side.lo, base + side.hi)
        if first >= last:
            return (first, last), None
        if isinstance(breaks, range):
            return (first, last), (first - base, last - base)
        return (first, last), tuple([at - base for at in breaks[first : last + 1]])


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """The signature of the iterations of one loop."""

    values: Callable[[Values], tuple[int, ...]]
    boxes: tuple[Box, ...]
    distinct: frozenset[int]
    """Iterators each of whose values has a signature of its own, the others being equal."""


def exact_values(
    layout: Layout, parts: Parts, ends: Sequence[Affine]
) -> Callable[[Values], tuple[int, ...]]:
    """Returns the values of outer iterators on which the elements and threads of a loop of accesses
    depend; `ends` are those of the loop."""
    scope, ranges = layout.scope, layout.scope.ranges
    inner = frozenset(parts.inner)
    texts: dict[str, None] = {}
    for value in (*parts.exact, *parts.compared, *ends):
        part = split(value, inner, ranges)
        for term in (part.outer, *part.residues):
            if term.terms:
                texts[scope.source(Affine(0, term.terms))] = None
    for name, windows in parts.windows.items():
        for window in windows:
            for extent, pair in zip(layout.stores[name].shape, window, strict=True):
                for part in (split(bound, inner, ranges) for bound in pair):
                    for term in part.residues:
                        texts[scope.source(Affine(0, term.terms))] = None
                    if part.outer.terms:
                        texts[_clamp_to_extent(part, extent, scope)] = None
    return numbers(tuple_source(list(texts)))


def signature(layout: Layout, parts: Parts) -> Signature:
    """The signature of a loop whose body depends on `parts`."""
    scope, ranges = layout.scope, layout.scope.ranges
    inner = frozenset(parts.inner)
    texts: dict[str, None] = {}
    distinct: set[int] = set()

    def exact(value: Affine) -> None:
        if value.terms:
            texts[scope.source(Affine(0, value.terms))] = None
        for atom, _ in value.terms:
            others = Affine(0, tuple(term for term in value.terms if term[0] != atom))
            if isinstance(atom, Sym) and not mentions(others, (atom,)):
                distinct.add(scope.slots[atom])

    for value in parts.exact:
        part = split(value, inner, ranges)
        for term in (part.outer, *part.residues):
            exact(term)
    for value in parts.compared:
        part = split(value, inner, ranges)
        for term in part.residues:
            exact(term)
        if part.outer.terms:
            # Beyond these ends the sign is the same whatever the inner iterators are.
            least, most = -part.hi - 1, -part.lo + 1
            texts[f"min(max({scope.source(part.outer)}, {least}), {most})"] = None
    boxes = []
    for name, windows in parts.windows.items():
        store = layout.stores[name]
        whole = name in parts.fresh
        sides = tuple(
            _side([w[dim] for w in windows], extent, inner, scope, whole, exact, texts)
            for dim, extent in enumerate(store.shape)
        )
        boxes.append(Box(store, sides, scope))
    for name in parts.fresh - parts.windows.keys():
        if name in layout.stores:
            store = layout.stores[name]
            boxes.append(Box(store, (None,) * len(store.shape), scope))
    return Signature(numbers(tuple_source(list(texts))), tuple(boxes), frozenset(distinct))


def _clamp_to_extent(part: Split, extent: int, scope: Scope) -> str:
    """Returns the outer part of where a window begins or ends, as far as it makes a difference:
    elements below 0, and those from the extent on, do not exist."""
    return f"min(max({scope.source(part.outer)}, {-part.hi}), {extent - part.lo})"


def _side(
    bounds: list[tuple[Affine, Affine]],
    extent: int,
    inner: frozenset[Sym],
    scope: Scope,
    whole: bool,
    exact: Callable[[Affine], None],
    texts: dict[str, None],
) -> Side | None:
    """The box of some windows in one dimension of this extent; what is not relative to its base is
    `exact`, or in `texts` as far as it makes a difference."""
    ranges = scope.ranges
    parts = [split(bound, inner, ranges) for pair in bounds for bound in pair]

    def plainness(form: Affine) -> tuple[int, str]:
        return (len(form.terms), scope.source(form))

    base = Affine(0) if whole else min((part.outer for part in parts), key=plainness)
    base = Affine(0, base.terms)
    ends: list[int] = []
    for part in parts:
        for term in part.residues:
            exact(term)
        relative = combine((1, part.outer), (-1, base))
        if base.terms:
            exact(relative)
        elif relative.terms:
            texts[_clamp_to_extent(part, extent, scope)] = None
        least, most = interval(relative, ranges)
        ends += [least + part.lo, most + part.hi]
    return None if whole else Side(base, min(ends), max(ends))
