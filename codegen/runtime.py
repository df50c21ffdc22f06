"""Launches emitted kernels on arrays that live on the GPU: the manifest, a cubin, the driver.

This file needs Python and the CUDA driver alone, and nothing of this package: a folder of
emitted files can be used with it anywhere.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path
from typing import Final, Protocol, TypeAlias, cast

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"


class LaunchError(Exception):
    """A call that was refused before anything was launched, or that the driver refused."""


# --- arguments ------------------------------------------------------------------------------


class DeviceArray(Protocol):
    """An array of torch, cupy, numba and others."""

    @property
    def __cuda_array_interface__(self) -> Mapping[str, object]: ...


@dataclass(frozen=True, slots=True)
class Array:
    """What a launch needs to know of a contiguous array on the device."""

    pointer: int
    shape: tuple[int, ...]
    typestr: str


TYPESTR: Final[Mapping[str, tuple[str, ...]]] = {
    "f16": ("<f2",),
    "bf16": ("<V2", "<u2", "<f2"),
    "f32": ("<f4",),
    "f64": ("<f8",),
    "i8": ("|i1",),
    "i32": ("<i4",),
    "i64": ("<i8",),
    "ui8": ("|u1",),
    "ui16": ("<u2",),
    "ui64": ("<u8",),
}
"""The array interface's types of each data type."""

ITEM_SIZE: Final[Mapping[str, int]] = {
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
    "i8": 1,
    "i32": 4,
    "i64": 8,
    "ui8": 1,
    "ui16": 2,
    "ui64": 8,
}


def array_of(name: str, value: object) -> Array:
    """The description of an array.  Raises LaunchError for what is not on a GPU, by rows."""
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        raise LaunchError(f"{name}: {type(value).__name__} is no array on a GPU")
    shape = tuple(int(n) for n in interface["shape"])
    typestr = str(interface["typestr"])
    strides = interface.get("strides")
    if strides is not None:
        expected = int(typestr[2:])
        for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
            if extent != 1 and stride != expected:
                raise LaunchError(f"{name}: strides {tuple(strides)} are not contiguous by rows")
            expected *= extent
    return Array(int(interface["data"][0]), shape, typestr)


# --- expressions of the manifest ------------------------------------------------------------

_OPERATORS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
}


def evaluate(expr: Json, sizes: Mapping[str, int]) -> int:
    """The value of an expression: an integer, a size's name, or `[operator, operand...]`."""
    match expr:
        case bool() | int():
            return expr
        case str():
            return sizes[expr]
        case ["not", term]:
            return not evaluate(term, sizes)
        case [str(symbol), left, right]:
            return _OPERATORS[symbol](evaluate(left, sizes), evaluate(right, sizes))
        case _:
            raise LaunchError(f"the manifest has the expression {expr!r}")


def infer_sizes(
    parameters: Sequence[dict[str, Json]], arrays: Mapping[str, Array], given: Mapping[str, int]
) -> dict[str, int]:
    """The sizes that are given, and those that are an extent of an array.

    Raises LaunchError where one is unknown, or an array has not the shape or type declared.
    """
    sizes = dict(given)
    data = [p for p in parameters if p["kind"] == "data"]
    for p in data:
        name, shape = str(p["name"]), cast("list[Json]", p["shape"])
        found = arrays[name]
        if len(found.shape) != len(shape):
            raise LaunchError(f"{name} has {len(found.shape)} dimensions, not {len(shape)}")
        if found.typestr not in TYPESTR[str(p["dtype"])]:
            raise LaunchError(f"{name} is {found.typestr}, not {p['dtype']}")
        for extent, expr in zip(found.shape, shape, strict=True):
            if isinstance(expr, str):
                sizes.setdefault(expr, extent)
    for p in parameters:
        if p["kind"] != "data" and str(p["name"]) not in sizes:
            raise LaunchError(f"the size {p['name']} is not given, and no array's extent")
    for p in data:
        name = str(p["name"])
        wanted = tuple(evaluate(e, sizes) for e in cast("list[Json]", p["shape"]))
        if arrays[name].shape != wanted:
            raise LaunchError(f"{name} has the shape {arrays[name].shape}, not {wanted}")
    return sizes


# --- the driver -----------------------------------------------------------------------------


class _Attribute(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_int),
        ("pad", ctypes.c_char * 4),
        ("value", ctypes.c_uint * 16),
    )


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


_CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_MAX_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_NON_PORTABLE = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_MAPPED_TYPE = {"f16": 6, "bf16": 9, "f32": 7, "f64": 8, "i32": 3, "ui8": 0, "ui16": 1}
_MAPPED_SWIZZLE = {0: 0, 32: 1, 64: 2, 128: 3}


@cache
def _driver() -> ctypes.CDLL:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise LaunchError("no CUDA driver on this machine") from error
    _check(driver, driver.cuInit(0), "cuInit")
    return driver


def _check(driver: ctypes.CDLL, status: int, what: str) -> None:
    if status:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(status, ctypes.byref(text))
        raise LaunchError(f"{what}: {(text.value or b'?').decode()} ({status})")


def _call(name: str, *arguments: object) -> None:
    driver = _driver()
    _check(driver, getattr(driver, name)(*arguments), name)


def _ensure_context() -> int:
    """The device ordinal of the current context; the first device's where there is none."""
    current = ctypes.c_void_p()
    _call("cuCtxGetCurrent", ctypes.byref(current))
    if not current:
        context = ctypes.c_void_p()
        _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        _call("cuCtxSetCurrent", context)
    device = ctypes.c_int()
    _call("cuCtxGetDevice", ctypes.byref(device))
    return device.value


@dataclass(frozen=True, slots=True)
class _Loaded:
    function: ctypes.c_void_p
    clusters: int
    """How many clusters the device holds at a time."""


class Kernel:
    """An emitted procedure: call it with arrays on the GPU, by name, and sizes if need be."""

    def __init__(self, manifest: Mapping[str, Json], cubin: bytes) -> None:
        self.manifest = manifest
        self._cubin = cubin
        self._loaded: dict[tuple[int, str], _Loaded] = {}

    @classmethod
    def from_folder(cls, folder: Path, name: str) -> Kernel:
        """`<name>.json` and `<name>.cubin` of a folder."""
        manifest = json.loads((folder / f"{name}.json").read_text())
        return cls(manifest, (folder / f"{name}.cubin").read_bytes())

    def __call__(self, *, stream: int = 0, **arguments: object) -> None:
        """Enqueue the procedure's steps on a stream (0: the default stream).

        Raises LaunchError, before anything is launched, for arguments that do not fit.
        """
        parameters = cast("list[dict[str, Json]]", self.manifest["parameters"])
        names = [str(p["name"]) for p in parameters]
        if unknown := sorted(set(arguments) - set(names)):
            raise LaunchError(f"{self.manifest['name']} has no parameter {', '.join(unknown)}")
        data = [str(p["name"]) for p in parameters if p["kind"] == "data"]
        if missing := [n for n in data if n not in arguments]:
            raise LaunchError(f"no array is given for {', '.join(missing)}")
        arrays = {n: array_of(n, arguments[n]) for n in data}
        given = {n: operator.index(cast("int", v)) for n, v in arguments.items() if n not in data}
        sizes = infer_sizes(parameters, arrays, given)
        for at, condition in enumerate(cast("list[Json]", self.manifest["preconditions"])):
            if not evaluate(condition, sizes):
                raise LaunchError(f"precondition {at} does not hold: {condition} at {sizes}")
        self._separate(arrays)
        for array in arrays.values():
            if array.pointer % 16:
                raise LaunchError("an array does not start at a multiple of 16 bytes")
        device = _ensure_context()
        for step in cast("list[dict[str, Json]]", self.manifest["steps"]):
            if step["op"] == "memset0":
                array = arrays[str(step["target"])]
                count = math.prod(array.shape) * int(array.typestr[2:])
                pointer = ctypes.c_void_p(array.pointer)
                _call("cuMemsetD8Async", pointer, 0, ctypes.c_size_t(count), _stream(stream))
            else:
                self._launch(step, device, arrays, sizes, stream)

    def _separate(self, arrays: Mapping[str, Array]) -> None:
        """Parameters are different variables, and the kernel's pointers are restricted."""
        ranges = sorted(
            (a.pointer, a.pointer + math.prod(a.shape) * int(a.typestr[2:]), n)
            for n, a in arrays.items()
        )
        for (_, end, first), (begin, _, second) in itertools.pairwise(ranges):
            if begin < end:
                raise LaunchError(f"{first} and {second} share memory")

    def _launch(
        self,
        step: dict[str, Json],
        device: int,
        arrays: Mapping[str, Array],
        sizes: Mapping[str, int],
        stream: int,
    ) -> None:
        cluster, block = cast("int", step["cluster"]), cast("int", step["block"])
        shared = cast("int", step["shared_bytes"])
        nests = [
            reduce(operator.mul, (max(0, evaluate(n, sizes)) for n in nest), 1)
            for nest in cast("list[list[Json]]", step["tasks"])
        ]
        tasks = max(nests, default=0)
        if tasks == 0:
            return
        if tasks >= 1 << 31:
            raise LaunchError(f"{tasks} tasks are more than a launch can number")
        loaded = self._load(device, str(step["kernel"]), cluster, block, shared)
        values = [self._argument(a, arrays, sizes) for a in cast("list[Json]", step["arguments"])]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        config = _config(min(tasks, loaded.clusters), cluster, block, shared, stream)
        _call("cuLaunchKernelEx", ctypes.byref(config), loaded.function, pointers, None)

    def _argument(
        self, argument: Json, arrays: Mapping[str, Array], sizes: Mapping[str, int]
    ) -> ctypes._CData:
        match argument:
            case str() if argument in arrays:
                return ctypes.c_void_p(arrays[argument].pointer)
            case str():
                if not -(1 << 31) <= sizes[argument] < 1 << 31:
                    raise LaunchError(f"{argument} = {sizes[argument]} has more than 32 bits")
                return ctypes.c_int(sizes[argument])
            case dict():
                parameters = cast("list[dict[str, Json]]", self.manifest["parameters"])
                (param,) = [p for p in parameters if p["name"] == argument["tensor"]]
                return _tensor_map(argument, arrays[str(argument["tensor"])], str(param["dtype"]))
            case _:
                raise LaunchError(f"the manifest has the argument {argument!r}")

    def _load(self, device: int, name: str, cluster: int, block: int, shared: int) -> _Loaded:
        key = (device, name)
        if key not in self._loaded:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            _call("cuModuleLoadData", ctypes.byref(module), self._cubin)
            _call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            _call("cuFuncSetAttribute", function, _MAX_SHARED, shared)
            if cluster > 8:
                _call("cuFuncSetAttribute", function, _NON_PORTABLE, 1)
            count = ctypes.c_int()
            if cluster == 1:
                _call(
                    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                    ctypes.byref(count),
                    function,
                    block,
                    ctypes.c_size_t(shared),
                )
                processors = ctypes.c_int()
                _call("cuDeviceGetAttribute", ctypes.byref(processors), _MULTIPROCESSORS, device)
                count.value *= processors.value
            else:
                config = _config(1, cluster, block, shared, 0)
                where = ctypes.byref(count)
                _call("cuOccupancyMaxActiveClusters", where, function, ctypes.byref(config))
            if count.value < 1:
                raise LaunchError(f"{name} does not fit this device")
            self._loaded[key] = _Loaded(function, count.value)
        return self._loaded[key]


def _stream(stream: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(stream or None)


def _config(clusters: int, cluster: int, block: int, shared: int, stream: int) -> _Config:
    attribute = _Attribute()
    attribute.id = _CLUSTER_DIMENSION
    attribute.value[0:3] = (cluster, 1, 1)
    return _Config(
        (clusters * cluster, 1, 1),
        (block, 1, 1),
        shared,
        _stream(stream),
        ctypes.pointer(attribute),
        1 if cluster > 1 else 0,
    )


def _tensor_map(argument: dict[str, Json], array: Array, dtype: str) -> ctypes._CData:
    """The 128-byte descriptor of a whole array (cuTensorMapEncodeTiled).

    Raises LaunchError where the array's strides are no multiples of 16 bytes.
    """
    box = cast("list[int]", argument["box"])
    rank, item = len(array.shape), ITEM_SIZE[dtype]
    strides, stride = [], item
    for extent in reversed(array.shape):
        strides.append(stride)
        stride *= extent
    if any(s % 16 for s in strides[1:]):
        raise LaunchError(f"{argument['tensor']}: TMA needs strides of multiples of 16 bytes")
    storage = (ctypes.c_byte * (128 + 64))()
    begin = -ctypes.addressof(storage) % 64
    aligned = (ctypes.c_byte * 128).from_buffer(storage, begin)
    _call(
        "cuTensorMapEncodeTiled",
        ctypes.byref(aligned),
        _MAPPED_TYPE[dtype],
        ctypes.c_uint(rank),
        ctypes.c_void_p(array.pointer),
        (ctypes.c_uint64 * rank)(*reversed(array.shape)),
        (ctypes.c_uint64 * max(1, rank - 1))(*strides[1:]),
        (ctypes.c_uint32 * rank)(*reversed(box)),
        (ctypes.c_uint32 * rank)(*([1] * rank)),
        0,
        _MAPPED_SWIZZLE[cast("int", argument["swizzle"])],
        3,
        0,
    )
    return aligned
