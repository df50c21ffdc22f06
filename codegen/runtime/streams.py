"""Streams: which one a call uses, and who waits for whom."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, Final

from exogpu.codegen.runtime.driver import call
from exogpu.codegen.runtime.errors import LaunchError

_CURRENT: Final[Mapping[str, Callable[[ModuleType, Any], int]]] = {
    "torch": lambda torch, tensor: torch.cuda.current_stream(tensor.device).cuda_stream,
    "cupy": lambda cupy, array: cupy.cuda.get_current_stream(array.device.id).ptr,
}
"""The current stream of an array's library, for its device."""

_NO_TIMING: Final = 2  # CU_EVENT_DISABLE_TIMING


def current_stream(array: object) -> int | None:
    """The current stream of the array's library; None where it has none, or is not on a GPU."""
    for base in type(array).__mro__:
        library = base.__module__.partition(".")[0]
        if library in _CURRENT:
            if getattr(getattr(array, "device", None), "type", "cuda") != "cuda":
                return None
            return _CURRENT[library](sys.modules[library], array)
    return None


def has_current_stream(array: object) -> bool:
    """Tests whether the array's library has streams of its own, one of them current."""
    return any(base.__module__.partition(".")[0] in _CURRENT for base in type(array).__mro__)


def handle(stream: object) -> int:
    """The driver's handle of a stream: an integer, or an object of torch, cupy or cuda.core.

    Raises LaunchError for what is none.
    """
    if isinstance(stream, int):
        return stream
    for attribute in ("cuda_stream", "ptr", "handle"):
        value = getattr(stream, attribute, None)
        if value is not None:
            return int(value)
    what = f"{type(stream).__name__} is no stream"
    raise LaunchError(what, "pass its handle as an integer, or a stream of torch or cupy")


def wait_for(stream: int, others: Iterable[int]) -> None:
    """Let a stream wait for all that is now enqueued on others."""
    for other in sorted(set(others) - {stream}):
        event = ctypes.c_void_p()
        call("cuEventCreate", ctypes.byref(event), _NO_TIMING)
        call("cuEventRecord", event, pointer(other))
        call("cuStreamWaitEvent", pointer(stream), event, 0)
        call("cuEventDestroy_v2", event)


def pointer(stream: int) -> ctypes.c_void_p:
    """The handle as an argument of the driver."""
    return ctypes.c_void_p(stream or None)
