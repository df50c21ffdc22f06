"""Running the program of `core`: parallel loops as array operations, the others in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

import numpy as np

from exogpu.ir.affine import Affine, combine
from exogpu.ir.names import Sym
from exogpu.meaning.contract import sum_of_products, total
from exogpu.meaning.core import (
    Allocate,
    AllOf,
    Buffer,
    Condition,
    Convert,
    Demand,
    Guard,
    Literal,
    Load,
    Loop,
    Node,
    Nodes,
    Operation,
    Place,
    Store,
    Value,
)
from exogpu.meaning.dependence import reorderable
from exogpu.meaning.lanes import (
    Index,
    Lanes,
    enter,
    evaluate,
    extremes,
    failing,
    holding,
    materialise,
)
from exogpu.meaning.memory import (
    Storage,
    allocate,
    distinct,
    inside,
    position,
    verify,
    view,
    within,
)
from exogpu.meaning.rewrite import loads
from exogpu.meaning.values import Array, apply, stored
from exogpu.result.errors import Diagnostic, ExoGpuError, Span

INSTANCES: Final = 1 << 20
"""About how many instances of a statement run at once: enough to hide Python, few enough to
stay in cache."""


class Execution:
    """The memory of one run."""

    def __init__(self, arrays: Mapping[Buffer, Array]) -> None:
        """`arrays`: the parameters' elements, flat and contiguous."""
        self._storage = {b: Storage(flat, Affine(0)) for b, flat in arrays.items()}
        self._offsets: dict[int, tuple[Place, Affine]] = {}

    def run(self, nodes: Nodes, lanes: Lanes) -> None:
        """Run the nodes in order, each on all lanes."""
        for node in nodes:
            self._step(node, lanes)

    def _step(self, node: Node, lanes: Lanes) -> None:
        match node:
            case Loop():
                self._loop(node, lanes)
            case Guard():
                kept = holding(node.test, lanes)
                if kept is not None:
                    self.run(node.body, kept)
                if node.orelse:
                    others = failing(node.test, lanes)
                    if others is not None:
                        self.run(node.orelse, others)
            case Store():
                self._store(node, lanes)
            case Allocate():
                self._storage[node.buffer] = allocate(node.buffer, lanes)
            case Demand():
                if failing(node.test, lanes) is not None:
                    raise ExoGpuError((_unmet(node),))
            case _:
                assert_never(node)

    # --- loops ----------------------------------------------------------------------------

    def _loop(self, loop: Loop, lanes: Lanes) -> None:
        lo, hi = evaluate(loop.lo, lanes), evaluate(loop.hi, lanes)
        first, end = extremes(lo, lanes)[0], extremes(hi, lanes)[1]
        body = loop.body
        if not (lo.uniform and hi.uniform):
            # Lanes run different ranges: all run the hull, each guarded by its own range.
            here = Affine(0, ((loop.iterator, 1),))
            after = Condition(combine((1, here), (-1, loop.lo)), equality=False)
            before = Condition(combine((1, loop.hi), (-1, here), constant=-1), equality=False)
            body = (Guard(AllOf((after, before)), body),)
        at_once = INSTANCES // (lanes.count * loop.weight)
        if loop.parallel and at_once > 1 and end - first > 1:
            slot = Sym(loop.iterator.name)
            for start in range(first, end, at_once):
                count = min(at_once, end - start)
                self.run(body, enter(lanes, loop.iterator, slot, start, count))
            return
        inner = Lanes(lanes.shape, dict(lanes.values), lanes.slots)
        for value in range(first, end):
            inner.values[loop.iterator] = value
            self.run(body, inner)

    # --- stores ---------------------------------------------------------------------------

    def _store(self, store: Store, lanes: Lanes) -> None:
        target = store.target
        verify(target, lanes)
        if target.clips:
            for place in loads(store.value):  # a dropped write is no licence to read anywhere
                verify(place, lanes)
            kept = within(target.clips, lanes)
            if kept is None:
                return
            lanes = kept
        storage = self._storage[target.buffer]
        index = position(target, self._offset(target), storage, lanes)
        dtype = target.buffer.dtype
        if not store.accumulate:
            value = stored(self._value(store.value, lanes), dtype)
            if index.dense is None:
                view(storage.flat, index, lanes)[...] = value
            else:
                storage.flat[materialise(index, lanes)] = value
            return
        if distinct(index, lanes):
            self._accumulate(store, storage.flat, index, lanes)
        else:
            self._scatter(store, storage.flat, index, lanes)

    def _accumulate(self, store: Store, flat: Array, index: Index, lanes: Lanes) -> None:
        """`+=` where each lane has its element, or shares it with all lanes along an axis."""
        elements = view(flat, index, lanes)
        shape = tuple(reversed(lanes.shape))
        pairs = zip(shape, elements.shape, strict=True)
        value = self._sum(store.value, lanes, [a for a, (n, m) in enumerate(pairs) if n > m])
        after = np.add(elements.astype(value.dtype, copy=False), value)
        elements[...] = stored(after, store.target.buffer.dtype)

    def _scatter(self, store: Store, flat: Array, index: Index, lanes: Lanes) -> None:
        """`+=` where elements may recur in any way."""
        shape = tuple(reversed(lanes.shape))
        where = np.broadcast_to(materialise(index, lanes), shape)
        value = np.broadcast_to(self._value(store.value, lanes), shape)
        if reorderable(store):
            np.add.at(flat, where, value.astype(flat.dtype))
        else:  # then `dependence` has let no two lanes meet
            after = np.add(flat[where].astype(value.dtype), value)
            flat[where] = stored(after, store.target.buffer.dtype)

    def _sum(self, value: Value, lanes: Lanes, summed: list[int]) -> Array:
        """The value, summed over numpy axes of the lanes."""
        shape = tuple(reversed(lanes.shape))
        if summed and isinstance(value, Operation) and value.function == "*":
            left, right = (self._full(v, lanes) for v in value.arguments)
            return sum_of_products(left, right, shape, summed)
        return total(self._full(value, lanes), shape, summed)

    def _full(self, value: Value, lanes: Lanes) -> Array:
        found = self._value(value, lanes)
        return found.reshape((1,) * (len(lanes.shape) - found.ndim) + found.shape)

    # --- values ---------------------------------------------------------------------------

    def _value(self, value: Value, lanes: Lanes) -> Array:
        """The value on all lanes: an array that broadcasts to them."""
        match value:
            case Literal():
                return np.asarray(value.value).astype(value.dtype)
            case Load():
                return self._load(value.place, lanes).astype(value.dtype, copy=False)
            case Convert():
                return self._value(value.term, lanes).astype(value.dtype)
            case Operation():
                arguments = [self._value(a, lanes) for a in value.arguments]
                try:
                    return np.asarray(apply(value.function, arguments))
                except ZeroDivisionError:
                    raise ExoGpuError((_division(value.span),)) from None
            case _:
                assert_never(value)

    def _load(self, place: Place, lanes: Lanes) -> Array:
        storage = self._storage[place.buffer]
        mask = inside(place.clips, lanes) if place.clips else None
        verify(place, lanes)
        index = position(place, self._offset(place), storage, lanes)
        if mask is not None:
            offsets = np.where(mask, materialise(index, lanes), 0)
            zero = np.zeros((), storage.flat.dtype)
            if not storage.flat.size:
                return np.broadcast_to(zero, offsets.shape)
            return np.where(mask, storage.flat[offsets], zero)
        if index.dense is None:
            return view(storage.flat, index, lanes)
        return storage.flat[materialise(index, lanes)]

    def _offset(self, place: Place) -> Affine:
        known = self._offsets.get(id(place))
        if known is None:
            known = self._offsets[id(place)] = (place, place.offset)
        return known[1]


def _unmet(demand: Demand) -> Diagnostic:
    window = demand.code == "X927"
    remedy = "pass a smaller window" if window else "pass arguments that satisfy it"
    return Diagnostic(demand.code, demand.message, demand.span, remedy)


def _division(span: Span) -> Diagnostic:
    return Diagnostic("X929", "an integer is divided by zero", span, "guard the division")
