"""Device memory that is lent by one library, or made here and given to another, by DLPack."""

from __future__ import annotations

import ctypes
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Lock
from typing import Any, Final

from exogpu.codegen.runtime import driver
from exogpu.codegen.runtime.arrays import ALIGNMENT, ITEM_SIZE, TYPESTR, Array
from exogpu.codegen.runtime.dlpack import Exporter, Tensor, exported
from exogpu.codegen.runtime.manifest import LaunchError, MapOf

_CODES: Final = {"f32": (2, 32), "f16": (2, 16), "bf16": (4, 16)}
"""DLPack's code and bits."""

NAMES: Final = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
"""As libraries of arrays have them."""

CUDA: Final = 2  # kDLCUDA


@dataclass(frozen=True)
class View:
    """Memory of a GPU with a shape: what a kernel takes for an array."""

    address: int
    shape: tuple[int, ...]
    kind: str
    stream: int
    readonly: bool = False

    @property
    def dtype(self) -> str:
        """The type of an element, by its name."""
        return NAMES[self.kind]

    def reshape(self, shape: tuple[int, ...]) -> View:
        """The same elements by rows."""
        return View(self.address, shape, self.kind, self.stream, self.readonly)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": TYPESTR[self.kind][0],
            "data": (self.address, self.readonly),
            "version": 3,
            "stream": self.stream or 1,  # as the interface calls the default stream
        }


def lent(name: str, array: object, stream: int) -> tuple[View, int]:
    """An array that another library lends, for use on a stream, and its device.

    The library makes the stream wait for what is still to be computed.  Raises LaunchError for what
    is on no GPU, or is no array at all, as within a function that is being traced.
    """
    if not isinstance(array, Exporter):
        what = f"{name} is a {type(array).__name__}, which has no elements yet"
        raise LaunchError(what, "call it outside of functions that jax traces, such as by jit")
    packed = exported(name, array, stream)
    kinds = [kind for kind, known in TYPESTR.items() if packed.typestr in known and kind in NAMES]
    if not kinds:
        raise LaunchError(f"{name} holds {packed.typestr}", f"give arrays of {', '.join(NAMES)}")
    by_rows = [math.prod(packed.shape[d + 1 :]) for d in range(len(packed.shape))]
    if packed.strides is not None and list(packed.strides) != by_rows:
        raise LaunchError(f"{name} is not contiguous by rows", "pass a copy of it")
    view = View(packed.pointer, packed.shape, kinds[0], stream, readonly=True)
    return view, int(array.__dlpack_device__()[1])


# --- what is given away -------------------------------------------------------------------------


class _Managed(ctypes.Structure):
    """DLManagedTensor."""


_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (
    ("tensor", Tensor),
    ("context", ctypes.c_void_p),
    ("deleter", _DELETER),
)

_given: Final[dict[int, tuple[object, ...]]] = {}
"""The objects that somebody else has, by address, until their deleters are called."""


def capsule(view: View, place: tuple[int, int], free: Callable[[], None]) -> object:
    """A DLPack capsule of memory on a device; whoever takes it calls `free` once, at its end."""
    code, bits = _CODES[view.kind]
    shape = (ctypes.c_int64 * len(view.shape))(*view.shape)
    managed = _Managed()
    address = ctypes.addressof(managed)

    def delete(_: object) -> None:
        if _given.pop(address, None) is not None:
            free()

    managed.deleter = _DELETER(delete)
    kind, number = place
    dims = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    managed.tensor = Tensor(view.address, kind, number, len(shape), code, bits, 1, dims, None, 0)
    _given[address] = managed, managed.deleter, shape
    make = ctypes.pythonapi.PyCapsule_New
    make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    make.restype = ctypes.py_object
    return make(address, b"dltensor", None)


@dataclass
class Owned:
    """Memory for a result, of a stream's pool, that goes to another library."""

    view: View
    device: int
    event: ctypes.c_void_p = field(default_factory=ctypes.c_void_p)
    taken: bool = False

    @classmethod
    def make(cls, shape: tuple[int, ...], kind: str, device: int, stream: int) -> Owned:
        """Elements of any values."""
        count = math.prod(shape) * ITEM_SIZE[kind]
        with driver.active(device):
            address = driver.allocate_on(driver.pointer(stream), device, count)
        return cls(View(address, shape, kind, stream), device)

    def free(self) -> None:
        """Give it back."""
        with driver.active(self.device):
            driver.free_on(driver.pointer(self.view.stream), self.view.address)

    def computed(self, *kept: object) -> None:
        """All that computes it is on its stream.  What is `kept` is read until then: its library
        does not know, and must not use the memory for anything else."""
        with driver.active(self.device):
            driver.call("cuEventCreate", ctypes.byref(self.event), _NO_TIMING)
            driver.call("cuEventRecord", self.event, driver.pointer(self.view.stream))
            _reads.append((self.event, self.device, kept))

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.device

    def __dlpack__(self, *, stream: int | None = None, **_: object) -> object:
        """A capsule, for use on a stream, which waits for the result; -1 waits for nothing."""
        if stream != -1:
            with driver.active(self.device):
                waits = ctypes.c_void_p(stream or _LEGACY)
                driver.call("cuStreamWaitEvent", waits, self.event, 0)
        self.taken = True
        return capsule(self.view, self.__dlpack_device__(), self.free)


_NO_TIMING: Final = 2  # CU_EVENT_DISABLE_TIMING
_LEGACY: Final = 1  # CU_STREAM_LEGACY: the default stream, by a handle

_reads: Final[deque[tuple[ctypes.c_void_p, int, tuple[object, ...]]]] = deque()
"""Arrays that are being read, each until an event."""

_one_at_a_time: Final = Lock()


def forget_what_is_read() -> None:
    """Let go of the arrays that have been read."""
    with _one_at_a_time:
        while _reads:
            event, device, _ = _reads[0]
            with driver.active(device):
                if not driver.is_over(event):
                    return
                _reads.popleft()
                driver.call("cuEventDestroy_v2", event)


# Device memory that a procedure has for itself, while one call of it is on the stream.

_ONE_AT_A_TIME: Final = Lock()
"""Calls of several threads share the arguments of kernels, and each has an address of its own."""


@dataclass(frozen=True, slots=True)
class Place:
    """An argument of kernels: while they are enqueued, the address of the memory."""

    address: ctypes.c_void_p
    bytes: int
    device: int
    zeroed: bool = False


def enqueued(
    actions: tuple[Callable[[], None], ...], places: Iterable[Place], stream: int
) -> Callable[[], None]:
    """Enqueues the actions between the allocation of the places and their end, on the stream: its
    order keeps what comes later, another call too, from memory that is still in use."""
    kept = tuple(places)

    def enqueue() -> None:
        where = driver.pointer(stream)
        with _ONE_AT_A_TIME:
            try:
                for place in kept:
                    place.address.value = driver.allocate_on(where, place.device, place.bytes)
                    if place.zeroed:
                        driver.zero(where, place.address.value, place.bytes)
                for act in actions:
                    act()
            finally:
                for place in kept:
                    if place.address.value:
                        driver.free_on(where, place.address.value)
                    place.address.value = None

    return enqueue


# Arrays of numpy, which a call copies to the device and back.


@contextmanager
def on_device(
    arrays: Mapping[str, Array], written: frozenset[str], stream: int
) -> Iterator[dict[str, Array]]:
    """The arrays with those of numpy copied to the device; on the way out, the results come back,
    and are waited for."""
    placed = dict(arrays)
    copies: dict[str, int] = {}
    try:
        for name, array in arrays.items():
            if array.host and array.value is None:
                copies[name] = driver.allocate(array.bytes)
                driver.copy_in(copies[name], array.pointer, array.bytes, driver.pointer(stream))
                placed[name] = replace(array, pointer=copies[name])
        yield placed
        for name in copies.keys() & written:
            driver.copy_out(
                arrays[name].pointer, copies[name], arrays[name].bytes, driver.pointer(stream)
            )
        if copies:
            driver.call("cuStreamSynchronize", driver.pointer(stream))
    except BaseException:
        if copies:  # what was enqueued may still read or write numpy's memory
            with suppress(LaunchError):
                driver.call("cuStreamSynchronize", driver.pointer(stream))
        raise
    finally:
        for address in copies.values():
            driver.free(address)


# Tensor maps: the 128-byte descriptors through which TMA reaches an array.

_TYPE: Final[Mapping[str, int]] = {
    "ui8": 0,
    "i8": 0,
    "f8e4m3": 0,
    "f8e5m2": 0,
    "ui16": 1,
    "ui32": 2,
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
"""The type of a map of f32 that is rounded to tf32."""

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


def copied_map(descriptor: object) -> ctypes.Array[ctypes.c_byte]:
    """Copies a descriptor for somebody who changes its address."""
    copy = _descriptor()
    ctypes.memmove(copy, ctypes.byref(descriptor), ctypes.sizeof(copy))  # type: ignore[arg-type]
    return copy


def _descriptor() -> ctypes.Array[ctypes.c_byte]:
    """128 bytes for a descriptor, where the driver wants them."""
    storage = (ctypes.c_byte * (128 + 64))()
    begin = -ctypes.addressof(storage) % 64
    return (ctypes.c_byte * 128).from_buffer(storage, begin)


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
    aligned = _descriptor()
    driver.call(
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
