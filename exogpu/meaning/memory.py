"""Arrays as the running program addresses them: by strided views, or by gathered offsets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exogpu.ir.affine import Affine, combine
from exogpu.ir.names import Sym
from exogpu.meaning.core import Buffer, Check, Place
from exogpu.meaning.lanes import Index, Integers, Lanes, Mask, evaluate, extremes, keep, materialise
from exogpu.meaning.values import NUMPY, Array, poison
from exogpu.result.errors import Diagnostic, ExoGpuError


@dataclass(frozen=True, slots=True)
class Storage:
    """A buffer's elements: one copy for each lane that allocated it, row-major."""

    flat: Array
    private: Affine
    """What the lane adds to an element's position: its slots by their strides."""


def allocate(buffer: Buffer, lanes: Lanes) -> Storage:
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


def position(place: Place, offset: Affine, storage: Storage, lanes: Lanes) -> Index:
    """Positions of a place in the storage, on all lanes."""
    form = combine((1, offset), (1, storage.private)) if storage.private.terms else offset
    return evaluate(form, lanes)


def view(flat: Array, index: Index, lanes: Lanes) -> Array:
    """The elements at an index without a dense part, as a view; extent 1 where lanes agree."""
    size = flat.itemsize
    rank = len(lanes.shape)
    shape, strides = [1] * rank, [0] * rank
    for axis, step in index.steps.items():
        shape[rank - 1 - axis] = lanes.shape[axis]
        strides[rank - 1 - axis] = step * size
    return np.ndarray(shape, flat.dtype, flat, index.base * size, strides)


def distinct(index: Index, lanes: Lanes) -> bool:
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


def inside(clips: tuple[Affine, ...], lanes: Lanes) -> Mask | None:
    """Returns the mask of lanes with no negative clip; None if these are all."""
    mask: Mask | None = None
    for clip in clips:
        index = evaluate(clip, lanes)
        if extremes(index, lanes)[0] < 0:
            part = materialise(index, lanes) >= 0
            mask = part if mask is None else mask & part
    return mask


def within(clips: tuple[Affine, ...], lanes: Lanes) -> Lanes | None:
    """The lanes on which no clip is negative."""
    kept: Lanes | None = lanes
    for clip in clips:
        if kept is None:
            return None
        index = evaluate(clip, kept)
        if extremes(index, kept)[0] < 0:
            kept = keep(kept, _truth(materialise(index, kept)))
    return kept


def _truth(values: Integers) -> bool | Mask:
    mask = values >= 0
    return bool(mask.reshape(())) if mask.size == 1 else mask


def verify(place: Place, lanes: Lanes) -> None:
    """Every check of an access, on all lanes.

    Raises ExoGpuError (X927) with the first element that is out of range.
    """
    for check in place.checks:
        index = evaluate(check.index, lanes)
        room = evaluate(combine((1, check.extent), (-1, check.index), constant=-1), lanes)
        if extremes(index, lanes)[0] < 0 or extremes(room, lanes)[0] < 0:
            low, high = materialise(index, lanes), materialise(room, lanes)
            outside = (low < 0) | (high < 0)
            if outside.any():
                raise ExoGpuError((_out_of_range(check, place, low, high, outside),))


def _out_of_range(
    check: Check, place: Place, index: Integers, room: Integers, outside: Mask
) -> Diagnostic:
    first = np.unravel_index(int(np.argmax(outside)), outside.shape)
    at = int(np.broadcast_to(index, outside.shape)[first])
    extent = at + 1 + int(np.broadcast_to(room, outside.shape)[first])
    return out_of_range(check.name, check.dimension, at, extent, place)


def out_of_range(name: str, dimension: int, at: int, extent: int, place: Place) -> Diagnostic:
    """The diagnostic of an access outside a variable."""
    return Diagnostic(
        "X927",
        f"index {at} of {name} is out of range: dimension {dimension} has {extent} elements",
        place.span,
        "guard the access, or widen the variable",
    )
