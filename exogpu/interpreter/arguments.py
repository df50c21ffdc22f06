"""The arguments of a run: names, sizes, shapes and types, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

import numpy as np

from exogpu.analysis.sizes import check_sizes
from exogpu.diagnostics.errors import Diagnostic, ExoGpuError
from exogpu.interpreter.values import NUMPY, Array, stored
from exogpu.ir.nodes import ControlParam, CVar, DataParam, Proc
from exogpu.ir.types import DataType, Sym
from exogpu.ir.walk import control_variables, evaluate

NARROW: Final = {
    DataType.BF16: "bfloat16",
    DataType.F8E4M3: "float8_e4m3fn",
    DataType.F8E5M2: "float8_e5m2",
}
"""Types of which numpy has no numbers, and their names in ml_dtypes."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The values of the parameters."""

    sizes: dict[Sym, int]
    arrays: dict[Sym, Array]
    """The user's own arrays; a number given for a scalar became an array that may not change."""


def bind(proc: Proc, arguments: Mapping[str, object]) -> Bound:
    """The parameters' values; sizes left out follow from extents that are just a size.

    Raises ExoGpuError with all that is wrong.
    """
    found = list(_unknown(proc, arguments))
    arrays: dict[Sym, Array] = {}
    for param in _data(proc):
        given = _array(param, arguments)
        if isinstance(given, Diagnostic):
            found.append(given)
        else:
            arrays[param.name] = given
    sizes, wrong = _sizes(proc, arguments, arrays)
    found += wrong
    if not found:
        found += _wrong_shapes(proc, arrays, sizes)
    if not found:
        found += check_sizes(proc, {name.name: value for name, value in sizes.items()})
    if found:
        raise ExoGpuError(found)
    return Bound(sizes, arrays)


def _data(proc: Proc) -> list[DataParam]:
    return [p for p in proc.params if isinstance(p, DataParam)]


def _unknown(proc: Proc, arguments: Mapping[str, object]) -> Iterable[Diagnostic]:
    known = [p.name.name for p in proc.params]
    for name in arguments:
        if name not in known:
            close = get_close_matches(name, known, 1)
            remedy = f"did you mean {close[0]}?" if close else f"it takes {', '.join(known)}"
            message = f"{proc.name} has no parameter {name}"
            yield Diagnostic("X920", message, proc.span, remedy)


def _array(param: DataParam, arguments: Mapping[str, object]) -> Array | Diagnostic:
    name, dtype = param.name.name, param.dtype
    kind = NUMPY[dtype]
    if name not in arguments:
        remedy = f"pass {name}=, a numpy array of {kind}"
        return Diagnostic("X921", f"no array is given for {name}", param.span, remedy)
    given = arguments[name]
    if not param.shape and isinstance(given, int | float) and not isinstance(given, bool):
        constant = np.array(given).astype(kind)
        constant.flags.writeable = False
        return constant
    if not isinstance(given, np.ndarray):
        message = f"{name} is a {type(given).__name__}, not a numpy array"
        return Diagnostic("X922", message, param.span, f"pass a numpy array of {kind}")
    if given.dtype != kind and given.dtype.name != NARROW.get(dtype):
        message = f"{name} is {dtype.value}, the array given holds {given.dtype}"
        return Diagnostic("X922", message, param.span, f"pass a numpy array of {kind}")
    if given.ndim != len(param.shape):
        message = f"{name} has {len(param.shape)} dimensions, the array given has {given.ndim}"
        return Diagnostic("X923", message, param.span, "pass an array of the declared rank")
    return _exact(param, given)


def _exact(param: DataParam, array: Array) -> Array | Diagnostic:
    dtype = param.dtype
    if dtype not in NARROW or array.dtype != np.float32:
        return array
    kept = stored(array, dtype)
    if dtype is DataType.F8E5M2:  # which has infinities, although nothing is rounded to them
        kept = np.where(np.isinf(array), array, kept)
    if np.array_equal(kept, array, equal_nan=True):
        return array
    name = dtype.value
    message = f"{param.name} is {name}, and the float32 array given holds values that are not"
    how = "round_bf16(array)" if dtype is DataType.BF16 else f'round_f8(array, "{name}")'
    return Diagnostic("X924", message, param.span, f"round it first: exogpu.interpreter.{how}")


def _sizes(
    proc: Proc, arguments: Mapping[str, object], arrays: Mapping[Sym, Array]
) -> tuple[dict[Sym, int], list[Diagnostic]]:
    sizes: dict[Sym, int] = {}
    wrong: list[Diagnostic] = []
    for param in proc.params:
        if isinstance(param, ControlParam) and param.name.name in arguments:
            given = arguments[param.name.name]
            if isinstance(given, int | np.integer) and not isinstance(given, bool):
                sizes[param.name] = int(given)
            else:
                message = f"{param.name} is a {type(given).__name__}, not an integer"
                wrong.append(Diagnostic("X922", message, param.span, "pass an integer"))
    asked = set(sizes)
    for param in _data(proc):
        if param.name in arrays:
            for extent, length in zip(param.shape, arrays[param.name].shape, strict=True):
                if isinstance(extent, CVar) and extent.name not in asked:
                    sizes.setdefault(extent.name, length)
    return sizes, wrong


def _wrong_shapes(
    proc: Proc, arrays: Mapping[Sym, Array], sizes: Mapping[Sym, int]
) -> Iterable[Diagnostic]:
    for param in _data(proc):
        for dimension, extent in enumerate(param.shape):
            read = control_variables(extent)
            if not read <= sizes.keys():
                continue  # check_sizes says which size is missing
            wanted, length = evaluate(extent, sizes), arrays[param.name].shape[dimension]
            if wanted != length:
                at = ", ".join(f"{n} = {sizes[n]}" for n in sorted(read, key=str))
                message = f"dimension {dimension} of {param.name} has {length} elements, not "
                message += f"{wanted}" + f" ({at})" * bool(at)
                remedy = "pass arrays whose shapes agree with one another and with the sizes"
                yield Diagnostic("X923", message, param.span, remedy)


def check_writes(proc: Proc, bound: Bound, written: Iterable[Sym]) -> None:
    """Checks that the arrays which the procedure writes may be written.

    Raises ExoGpuError for read-only arrays, and for arrays that share memory with another.
    """
    params = {p.name: p for p in _data(proc)}
    found: list[Diagnostic] = []
    for name in written:
        array = bound.arrays[name]
        if not array.flags.writeable:
            message = f"{proc.name} writes {name}, and the array given is read-only"
            remedy = f"pass a writable array; for a scalar np.zeros((), np.{array.dtype})"
            found.append(Diagnostic("X925", message, params[name].span, remedy))
        for other, against in bound.arrays.items():
            if other != name and np.shares_memory(array, against):
                message = f"{name} is written and shares memory with {other}"
                found.append(Diagnostic("X926", message, params[name].span, "copy one of them"))
    if found:
        raise ExoGpuError(found)
