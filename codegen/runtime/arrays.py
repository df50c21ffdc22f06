"""Describes arrays of any library to a launch."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from exogpu.codegen.runtime import driver
from exogpu.codegen.runtime.dlpack import Exporter, exported
from exogpu.codegen.runtime.driver import call, copy_out, has_current_stream
from exogpu.codegen.runtime.manifest import Contract, LaunchError
from exogpu.ir.contracts import contract_text, is_meant

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


TYPESTR: Final[Mapping[str, tuple[str, ...]]] = {
    "f8e4m3": ("|E1", "|V1", "<f1", "|u1"),
    "f8e5m2": ("|F1", "|V1", "<f1", "|u1"),
    "f16": ("<f2",),
    "bf16": ("<V2", "<u2"),
    "f32": ("<f4",),
    "f64": ("<f8",),
    "i8": ("|i1",),
    "i32": ("<i4",),
    "i64": ("<i8",),
    "ui8": ("|u1",),
    "ui16": ("<u2",),
    "ui32": ("<u4",),
    "ui64": ("<u8",),
}
"""The array interface's types of each data type; bf16 and floats of 8 bits may come as their bits,
too, for libraries that do not have the type.  E and F are ours: of 8 bits, and told which."""

_EIGHTS: Final = {"float8_e4m3fn": "|E1", "float8_e5m2": "|F1"}
"""The type strings of floats of 8 bits, by the names that torch gives them."""

ITEM_SIZE: Final[Mapping[str, int]] = {
    dtype: int(typestrs[0][2:]) for dtype, typestrs in TYPESTR.items()
}
"""Bytes of an element."""

ALIGNMENT: Final = 16
"""Bytes: vector loads and TMA start at multiples of it."""


@dataclass(frozen=True, slots=True)
class Array:
    """A block of memory with a shape and strides."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    """In bytes; None where it is contiguous by rows."""
    typestr: str
    readonly: bool
    stream: int | None
    """The stream on which it is being made; None where its library says nothing."""
    host: bool
    """The array is numpy's: it is copied to the device, and back if it is written."""
    value: bytes | None = None
    """The elements of an argument that a launch takes by value."""

    @property
    def bytes(self) -> int:
        """The bytes of the elements."""
        return math.prod(self.shape) * int(self.typestr[2:])


def is_numpy(value: object) -> TypeGuard[npt.NDArray[np.generic]]:
    """Tests whether the value is an array of numpy, which need not be installed."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_numpy_scalar(value: object) -> TypeGuard[np.generic]:
    """Tests whether the value is a scalar of numpy, such as one element of an array."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def is_jax(value: object) -> bool:
    """Tests whether the value is of jax: its arrays never change, whatever DLPack says of them."""
    bases = (base.__module__.partition(".")[0] for base in type(value).__mro__)
    return any(library in ("jax", "jaxlib") for library in bases)


def array_of(name: str, value: object, stream: int) -> Array:
    """The description of an array, which is going to be used on a stream.

    Raises LaunchError for what is no array, or lives neither on a GPU nor in numpy.
    """
    if is_numpy(value):
        address, readonly = value.__array_interface__["data"]
        shape, typestr = value.shape, value.dtype.str
        return Array(address, shape, value.strides, typestr, readonly, None, host=True)
    said = str(getattr(value, "dtype", "")).rpartition(".")[2]
    if said in _EIGHTS and "torch" in sys.modules and hasattr(value, "view"):
        as_bytes: object = value.view(sys.modules["torch"].uint8)
        return replace(array_of(name, as_bytes, stream), typestr=_EIGHTS[said])
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
    except Exception as error:  # torch raises for a tensor that requires a gradient
        raise LaunchError(f"{name} cannot be used: {error}") from error
    exports = isinstance(value, Exporter)
    told = not exports or has_current_stream(value)
    if interface is not None and (told or interface.get("stream") is not None):
        return _of_interface(interface)
    # Without a stream nobody would wait for the array's library: DLPack lets it see to that.
    if not isinstance(value, Exporter):
        what = f"{name} is a {type(value).__name__}, and no array"
        raise LaunchError(what, "pass an array of torch, cupy, jax, numba or numpy")
    packed = exported(name, value, stream)
    item = int(packed.typestr[2:])
    strides = packed.strides and tuple(s * item for s in packed.strides)
    readonly = packed.readonly or is_jax(value)
    return Array(packed.pointer, packed.shape, strides, packed.typestr, readonly, None, host=False)


def _of_interface(interface: Mapping[str, Any]) -> Array:
    """Version 3 of the CUDA array interface."""
    shape = tuple(int(n) for n in interface["shape"])
    typestr = str(interface["typestr"])
    pointer, readonly = interface["data"]
    strides = interface.get("strides")
    stream = interface.get("stream")
    # The interface calls the default stream 1, and the default stream of the thread 2.
    stream = {None: None, 1: 0}.get(stream, stream)
    strides = strides and tuple(strides)
    return Array(int(pointer), shape, strides, typestr, bool(readonly), stream, host=False)


def _by_rows(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    return tuple(item * math.prod(shape[d + 1 :]) for d in range(len(shape)))


def check_layout(name: str, array: Array) -> None:
    """Kernels address arrays by rows, without gaps, from an aligned start.  Raises LaunchError."""
    if 0 in array.shape:
        return
    if array.pointer % ALIGNMENT and not array.host:
        what = f"{name} does not start at a multiple of {ALIGNMENT} bytes"
        raise LaunchError(what, "pass a copy of it instead of a slice")
    if array.strides is None:
        return
    expected = _by_rows(array.shape, int(array.typestr[2:]))
    wrong = [
        d
        for d, (found, wanted) in enumerate(zip(array.strides, expected, strict=True))
        if found != wanted and array.shape[d] != 1
    ]
    if wrong:
        what = f"{name} has strides of {array.strides} bytes, not {expected}"
        how = "pass an array that is contiguous by rows: `.contiguous()` of torch"
        raise LaunchError(what, how)


def check_writes(arrays: Mapping[str, Array], written: Iterable[str]) -> None:
    """Checks that outputs are writable and share no memory: parameters are different variables.

    Raises LaunchError.
    """
    outputs = frozenset(written)
    for name in sorted(outputs):
        if arrays[name].readonly:
            raise LaunchError(f"{name} is written, and read-only", "pass a writable array")
    spans = sorted((a.pointer, a.pointer + a.bytes, n) for n, a in arrays.items() if a.bytes)
    reached: dict[bool, tuple[int, str]] = {}
    for begin, end, name in spans:
        for other_written, (other_end, other) in reached.items():
            if begin < other_end and (other_written or name in outputs):
                guilty = name if name in outputs else other
                what = f"{other} and {name} share memory, and {guilty} is written"
                raise LaunchError(what, "copy one of them")
        key = name in outputs
        if key not in reached or reached[key][0] < end:
            reached[key] = (end, name)


# Checks the proof's assumptions about the contents of arrays on the CPU, for debugging.

_CODES: Mapping[str, str] = {"i32": "i", "i64": "q"}
"""The codes of Python's memoryviews, by the types that indices have."""


def check_contracts(
    contracts: Sequence[Contract],
    arrays: Mapping[str, Array],
    dtypes: Mapping[str, str],
    stream: int,
) -> None:
    """Copies the arrays to the host, and waits for them.  Raises LaunchError for the first elements
    that break a contract."""
    for contract in contracts:
        array = arrays[contract.array]
        told = broken_elements(contract, _elements(array, _CODES[dtypes[contract.array]], stream))
        if told:
            text = contract_text(contract.kind, contract.array, contract.least)
            what = f"{text} does not hold: {told}"
            raise LaunchError(what, "the proof assumes it: give an array that satisfies it")


def broken_elements(contract: Contract, elements: Sequence[int]) -> str:
    """The first elements that break a contract, in words; empty: it holds.

    >>> broken_elements(Contract("monotone", "cuts"), [0, 4, 3])
    'cuts[1] is 4, and cuts[2] is 3'
    >>> broken_elements(Contract("injective", "perm"), [5, 7, 5])
    'perm[0] and perm[2] are 5'
    """
    name, least = contract.array, contract.least
    meant = [at for at, value in enumerate(elements) if is_meant(value, least)]
    if contract.kind == "monotone":
        for before, at in pairwise(meant):
            if elements[at] < elements[before]:
                here = f"{name}[{at}] is {elements[at]}"
                return f"{name}[{before}] is {elements[before]}, and {here}"
        return ""
    seen: dict[int, int] = {}
    for at in meant:
        value = elements[at]
        if (first := seen.setdefault(value, at)) != at:
            return f"{name}[{first}] and {name}[{at}] are {value}"
    return ""


def _elements(array: Array, code: str, stream: int) -> Sequence[int]:
    if array.bytes == 0:
        return ()
    held = (ctypes.c_char * array.bytes)()
    if array.host:
        ctypes.memmove(held, array.pointer, array.bytes)
    else:
        copy_out(ctypes.addressof(held), array.pointer, array.bytes, driver.pointer(stream))
        call("cuStreamSynchronize", driver.pointer(stream))
    return memoryview(held).cast("B").cast(code)  # type: ignore[call-overload,no-any-return]


# Reads the index from memory that was out of its range, left on the host by a kernel that ended
# itself.
#
# Its error, CUDA_ERROR_LAUNCH_FAILED, names nothing, and no memory of the device can be read
# after it. So the kernels write to memory of the host; see `checked_index` of the prelude.

_EVERYWHERE: Final = 3  # CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
_Found = ctypes.c_longlong * 4


def listen(module: ctypes.c_void_p) -> ctypes.Array[ctypes.c_longlong]:
    """Memory to which the kernels of a module write the value, its range, and its line."""
    place, size, memory = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_void_p()
    found = ctypes.byref(place), ctypes.byref(size)
    call("cuModuleGetGlobal_v2", *found, module, b"wrong_index")
    call(
        "cuMemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(ctypes.sizeof(_Found)), _EVERYWHERE
    )
    written = _Found.from_address(memory.value or 0)
    written[:] = [0] * 4
    call("cuMemcpyHtoD_v2", place, ctypes.byref(memory), size)
    return written


def describe_fault(written: ctypes.Array[ctypes.c_longlong], loads: Mapping[int, str]) -> str:
    """Describes the fault in words; empty if there was none.

    >>> describe_fault((ctypes.c_longlong * 4)(9, 0, 4, 12), {12: "b = load_index(cuts[t], 0, n)"})
    'line 12: b = load_index(cuts[t], 0, n): 9 is not one of 0 .. 3'
    """
    value, lo, hi, line = written
    if lo == hi == value == line == 0:
        return ""
    where = f"line {line}: {loads[line]}" if line in loads else "load_index"
    return f"{where}: {value} is not one of {lo} .. {hi - 1}"
