"""Tensor maps: the 128-byte descriptors through which TMA reaches an array."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from exogpu.codegen.runtime.arrays import ALIGNMENT, ITEM_SIZE, Array
from exogpu.codegen.runtime.driver import call
from exogpu.codegen.runtime.errors import LaunchError
from exogpu.codegen.runtime.manifest import MapOf

_TYPE: Final[Mapping[str, int]] = {
    "ui8": 0,
    "i8": 0,
    "f8e4m3": 0,
    "f8e5m2": 0,
    "ui16": 1,
    "i32": 3,
    "ui64": 4,
    "i64": 5,
    "f16": 6,
    "f32": 7,
    "f64": 8,
    "bf16": 9,
}
"""CUtensorMapDataType, which has one type of bytes: copies are the same, and sums are refused."""

_TF32: Final = 11
"""That of f32 which is rounded to tf32."""

_SWIZZLE: Final[Mapping[int, int]] = {0: 0, 32: 1, 64: 2, 128: 3}
"""CUtensorMapSwizzle, by bytes."""

_NO_INTERLEAVE, _PROMOTE_256, _FILL_ZERO = 0, 3, 0


def tensor_map(used: MapOf, array: Array, dtype: str) -> ctypes.Array[ctypes.c_byte]:
    """The descriptor of a whole array; nobody changes it, and equal ones are made once.

    Raises LaunchError where TMA cannot reach the array.
    """
    if dtype not in _TYPE:
        raise LaunchError(f"TMA does not know the type {dtype} of {used.tensor}")
    if 0 in array.shape:
        what = f"{used.tensor} has no elements, its shape being {array.shape}"
        raise LaunchError(what, "TMA reaches no such array: leave out the call")
    strides = _strides(array, ITEM_SIZE[dtype])
    if any(s % ALIGNMENT for s in strides):
        what = f"{used.tensor} has strides of {strides} bytes"
        raise LaunchError(what, f"TMA needs multiples of {ALIGNMENT}: pad its rows")
    kind = _TF32 if used.tf32 else _TYPE[dtype]
    return _encoded(kind, array.pointer, array.shape, strides, used.box, used.swizzle)


def _strides(array: Array, item: int) -> tuple[int, ...]:
    """Returns the strides of all dimensions but the last, which TMA takes to be contiguous."""
    found, stride = [], item
    for extent in reversed(array.shape[1:]):
        stride *= extent
        found.append(stride)
    return tuple(reversed(found))


@lru_cache(maxsize=1024)
def _encoded(
    kind: int,
    pointer: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    box: tuple[int, ...],
    swizzle: int,
) -> ctypes.Array[ctypes.c_byte]:
    """cuTensorMapEncodeTiled, whose lists have the innermost dimension first."""
    rank = len(shape)
    storage = (ctypes.c_byte * (128 + 64))()
    begin = -ctypes.addressof(storage) % 64
    aligned = (ctypes.c_byte * 128).from_buffer(storage, begin)
    call(
        "cuTensorMapEncodeTiled",
        ctypes.byref(aligned),
        kind,
        ctypes.c_uint(rank),
        ctypes.c_void_p(pointer),
        (ctypes.c_uint64 * rank)(*reversed(shape)),
        (ctypes.c_uint64 * max(1, rank - 1))(*reversed(strides)),
        (ctypes.c_uint32 * rank)(*reversed(box)),
        (ctypes.c_uint32 * rank)(*([1] * rank)),
        _NO_INTERLEAVE,
        _SWIZZLE[swizzle],
        _PROMOTE_256,
        _FILL_ZERO,
    )
    return aligned
