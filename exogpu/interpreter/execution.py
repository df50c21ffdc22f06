"""Running the program of `core`: parallel loops as array operations, the others in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, assert_never

import numpy as np

from exogpu.diagnostics.errors import Diagnostic, ExoGpuError, Span
from exogpu.interpreter import lanes as interpreter_lanes
from exogpu.interpreter import program
from exogpu.interpreter.divide_iterators import loads
from exogpu.interpreter.functions import apply
from exogpu.interpreter.parallel_loops import reorderable
from exogpu.interpreter.values import NUMPY, Array, poison, stored
from exogpu.ir.affine import Affine, combine
from exogpu.ir.types import Sym

# Arrays as the running program addresses them: by strided views, or by gathered offsets.


@dataclass(frozen=True, slots=True)
class Storage:
    """A buffer's elements: one copy for each lane that allocated it, row-major."""

    flat: Array
    private: Affine
    """The part of an element's position that the lane adds: its slots by their strides."""


def allocate(buffer: program.Buffer, lanes: interpreter_lanes.Lanes) -> Storage:
    """Poisoned memory for every lane."""
    stride = 1
    for extent in buffer.shape:
        stride *= extent
    terms: list[tuple[Sym, int]] = []
    for slot, count in lanes.slots:
        terms.append((slot, stride))
        stride *= count
    flat = np.full(stride, poison(buffer.dtype), NUMPY[buffer.dtype])
    return Storage(flat, Affine(0, tuple((s, n) for s, n in terms if n)))


def position(
    place: program.Place, offset: Affine, storage: Storage, lanes: interpreter_lanes.Lanes
) -> interpreter_lanes.Index:
    """Positions of a place in the storage, on all lanes."""
    form = combine((1, offset), (1, storage.private)) if storage.private.terms else offset
    return interpreter_lanes.evaluate(form, lanes)


def view(flat: Array, index: interpreter_lanes.Index, lanes: interpreter_lanes.Lanes) -> Array:
    """The elements at an index without a dense part, as a view; extent 1 where lanes agree."""
    size = flat.itemsize
    rank = len(lanes.shape)
    shape, strides = [1] * rank, [0] * rank
    for axis, step in index.steps.items():
        shape[rank - 1 - axis] = lanes.shape[axis]
        strides[rank - 1 - axis] = step * size
    return np.ndarray(shape, flat.dtype, flat, index.base * size, strides)


def has_distinct_positions(index: interpreter_lanes.Index, lanes: interpreter_lanes.Lanes) -> bool:
    """Tests whether the positions along the axes that the index steps along are all different.

    They are if, in order of size, each step exceeds the reach of all smaller ones together.
    """
    if index.dense is not None:
        return False
    reach = 0
    for step, count in sorted((abs(s), lanes.shape[a]) for a, s in index.steps.items()):
        if step <= reach:
            return False
        reach += step * (count - 1)
    return True


def clip_mask(
    clips: tuple[Affine, ...], lanes: interpreter_lanes.Lanes
) -> interpreter_lanes.Mask | None:
    """Returns the mask of lanes with no negative clip; None if these are all."""
    mask: interpreter_lanes.Mask | None = None
    for clip in clips:
        index = interpreter_lanes.evaluate(clip, lanes)
        if interpreter_lanes.index_bounds(index, lanes)[0] < 0:
            part = interpreter_lanes.materialise(index, lanes) >= 0
            mask = part if mask is None else mask & part
    return mask


def unclipped_lanes(
    clips: tuple[Affine, ...], lanes: interpreter_lanes.Lanes
) -> interpreter_lanes.Lanes | None:
    """The lanes on which no clip is negative."""
    kept: interpreter_lanes.Lanes | None = lanes
    for clip in clips:
        if kept is None:
            return None
        index = interpreter_lanes.evaluate(clip, kept)
        if interpreter_lanes.index_bounds(index, kept)[0] < 0:
            kept = interpreter_lanes.keep(kept, _truth(interpreter_lanes.materialise(index, kept)))
    return kept


def _truth(values: interpreter_lanes.Integers) -> bool | interpreter_lanes.Mask:
    mask = values >= 0
    return bool(mask.reshape(())) if mask.size == 1 else mask


def verify(place: program.Place, lanes: interpreter_lanes.Lanes) -> None:
    """Every check of an access, on all lanes.

    Raises ExoGpuError (X927) with the first element that is out of range.
    """
    for check in place.checks:
        index = interpreter_lanes.evaluate(check.index, lanes)
        room = interpreter_lanes.evaluate(
            combine((1, check.extent), (-1, check.index), constant=-1), lanes
        )
        if (
            interpreter_lanes.index_bounds(index, lanes)[0] < 0
            or interpreter_lanes.index_bounds(room, lanes)[0] < 0
        ):
            low, high = (
                interpreter_lanes.materialise(index, lanes),
                interpreter_lanes.materialise(room, lanes),
            )
            outside = (low < 0) | (high < 0)
            if outside.any():
                raise ExoGpuError((_out_of_range(check, place, low, high, outside),))


def _out_of_range(
    check: program.Check,
    place: program.Place,
    index: interpreter_lanes.Integers,
    room: interpreter_lanes.Integers,
    outside: interpreter_lanes.Mask,
) -> Diagnostic:
    first = np.unravel_index(int(np.argmax(outside)), outside.shape)
    at = int(np.broadcast_to(index, outside.shape)[first])
    extent = at + 1 + int(np.broadcast_to(room, outside.shape)[first])
    return out_of_range(check.name, check.dimension, at, extent, place)


def out_of_range(
    name: str, dimension: int, at: int, extent: int, place: program.Place
) -> Diagnostic:
    """The diagnostic of an access outside a variable."""
    return Diagnostic(
        "X927",
        f"index {at} of {name} is out of range: dimension {dimension} has {extent} elements",
        place.span,
        "guard the access, or widen the variable",
    )


INSTANCES: Final = 1 << 20
"""About how many instances of a statement run at once: enough to hide Python, few enough to
stay in cache."""


class Execution:
    """The memory of one run."""

    def __init__(self, arrays: Mapping[program.Buffer, Array]) -> None:
        """`arrays`: the parameters' elements, flat and contiguous."""
        self._storage = {b: Storage(flat, Affine(0)) for b, flat in arrays.items()}
        self._offsets: dict[int, tuple[program.Place, Affine]] = {}

    def run(self, nodes: program.Nodes, lanes: interpreter_lanes.Lanes) -> None:
        """Run the nodes in order, each on all lanes."""
        for node in nodes:
            self._step(node, lanes)

    def _step(self, node: program.Node, lanes: interpreter_lanes.Lanes) -> None:
        match node:
            case program.Loop():
                self._loop(node, lanes)
            case program.Guard():
                kept = interpreter_lanes.holding(node.test, lanes)
                if kept is not None:
                    self.run(node.body, kept)
                if node.orelse:
                    others = interpreter_lanes.failing(node.test, lanes)
                    if others is not None:
                        self.run(node.orelse, others)
            case program.Store():
                self._store(node, lanes)
            case program.Allocate():
                self._storage[node.buffer] = allocate(node.buffer, lanes)
            case program.Demand():
                if interpreter_lanes.failing(node.test, lanes) is not None:
                    raise ExoGpuError((_unmet(node),))
            case _:
                assert_never(node)

    # --- loops ----------------------------------------------------------------------------

    def _loop(self, loop: program.Loop, lanes: interpreter_lanes.Lanes) -> None:
        lo, hi = (
            interpreter_lanes.evaluate(loop.lo, lanes),
            interpreter_lanes.evaluate(loop.hi, lanes),
        )
        first, end = (
            interpreter_lanes.index_bounds(lo, lanes)[0],
            interpreter_lanes.index_bounds(hi, lanes)[1],
        )
        body = loop.body
        if not (lo.uniform and hi.uniform):
            # Lanes run different ranges: all run the hull, each guarded by its own range.
            here = Affine(0, ((loop.iterator, 1),))
            after = program.Condition(combine((1, here), (-1, loop.lo)), equality=False)
            before = program.Condition(
                combine((1, loop.hi), (-1, here), constant=-1), equality=False
            )
            body = (program.Guard(program.AllOf((after, before)), body),)
        at_once = INSTANCES // (lanes.count * loop.weight)
        if loop.parallel and at_once > 1 and end - first > 1:
            slot = Sym(loop.iterator.name)
            for start in range(first, end, at_once):
                count = min(at_once, end - start)
                self.run(body, interpreter_lanes.enter(lanes, loop.iterator, slot, start, count))
            return
        inner = interpreter_lanes.Lanes(lanes.shape, dict(lanes.values), lanes.slots)
        for value in range(first, end):
            inner.values[loop.iterator] = value
            self.run(body, inner)

    # --- stores ---------------------------------------------------------------------------

    def _store(self, store: program.Store, lanes: interpreter_lanes.Lanes) -> None:
        target = store.target
        verify(target, lanes)
        if target.clips:
            for place in loads(store.value):  # a dropped write is no licence to read anywhere
                verify(place, lanes)
            kept = unclipped_lanes(target.clips, lanes)
            if kept is None:
                return
            lanes = kept
        storage = self._storage[target.buffer]
        index = position(target, self._offset(target), storage, lanes)
        dtype = target.buffer.dtype
        if not store.accumulate:
            value = self._value(store.value, lanes)
            if not store.copies:
                value = stored(value, dtype)
            if index.dense is None:
                view(storage.flat, index, lanes)[...] = value
            else:
                storage.flat[interpreter_lanes.materialise(index, lanes)] = value
            return
        if has_distinct_positions(index, lanes):
            self._accumulate(store, storage.flat, index, lanes)
        else:
            self._scatter(store, storage.flat, index, lanes)

    def _accumulate(
        self,
        store: program.Store,
        flat: Array,
        index: interpreter_lanes.Index,
        lanes: interpreter_lanes.Lanes,
    ) -> None:
        """`+=` where each lane has its element, or shares it with all lanes along an axis."""
        elements = view(flat, index, lanes)
        shape = tuple(reversed(lanes.shape))
        pairs = zip(shape, elements.shape, strict=True)
        value = self._sum(store.value, lanes, [a for a, (n, m) in enumerate(pairs) if n > m])
        after = np.add(elements.astype(value.dtype, copy=False), value)
        elements[...] = stored(after, store.target.buffer.dtype)

    def _scatter(
        self,
        store: program.Store,
        flat: Array,
        index: interpreter_lanes.Index,
        lanes: interpreter_lanes.Lanes,
    ) -> None:
        """`+=` where elements may recur in any way."""
        shape = tuple(reversed(lanes.shape))
        where = np.broadcast_to(interpreter_lanes.materialise(index, lanes), shape)
        value = np.broadcast_to(self._value(store.value, lanes), shape)
        if reorderable(store):
            np.add.at(flat, where, value.astype(flat.dtype))
        else:  # then `dependence` has let no two lanes meet
            after = np.add(flat[where].astype(value.dtype), value)
            flat[where] = stored(after, store.target.buffer.dtype)

    def _sum(
        self, value: program.Value, lanes: interpreter_lanes.Lanes, summed: list[int]
    ) -> Array:
        """The value, summed over numpy axes of the lanes."""
        shape = tuple(reversed(lanes.shape))
        if summed and isinstance(value, program.Operation) and value.function == "*":
            left, right = (self._full(v, lanes) for v in value.arguments)
            return interpreter_lanes.sum_of_products(left, right, shape, summed)
        return interpreter_lanes.total(self._full(value, lanes), shape, summed)

    def _full(self, value: program.Value, lanes: interpreter_lanes.Lanes) -> Array:
        found = self._value(value, lanes)
        return found.reshape((1,) * (len(lanes.shape) - found.ndim) + found.shape)

    # --- values ---------------------------------------------------------------------------

    def _value(self, value: program.Value, lanes: interpreter_lanes.Lanes) -> Array:
        """The value on all lanes: an array that broadcasts to them."""
        match value:
            case program.Literal():
                return np.asarray(value.value).astype(value.dtype)
            case program.Load():
                return self._load(value.place, lanes).astype(value.dtype, copy=False)
            case program.Convert():
                return self._value(value.term, lanes).astype(value.dtype)
            case program.Operation():
                arguments = [self._value(a, lanes) for a in value.arguments]
                try:
                    return np.asarray(apply(value.function, arguments))
                except ZeroDivisionError:
                    raise ExoGpuError((_division(value.span),)) from None
            case _:
                assert_never(value)

    def _load(self, place: program.Place, lanes: interpreter_lanes.Lanes) -> Array:
        storage = self._storage[place.buffer]
        mask = clip_mask(place.clips, lanes) if place.clips else None
        verify(place, lanes)
        index = position(place, self._offset(place), storage, lanes)
        if mask is not None:
            offsets = np.where(mask, interpreter_lanes.materialise(index, lanes), 0)
            zero = np.zeros((), storage.flat.dtype)
            if not storage.flat.size:
                return np.broadcast_to(zero, offsets.shape)
            return np.where(mask, storage.flat[offsets], zero)
        if index.dense is None:
            return view(storage.flat, index, lanes)
        return storage.flat[interpreter_lanes.materialise(index, lanes)]

    def _offset(self, place: program.Place) -> Affine:
        known = self._offsets.get(id(place))
        if known is None:
            known = self._offsets[id(place)] = (place, place.offset)
        return known[1]


def _unmet(demand: program.Demand) -> Diagnostic:
    window = demand.code == "X927"
    remedy = "pass a smaller window" if window else "pass arguments that satisfy it"
    return Diagnostic(demand.code, demand.message, demand.span, remedy)


def _division(span: Span) -> Diagnostic:
    return Diagnostic("X929", "an integer is divided by zero", span, "guard the division")
