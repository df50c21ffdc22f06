"""Checks the arrays of a call: their ranks and types; and makes arrays for its results."""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any, Final

from exogpu.codegen.runtime.arrays import ITEM_SIZE, array_of, check_layout
from exogpu.codegen.runtime.driver import handle
from exogpu.codegen.runtime.manifest import LaunchError
from exogpu.codegen.runtime.plans import current_record

ACTIVATIONS: Final = ("", "relu", "gelu", "silu")
"""gelu is that of erf; silu(x) is x * sigmoid(x)."""
AT_ONCE: Final = 132
"""Multiprocessors of the GPU that tiles are chosen for: as many tiles run at once."""
_TYPES = {
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "int32": "i32",
    "int64": "i64",
}
"""By the names that libraries give them."""


def rank_of(name: str, array: Any, ranks: tuple[int, ...]) -> int:
    """Returns the number of dimensions of an array. Raises LaunchError unless it is one of
    those."""
    rank = len(_shape_of(name, array))
    if rank not in ranks:
        wanted = " or ".join(map(str, ranks))
        remedy = f"give an array of {wanted} dimension{'s' if ranks != (1,) else ''}"
        raise LaunchError(f"{name} has {_dimensions(rank)}", remedy)
    return rank


def type_of(name: str, array: Any, types: Sequence[str]) -> str:
    """The type of an array's elements.  Raises LaunchError unless it is one of those."""
    _shape_of(name, array)
    given = str(array.dtype)
    found = _TYPES.get(given.rpartition(".")[2])
    if found not in types:
        wanted = ", ".join(theirs for theirs, ours in _TYPES.items() if ours in types)
        raise LaunchError(f"{name} is {given}", f"give arrays of {wanted}")
    return found


def rows_of(name: str, array: Any, types: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """The type and the shape of an array with rows.  Raises LaunchError where it has none."""
    kind, shape = type_of(name, array, types), tuple(array.shape)
    if not shape:
        raise LaunchError(f"{name} has 0 dimensions", "give an array with rows: its last dimension")
    return kind, shape


def check(name: str, array: Any, shape: tuple[int, ...], dtype: str) -> None:
    """An array of that shape and type, contiguous by rows, is given.  Raises LaunchError."""
    if tuple(_shape_of(name, array)) != shape:
        raise LaunchError(f"{name} is {tuple(array.shape)}", f"give an array of {shape}")
    type_of(name, array, (dtype,))
    by_rows(name, array)


def whole_vectors(K: int, dtype: str) -> None:
    """Rows of K elements are vectors of 16 bytes, as TMA takes them.  Raises LaunchError."""
    size = ITEM_SIZE[dtype]
    if size * K % 16:
        raise LaunchError(
            f"K is {K}: rows of {size * K} bytes, read by 16",
            f"pad K to a multiple of {16 // size} with zeros",
        )


def by_rows(name: str, array: Any) -> None:
    """An array has elements, and they lie by rows without gaps.  Raises LaunchError."""
    if 0 in array.shape:
        what = f"{name} has no elements: its shape is {tuple(array.shape)}"
        raise LaunchError(what, "a kernel computes at least one: leave the call out")
    told = getattr(array, "is_contiguous", None)
    flags = getattr(array, "flags", None)
    if not (told() if told is not None else getattr(flags, "c_contiguous", False)):
        check_layout(name, array_of(name, array, 0))


def number(name: str, value: Any) -> float:
    """A number.  Raises LaunchError for anything else, and for what is none."""
    try:
        found = float(value) if not hasattr(value, "shape") or not value.shape else math.nan
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if math.isnan(found):
        said = value if isinstance(value, int | float | str | None) else type(value).__name__
        raise LaunchError(f"{name} is {said!r}, and no number", f"give {name} as a number")
    return found


def as_integer(value: Any) -> int:
    """The integer that a value is, of any library; 0 for what is none, and for a bool."""
    try:
        return 0 if isinstance(value, bool) else index(value)
    except TypeError:
        return 0


def launch(kernel: Callable[..., None], theirs: Mapping[str, str], **arguments: Any) -> None:
    """Call a kernel, whose messages name parameters as the caller does."""
    try:
        kernel(**arguments)
    except LaunchError as error:
        problem = re.sub(r"\b\w+\b", lambda word: theirs.get(word[0], word[0]), error.problem)
        raise LaunchError(problem, error.remedy) from error


def _shape_of(name: str, array: Any) -> Sequence[int]:
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        kind = type(array).__name__
        said = "nothing" if array is None else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
        raise LaunchError(f"{name} is {said}, and no array", "give one of torch, cupy or numpy")
    shape: Sequence[int] = array.shape
    return shape


def _dimensions(count: int) -> str:
    return f"{count} dimension{'s' * (count != 1)}"


def empty_array(like: Any, shape: tuple[int, ...], dtype: str | None = None) -> Any:
    """An array for a result, of the library and on the device of another; of its type, or of one
    that the library calls `dtype`."""
    module = type(like).__module__.partition(".")[0]
    if hasattr(like, "new_empty"):  # torch
        made = like.new_empty(shape, dtype=dtype and getattr(sys.modules["torch"], dtype))
        if (record := current_record()) is not None:
            record.made.append(made)
        return made
    if module in ("cupy", "numpy"):
        return importlib.import_module(module).empty(shape, dtype or like.dtype)
    raise LaunchError(
        f"an array of {module} cannot be made here", "give `out=`, an array for the result"
    )


def scratch(like: Any, shape: tuple[int, ...], dtype: str, stream: object) -> Any:
    """An array as of `empty` that nobody keeps: made on the stream that uses it, so that its memory
    is not given to another stream before it is done with."""
    library = sys.modules.get(type(like).__module__.partition(".")[0])
    cuda = getattr(library, "cuda", None)
    if stream is None or cuda is None or not getattr(like, "is_cuda", True):
        return empty_array(like, shape, dtype)
    if (record := current_record()) is not None:
        record.repeatable = False  # another call would make it on the current stream
    if hasattr(like, "new_empty"):  # torch
        with cuda.stream(cuda.ExternalStream(handle(stream), device=like.device)):
            return empty_array(like, shape, dtype)
    with cuda.ExternalStream(handle(stream)):
        return empty_array(like, shape, dtype)


def flat(name: str, array: Any, shape: tuple[int, ...]) -> Any:
    """The same memory in another shape.  Raises LaunchError where it has gaps, so that another
    shape would be a copy, or is none at all."""
    by_rows(name, array)
    return array.reshape(shape)
