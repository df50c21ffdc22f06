"""Calls that launch what an earlier call of the same shapes launched, on other memory.

A plan has everything that follows from the types, shapes and strides of a call's arrays.  The next
such call puts its addresses in, and launches.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from types import ModuleType
from typing import Any, Final

from exogpu.codegen.runtime import driver
from exogpu.codegen.runtime.arrays import ALIGNMENT

MOST_PLANS: Final = 256
"""The plans that a kernel has; when there are more, it makes them again."""


def shape_key(
    values: Iterable[Any], names: tuple[str, ...], stream: object, most: int | None = None
) -> tuple[Hashable, list[Any]] | None:
    """Returns the key of a call and its tensors: calls with one key differ in addresses alone.

    The last values have names; `most` is the number of clusters that a launch may have.  Returns
    None where a call has arrays that are no tensors of one GPU, tensors that take part in the
    computation of a gradient, or a stream that is no handle.
    """
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if torch is None or tensor is None or not (stream is None or type(stream) is int):
        return None
    parts: list[Hashable] = [names, stream is None, most]
    tensors: list[Any] = []
    try:
        device = _parts(values, tensor, -1, parts, tensors)
    except RuntimeError:  # of torch: a sparse tensor has no strides
        return None
    if device < 0:
        return None
    parts.append(_current_stream(torch, device) if stream is None else stream)
    return tuple(parts), tensors


_PLAIN: Final[frozenset[type]] = frozenset({int, bool, str, type(None)})


def _parts(
    values: Iterable[Any], tensor: type, device: int, parts: list[Hashable], tensors: list[Any]
) -> int:
    """Adds the values' parts of a key, and the tensors.  Returns their GPU; -1 where there is none,
    and less where a value has no part."""
    for value in values:
        kind = type(value)
        if kind is tensor:
            where = value.get_device()
            if where != device:
                if where < 0 or device >= 0:
                    return -2
                device = where
                parts.append(device)
            if value.requires_grad:
                return -2
            parts.append(value.dtype)
            parts.append(value.shape)
            parts.append(value.stride())
            tensors.append(value)
        elif kind in _PLAIN:
            parts.append(kind.__name__)  # True is 1
            parts.append(value)
        elif kind is float:
            parts.append(value.hex())  # 0.0 and -0.0 are equal, and two arguments
        elif kind is tuple or kind is list:
            parts.append((kind, len(value)))
            device = _parts(value, tensor, device, parts, tensors)
            if device < -1:
                return device
        else:
            return -2
    return device


def _current_stream(torch: ModuleType, device: int) -> int:
    """The handle of torch's current stream."""
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # an eighth of the time
    return int(raw(device) if raw else torch.cuda.current_stream(device).cuda_stream)


@dataclass(frozen=True, slots=True)
class Span:
    """Memory of a tensor: its number among those of a call, its bytes, and whether a kernel
    writes it."""

    tensor: int
    bytes: int
    written: bool


@dataclass(slots=True)
class Addresses:
    """The places in the arguments of launches that depend on the addresses of tensors."""

    pointers: list[tuple[Any, int, int]] = field(default_factory=list)
    """An integer of ctypes, a tensor, and the bytes from its begin."""
    maps: list[tuple[ctypes.Array[ctypes.c_byte], int]] = field(default_factory=list)
    """A tensor map, and its tensor."""

    def write(self, addresses: Sequence[int]) -> None:
        """Writes the addresses of the tensors."""
        for place, tensor, offset in self.pointers:
            place.value = addresses[tensor] + offset
        for descriptor, tensor in self.maps:
            address = ctypes.c_void_p(addresses[tensor])
            driver.call("cuTensorMapReplaceAddress", ctypes.byref(descriptor), address)


class Plan:
    """The launches of calls of one key on a device."""

    def __init__(
        self,
        device: int,
        actions: tuple[Callable[[], None], ...],
        spans: Sequence[Span],
        places: Addresses,
        addresses: tuple[int, ...],
    ) -> None:
        self._device, self._actions, self._places = device, actions, places
        self._is_current = driver.context_test(device)
        self._addresses = addresses
        self._lock = Lock()
        sizes = [span for span in spans if span.bytes]
        self._aligned = tuple(span.tensor for span in sizes)
        self._apart = tuple(
            (one.tensor, one.bytes, other.tensor, other.bytes)
            for at, one in enumerate(sizes)
            for other in sizes[:at]
            if one.written or other.written
        )

    def admits(self, addresses: tuple[int, ...]) -> bool:
        """Tests whether tensors may lie there: aligned, and what is written apart from the rest."""
        if addresses == self._addresses:
            return True
        for tensor in self._aligned:
            if addresses[tensor] % ALIGNMENT:
                return False
        for one, its_bytes, other, other_bytes in self._apart:
            here, there = addresses[one], addresses[other]
            if here < there + other_bytes and there < here + its_bytes:
                return False
        return True

    def enqueue(self, addresses: tuple[int, ...]) -> None:
        """Enqueues the steps on tensors at addresses that fit.  Raises LaunchError."""
        with self._lock:  # threads share the arguments, which the driver copies
            if self._is_current():
                self._run(addresses)
            else:
                with driver.active(self._device):
                    self._run(addresses)

    def _run(self, addresses: tuple[int, ...]) -> None:
        if addresses != self._addresses:
            self._addresses = ()  # nowhere, until all are written
            self._places.write(addresses)
            self._addresses = addresses
        for act in self._actions:
            act()


# A call of several kernels, and of arrays made for its result, is recorded while it runs.


@dataclass(slots=True)
class Record:
    """The plans that a call enqueued, with their addresses, and the arrays that it made."""

    launches: list[tuple[Callable[[Plan, tuple[int, ...]], None], Plan, tuple[int, ...]]] = field(
        default_factory=list
    )
    made: list[Any] = field(default_factory=list)
    repeatable: bool = True


_RECORD: Final[ContextVar[Record | None]] = ContextVar("record", default=None)


def current_record() -> Record | None:
    """Returns the record of the call that is running, if there is one."""
    return _RECORD.get()


@contextmanager
def recording() -> Iterator[Record]:
    """Records the kernels that are called within it."""
    token = _RECORD.set(record := Record())
    try:
        yield record
    finally:
        _RECORD.reset(token)
