"""Reading DLPack capsules (the layout of dlpack.h, version 1.0)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from exogpu.codegen.runtime.manifest import LaunchError


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


_CODES: Final[Mapping[int, str]] = {0: "i", 1: "u", 2: "f", 4: "V"}
"""Integers, unsigned integers, floats; 4 is bfloat, which numpy's letters call raw bytes."""

_READ_ONLY: Final = 1

CUDA_DEVICES: Final = (2, 13)
"""kDLCUDA and kDLCUDAManaged."""


@runtime_checkable
class Exporter(Protocol):
    """An array that DLPack exports."""

    def __dlpack_device__(self) -> tuple[int, int]: ...

    def __dlpack__(self, *, stream: int, max_version: tuple[int, int] = ...) -> object: ...


@dataclass(frozen=True, slots=True)
class Packed:
    """The contents of a capsule; strides in elements."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    typestr: str
    readonly: bool


def exported(name: str, value: Exporter, stream: int) -> Packed:
    """Exports `value.__dlpack__()` for use on a CUDA stream (0: the default stream).

    The producer makes that stream wait for its own work.  Its memory belongs to `value` still.
    Raises LaunchError for an array that is not on a GPU, and with what the producer says.
    """
    kind, _ = value.__dlpack_device__()
    if int(kind) not in CUDA_DEVICES:
        raise LaunchError(f"{name} is not on a GPU", "move it there, or pass a numpy array")
    try:
        capsule = _capsule(value, stream or 1)  # DLPack calls the default stream 1
    except Exception as error:  # a foreign library raises whatever it likes
        raise LaunchError(f"{name} cannot be exported: {error}") from error
    return _read_capsule(name, capsule)


def _capsule(value: Exporter, stream: int) -> object:
    try:
        return value.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # a producer older than version 1.0
        return value.__dlpack__(stream=stream)


def _read_capsule(name: str, capsule: object) -> Packed:
    """The capsule is not consumed: its own destructor gives the tensor back."""
    readonly = False
    if (pointer := _pointer(capsule, b"dltensor_versioned")) is not None:
        versioned = _Versioned.from_address(pointer)
        if versioned.major != 1:
            raise LaunchError(f"{name} comes in version {versioned.major} of DLPack")
        readonly, tensor = bool(versioned.flags & _READ_ONLY), versioned.tensor
    elif (pointer := _pointer(capsule, b"dltensor")) is not None:
        tensor = Tensor.from_address(pointer)
    else:
        raise LaunchError(f"{name}: what __dlpack__ returns is no DLPack capsule")
    rank, size = tensor.ndim, tensor.bits // 8
    letter = _CODES.get(tensor.code, "?") if tensor.lanes == 1 else "?"
    return Packed(
        (tensor.data or 0) + tensor.byte_offset,
        tuple(tensor.shape[:rank]),
        tuple(tensor.strides[:rank]) if tensor.strides else None,
        f"{'|' if size == 1 else '<'}{letter}{size}",
        readonly,
    )


def _pointer(capsule: object, name: bytes) -> int | None:
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    if not api.PyCapsule_IsValid(capsule, name):
        return None
    pointer: int = api.PyCapsule_GetPointer(capsule, name)
    return pointer
