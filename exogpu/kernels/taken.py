"""What a call on arrays takes: their ranks and types, and arrays for its results."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

from exogpu.codegen.runtime.errors import LaunchError
from exogpu.codegen.runtime.streams import handle

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
    """How many dimensions an array has.  Raises LaunchError unless it is one of those."""
    rank = len(getattr(array, "shape", ()))
    if rank not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise LaunchError(f"{name} has {rank} dimensions", f"give an array of {wanted} dimensions")
    return rank


def type_of(name: str, array: Any, types: Sequence[str]) -> str:
    """The type of an array's elements.  Raises LaunchError unless it is one of those."""
    given = str(getattr(array, "dtype", type(array).__name__))
    found = _TYPES.get(given.rpartition(".")[2])
    if found not in types:
        wanted = ", ".join(theirs for theirs, ours in _TYPES.items() if ours in types)
        raise LaunchError(f"{name} is {given}", f"give arrays of {wanted}")
    return found


def empty(like: Any, shape: tuple[int, ...], dtype: str | None = None) -> Any:
    """An array for a result, of the library and on the device of another; of its type, or of one
    that the library calls `dtype`."""
    module = type(like).__module__.partition(".")[0]
    if hasattr(like, "new_empty"):  # torch
        return like.new_empty(shape, dtype=dtype and getattr(sys.modules["torch"], dtype))
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
        return empty(like, shape, dtype)
    if hasattr(like, "new_empty"):  # torch
        with cuda.stream(cuda.ExternalStream(handle(stream), device=like.device)):
            return empty(like, shape, dtype)
    with cuda.ExternalStream(handle(stream)):
        return empty(like, shape, dtype)


def flat(name: str, array: Any, shape: tuple[int, ...]) -> Any:
    """The same memory in another shape.  Raises LaunchError where it has gaps, so that another
    shape would be a copy."""
    told = getattr(array, "is_contiguous", None)
    flags = getattr(array, "flags", None)
    if (told is not None and not told()) or not getattr(flags, "c_contiguous", True):
        what = f"{name} is not contiguous by rows"
        raise LaunchError(what, "pass a copy that is: `.contiguous()` of torch")
    return array.reshape(shape)
