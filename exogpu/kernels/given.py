"""What is asked of the arrays of a call, whichever library they come from."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from typing import Any

from exogpu.codegen.runtime.errors import LaunchError

_TYPES = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "int32": "i32"}
"""By the names that libraries give them."""


def rank_of(name: str, array: Any, ranks: tuple[int, ...]) -> int:
    """How many dimensions an array has.  Raises LaunchError unless it is one of those."""
    rank = len(getattr(array, "shape", ()))
    if rank not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise LaunchError(f"{name} has {rank} dimensions", f"give an array of {wanted} dimensions")
    return rank


def type_of(name: str, array: Any, types: Collection[str]) -> str:
    """The type of an array's elements.  Raises LaunchError unless it is one of those."""
    said = str(getattr(array, "dtype", type(array).__name__))
    found = _TYPES.get(said.rpartition(".")[2])
    if found is None or found not in types:
        wanted = ", ".join(long for long, short in _TYPES.items() if short in types)
        raise LaunchError(f"{name} is {said}", f"give arrays of {wanted}")
    return found


def empty_like(like: Any, shape: tuple[int, ...]) -> Any:
    """An array for the result, of the library and on the device of another."""
    if hasattr(like, "new_empty"):  # torch
        return like.new_empty(shape)
    module = type(like).__module__.partition(".")[0]
    if module in ("cupy", "numpy"):
        return importlib.import_module(module).empty(shape, like.dtype)
    raise LaunchError(
        f"an array of {module} cannot be made here", "give `out=`, an array for the result"
    )
