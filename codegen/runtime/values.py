"""Arguments that a launch takes by value: the elements of what is @ CudaGridConstant."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from exogpu.codegen.runtime.arrays import TYPESTR, Array, is_numpy, is_numpy_scalar
from exogpu.codegen.runtime.errors import LaunchError

_FORMAT: Final[Mapping[str, str]] = {
    "f16": "<e",
    "f32": "<f",
    "f64": "<d",
    "i8": "<b",
    "i32": "<i",
    "i64": "<q",
    "ui8": "<B",
    "ui16": "<H",
    "ui64": "<Q",
}
"""Of `struct`."""


def value_of(name: str, value: object, dtype: str) -> Array:
    """The elements of a numpy array or scalar, or a number of Python as a scalar of the type.

    Raises LaunchError for what is none of them, and for a number that does not fit the type.
    """
    if is_numpy(value) or (is_numpy_scalar(value) and not isinstance(value, int | float)):
        elements = value.tobytes()
        return Array(0, value.shape, None, value.dtype.str, True, None, host=True, value=elements)
    known = _FORMAT.get(dtype)
    if known is None or isinstance(value, bool) or not isinstance(value, int | float):
        what = f"{name} is a {type(value).__name__}, and is taken by value as {dtype}"
        raise LaunchError(what, "pass a number or an array of numpy")
    try:
        elements = struct.pack(known, value)
    except (struct.error, OverflowError) as error:
        raise LaunchError(f"{name} is {value}, no {dtype}: {error}", "pass what fits") from None
    return Array(0, (), None, TYPESTR[dtype][0], True, None, host=True, value=elements)
