"""The arguments of a call: names, sizes, shapes and types, checked without a GPU."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, SupportsIndex, cast

from exogpu.codegen.runtime.arrays import (
    TYPESTR,
    Array,
    check_layout,
    check_writes,
    is_numpy,
    is_numpy_scalar,
)
from exogpu.codegen.runtime.manifest import (
    Data,
    Json,
    LaunchError,
    Manifest,
    evaluate,
    expression_text,
    names,
)

_LIMIT = 1 << 31
"""Sizes are ints in the kernels."""


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a call: arrays by name, not yet looked at, and sizes."""

    arrays: Mapping[str, object]
    sizes: Mapping[str, int]


def arguments_by_name(
    manifest: Manifest, arrays: Sequence[object], arguments: Mapping[str, object]
) -> Given:
    """The arguments by name: arrays by position or by name, sizes by name.

    Raises LaunchError for what is unknown, missing, given twice, or no integer.
    """
    data, sizes = [d.name for d in manifest.data], [s.name for s in manifest.sizes]
    if len(arrays) > len(data):
        what = f"{manifest.name} has {len(data)} arrays, and {len(arrays)} are given"
        raise LaunchError(what, "give sizes by name")
    given = dict(zip(data, arrays, strict=False))
    for name, value in arguments.items():
        if name in given:
            raise LaunchError(f"{name} is given twice", "by position or by name, not both")
        if name not in data and name not in sizes:
            close = get_close_matches(name, [*data, *sizes], 1)
            remedy = f"did you mean {close[0]}?" if close else f"it has {', '.join(data + sizes)}"
            raise LaunchError(f"{manifest.name} has no parameter {name}", remedy)
        given[name] = value
    if missing := [name for name in data if name not in given]:
        what = f"no array is given for {', '.join(missing)}"
        raise LaunchError(what, f"{manifest.name} has the arrays {', '.join(data)}")
    return Given(
        {n: given[n] for n in data}, {n: _integer(n, given[n]) for n in sizes if n in given}
    )


def _integer(name: str, value: object) -> int:
    try:
        return operator.index(cast(SupportsIndex, value))
    except TypeError:
        what = f"{name} is a {type(value).__name__}, not an integer"
        raise LaunchError(what, "pass an integer") from None


def bind(
    manifest: Manifest, arrays: Mapping[str, Array], given: Mapping[str, int]
) -> dict[str, int]:
    """The sizes: those given, and those that are an extent of an array.

    Raises LaunchError where one is unknown or not admitted, and where an array has not the type,
    the shape or the layout that its parameter declares, or shares memory that is written.
    """
    sizes = dict(given)
    for param in manifest.data:
        _check_type(param, arrays[param.name])
        for extent, expr in zip(arrays[param.name].shape, param.shape, strict=True):
            if isinstance(expr, str):
                sizes.setdefault(expr, extent)
    _check_sizes(manifest, sizes)
    for param in manifest.data:
        wanted = tuple(evaluate(expr, sizes) for expr in param.shape)
        if arrays[param.name].shape != wanted:
            at = _at_sizes(sizes, (n for expr in param.shape for n in names(expr)))
            what = f"{param.name} has the shape {arrays[param.name].shape}, not {wanted}{at}"
            raise LaunchError(what, "pass arrays whose shapes agree with each other and the sizes")
        check_layout(param.name, arrays[param.name])
    check_writes(arrays, [p.name for p in manifest.data if p.written])
    return sizes


def _check_type(param: Data, array: Array) -> None:
    if len(array.shape) != len(param.shape):
        what = f"{param.name} has {len(array.shape)} dimensions, not {len(param.shape)}"
        raise LaunchError(what, f"its shape is [{', '.join(map(expression_text, param.shape))}]")
    if array.typestr not in TYPESTR[param.dtype]:
        what = f"{param.name} holds {array.typestr}, not {TYPESTR[param.dtype][0]}"
        raise LaunchError(what, f"pass an array of {param.dtype}")


def _check_sizes(manifest: Manifest, sizes: Mapping[str, int]) -> None:
    for size in manifest.sizes:
        if size.name not in sizes:
            what = f"the size {size.name} is not given, and is no array's extent"
            raise LaunchError(what, f"pass {size.name}=")
        value = sizes[size.name]
        if size.least is not None and value < size.least:
            what = f"{size.name} is {value}, and at least {size.least} is needed"
            raise LaunchError(what, "nothing is to be done: leave the call out")
        if not -_LIMIT <= value < _LIMIT:
            raise LaunchError(f"{size.name} is {value}: more than 32 bits")
    for condition in manifest.preconditions:
        if not evaluate(condition, sizes):
            at = _at_sizes(sizes, names(condition))
            what = f"{manifest.name} needs {expression_text(condition)}{at}"
            raise LaunchError(what, "pass arrays of sizes that satisfy it")


def check_fits(expressions: Iterable[Json], sizes: Mapping[str, int]) -> None:
    """Raises LaunchError where a kernel would compute an index of more than 32 bits."""
    for expr in expressions:
        value = evaluate(expr, sizes)
        if not -_LIMIT <= value < _LIMIT:
            at = _at_sizes(sizes, names(expr))
            what = f"{expression_text(expr)} is {value}{at}: more than 32 bits"
            raise LaunchError(what, "divide the work into several calls")


def _at_sizes(sizes: Mapping[str, int], read: Iterable[str]) -> str:
    values = ", ".join(f"{n} = {sizes[n]}" for n in dict.fromkeys(read))
    return f" at {values}" if values else ""


# Arguments that a launch takes by value: the elements of what is @ CudaGridConstant.

_FORMAT: Final[Mapping[str, str]] = {
    "f16": "<e",
    "f32": "<f",
    "f64": "<d",
    "i8": "<b",
    "i32": "<i",
    "i64": "<q",
    "ui8": "<B",
    "ui16": "<H",
    "ui32": "<I",
    "ui64": "<Q",
}
"""The formats of `struct`."""


def value_of(name: str, value: object, dtype: str, rank: int) -> Array:
    """The elements of a numpy array or scalar, or a number of Python as a scalar of the type.

    A tensor of one element is its number, for which its library may wait for the GPU.  One element
    has the rank of the parameter.  Raises LaunchError for what is none of them, and for a number
    that does not fit the type.
    """
    if not is_numpy(value) and not is_numpy_scalar(value) and _is_one_element(value):
        value = value.item()  # type: ignore[attr-defined]
    if is_numpy(value) or (is_numpy_scalar(value) and not isinstance(value, int | float)):
        elements = value.tobytes()
        shape = (1,) * rank if value.size == 1 else value.shape
        return Array(0, shape, None, value.dtype.str, True, None, host=True, value=elements)
    known = _FORMAT.get(dtype)
    if known is None or isinstance(value, bool) or not isinstance(value, int | float):
        what = f"{name} is a {type(value).__name__}, and is taken by value as {dtype}"
        raise LaunchError(what, "pass a number, an array of numpy, or a tensor of one element")
    try:
        elements = struct.pack(known, value)
    except (struct.error, OverflowError) as error:
        raise LaunchError(f"{name} is {value}, no {dtype}: {error}", "pass what fits") from None
    shape = (1,) * rank
    return Array(0, shape, None, TYPESTR[dtype][0], True, None, host=True, value=elements)


def _is_one_element(value: object) -> bool:
    """Tests whether a value is a tensor of some library with one element."""
    shape = getattr(value, "shape", None)
    return isinstance(shape, tuple) and math.prod(shape) == 1 and hasattr(value, "item")
