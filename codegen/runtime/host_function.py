"""Calls the C function of a procedure that does more on the CPU than to launch kernels."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from exogpu.codegen.runtime.arrays import Array
from exogpu.codegen.runtime.manifest import LaunchError, Manifest

HostFunction = Callable[..., int]
"""The C function: sizes, pointers and the stream, in the order of the parameters."""

_REFUSALS: Final[Mapping[int, str]] = {
    -1: "a size does not satisfy the preconditions",
    -2: "an array, or a row of it for TMA, does not begin at a multiple of 16 bytes",
    -3: "a launch has more tasks than it can number",
    -4: "a kernel would compute an index of more than 32 bits",
    -6: "an array that TMA shall reach has no elements",
}
"""The header's negative values, in words."""


def load_function(library: bytes, name: str) -> HostFunction:
    """The C function of a procedure's shared object.  Raises LaunchError where it is none."""
    with tempfile.TemporaryDirectory() as folder:  # once it is loaded, the file is not needed
        path = Path(folder) / f"lib{name}.so"
        path.write_bytes(library)
        try:
            function = ctypes.CDLL(str(path))[f"{name}_launch"]
        except (OSError, AttributeError) as error:
            what = f"lib{name}.so cannot be loaded: {error}"
            raise LaunchError(what, "make it anew by `exogpu compile --so`") from None
    function.restype = ctypes.c_int
    return function


def call_function(
    function: HostFunction,
    manifest: Manifest,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    stream: int,
) -> None:
    """Enqueues the procedure on a stream.  Raises LaunchError for what it returns but 0."""
    values: list[object] = []
    for name in manifest.parameters:
        if name in sizes:
            values.append(ctypes.c_longlong(sizes[name]))
        elif (elements := arrays[name].value) is not None:
            values.append(ctypes.create_string_buffer(elements, max(1, len(elements))))
        else:
            values.append(ctypes.c_void_p(arrays[name].pointer))
    status = function(*values, ctypes.c_void_p(stream))
    if status:
        said = _REFUSALS.get(status, f"CUDA's error {status}")
        raise LaunchError(f"{manifest.name} stopped: {said}")
