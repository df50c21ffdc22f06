"""The CUDA driver: calls, devices, contexts, memory."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final

from exogpu.codegen.runtime.manifest import LaunchError

_COMPUTE_MAJOR: Final = 75  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
_COMPUTE_MINOR: Final = 76
MULTIPROCESSORS: Final = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_DEVICE_ORDINAL: Final = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_NO_DEVICE: Final = 100  # CUDA_ERROR_NO_DEVICE
_NOT_READY: Final = 600  # CUDA_ERROR_NOT_READY


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of this machine."""

    ordinal: int
    name: str
    capability: tuple[int, int]


def library() -> ctypes.CDLL:
    """The driver's library.  Raises LaunchError where there is none."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        remedy = "install NVIDIA's driver, or run on a machine with a GPU"
        raise LaunchError("there is no CUDA driver on this machine", remedy) from None


@cache
def _driver() -> ctypes.CDLL:
    driver = library()
    status = driver.cuInit(0)
    if status == _NO_DEVICE:
        raise LaunchError("there is no GPU on this machine", "run on a machine with a GPU")
    _check(driver, status, "cuInit")
    return driver


def _check(driver: ctypes.CDLL, status: int, what: str) -> None:
    if status:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(status, ctypes.byref(text))
        raise LaunchError(f"{what}: {(text.value or b'unknown error').decode()} ({status})")


def call(name: str, *arguments: object) -> None:
    """One call of the driver.  Raises LaunchError with what the driver says."""
    driver = _driver()
    _check(driver, getattr(driver, name)(*arguments), name)


def caller(name: str, *arguments: object, keep: object = None) -> Callable[[], None]:
    """Returns a function that makes the same call of the driver each time, as `call` does.

    What the arguments point to is kept as long as the function.
    """
    driver = _driver()

    def repeat(_: object = keep) -> None:
        if status := getattr(driver, name)(*arguments):
            _check(driver, status, name)

    return repeat


def is_over(event: ctypes.c_void_p) -> bool:
    """Tests whether the streams have come to an event. Raises LaunchError where one has failed."""
    driver = _driver()
    status = driver.cuEventQuery(event)
    if status == _NOT_READY:
        return False
    _check(driver, status, "cuEventQuery")
    return True


# --- devices --------------------------------------------------------------------------------


@cache
def gpus() -> tuple[Gpu, ...]:
    """The GPUs.  Raises LaunchError where there is no driver or no GPU."""
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    return tuple(_gpu(ordinal) for ordinal in range(count.value))


def version() -> int:
    """The newest CUDA that the driver is for: 13000 for 13.0."""
    found = ctypes.c_int()
    call("cuDriverGetVersion", ctypes.byref(found))
    return found.value


def _gpu(ordinal: int) -> Gpu:
    name = ctypes.create_string_buffer(256)
    call("cuDeviceGetName", name, 256, ordinal)
    major, minor = (attribute(ordinal, a) for a in (_COMPUTE_MAJOR, _COMPUTE_MINOR))
    return Gpu(ordinal, name.value.decode(), (major, minor))


def attribute(device: int, which: int) -> int:
    """An attribute of a device."""
    value = ctypes.c_int()
    call("cuDeviceGetAttribute", ctypes.byref(value), which, device)
    return value.value


def device_of(name: str, pointer: int) -> int:
    """The device whose memory a pointer points to.  Raises LaunchError for other memory."""
    device = ctypes.c_int()
    try:
        where = ctypes.c_uint64(pointer)
        call("cuPointerGetAttribute", ctypes.byref(device), _DEVICE_ORDINAL, where)
    except LaunchError as error:
        what = f"{name} does not point to memory that CUDA knows"
        raise LaunchError(what, error.problem) from None
    return device.value


def current_device() -> int:
    """The device of the current context; the first one where there is no context."""
    context, device = ctypes.c_void_p(), ctypes.c_int()
    call("cuCtxGetCurrent", ctypes.byref(context))
    if not context:
        return 0
    call("cuCtxGetDevice", ctypes.byref(device))
    return device.value


@cache
def _primary(device: int) -> ctypes.c_void_p:
    context = ctypes.c_void_p()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    return context


def context_test(device: int) -> Callable[[], bool]:
    """Returns a test whether the device's primary context is the current one."""
    driver, primary, context = _driver(), _primary(device).value, ctypes.c_void_p()
    where = ctypes.byref(context)

    def is_current() -> bool:
        status = driver.cuCtxGetCurrent(where)
        return status == 0 and primary is not None and context.value == primary

    return is_current


@contextmanager
def active(device: int) -> Iterator[None]:
    """Within it, the device's primary context, which its libraries use, is the current one."""
    call("cuCtxPushCurrent_v2", _primary(device))
    try:
        yield
    finally:
        call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


# --- memory ---------------------------------------------------------------------------------


def allocate(count: int) -> int:
    """The address of fresh memory on the current device."""
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(count, 1)))
    return address.value


def free(address: int) -> None:
    """Give memory back."""
    call("cuMemFree_v2", ctypes.c_uint64(address))


class _PoolProps(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("place", ctypes.c_int),
        ("device", ctypes.c_int),
        ("security", ctypes.c_void_p),
        ("most", ctypes.c_size_t),
        ("rest", ctypes.c_ubyte * 56),
    )


_PINNED: Final = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
_ON_DEVICE: Final = 1  # CU_MEM_LOCATION_TYPE_DEVICE
_RELEASE_THRESHOLD: Final = 4  # CU_MEMPOOL_ATTR_RELEASE_THRESHOLD


@cache
def _pool(device: int) -> ctypes.c_void_p:
    """Memory of a device that streams allocate from; what they give back is kept for others."""
    pool, kept = ctypes.c_void_p(), ctypes.c_uint64(2**64 - 1)
    props = _PoolProps(kind=_PINNED, place=_ON_DEVICE, device=device)
    call("cuMemPoolCreate", ctypes.byref(pool), ctypes.byref(props))
    call("cuMemPoolSetAttribute", pool, _RELEASE_THRESHOLD, ctypes.byref(kept))
    return pool


def allocate_on(stream: ctypes.c_void_p, device: int, count: int) -> int:
    """The address of memory that exists once the stream comes to it."""
    address, size = ctypes.c_uint64(), ctypes.c_size_t(max(count, 1))
    call("cuMemAllocFromPoolAsync", ctypes.byref(address), size, _pool(device), stream)
    return address.value


def zero(stream: ctypes.c_void_p, address: int, count: int) -> None:
    """Make bytes 0 once the stream comes to it."""
    where, byte = ctypes.c_uint64(address), ctypes.c_ubyte(0)
    call("cuMemsetD8Async", where, byte, ctypes.c_size_t(max(count, 1)), stream)


def free_on(stream: ctypes.c_void_p, address: int) -> None:
    """Give memory back once the stream comes to it."""
    call("cuMemFreeAsync", ctypes.c_uint64(address), stream)


def copy_in(device: int, host: int, count: int, stream: ctypes.c_void_p) -> None:
    """Enqueue a copy of bytes from the host to the device."""
    to, source = ctypes.c_uint64(device), ctypes.c_void_p(host)
    call("cuMemcpyHtoDAsync_v2", to, source, ctypes.c_size_t(count), stream)


def copy_out(host: int, device: int, count: int, stream: ctypes.c_void_p) -> None:
    """Enqueue a copy of bytes from the device to the host."""
    to, source = ctypes.c_void_p(host), ctypes.c_uint64(device)
    call("cuMemcpyDtoHAsync_v2", to, source, ctypes.c_size_t(count), stream)


# Streams: which one a call uses, and who waits for whom.

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
